#!/usr/bin/env python3
"""Every check of check_sass.py fails where it should: on listings written here, and, where nvcc and nvdisasm are,
on the kernels of bad_kernels.cu."""
import os
import subprocess
import sys
import tempfile
import unittest

import check_sass
from check_sass import KernelRow, LoopRow, Loop, MeetsRow, Read, SizeRow, check, digits_of
from sass import find_disassembler, read_kernels, short_name, weights_of_loop

NVCC = os.environ.get("NVCC") or os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"


def listing(name, *lines):
    """A listing as nvdisasm prints it; a line that begins with a dot is a label."""
    text, address = f".text.{name}:\n", 0
    for line in lines:
        if line.startswith("."):
            text += f"{line}:\n"
        else:
            text += f"        /*{address:04x}*/ {line} ;\n"
            address += 16
    return text


def kernel(*lines, name="norm_kernel"):
    return read_kernels(listing(name, *lines))[0]


def only_loop(*lines):
    """A kernel that is one loop, and its span."""
    k = kernel(".L_x_0", *lines, "@P0 BRA `(.L_x_0)", "EXIT")
    return k, k.loops()[0]


LOADS = [f"LDG.E.NA.128.CONSTANT R{r}, desc[UR4][R2.64+{r:#x}]" for r in (4, 8, 12, 16)]
USES = [f"FFMA R20, R{r}, R21, R20" for r in (4, 8, 12, 16)]


class ALoop(unittest.TestCase):
    def in_flight(self, *lines):
        k, span = only_loop(*lines)
        return k.loads_in_flight(span)

    def test_four_loads_before_the_first_use_are_four_in_flight(self):
        self.assertEqual(self.in_flight(*LOADS, *USES), 4)

    def test_a_use_behind_each_load_leaves_one_in_flight(self):
        self.assertEqual(self.in_flight(*[x for pair in zip(LOADS, USES) for x in pair]), 1)

    def test_the_second_word_of_a_load_is_its_result_too(self):
        self.assertEqual(self.in_flight(LOADS[0], "FADD R20, R7, R20", LOADS[1], "FADD R20, R8, R20"), 1)

    def test_a_load_for_the_next_round_is_in_flight_with_those_of_this_one(self):
        self.assertEqual(self.in_flight(USES[0], LOADS[1], USES[1], LOADS[0]), 1)
        self.assertEqual(self.in_flight(LOADS[1], USES[0], LOADS[0], USES[1]), 2)

    def test_a_narrower_load_is_none_of_them(self):
        self.assertEqual(self.in_flight("LDG.E R24, desc[UR4][R2.64]", *LOADS[:2], *USES), 2)

    def test_loads_on_two_ways_of_a_branch_are_not_in_flight_together(self):
        k = kernel(".L_x_0", "@P1 BRA `(.L_x_1)", LOADS[0], "BRA `(.L_x_2)", ".L_x_1", LOADS[1], ".L_x_2",
                   "FADD R20, R4, R8", "@P0 BRA `(.L_x_0)", "EXIT")
        self.assertEqual(k.loads_in_flight(k.loops()[0]), 1)

    def test_loads_behind_jumps_through_tables_are_found(self):
        k = kernel(".L_x_0", LOADS[0], ".L_x_7", "BRX R30 -0x10", ".L_x_8", LOADS[1], USES[0], ".L_x_9", USES[1],
                   "@P0 BRA `(.L_x_0)", "EXIT")
        self.assertEqual(k.loads_in_flight(k.loops()[0]), 2)

    def test_of_nested_loops_the_inner_one_has_the_loads(self):
        k = kernel(".L_x_0", "MOV R1, R2", ".L_x_1", *LOADS, *USES, "@P1 BRA `(.L_x_1)", "@P0 BRA `(.L_x_0)", "EXIT")
        self.assertEqual([len(k.body(span)) for span in k.loops()], [9])


class AttentionWithoutHiddenKeys(unittest.TestCase):
    """It is no loop: the loads up to its first barrier count."""

    def in_flight(self, hides, *lines):
        k = kernel(*lines, "EXIT", name=f"_Z16attention_kernelIL5DType2ELi64ELi2ELb{hides}EEv13AttentionWork")
        return [(loop.kind, loop.in_flight) for loop in check_sass.read_kernel(k, {}).loops]

    def test_its_loads_are_those_before_the_first_use(self):
        self.assertEqual(self.in_flight(1, *LOADS, *USES), [("split", 4)])
        self.assertEqual(self.in_flight(1, LOADS[0], USES[0], LOADS[1], LOADS[2], *USES[1:]), [("split", 2)])

    def test_those_of_the_join_behind_a_barrier_do_not_count(self):
        self.assertEqual(self.in_flight(1, LOADS[0], USES[0], "BAR.SYNC 0x0", *LOADS, *USES), [("split", 1)])

    def test_with_hidden_keys_only_loops_are_read(self):
        self.assertEqual(self.in_flight(0, *LOADS, *USES), [])


class TypeOfWeights(unittest.TestCase):
    def kind(self, *loads, mask=None, chunks=1):
        k, span = only_loop(*loads, *([f"LOP3.LUT R30, R4, {mask}, RZ, 0xc0, !PT"] if mask else []))
        return weights_of_loop(k.body(span), chunks)

    def test_is_known_by_what_a_loop_loads(self):
        half, word = "LDG.E.U16.CONSTANT R24, desc[UR4][R2.64]", "LDG.E R25, desc[UR4][R2.64]"
        self.assertEqual(self.kind(LOADS[0], half), "Q4_0")
        self.assertEqual(self.kind(LOADS[0], LOADS[1], half), "Q8_0")
        self.assertEqual(self.kind(LOADS[0], half, word), "Q4_K")
        self.assertEqual(self.kind(LOADS[0], half, word, mask="0x1010101"), "Q5_0")
        self.assertEqual(self.kind(LOADS[0], LOADS[1], half, half, chunks=2), "Q4_0")
        self.assertIsNone(self.kind(LOADS[0], LOADS[1], LOADS[2], half))


class TheWait(unittest.TestCase):
    def early(self, *lines):
        return [x.op for x in kernel(*lines).before_wait()[0]]

    def test_only_prefetches_before_it(self):
        self.assertEqual(self.early("CCTL.E.PF2 [R2]", "ACQBULK", "LDG.E R4, desc[UR4][R2.64]", "EXIT"), [])
        self.assertEqual(self.early("UBLKPF.L2 [UR4], UR6", "ACQBULK", "LDG.E R4, desc[UR4][R2.64]", "EXIT"), [])

    def test_a_load_before_it_is_seen(self):
        self.assertEqual(self.early("LDG.E R4, desc[UR4][R2.64]", "ACQBULK", "EXIT"), ["LDG.E"])

    def test_a_copy_to_shared_memory_before_it_counts_as_a_load(self):
        k = kernel("LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64]", "ACQBULK", "EXIT")
        read = check_sass.read_kernel(k, {k.name: (40, 0)})
        self.assertEqual(check([read], [KernelRow(k.name, 40)], [])[1], ["norm_kernel: 1 loads before the wait, at most 0"])
        self.assertEqual(check([read], [KernelRow(k.name, 40, 1)], [])[1], [])

    def test_loads_that_a_kernel_is_for_must_be_before_it(self):
        k = kernel("ACQBULK", LOADS[0], "EXIT")
        self.assertEqual(check([check_sass.read_kernel(k, {k.name: (40, 0)})], [KernelRow(k.name, 40, 9)], [])[1],
                         ["norm_kernel: 0 loads before the wait, where 9 are what it is for"])

    def test_a_load_that_one_way_of_a_branch_reaches_is_seen(self):
        self.assertEqual(self.early("@P0 BRA `(.L_x_1)", "ACQBULK", ".L_x_1", "STG.E desc[UR4][R2.64], R4", "EXIT"),
                         ["STG.E"])

    def test_a_load_behind_a_guarded_wait_is_seen(self):
        self.assertEqual(self.early("@P0 EXIT", "@!P1 BRA `(.L_x_1)", "ACQBULK", "EXIT", ".L_x_1",
                                    "ATOMG.E.ADD R4, desc[UR4][R2.64], R5", "ACQBULK", "EXIT"), ["ATOMG.E.ADD"])


def read(**given):
    values = {"name": "k", "registers": 40, "spilled": 0, "instructions": 9, "early": [], "waits": True,
              "prefetches": 0, "loops": [Loop("k", "Q8_0", 50, 4, 50.0)]}
    return Read(**{**values, **given})


class TheTable(unittest.TestCase):
    def violations(self, kernels, rows=(KernelRow("k", 40),), loops=(LoopRow("k", "Q8_0", 4, 50),)):
        return check(kernels, rows, loops, may_overlap={"k"})[1]

    def test_holds_what_is_within_it(self):
        self.assertEqual(self.violations([read()]), [])

    def test_holds_each_limit(self):
        early = kernel("LDG.E.CONSTANT R4, desc[UR4][R2.64]", "ACQBULK", "EXIT").before_wait()[0]
        for wrong, words in (({"registers": 41}, "41 registers, at most 40"),
                             ({"registers": 0}, "0 registers"),
                             ({"spilled": 44}, "44 bytes of spills, at most 40"),
                             ({"waits": False}, "waits for none"),
                             ({"early": early}, "1 loads before the wait, at most 0"),
                             ({"loops": []}, "no loop Q8_0 was found"),
                             ({"loops": [Loop("k", "Q8_0", 50, 3, 50.0)]}, "3 loads in flight, at least 4"),
                             ({"loops": [Loop("k", "Q8_0", 51, 4, 51.0)]},
                              "51 instructions for a group of 32, at most 50"),
                             ({"loops": [Loop("k", "Q8_0", 9, 4, 9.0), Loop("k", "unknown", 9, 4, 9.0)]},
                              "loads what no type loads"),
                             ({"name": "other"}, "other: it has no row in the table")):
            with self.subTest(words):
                self.assertIn(words, "\n".join(self.violations([read(**wrong)])))

    def test_holds_a_size(self):
        sized = lambda *sizes: check([read()], [KernelRow("k", 40)], [], sizes=sizes)[1]
        self.assertEqual(sized(SizeRow("k", 9)), [])
        self.assertEqual(sized(SizeRow("k", 8), SizeRow("gone", 9)),
                         ["k: 9 instructions, at most 8", "gone: no kernel of that name was found"])

    def test_names_a_row_for_no_kernel(self):
        rows = (KernelRow("k", 40), KernelRow("gone", 9))
        self.assertIn("gone: a row for no kernel", self.violations([read()], rows))


class WithoutADisassembler(unittest.TestCase):
    """What ptxas said is checked all the same, and the rest is said to be skipped."""

    def check(self, registers, spilled):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/k.usage", "w", encoding="utf-8") as usage:
                usage.write("Compiling entry function 'k' for 'sm_90'\n"
                            f"    0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads\n"
                            f"Used {registers} registers, used 1 barriers\n")
            with open(f"{folder}/k.cubin", "w", encoding="utf-8"):
                pass
            with open(f"{folder}/budgets", "w", encoding="utf-8") as rows:
                rows.write("kernel k 40\nloop k Q8_0 4\n")
            nothing = {**os.environ, "NVDISASM": "", "CUDA_HOME": folder, "PATH": folder}
            done = subprocess.run([sys.executable, check_sass.__file__, "--budgets", f"{folder}/budgets", folder],
                                  env=nothing, stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_registers_and_spills_are_checked(self):
        status, said = self.check(40, 40)
        self.assertEqual(status, 0)
        self.assertIn("SKIPPED: no nvdisasm", said)
        self.assertIn("plain: 1 passed, 0 failed, 1 skipped", said)
        for registers, spilled, words in ((41, 40, "41 registers, at most 40"), (40, 44, "44 bytes of spills, at most 40")):
            status, said = self.check(registers, spilled)
            self.assertEqual(status, 1)
            self.assertIn(words, said)


class Names(unittest.TestCase):
    def test_are_those_of_the_sources(self):
        for symbol, name in (("_Z18project_few_kernelIL9InputForm3ELi1EEv11ProjectWork",
                              "project_few_kernel<ONE_DIGIT,1>"),
                             ("_Z16attention_kernelIL5DType2ELi64ELi2ELb1EEv13AttentionWork", "attention_kernel<BF16,64,2,1>"),
                             ("_Z11norm_kernel13NormOperationPf", "norm_kernel")):
            self.assertEqual(short_name(symbol), name)
        self.assertEqual(digits_of("project_few_kernel<TWO_DIGITS,1>"), 2)

    def test_of_overlapped_kernels_come_from_the_sources(self):
        self.assertLessEqual({"project_few_kernel", "attention_kernel", "argmax_kernel"}, check_sass.overlapped())


class Compiled(unittest.TestCase):
    """bad_kernels.cu, by nvcc: what a compiler makes of each mistake is seen."""

    @classmethod
    def setUpClass(cls):
        if not (os.access(NVCC, os.X_OK) and find_disassembler()):
            raise unittest.SkipTest("no nvcc, or no nvdisasm: bad_kernels.cu was not compiled")
        with tempfile.TemporaryDirectory() as folder:
            cubin = f"{folder}/bad.cubin"
            with open(f"{folder}/bad.usage", "w", encoding="utf-8") as usage:
                subprocess.run([NVCC, "-O3", "-gencode", "arch=compute_90,code=sm_90", "-cubin", "--resource-usage", "-o",
                                cubin, "tests/sass/bad_kernels.cu"], check=True, stderr=usage, timeout=120)
            cls.kernels = {k.name: k for k in check_sass.read_cubins([cubin])}
            for name in ("good", "one_load"):  # the loops of float weights are looked for in one kernel of the product
                k = next(k for k in read_kernels(check_sass.disassemble(cubin)) if k.name == name)
                cls.kernels[name].loops = [Loop(name, "BF16", 0, max(map(k.loads_in_flight, k.loops())), 0)]

    def said(self, name, early=0):
        return "\n".join(check([self.kernels[name]], [KernelRow(name, 40, early)], [], may_overlap=set(self.kernels))[1])

    def test_the_good_kernel_passes(self):
        self.assertEqual(self.said("good"), "")
        self.assertEqual(self.kernels["good"].prefetches, 1)
        self.assertEqual(check([self.kernels["good"]], [KernelRow("good", 40)], [LoopRow("good", "BF16", 4)])[1], [])

    def test_one_load_in_flight_is_seen(self):
        self.assertIn("one_load, BF16: 1 loads in flight, at least 4",
                      check([self.kernels["one_load"]], [KernelRow("one_load", 40)], [LoopRow("one_load", "BF16", 4)])[1])

    def test_spills_are_seen(self):
        self.assertRegex(self.said("spills"), "spills: [0-9]+ bytes of spills, at most 40")

    def test_a_read_before_the_wait_is_seen(self):
        self.assertRegex(self.said("early_read"), "early_read: LDG.* may run before the wait")
        self.assertRegex(self.said("early_store"), "early_store: STG.* may run before the wait")

    def test_weights_may_be_read_before_it_where_the_table_says_so(self):
        self.assertIn("early_weights: 1 loads before the wait, at most 0", self.said("early_weights"))
        self.assertEqual(self.said("early_weights", 1), "")

    def test_a_counter_without_a_fence_is_seen(self):
        meets = lambda name: check([self.kernels[name]], [KernelRow(name, 40)], [], [MeetsRow(name)])[1]
        self.assertEqual(meets("fenced"), [])
        self.assertEqual(meets("unfenced"), ["unfenced: no counter with a fence before it and an emptied L1 cache behind it"])

    def test_a_load_that_is_not_coherent_is_seen(self):
        self.assertEqual(self.said("incoherent"), "incoherent: 2 loads of what a kernel may write are not coherent")
        self.assertEqual(self.said("early_weights", 1), "")

    def test_a_missing_wait_is_seen(self):
        self.assertIn("no_wait: it may overlap the kernel before it, and waits for none", self.said("no_wait"))


def main():
    result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    failed = len(result.failures) + len(result.errors)
    for _, why in result.skipped:
        print(f"SKIPPED: {why}")
    print(f"plain: {result.testsRun - failed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

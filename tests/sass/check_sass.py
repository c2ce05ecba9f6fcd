#!/usr/bin/env python3
"""Holds the machine code of the CUDA kernels against budgets.txt.

    make BACKEND=cuda VARIANT=sass cubins
    tests/sass/check_sass.py [--table] [--budgets FILE] [FOLDER | FILE.cubin ..]

The folder is build/cuda-sass where none is named. --table prints what was read, as Markdown, and checks nothing.
Exit code 1 where a check fails; 2 where there is nothing to check. For each kernel

- it has a row in the table, and at most that row's registers and bytes of spills;
- where it may start before the kernel before it has ended (LAUNCH_OVERLAPPED, or it waits), every way from its start
  meets the wait before any access to global memory but prefetches, and but as many loads of what no kernel
  writes (LDG .CONSTANT, or LDGSTS to shared memory) as its row allows;

- none of its loads but load_stream's may find stale cache lines (LDG .CONSTANT): the compiler uses them where it
  believes that no kernel writes there;
- where it has a row `meets`, blocks count themselves with a fence before the counter, and read what the others wrote
  past their L1 cache: only that makes the last of them see it;

and for each row of a loop, that the kernel has such a loop, and that in it

- at least so many 16-byte loads (of the join of splits: loads) are in flight;
- at most so many instructions are spent on 32 weights, or on 32 activations that become integers.

Registers and spills are what ptxas said (FILE.usage); all else is read off the listing of nvdisasm.
"""
import fnmatch
import glob
import os
import re
import sys
from dataclasses import dataclass

from sass import disassemble, find_disassembler, floats_of_loop, counts, read_kernels, short_name, weights_of_loop

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE + "/../..")
MOST_SPILLED = 40
# Where loops are looked for: what a decoded token spends its time in. A row of x; heads of 64 and of 128.
HOT = ("project_few_kernel<*,1,*>", "project_one_kernel<*>", "attention_kernel<BF16,64,*>", "attention_kernel<BF16,128,*>")
PLAIN = ("attention_kernel<*,1>",)  # all keys of a split are seen: no loop, their loads are before the first barrier


@dataclass
class Loop:
    kernel: str
    kind: str          # type of weights; take, outliers, quantise: of x; keys, values, join: of attention; split: up to its first barrier
    instructions: int
    in_flight: int
    per_group: float   # 0: it has no groups
    in_flight_bytes: int = 0  # of loads of any width


@dataclass
class Read:
    """What one kernel shows."""
    name: str
    registers: int
    spilled: int
    instructions: int
    early: list        # accesses before the wait
    waits: bool
    prefetches: int
    loops: list
    fences: int = 0    # of the whole device: MEMBAR.SC.GPU
    to_host: int = 0   # stores that the host sees while the kernel runs
    arrivals: int = 0  # counters by which blocks meet
    incoherent: int = 0


# ---- reading ----

def usage_path(cubin):
    return cubin.removesuffix("cubin") + "usage"


def usage_of(path):
    """{kernel: (registers, bytes of spill stores and loads)} of what ptxas printed."""
    found, name, spilled = {}, None, 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            if match := re.search(r"Compiling entry function '(\S+)'", line):
                name = short_name(match.group(1))
            elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
                spilled = int(match.group(1)) + int(match.group(2))
            elif (match := re.search(r"Used (\d+) registers", line)) and name:
                found[name] = (int(match.group(1)), spilled)
                name = None
    return found


def digits_of(name):
    return 2 if "TWO_DIGITS" in name else 1


def loop_of(kernel, span, earlier):
    """The loop at `span`, or None where it is none of those that the table speaks of."""
    body = kernel.body(span)
    count, name = counts(body), kernel.name
    wide = sum(x.name == "LDG" and x.width() == 16 for x in body)
    stream = any(".NA" in x.op for x in body if x.name == "LDG")  # load_stream: weights
    kind, groups, least = None, 0, 16
    if count["BAR"]:  # of the block: around one of the others
        return None
    if count["IDP"] and stream:
        groups = count["IDP"] / (8 * digits_of(name))
        kind = weights_of_loop(body, groups) or "unknown"
    elif stream and count["FFMA"]:
        kind = floats_of_loop(body) if "FLOAT_VECTOR" in name or name.startswith("project_one") else None
    elif name.startswith("project_few_kernel") and count["STS"] and count["LDG"]:
        least = 1
        groups = count["SHFL"] * 8 / 4  # quantise_eight: four shuffles for eight groups of 32
        kind = "quantise" if groups else "take"
    elif name.startswith("project_few_kernel") and count["SEL"] >= 8 and count["LDG"]:
        kind, least = "outliers", 1
        groups = kernel.bytes_in_flight(span) / 8  # a float of x and one of the norm's weights
    elif is_plain(name) and count["FFMA"]:
        kind, least = "join", 16 if wide else 1
    elif name.startswith("attention_kernel") and count["FFMA"]:
        kind = ("keys", "values", "join")[min(2, sum(e.kind in ("keys", "values") for e in earlier))]
        least = 16 if wide else 1
    if not kind:
        return None
    return Loop(name, kind, len(body), kernel.loads_in_flight(span, least), len(body) / groups if groups else 0,
                kernel.bytes_in_flight(span))


def is_plain(name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PLAIN)


def read_kernel(kernel, usage):
    early, waits = kernel.before_wait()
    loops = []
    if is_plain(kernel.name):
        barrier = next((i for i, x in enumerate(kernel.instructions) if x.name == "BAR"), len(kernel.instructions))
        loops.append(Loop(kernel.name, "split", barrier, kernel.loads_in_flight((0, barrier - 1)), 0))
    if any(fnmatch.fnmatchcase(kernel.name, pattern) for pattern in HOT):
        for span in kernel.loops(lambda x: x.name in ("LDG", "F2I", "IDP")):
            if loop := loop_of(kernel, span, loops):
                loops.append(loop)
    registers, spilled = usage.get(kernel.name, (0, 0))
    return Read(kernel.name, registers, spilled, len(kernel.instructions), early, waits,
                kernel.prefetches_before_wait(), loops, sum(x.op.startswith("MEMBAR.SC") for x in kernel.instructions),
                sum(x.name.startswith("ST") and x.op.endswith(".SYS") for x in kernel.instructions),
                kernel.arrivals(), len(kernel.incoherent()))


def read_cubins(paths):
    kernels = []
    for path in paths:
        usage = usage_of(usage_path(path))
        kernels += [read_kernel(k, usage) for k in read_kernels(disassemble(path))]
    return kernels


def overlapped():
    """Kernels that the sources launch so that they may start before the one before them has ended."""
    found = set()
    for path in glob.glob("kernels/cuda/**/*.cu", recursive=True):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r"LAUNCH_OVERLAPPED\(\w+,\s*\(?(\w+)", file.read()))
    return found


# ---- the table ----

@dataclass
class KernelRow:
    pattern: str
    registers: int
    early: int = 0
    spilled: int = MOST_SPILLED


@dataclass
class LoopRow:
    pattern: str
    kind: str
    in_flight: int
    per_group: float = 0  # 0: any


@dataclass
class MeetsRow:
    pattern: str


@dataclass
class SizeRow:
    pattern: str
    instructions: int


def read_budgets(path):
    kernels, loops, meets, sizes = [], [], [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "kernel" and 3 <= len(words) <= 5:
                kernels.append(KernelRow(words[1], *map(int, words[2:])))
            elif words[0] == "loop" and 4 <= len(words) <= 5:
                loops.append(LoopRow(words[1], words[2], int(words[3]), *map(float, words[4:])))
            elif words[0] == "meets" and len(words) == 2:
                meets.append(MeetsRow(words[1]))
            elif words[0] == "size" and len(words) == 3:
                sizes.append(SizeRow(words[1], int(words[2])))
            else:
                sys.exit(f"{path}:{number}: neither a kernel, a loop, a meeting nor a size: {line.strip()}")
    return kernels, loops, meets, sizes


# ---- checking ----

def matches(name, pattern):
    return fnmatch.fnmatchcase(name, pattern)


def check_usage(name, registers, spilled, row):
    if not 0 < registers <= row.registers:
        yield f"{name}: {registers} registers, at most {row.registers}"
    if spilled > row.spilled:
        yield f"{name}: {spilled} bytes of spills, at most {row.spilled}"


def check_kernel(kernel, rows, may_overlap):
    """Violations of one kernel's row."""
    row = next((r for r in rows if matches(kernel.name, r.pattern)), None)
    if not row:
        yield f"{kernel.name}: it has no row in the table"
        return
    yield from check_usage(kernel.name, kernel.registers, kernel.spilled, row)
    if any(loop.kind == "unknown" for loop in kernel.loops):
        yield f"{kernel.name}: a loop over quantised weights loads what no type loads"
    if kernel.incoherent:
        yield f"{kernel.name}: {kernel.incoherent} loads of what a kernel may write are not coherent"
    base = kernel.name.partition("<")[0]
    if base in may_overlap and not kernel.waits:
        yield f"{kernel.name}: it may overlap the kernel before it, and waits for none"
    if kernel.waits:
        steady = [x for x in kernel.early if x.name == "LDGSTS" or x.name == "LDG" and "CONSTANT" in x.op]
        for x in kernel.early:
            if x not in steady:
                yield f"{kernel.name}: {x.op} at {x.address:#x} may run before the wait for earlier kernels"
        if len(steady) > row.early:
            yield f"{kernel.name}: {len(steady)} loads before the wait, at most {row.early}"
        if 2 * len(steady) < row.early:
            yield f"{kernel.name}: {len(steady)} loads before the wait, where {row.early} are what it is for"


def check_loops(row, kernels):
    """Violations of one row of a loop."""
    found = [loop for k in kernels if matches(k.name, row.pattern) for loop in k.loops if loop.kind == row.kind]
    if not found:
        yield f"{row.pattern}: no loop {row.kind} was found"
    for loop in found:
        if loop.in_flight < row.in_flight:
            yield f"{loop.kernel}, {loop.kind}: {loop.in_flight} loads in flight, at least {row.in_flight}"
        if row.per_group and loop.per_group > row.per_group:
            yield (f"{loop.kernel}, {loop.kind}: {loop.per_group:.0f} instructions for a group of 32, "
                   f"at most {row.per_group:.0f}")


def check_meeting(row, kernels):
    """Violations of one row of a meeting."""
    found = [k for k in kernels if matches(k.name, row.pattern)]
    if not found:
        yield f"{row.pattern}: no kernel whose blocks meet was found"
    for kernel in found:
        if not kernel.arrivals:
            yield f"{kernel.name}: no counter with a fence before it and an emptied L1 cache behind it"


def check_size(row, kernels):
    """Violations of one row of a size."""
    found = [k for k in kernels if matches(k.name, row.pattern)]
    if not found:
        yield f"{row.pattern}: no kernel of that name was found"
    for kernel in found:
        if kernel.instructions > row.instructions:
            yield f"{kernel.name}: {kernel.instructions} instructions, at most {row.instructions}"


def check(kernels, rows, loop_rows, meets=(), may_overlap=(), sizes=()):
    """(number of checks, violations)."""
    violations = [v for k in kernels for v in check_kernel(k, rows, may_overlap)]
    violations += [v for row in loop_rows for v in check_loops(row, kernels)]
    violations += [v for row in meets for v in check_meeting(row, kernels)]
    violations += [v for row in sizes for v in check_size(row, kernels)]
    violations += [f"{row.pattern}: a row for no kernel" for row in rows
                   if not any(matches(k.name, row.pattern) for k in kernels)]
    return len(kernels) + len(loop_rows) + len(meets) + len(sizes), violations


def check_usages(paths, rows):
    """What ptxas said alone: (number of checks, violations)."""
    said = {name: used for path in paths for name, used in usage_of(usage_path(path)).items()}
    violations = []
    for name, (registers, spilled) in said.items():
        row = next((r for r in rows if matches(name, r.pattern)), KernelRow(name, 0))
        violations += check_usage(name, registers, spilled, row)
    return len(said), violations


# ---- output ----

def print_table(kernels):
    print("| kernel | instructions | registers | spilled | prefetches, loads before the wait | loop (instructions) "
          "| loads in flight | per group |")
    print("|---|---|---|---|---|---|---|---|")
    for k in sorted(kernels, key=lambda k: k.name):
        before = f"{k.prefetches}, {len(k.early)}" if k.waits else "no wait"
        head = f"| `{k.name}` | {k.instructions} | {k.registers} | {k.spilled} | {before} |"
        for loop in k.loops or [None]:
            if loop:
                group = f"{loop.per_group:.0f}" if loop.per_group else ""
                print(f"{head} {loop.kind} ({loop.instructions}) | {loop.in_flight} | {group} |")
            else:
                print(f"{head} | | |")
            head = "| | | | | |"


def cubins_of(arguments):
    paths = []
    for argument in arguments or ["build/cuda-sass"]:
        found = glob.glob(f"{argument}/**/*.cubin", recursive=True)
        paths += [argument] if argument.endswith(".cubin") else sorted(found)
    return paths


def main(arguments):
    budgets = f"{HERE}/budgets.txt"
    if "--budgets" in arguments:
        at = arguments.index("--budgets")
        budgets = arguments[at + 1]
        del arguments[at:at + 2]
    paths = cubins_of([a for a in arguments if a != "--table"])
    if not paths:
        print("no .cubin: make BACKEND=cuda VARIANT=sass cubins")
        return 2
    if not find_disassembler():
        rows, loop_rows, meets, sizes = read_budgets(budgets)
        print("SKIPPED: no nvdisasm on this machine (NVDISASM, CUDA_HOME or PATH): registers and spills are checked; "
              "loads in flight, instructions, what runs before the wait and fences are not")
        return report(*check_usages(paths, rows), skipped=len(loop_rows) + len(meets) + len(sizes))
    kernels = read_cubins(paths)
    if "--table" in arguments:
        print_table(kernels)
        return 0
    rows, loop_rows, meets, sizes = read_budgets(budgets)
    return report(*check(kernels, rows, loop_rows, meets, overlapped(), sizes))


def report(checks, violations, skipped=0):
    print(*violations, sep="\n", end="\n" if violations else "")
    print(f"plain: {max(0, checks - len(violations))} passed, {len(violations)} failed, {skipped} skipped")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Machine code of a GPU as nvdisasm prints it: kernels, their loops, and what a loop loads and computes.

    for kernel in read_kernels(disassemble("build/cuda-sass/kernels/cuda/norm.cubin")): ...

Everything is read off one listing in the order of addresses. A loop is what a branch back encloses; what the
compiler has moved behind the branch (rare ways through a body) is not in it.
"""
import glob
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
LABEL = re.compile(r"(\.L_x_\d+):")
SECTION = re.compile(r"\.text\.(\S+):")
REGISTER = re.compile(r"\b(R\d+)\b")
# Of global memory, but for CCTL, which moves lines between caches.
GLOBAL = ("LDG", "LD", "STG", "ST", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG")
# Their operands are all sources.
NO_RESULT = ("STG", "STS", "STL", "ST", "RED", "REDG", "BRA", "BRX", "CCTL", "LDGSTS", "EXIT", "BAR")


@dataclass
class Instruction:
    address: int
    guard: str  # "@P0", "@!P0" or "": what it depends on
    op: str     # "LDG.E.128.CONSTANT"
    operands: str
    used: frozenset = None  # see registers

    @property
    def name(self):
        return self.op.split(".")[0]

    def width(self):
        """Bytes of a load or store."""
        parts = self.op.split(".")
        for part, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
            if part in parts:
                return size
        return 4

    def results(self):
        """Registers that it writes."""
        first = self.operands.split(",")[0]
        found = REGISTER.match(first.strip())
        if self.name in NO_RESULT or not found:
            return []
        words = max(1, self.width() // 4) if self.name.startswith("LD") else 1
        return [f"R{int(found.group(1)[1:]) + i}" for i in range(words)]

    def sources(self):
        """Registers that it reads; of a pair or a quad the first, and the second of a .64 address."""
        text = self.operands if not self.results() else self.operands.partition(",")[2]
        found = set(REGISTER.findall(text))
        return found | {f"R{int(r[1:]) + 1}" for r in re.findall(r"\b(R\d+)\.64", text)}

    def registers(self):
        if self.used is None:
            self.used = frozenset(self.sources() | set(self.results()))
        return self.used

    def target(self):
        found = re.search(r"\((\.L_x_\d+)\)", self.operands)
        return found.group(1) if found else None


@dataclass
class Kernel:
    symbol: str
    instructions: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)  # name: index of the instruction behind it
    next_ones: list = None                      # see successors

    @property
    def name(self):
        return short_name(self.symbol)

    def spans(self):
        """(first, last) index of each loop: a branch back and its target; of a `continue` too the longest."""
        longest = {}
        for i, x in enumerate(self.instructions):
            start = self.labels.get(x.target() if x.name == "BRA" else None)
            # A branch to itself stands behind the last instruction.
            if start is not None and start < i:
                longest[start] = i
        return sorted(longest.items())

    def loops(self, holds=lambda x: x.name == "LDG"):
        """The smallest loop around each instruction that `holds` says, once, as spans."""
        spans = self.spans()
        found = set()
        for i, x in enumerate(self.instructions):
            if holds(x):
                around = [s for s in spans if s[0] <= i <= s[1]]
                found.update([min(around, key=lambda s: s[1] - s[0])] if around else [])
        return sorted(found)

    def body(self, span):
        return self.instructions[span[0]:span[1] + 1]

    def _jump_targets(self):
        """Of each jump through a table: nvdisasm numbers the labels of a table behind that of its jump."""
        number = {name: int(name.rpartition("_")[2]) for name in self.labels}
        named = {x.target() for x in self.instructions}
        tables = sorted((number[name], at) for name, at in self.labels.items()
                        if name not in named and at < len(self.instructions) and self.instructions[at].name == "BRX")
        targets = {at: [] for _, at in tables}
        for name, at in self.labels.items():
            before = [jump for n, jump in tables if n < number[name]]
            if name not in named and before and self.instructions[min(at, len(self.instructions) - 1)].name != "BRX":
                targets[before[-1]].append(at)
        return targets

    def successors(self):
        """Indices of what may run behind each instruction; of calls both the callee and what follows."""
        if self.next_ones is None:
            tables, self.next_ones = self._jump_targets(), []
            for i, x in enumerate(self.instructions):
                to = [self.labels[x.target()]] if x.name in ("BRA", "CALL", "JMP") and x.target() in self.labels else []
                if x.name == "BRX":
                    to += tables.get(i, [])
                ends = x.name in ("EXIT", "RET", "BRX", "JMP") or x.name == "BRA" and "," not in x.operands
                if x.guard or not ends:
                    to.append(i + 1)
                self.next_ones.append([j for j in to if j < len(self.instructions)])
        return self.next_ones

    def reached(self, start, stops):
        """Indices that are reached behind `start` without passing one for which stops(instruction) is true."""
        after, todo, seen = self.successors(), list(self.successors()[start]), set()
        while todo:
            i = todo.pop()
            if i not in seen and not stops(self.instructions[i]):
                seen.add(i)
                todo += after[i]
        return seen

    def before_wait(self):
        """(accesses to global memory that some way reaches before a wait for earlier kernels, has a wait)."""
        stops = lambda x: x.name == "ACQBULK"
        ways = set() if stops(self.instructions[0]) else {0} | self.reached(0, stops)
        found = [self.instructions[i] for i in sorted(ways)]
        return ([x for x in found if x.name in GLOBAL or (x.name == "CCTL" and ".PF" not in x.op)],
                any(x.name == "ACQBULK" for x in self.instructions))

    def flights(self, span, least):
        """Lists of loads of `least` bytes or more, of global memory, that a lane asks for in this loop before it uses
        the first of them: each is reached from all before it, and their results have been neither read nor written
        on the way."""
        loads = [i for i in range(span[0], span[1] + 1)
                 if self.instructions[i].name == "LDG" and self.instructions[i].width() >= least]
        ways = {}
        for i in loads:
            mine = set(self.instructions[i].results())
            ways[i] = self.reached(i, lambda x, mine=mine: bool(mine & x.registers()))
        for k, first in enumerate(loads):
            chain = [first]
            for load in loads[k + 1:] + loads[:k]:
                if all(load in ways[earlier] for earlier in chain):
                    chain.append(load)
            yield [self.instructions[i] for i in chain]

    def loads_in_flight(self, span, least=16):
        return max(map(len, self.flights(span, least)), default=0)

    def bytes_in_flight(self, span):
        return max((sum(x.width() for x in flight) for flight in self.flights(span, 1)), default=0)

    def arrivals(self):
        """Counters by which blocks meet: atomic additions of the whole device, with a fence right before them that
        makes what the block has written visible, and right behind them what invalidates the stale cache lines in L1."""
        found = 0
        for i, x in enumerate(self.instructions):
            fenced = any(y.name == "MEMBAR" for y in self.instructions[max(0, i - 4):i])
            emptied = any(y.op == "CCTL.IVALL" for y in self.instructions[i + 1:i + 4])
            found += x.name in ("ATOM", "ATOMG") and ".GPU" in x.op and fenced and emptied
        return found

    def incoherent(self):
        """Loads that may find stale cache lines (.CONSTANT) but those of load_stream (.NA), which are of weights alone."""
        return [x for x in self.instructions if x.name == "LDG" and ".CONSTANT" in x.op and ".NA" not in x.op]

    def prefetches_before_wait(self):
        """Instructions that ask for lines of the L2 cache (CCTL.PF2, UBLKPF) before the first wait."""
        count = 0
        for x in self.instructions:
            if x.name == "ACQBULK":
                return count
            count += x.name == "UBLKPF" or (x.name == "CCTL" and ".PF" in x.op)
        return 0


def find_disassembler():
    """nvdisasm of $NVDISASM, of $CUDA_HOME/bin or of PATH; None without one."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for path in (os.environ.get("NVDISASM"), f"{home}/bin/nvdisasm", shutil.which("nvdisasm")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def disassemble(cubin):
    return subprocess.run([find_disassembler(), "-c", "-ndf", cubin], text=True, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300).stdout


def read_kernels(listing):
    kernels, kernel = [], None
    for line in listing.split("\n"):
        found = INSTRUCTION.match(line)
        if found and kernel:
            address, guard, op, operands = found.groups()
            kernel.instructions.append(Instruction(int(address, 16), guard or "", op, operands))
            continue
        found = SECTION.match(line)
        if found:
            kernel = Kernel(found.group(1))
            kernels.append(kernel)
            continue
        found = LABEL.match(line)
        if found and kernel:
            kernel.labels[found.group(1)] = len(kernel.instructions)
    return [k for k in kernels if k.instructions]


# ---- names ----

def enum_names(kind):
    """The names of an enum of the sources, by value."""
    for path in ["weights/matrix.h", *sorted(glob.glob("kernels/cuda/**/*.[hc]*", recursive=True))]:
        with open(path, encoding="utf-8") as file:
            found = re.search(rf"enum (class )?{kind}( : \w+)? \{{([^}}]*)\}}", file.read())
        if found:
            names = [word.split("=")[0].strip() for word in re.sub(r"//.*", "", found.group(3)).split(",")]
            return [name.removeprefix("DTYPE_") for name in names if name]
    return []


def short_name(symbol):
    """project_few_kernel<ONE_DIGIT,1> of a mangled name: the function and its template's numbers."""
    found = re.match(r"_ZN?(?:L)?(\d+)", symbol)
    if not found:
        return symbol
    start = found.end()
    name = symbol[start:start + int(found.group(1))]
    rest = symbol[start + len(name):]
    if not rest.startswith("I"):
        return name
    arguments = []
    at = 1
    while at < len(rest) and rest[at] == "L":
        found = re.match(r"L(?:(\d+)|[a-z])", rest[at:])
        kind = ""
        at += found.end()
        if found.group(1):
            kind = rest[at:at + int(found.group(1))]
            at += len(kind)
        value = re.match(r"(\d+)E", rest[at:])
        at += value.end()
        arguments.append(constant_name(kind, int(value.group(1))))
    return f"{name}<{','.join(arguments)}>"


KNOWN = {}


def constant_name(kind, value):
    """Of an enum's value its name; else the number."""
    if kind and kind not in KNOWN:
        KNOWN[kind] = enum_names(kind)
    names = KNOWN.get(kind, [])
    return names[value] if value < len(names) else str(value)


# ---- what a loop does ----

def counts(body):
    """Instructions of a loop by name."""
    return Counter(x.name for x in body)


# The loop over the weights of a quantised type is known by what it loads a chunk of 32 (kernels/cuda/project/matrix.h):
# 16-byte loads, what else it loads in bytes, and the mask of its high bits.
FIFTH, TWO_BITS = "0x1010101", "0x3030303"
QUANTISED = {
    (1, (2,), None): "Q4_0", (1, (4,), None): "Q4_1", (1, (2, 4), FIFTH): "Q5_0", (1, (4, 4), FIFTH): "Q5_1",
    (2, (2,), None): "Q8_0", (2, (4,), None): "Q8_GROUP", (1, (4, 4), None): "Q2_K", (1, (2, 2), None): "Q3_K",
    (1, (2, 4), None): "Q4_K", (1, (2, 4, 4), FIFTH): "Q5_K",
    (1, (2, 2, 4, 4), TWO_BITS): "Q6_K", (1, (2, 2, 8), TWO_BITS): "Q6_K",
}


def weights_of_loop(body, chunks):
    """The type of weights that a loop over `chunks` of them multiplies; None where it cannot be told."""
    if not chunks:
        return None
    loads = [x for x in body if x.name == "LDG"]
    low = sum(x.width() == 16 for x in loads) / chunks
    others = sorted(x.width() for x in loads if x.width() != 16)
    mask = next((m for m in (FIFTH, TWO_BITS) if any(m in x.operands for x in body)), None)
    each = tuple(others[::int(chunks)]) if chunks == int(chunks) else ()
    return QUANTISED.get((low, each, mask))


def floats_of_loop(body):
    """BF16, F16 or F32: how the elements that a loop multiplies become float32."""
    if any(x.name == "HADD2" and ".F32" in x.op for x in body):
        return "F16"
    widened = any(("0x10000" in x.operands.split(", ") or "0xffff0000" in x.operands) for x in body)
    return "BF16" if widened else "F32"

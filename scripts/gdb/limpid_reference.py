# gdb command for limpid-gdb.py: diff, the stage at hand beside that of a trace (docs/trace.md). The program
# itself names the stage and knows the budget: commands/trace/file.h, commands/shared/budget.h.
import json
import math
import os
import struct

import gdb

from limpid_commands import Command, usage
from limpid_program import (OF_LOGIT_ROWS, HostMemory, argument_of, call, enumerator, model, numbers, read, rows_at_hand,
                            session, stage_at_hand, tensor, tokens_by_position)

NAME_SIZE = 160  # TRACE_NAME_SIZE
SIZES = {"F32": 4, "F16": 2, "BF16": 2}


class Trace:
    """A safetensors file: 8 bytes with the length of a JSON header, the header, the data."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "rb")
        try:
            size = os.fstat(self.file.fileno()).st_size
            length = int.from_bytes(self.file.read(8), "little")
            self.header = json.loads(self.file.read(length)) if 2 <= length <= size - 8 else None
            self.metadata = self.header.pop("__metadata__", {})
            if not isinstance(self.metadata, dict):
                raise TypeError
        except (ValueError, AttributeError, TypeError, RecursionError):
            self.file.close()
            raise gdb.GdbError("%s: not a safetensors file" % path)
        self.data, self.size = 8 + length, size

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def entry(self, name):
        """(dtype, shape, offset) of a tensor whose bytes are in the file."""
        try:
            entry = self.header[name]
            dtype, shape, (begin, end) = entry["dtype"], [int(s) for s in entry["shape"]], entry["data_offsets"]
            size = {"I64": 8, **SIZES}[dtype]
            good = math.prod(shape) * size == end - begin and 0 <= begin and self.data + end <= self.size
        except (KeyError, TypeError, ValueError):
            raise gdb.GdbError("%s: no tensor %s of float32, float16 or bfloat16" % (self.path, name))
        if not good or not shape:
            raise gdb.GdbError("%s: %s has a wrong size, or the file is cut short" % (self.path, name))
        return dtype, shape, self.data + begin

    def elements(self, dtype, offset, first, count):
        self.file.seek(offset + first * SIZES[dtype])
        return numbers(dtype, self.file.read(count * SIZES[dtype]))

    def tokens(self):
        """None: the trace does not say."""
        if "input_ids" not in self.header:
            return None
        dtype, shape, offset = self.entry("input_ids")
        if dtype != "I64":
            return None
        self.file.seek(offset)
        return list(struct.unpack("<%dq" % shape[0], self.file.read(8 * shape[0])))


# ---- what the program says ----


def trace_name(stage):
    """The name that traces give to the stage at hand."""
    holder = session()
    if holder is None:
        raise gdb.GdbError("no frame here has a session, which knows the names of a trace: limpid next")
    identity, layer = int(gdb.parse_and_eval(enumerator(stage))), int(argument_of("observe", "layer"))
    with HostMemory(NAME_SIZE) as out:
        found = call("int trace_stage_name(void*,void*,int,int)", out, holder["checkpoint"], identity, layer)
        if not int(found) & 1:  # a bool: the other bits of the register mean nothing
            raise gdb.GdbError("%s has no name in traces of this family: it equals an earlier stage" % stage)
        return read(out, NAME_SIZE).split(b"\0")[0].decode()


def allowed(m, metadata, name, largest):
    """(name of the budget, largest difference that it allows) for this run and that of the trace."""
    here = [str(m["options"][option]).split("_")[-1].lower() for option in ("precision", "kv_type")]
    texts = [here[0], metadata.get("precision"), here[1], metadata.get("kv"), name]
    block, places = b"", []
    for text in texts:
        places.append(40 + len(block) if isinstance(text, str) else None)
        block += text.encode() + b"\0" if isinstance(text, str) else b""
    with HostMemory(40 + len(block)) as host:
        pointers = [host + place if place else 0 for place in places]
        gdb.selected_inferior().write_memory(host, struct.pack("<5Q", *pointers) + block)
        budget = call("Budget* budget_of_runs(void*,void*)", host, host + 16)
        most = float(call("double budget_allows(void*,void*,double)", budget, pointers[4], largest))
    return budget["name"].string(), most


# ---- rows ----


def positions_at_hand(m, stage):
    """The position of each row of the stage, all of one text."""
    _, positions, sequences = rows_at_hand(m)
    if any(sequences):
        raise gdb.GdbError("this pass has several texts side by side, and a trace has one")
    if stage in OF_LOGIT_ROWS:
        return [positions[int(m["chunk"]["logit_rows"][i])] for i in range(int(m["chunk"]["n_logit_rows"]))]
    return list(positions)


def check_text(m, trace, positions, count):
    """Where the texts differ a comparison says nothing."""
    if max(positions) >= count:
        raise gdb.GdbError("%s has the positions 0 .. %d, and this pass is at %d" % (trace.path, count - 1, max(positions)))
    theirs = trace.tokens()
    for position, token in sorted(tokens_by_position(m).items()):
        if theirs and position <= max(positions) and position < len(theirs) and theirs[position] != token:
            raise gdb.GdbError("%s is of another text: position %d has token %d, here %d"
                               % (trace.path, position, theirs[position], token))


def paired_rows(trace, name, t, positions):
    """(row here, row of the trace), as lists of equal length."""
    dtype, shape, offset = trace.entry(name)
    rows = t.rows(0, t.shape[0])
    if len(shape) == 3:  # attention weights (heads, T, T): rows here are (heads, context)
        keys = min(shape[2], t.shape[2])
        for row, position in zip(rows, positions):
            here = [row[h * t.shape[2] + k] for h in range(shape[0]) for k in range(keys)]
            parts = [trace.elements(dtype, offset, (h * shape[1] + position) * shape[2], keys) for h in range(shape[0])]
            yield here, [x for part in parts for x in part]
    else:
        for row, position in zip(rows, positions):
            yield row, trace.elements(dtype, offset, position * shape[1], shape[1])


def check_shape(trace, name, t):
    shape = trace.entry(name)[1]
    width = math.prod(t.shape[1:])
    fits = shape[0] == t.shape[1] if len(shape) == 3 else len(shape) == 2 and shape[1] == width
    if trace.entry(name)[0] not in SIZES or not fits:
        raise gdb.GdbError("%s: %s (%s) does not fit rows of %d here" % (trace.path, name, ", ".join(map(str, shape)), width))
    return shape[1] if len(shape) == 3 else shape[0]


# ---- comparing ----


def similarity(pairs):
    """(largest value, largest difference, cosine) over the elements that are finite in both."""
    largest = error = aa = bb = ab = 0.0
    for a, b in ((a, b) for here, theirs in pairs for a, b in zip(here, theirs) if math.isfinite(a - b)):
        largest, error = max(largest, abs(a), abs(b)), max(error, abs(a - b))
        aa, bb, ab = aa + a * a, bb + b * b, ab + a * b
    return largest, error, ab / math.sqrt(aa) / math.sqrt(bb) if aa and bb else float(aa == bb)


def beyond(pairs, most):
    """(row, element) whose difference is over `most`, or not finite."""
    return [(row, i) for row, (here, theirs) in enumerate(pairs) for i, (a, b) in enumerate(zip(here, theirs))
            if not abs(a - b) <= most]


class Diff(Command):
    """limpid diff FILE: compare the stage at hand with the same stage of a trace (run trace, scripts/reference_numpy.py)."""

    def __init__(self):
        super().__init__("diff", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def perform(self, argument):
        words = gdb.string_to_argv(argument)
        if len(words) != 1:
            raise usage(self)
        m, stage = model(), stage_at_hand()
        if stage is None:
            raise gdb.GdbError("no stage is at hand: limpid next, or limpid break STAGE [LAYER]")
        with Trace(os.path.expanduser(words[0])) as trace:
            self.compare(m, stage, trace)

    def compare(self, m, stage, trace):
        name, t, positions = trace_name(stage), tensor(m, "stage"), positions_at_hand(m, stage)
        check_text(m, trace, positions, check_shape(trace, name, t))
        pairs = list(paired_rows(trace, name, t, positions))
        largest, error, cosine = similarity(pairs)
        budget, most = allowed(m, trace.metadata, name, largest)
        over, count = beyond(pairs, most), sum(len(here) for here, _ in pairs)
        print("%s: largest error %.3g of %.6g, cosine %.9g" % (name, error, largest, cosine))
        if not over:
            print("within the budget of %s, %.3g" % (budget, most))
            return
        row, element = over[0]
        print("over the budget of %s, %.3g: %d of %d elements" % (budget, most, len(over), count))
        print("the first: row %d, position %d, element %d: %.9g here, %.9g in %s" % (
            row, positions[row], element, pairs[row][0][element], pairs[row][1][element], trace.path))


def define():
    """After the prefix `limpid` exists."""
    Diff()

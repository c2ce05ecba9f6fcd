# gdb command for limpid-gdb.py: set, which changes numbers of a pass on their way.
import math
import re
import struct

import gdb

from limpid_commands import Command, usage
from limpid_program import SCRATCH, argument_of, device_write, model, stage_at_hand, tensor

INDEX = re.compile(r"\s*(?:(\d{1,9})|(\d{0,9})\s*:\s*(\d{0,9}))\s*")


def index_range(name, text, size):
    """"3", "2:5" (without 5), "2:", ":5" or ":" of one dimension."""
    match = INDEX.fullmatch(text)
    if not match:
        raise gdb.GdbError("%s: got index \"%s\", wanted a number or a slice such as 2:5" % (name, text.strip()))
    if match.group(1):
        first = int(match.group(1))
        end = first + 1
    else:
        first, end = int(match.group(2) or 0), int(match.group(3) or size)
    if not first < end <= size:
        raise gdb.GdbError("%s: got index %s, wanted 0 .. %d" % (name, text.strip(), size - 1))
    return range(first, end)


def index_ranges(name, text, shape):
    """A range for every dimension; those that are not given are taken whole."""
    parts = text.split(",") if text is not None else []
    if len(parts) > len(shape):
        raise gdb.GdbError("%s (%s): got %d indices" % (name, ", ".join(map(str, shape)), len(parts)))
    given = [index_range(name, part, size) for part, size in zip(parts, shape)]
    return given + [range(size) for size in shape[len(given):]]


def float32(text):
    try:
        value = float(text)
        if math.isinf(value) and "inf" not in text.lower():
            raise OverflowError
        return struct.pack("<f", value)
    except (ValueError, OverflowError):
        raise gdb.GdbError("got \"%s\", wanted a number that float32 holds, nan or inf" % text)


def changeable(m, name):
    stage = stage_at_hand()
    if name in (stage, "stage"):
        if stage in ("att_norm", "ffn_norm") and int(argument_of("observe", "data")) == int(m["scratch"]["x"]):
            raise gdb.GdbError("this model has no norm there: what is read is the residual stream, limpid set x")
        return tensor(m, "stage")
    if name not in SCRATCH:
        at_hand = "%s, the stage at hand, or " % stage if stage else ""
        raise gdb.GdbError("limpid set changes %s%s, not %s" % (at_hand, " ".join(SCRATCH), name))
    return tensor(m, name)


def write_row(m, t, row, elements, data):
    """Puts a float32 at some elements of a row; returns what was at the first."""
    values = t.rows(row, 1)[0]  # also runs what a GPU has recorded
    width = len(values)
    first, end = elements[0], elements[-1] + 1
    changed = bytearray(struct.pack("<%df" % (end - first), *values[first:end]))
    for element in elements:
        changed[4 * (element - first):4 * (element - first + 1)] = data
    device_write(m, t.address + 4 * (row * width + first), bytes(changed))
    return values[first]


class Set(Command):
    """limpid set NAME[INDEX, ...] = VALUE: change numbers of the stage at hand or of scratch; the pass goes on."""

    def __init__(self):
        super().__init__("set", gdb.COMMAND_DATA)

    def perform(self, argument):
        match = re.fullmatch(r"\s*(\w+)\s*(?:\[([^\]]*)\])?\s*=\s*(\S+)\s*", argument)
        if not match:
            raise usage(self)
        name, index, value = match.groups()
        m, data = model(), float32(value)
        t = changeable(m, name)
        ranges = index_ranges(name, index, t.shape)
        elements = list(ranges[1])
        if len(ranges) == 3:
            elements = [i * t.shape[2] + j for i in ranges[1] for j in ranges[2]]
        was = [write_row(m, t, row, elements, data) for row in ranges[0]]
        value, count = struct.unpack("<f", data)[0], len(was) * len(elements)
        if count == 1:
            print("%s[%s]: was %.6g, is %.6g" % (name, index, was[0], value))
        else:
            print("%s: %d values are %.6g" % (name, count, value))
        if name in ("att_weights", "stage") and stage_at_hand() == "att_weights":
            print("the sums of values, att_heads, were computed before")


def define():
    """After the prefix `limpid` exists."""
    Set()

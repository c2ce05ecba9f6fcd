# gdb commands for limpid-gdb.py: logits, heat, nan, save; and what all commands share.
import json
import math
import os
import struct

import gdb

from limpid_program import argument_of, frames, in_pass, model, spelling, stage_at_hand, tensor


class Command(gdb.Command):
    """A command whose failures are sentences: `perform` gets the text behind its name."""

    def __init__(self, name, kind, complete=None):
        arguments = (kind,) if complete is None else (kind, complete)
        super().__init__("limpid " + name, *arguments)

    def invoke(self, argument, from_tty):
        try:
            self.perform(argument)
        except gdb.GdbError:
            raise
        except KeyboardInterrupt:
            raise gdb.GdbError("interrupted")
        except OSError as problem:
            raise gdb.GdbError("%s: %s" % (problem.filename or "writing", problem.strerror or problem))
        except (gdb.error, ValueError) as problem:
            raise gdb.GdbError(str(problem))


def usage(command):
    return gdb.GdbError(command.__doc__.split(": ")[0])


def takes_nothing(argument, command):
    if argument:
        raise gdb.GdbError("%s takes no argument" % command.__doc__.split(": ")[0])


def number(text, command):
    """Ids, layers and positions: as many digits as an int32 has at most."""
    if not text.isdecimal() or len(text) > 9:
        raise usage(command)
    return int(text)


def in_range(what, value, count):
    if value >= count:
        raise gdb.GdbError("%s %d: there are %d, from 0" % (what, value, count))
    return value


def continue_to(function, condition=""):
    """Continues to a call of a function; False: the program stopped or ended before."""
    next(frames())
    stop = gdb.Breakpoint(function, internal=True, temporary=True)
    stop.silent = True
    if condition:
        stop.condition = condition
    try:
        gdb.execute("continue", to_string=True)
    finally:
        reached = not stop.is_valid()
        if not reached:
            stop.delete()
    if not gdb.selected_thread():
        print("the program has ended")
    elif not reached:
        print("stopped before that, in %s" % (gdb.newest_frame().name() or "a function without a name"))
    return reached


# ---- logits ----


def probabilities(logits):
    largest = max(logits)
    parts = [math.exp(x - largest) for x in logits]
    total = sum(parts)
    return [p / total for p in parts]


def last_row(t):
    """The last one; between two tokens that from which the newest was sampled: later rows are guesses (--speculate)."""
    d = argument_of("decoder_next", "d") if gdb.newest_frame().name() == "decoder_next" else None
    row = int(d["row"]) if d is not None and int(d["taken"]) else t.shape[0] - 1
    return min(row, t.shape[0] - 1)


class Logits(Command):
    """limpid logits [N]: the N likeliest tokens (10) of the last row, with logit and probability."""

    def __init__(self):
        super().__init__("logits", gdb.COMMAND_DATA)

    def perform(self, argument):
        count = number(argument or "10", self)
        if not count:
            raise gdb.GdbError("limpid logits N: at least 1 token")
        m = model()
        inner = [frame.name() for frame in frames()]
        if stage_at_hand() != "logits" and any(name in inner for name in ("forward_chunk", "run_chunk")):
            raise gdb.GdbError("this pass has not computed its logits yet: limpid next logits")
        if not in_pass() and not int(m["n_logit_rows"]):
            raise gdb.GdbError("no logits are at hand here: limpid next logits")
        t = tensor(m, "logits")
        if not t.shape[0]:
            raise gdb.GdbError("no pass has computed logits yet: limpid next logits")
        values = t.rows(last_row(t), 1)[0]
        if not all(math.isfinite(v) or v == -math.inf for v in values) or max(values) == -math.inf:
            raise gdb.GdbError("the logits hold NaN or infinity: limpid tensor logits")
        shares = probabilities(values)
        for i in sorted(range(len(values)), key=lambda i: -values[i])[:count]:
            print("  %10.6g  %8.6f  %d%s" % (values[i], shares[i], i, spelling(i)))


# ---- heat ----

RAMP = ".:-=+*#%@"  # as in pictures/terminal.c
COLORS = (17, 18, 24, 30, 36, 71, 107, 149, 227)  # of 256, near those of pictures/picture.c: one for each of RAMP
COLUMNS, MOST_ROWS = 64, 32


def colored():
    """As gdb colours its own output: not in batch mode, in files, or where NO_COLOR forbids it (no-color.org)."""
    return gdb.parameter("style enabled") and not os.environ.get("NO_COLOR") and os.isatty(1)


def cell(part, largest, colors):
    """One character for the value furthest from zero, on its colour."""
    if not all(math.isfinite(v) for v in part):
        return "\x1b[97;41m!" if colors else "!"
    shade = int(max(abs(v) for v in part) / (largest or 1) * (len(RAMP) - 1))
    ink = 16 if shade > len(RAMP) // 2 else 231  # black on bright, white on dark
    return ("\x1b[38;5;%d;48;5;%dm" % (ink, COLORS[shade]) if colors else "") + RAMP[shade]


def strip(values, largest, colors):
    """At most COLUMNS cells, each of an equal part of the values."""
    width = min(COLUMNS, len(values))
    parts = [values[c * len(values) // width:(c + 1) * len(values) // width] for c in range(width)]
    return "".join(cell(part, largest, colors) for part in parts) + ("\x1b[0m" if colors else "")


class Heat(Command):
    """limpid heat NAME: the first rows of a tensor as strips of characters from . (zero) to @ (the largest)."""

    def __init__(self):
        super().__init__("heat", gdb.COMMAND_DATA)

    def perform(self, argument):
        words = gdb.string_to_argv(argument)
        if len(words) != 1:
            raise usage(self)
        t = tensor(model(), words[0])
        n = t.shape[0] if len(t.shape) > 1 else 1
        rows = t.rows(0, min(n, MOST_ROWS))
        largest = max((abs(v) for values in rows for v in values if math.isfinite(v)), default=0)
        print("%s (%s): . is 0, @ is %.6g, ! is NaN or infinity" % (words[0], ", ".join(map(str, t.shape)), largest))
        for i, values in enumerate(rows):
            print("row %-3d %s" % (i, strip(values, largest, colored())))
        if n > len(rows):
            print("... %d rows; limpid save writes all" % n)


# ---- NaN and infinity ----


class Nan(Command):
    """limpid nan: continue to the first stage that holds NaN or infinity."""

    def __init__(self):
        super().__init__("nan", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        takes_nothing(argument, self)
        next(frames())
        while stage_at_hand() is None or not self.report():
            if not continue_to("observe"):
                return

    def report(self):
        m = model()
        t = tensor(m, "stage")
        for row, values in enumerate(t.rows(0, t.shape[0])):
            if math.isfinite(sum(values)):  # sums of float32 in double do not overflow
                continue
            at = next(i for i, v in enumerate(values) if not math.isfinite(v))
            layer = int(argument_of("observe", "layer"))
            where = "layers.%d." % layer if layer >= 0 else ""
            print("%s%s: row %d, element %d is %f" % (where, stage_at_hand(), row, at, values[at]))
            return True
        return False


# ---- saving ----


class Save(Command):
    """limpid save NAME FILE: write a tensor to a new safetensors file, as float32."""

    def __init__(self):
        super().__init__("save", gdb.COMMAND_DATA)

    def perform(self, argument):
        words = gdb.string_to_argv(argument)
        if len(words) != 2:
            raise usage(self)
        name, path = words[0], os.path.expanduser(words[1])
        t = tensor(model(), name)
        rows = t.shape[0] if len(t.shape) > 1 else 1
        count = math.prod(t.shape)
        entry = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [0, 4 * count]}
        text = json.dumps({name: entry}).encode()
        text += b" " * (-len(text) % 8)
        try:
            file = open(path, "xb")
        except FileExistsError:
            raise gdb.GdbError("%s: exists, and is not replaced" % path)
        try:
            with file:
                file.write(struct.pack("<Q", len(text)) + text)
                for i in range(rows):
                    values = t.rows(i, 1)[0]
                    file.write(struct.pack("<%df" % len(values), *values))
        except BaseException:
            os.unlink(path)
            raise
        print("%s: %s (%s)" % (path, name, ", ".join(str(s) for s in t.shape)))


def define():
    """After the prefix `limpid` exists."""
    for command in (Logits, Heat, Nan, Save):
        command()

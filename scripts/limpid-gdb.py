# gdb commands for stepping through a forward pass:
#
#     make debug
#     gdb -x scripts/limpid-gdb.py --args ./run MODEL -i "Once upon a time" -t 0
#     (gdb) limpid break q_rotated 2
#     (gdb) run
#     (gdb) limpid where
#     (gdb) limpid tensor q --row 1
#
# `limpid help` lists the commands. limpid_program.py reads the program's data.
import os
import sys
import textwrap

import gdb

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import limpid_commands
from limpid_blocks import BLOCKS
from limpid_program import (STAGES, enumerator, frames, layer_at_hand, model, names, rows_at_hand, spelling,
                            stage_at_hand, tensor)

MOST_VALUES = 1 << 20  # values that statistics are computed of, at most
FIRST = 8  # values printed of a row


# ---- printing ----


def numbers(values):
    return " ".join("%.6g" % v for v in values[:FIRST]) + (" ..." if len(values) > FIRST else "")


def statistics(values):
    good = [v for v in values if v == v]
    line = "NaN %d" % (len(values) - len(good))
    if good:
        mean, rms = sum(good) / len(good), (sum(v * v for v in good) / len(good)) ** 0.5
        line = "min %.6g  max %.6g  mean %.6g  rms %.6g  " % (min(good), max(good), mean, rms) + line
    return line


def print_row(t, name, row):
    """One row; a tensor with heads has one line per head."""
    values = t.rows(row, 1)[0]
    print("row %d: %s" % (row, statistics(values)))
    if len(t.shape) == 3:
        for h in range(t.shape[1]):
            print("  head %-3d %s" % (h, numbers(values[h * t.shape[2]:(h + 1) * t.shape[2]])))
    else:
        print("  " + numbers(values))
    if name == "logits":
        best = sorted(range(len(values)), key=lambda i: -values[i])[:5]
        print("  largest: " + ", ".join("%d%s %.6g" % (i, spelling(i), values[i]) for i in best))


def n_rows(t):
    return t.shape[0] if len(t.shape) > 1 else 1


def print_summary(t, name):
    """Prints shape, type and statistics; returns the first rows, which the statistics are of."""
    n, width = n_rows(t), 1
    for s in t.shape[1:] if len(t.shape) > 1 else t.shape:
        width *= s
    most = MOST_VALUES // 256 if t.slow else MOST_VALUES // 16 if t.dtype in BLOCKS else MOST_VALUES
    count = min(n, max(1, most // width))
    rows = t.rows(0, count)
    print("%s (%s) %s" % (name, ", ".join(str(s) for s in t.shape), t.dtype))
    print(statistics([v for values in rows for v in values]) + (" (rows 0 .. %d)" % (count - 1) if count < n else ""))
    return rows


def print_tensor(t, name, row):
    n = n_rows(t)
    if row is not None:
        if not 0 <= row < n:
            raise gdb.GdbError("%s: the rows are 0 .. %d" % (name, n - 1))
        print("%s (%s) %s" % (name, ", ".join(str(s) for s in t.shape), t.dtype))
        print_row(t, name, row)
        return
    rows = print_summary(t, name)
    for i, values in enumerate(rows[:4]):
        print(("row %d: " % i if len(t.shape) > 1 else "") + numbers(values))
    if n > 4:
        print("... %d rows; print one with --row N" % n)


BETWEEN = "between two forward passes"
PASSES = ("forward_batch", "forward_sampled", "model_forward")  # innermost first


def place(m):
    """The position in the forward pass: layer, block, stage or functions."""
    inner = [frame.name() or "?" for frame in frames()]
    passes = [name for name in PASSES if name in inner]
    if not passes:
        return BETWEEN + ", in %s" % inner[0]
    layer, stage, words = layer_at_hand(), stage_at_hand(), []
    if layer is not None and layer >= 0:
        words.append("layer %d of %d" % (layer, int(m["config"]["n_layers"])))
    for function, block in (("attention_block", "attention"), ("ffn_block", "feed-forward"), ("forward_logits", "logits")):
        if function in inner:
            words.append(block)
    if stage:
        return "%s: %s, %s" % (", ".join(words) or "before the layers", stage, STAGES[stage][1])
    else:
        within = inner[:inner.index(passes[0])]
        words.append("in " + " < ".join(within[:4] or inner[:1]))
    return ", ".join(words)


def print_rows(m, when):
    n = int(m["chunk"]["n"])
    tokens, positions, sequences = rows_at_hand(m)
    print("%d row%s %s, one token each" % (n, "" if n == 1 else "s", when))
    for i in range(min(n, 16)):
        print("  row %-3d sequence %d, position %-4d token %d%s" % (i, sequences[i], positions[i], tokens[i],
                                                                    spelling(tokens[i])))
    if n > 16:
        print("  ... to position %d" % positions[-1])


def print_where():
    m = model()
    where = place(m)
    print(where)
    if int(m["chunk"]["n"]):
        print_rows(m, "in the last pass" if where.startswith(BETWEEN) else "in this pass")
    cache = m["cache"]
    for s in range(int(m["options"]["n_sequences"])):
        print("cache: sequence %d holds %d of %d positions" % (s, int(cache["lengths"][s]),
                                                               int(m["options"]["context"])))


# ---- the commands ----


class Limpid(gdb.Command):
    """Inspect a forward pass of limpid; see limpid help."""

    def __init__(self):
        super().__init__("limpid", gdb.COMMAND_USER, prefix=True)

    def invoke(self, argument, from_tty):
        if argument:
            raise gdb.GdbError("no command limpid %s; limpid help lists the commands" % argument)
        print_help()


class Where(gdb.Command):
    """limpid where: the position in the forward pass: layer, stage, rows, tokens, cache."""

    def __init__(self):
        super().__init__("limpid where", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print_where()


class ShowTensor(gdb.Command):
    """limpid tensor NAME [--row N]: shape, type, statistics and first values of a tensor."""

    def __init__(self):
        super().__init__("limpid tensor", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        row = None
        if len(words) == 3 and words[1] == "--row" and words[2].isdigit():
            row = int(words[2])
        elif len(words) != 1:
            raise gdb.GdbError("limpid tensor NAME [--row N]; names: " + " ".join(names()))
        print_tensor(tensor(model(), words[0]), words[0], row)

    def complete(self, text, word):
        return [name for name in names() if name.startswith(text)]


def stage_condition(words):
    """The breakpoint condition for [STAGE] [LAYER]; empty: any stage."""
    if len(words) > 2 or (len(words) == 2 and not words[1].isdigit()):
        raise gdb.GdbError("limpid break STAGE [LAYER]: LAYER is a number")
    if words and words[0] not in STAGES:
        raise gdb.GdbError("no stage %s: %s" % (words[0], " ".join(STAGES)))
    parts = ["id == " + enumerator(words[0])] if words else []
    return " && ".join(parts + ["layer == %s" % words[1]] if len(words) == 2 else parts)


def stop_at(words, temporary):
    condition = stage_condition(words)
    try:
        gdb.lookup_global_symbol("observe").name
    except AttributeError:
        raise gdb.GdbError("no function observe with debug information: is this limpid, built with -g?")
    stop = gdb.Breakpoint("observe", internal=temporary, temporary=temporary)
    if temporary:
        stop.silent = True
    if condition:
        stop.condition = condition


class Break(gdb.Command):
    """limpid break STAGE [LAYER]: stop when a stage has been computed (STAGE: limpid help)."""

    def __init__(self):
        super().__init__("limpid break", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        if not words:
            raise gdb.GdbError("limpid break STAGE [LAYER]; stages: " + " ".join(STAGES))
        stop_at(words, False)

    def complete(self, text, word):
        return [name for name in STAGES if name.startswith(text)]


class Next(gdb.Command):
    """limpid next [STAGE [LAYER]]: continue to the next stage, or to the next STAGE."""

    def __init__(self):
        super().__init__("limpid next", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        next(frames())
        stop_at(gdb.string_to_argv(argument), True)
        gdb.execute("continue", to_string=True)
        if not gdb.selected_thread():
            print("the program has ended")
            return
        m = model()
        print(place(m))
        if stage_at_hand():
            print_summary(tensor(m, "stage"), "stage")

    def complete(self, text, word):
        return [name for name in STAGES if name.startswith(text)]


def print_words(words):
    print(textwrap.fill(" ".join(words), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def print_help():
    print("limpid where                    position in the forward pass, tokens, cache")
    print("limpid tensor NAME [--row N]    shape, type, statistics, first values")
    print("limpid break STAGE [LAYER]      stop when a stage has been computed")
    print("limpid next [STAGE [LAYER]]     continue to the next stage, or to the next STAGE")
    print("limpid next-token               continue until the next token has been taken")
    print("limpid logits [N]               the likeliest tokens with logit and probability")
    print("limpid heat NAME                the first rows of a tensor as strips of characters")
    print("limpid nan                      continue to the first stage that holds NaN or infinity")
    print("limpid save NAME FILE           write a tensor to a new safetensors file")
    print("names:")
    print_words(names())
    print("stages:")
    print_words(STAGES)


class Help(gdb.Command):
    """limpid help: the commands, the names of tensors, the stages."""

    def __init__(self):
        super().__init__("limpid help", gdb.COMMAND_SUPPORT)

    def invoke(self, argument, from_tty):
        print_help()


for command in (Limpid, Where, ShowTensor, Break, Next, Help):
    command()
limpid_commands.define()

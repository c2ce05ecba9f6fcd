# gdb commands for stepping through a forward pass:
#
#     make debug
#     gdb -x scripts/limpid-gdb.py --args ./run MODEL -i "Once upon a time" -t 0
#     (gdb) limpid break q_rotated 2
#     (gdb) run
#     (gdb) limpid where
#     (gdb) limpid tensor q --row 1
#
# `limpid help` lists the commands. gdb/limpid_program.py reads the program's data.
import os
import re
import sys
import textwrap

import gdb

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "gdb"))

import limpid_cache
import limpid_change
import limpid_commands
import limpid_printers
import limpid_reference
import limpid_text
from limpid_commands import Command, continue_to, in_range, number, takes_nothing, usage
from limpid_print import place, print_summary, print_tensor, print_where
from limpid_program import STAGES, enumerator, frames, model, names, stage_at_hand, tensor


class Limpid(gdb.Command):
    """Inspect a forward pass of limpid; see limpid help."""

    def __init__(self):
        super().__init__("limpid", gdb.COMMAND_USER, prefix=True)

    def invoke(self, argument, from_tty):
        if argument:
            raise gdb.GdbError("no command limpid %s; limpid help lists the commands" % argument)
        print_help()


class Where(Command):
    """limpid where: the position in the forward pass: layer, stage, rows, tokens, cache."""

    def __init__(self):
        super().__init__("where", gdb.COMMAND_STATUS)

    def perform(self, argument):
        takes_nothing(argument, self)
        print_where()


class ShowTensor(Command):
    """limpid tensor NAME [--row N]: shape, type, statistics and first values of a tensor."""

    def __init__(self):
        super().__init__("tensor", gdb.COMMAND_DATA)

    def perform(self, argument):
        words = gdb.string_to_argv(argument)
        row = None
        if len(words) == 3 and words[1] == "--row":
            row = number(words[2], self)
        elif len(words) != 1:
            raise gdb.GdbError("limpid tensor NAME [--row N]; names: " + " ".join(names()))
        print_tensor(tensor(model(), words[0]), words[0], row)

    def complete(self, text, word):
        return [name for name in names() if name.startswith(text)]


def stage_condition(words, command):
    """The breakpoint condition for [STAGE] [LAYER]; empty: any stage."""
    if len(words) > 2:
        raise usage(command)
    if words and words[0] not in STAGES:
        raise gdb.GdbError("no stage %s: %s" % (words[0], " ".join(STAGES)))
    inside = words and re.match("(q|k|v|att|ffn|layer)(_|$)", words[0])
    if len(words) == 2 and not inside:
        raise gdb.GdbError("%s is computed once for all layers: leave the layer out" % words[0])
    parts = ["id == " + enumerator(words[0])] if words else []
    return " && ".join(parts + ["layer == %d" % number(words[1], command)] if len(words) == 2 else parts)


def need_observe():
    try:
        gdb.lookup_global_symbol("observe").name
    except AttributeError:
        raise gdb.GdbError("no function observe with debug information: this wants a limpid that is not stripped, "
                           "of `make debug` or of `make install STRIP=`")


def layers_at_hand():
    """How many layers the model has; None: no model is open yet."""
    try:
        return int(model()["config"]["n_layers"])
    except (gdb.error, gdb.GdbError):
        return None


class Break(Command):
    """limpid break STAGE [LAYER]: stop when a stage has been computed (STAGE: limpid help)."""

    def __init__(self):
        super().__init__("break", gdb.COMMAND_BREAKPOINTS)

    def perform(self, argument):
        words = gdb.string_to_argv(argument)
        if not words:
            raise gdb.GdbError("limpid break STAGE [LAYER]; stages: " + " ".join(STAGES))
        condition = stage_condition(words, self)
        if len(words) == 2 and (layers := layers_at_hand()) is not None:
            in_range("layer", int(words[1]), layers)
        need_observe()
        stop = gdb.Breakpoint("observe")
        try:
            stop.condition = condition
        except gdb.error:
            stop.delete()
            raise

    def complete(self, text, word):
        return [name for name in STAGES if name.startswith(text)]


class Next(Command):
    """limpid next [STAGE [LAYER]]: continue to the next stage, or to the next STAGE."""

    def __init__(self):
        super().__init__("next", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        next(frames())
        words = gdb.string_to_argv(argument)
        condition = stage_condition(words, self)
        if len(words) == 2:
            in_range("layer", int(words[1]), int(model()["config"]["n_layers"]))
        need_observe()
        continue_to("observe", condition)
        if gdb.selected_thread():
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
    print("limpid next-layer               continue to the next layer")
    print("limpid next-token               continue until the next token has been taken")
    print("limpid rewind N                 take back the last N tokens of the text")
    print("limpid set-token POS ID         go back to a position of the text, and take another token there")
    print("limpid logits [N]               the likeliest tokens with logit and probability")
    print("limpid heat NAME                the first rows of a tensor as strips of characters")
    print("limpid set NAME[I, ...] = VALUE change numbers of the stage at hand")
    print("limpid attention L H [ROW]      what a head attends to")
    print("limpid kv L H [POS]             keys and values of a KV head in the cache")
    print("limpid diff FILE                compare the stage at hand with that of a trace")
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
for part in (limpid_commands, limpid_text, limpid_cache, limpid_change, limpid_reference, limpid_printers):
    part.define()

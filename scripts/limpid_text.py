# gdb commands for limpid-gdb.py that move along the text: next-layer, next-token. Between two tokens means:
# stopped at the beginning of decoder_next, where `limpid next-token` stops.
import gdb

from limpid_commands import Command, continue_to, takes_nothing
from limpid_print import place, print_summary
from limpid_program import PASSES, argument_of, frames, layer_at_hand, model, spelling, tensor


class NextLayer(Command):
    """limpid next-layer: continue to the first stage of the next layer; behind the last one to the final norm."""

    def __init__(self):
        super().__init__("next-layer", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        takes_nothing(argument, self)
        layer, inner = layer_at_hand(), [frame.name() for frame in frames()]
        if layer is None and any(name in inner for name in PASSES):
            raise gdb.GdbError("the layer is optimised out here: limpid next stops where it is known")
        outside = layer is None or layer < 0
        if continue_to("observe", "layer >= 0" if outside else "layer != %d" % layer):
            m = model()
            print(place(m))
            print_summary(tensor(m, "stage"), "stage")


def decoder_between_tokens():
    d = argument_of("decoder_next", "d") if gdb.newest_frame().name() == "decoder_next" else None
    if d is None:
        raise gdb.GdbError("only between two tokens: limpid next-token stops there")
    return d


def print_last_token(d):
    taken = int(d["taken"])
    if not taken:
        print("the prompt has been read; no token has been sampled yet")
        return
    last, position = int(d["last"]), int(d["start"]) + int(d["given"]) + taken - 1
    print("token %d of the text: %d%s, position %d" % (taken, last, spelling(last), position))


class NextToken(Command):
    """limpid next-token: continue until the next token has been taken, before the pass that feeds it."""

    def __init__(self):
        super().__init__("next-token", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        takes_nothing(argument, self)
        if continue_to("decoder_next"):
            print_last_token(decoder_between_tokens())


def define():
    """After the prefix `limpid` exists."""
    for command in (NextLayer, NextToken):
        command()

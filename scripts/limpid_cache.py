# gdb commands for limpid-gdb.py about what attention reads: kv.
import math

import gdb

from limpid_commands import Command, in_range, number, usage
from limpid_program import (PASSES, STAGES, cached_pairs, frames, layer_at_hand, model, rows_at_hand, spelling,
                            stage_at_hand, tokens_by_position)

MOST_LINES = 32


def layers_written():
    """How many layers have put their keys and values of the pass at hand into the cache; None: no pass runs."""
    inner, stage, layer = [frame.name() for frame in frames()], stage_at_hand(), layer_at_hand()
    if stage in ("final_norm", "logits_uncapped", "logits") or not any(name in inner for name in PASSES):
        return None
    if layer is None or layer < 0:
        return 0
    behind = stage is not None and list(STAGES).index(stage) >= list(STAGES).index("att_weights")
    return layer + behind


def written(m, layer):
    """How many positions of a layer hold what this text put there: the cache is longer as soon as a pass begins."""
    length, layers = int(m["cache"]["lengths"][0]), layers_written()
    if layers is None or layer < layers:
        return length
    return min([p for _, p, s in zip(*rows_at_hand(m)) if s == 0], default=length)


def magnitude(values):
    return math.sqrt(sum(v * v for v in values))


def print_numbers(what, values):
    print("%s, length %.6g" % (what, magnitude(values)))
    for i in range(0, len(values), 8):
        print("  " + " ".join("%12.6g" % v for v in values[i:i + 8]))


class Kv(Command):
    """limpid kv L H [POS]: the cached keys and values of KV head H in layer L: lengths; at POS all numbers."""

    def __init__(self):
        super().__init__("kv", gdb.COMMAND_DATA)

    def perform(self, argument):
        words = [number(word, self) for word in gdb.string_to_argv(argument)]
        if len(words) not in (2, 3):
            raise usage(self)
        m = model()
        layer = in_range("layer", words[0], int(m["config"]["n_layers"]))
        head = in_range("KV head", words[1], int(m["config"]["n_kv_heads"]))
        count = written(m, layer)
        if not count:
            raise gdb.GdbError("layer %d has no keys yet: limpid next att_heads %d" % (layer, layer))
        dtype = str(m["options"]["kv_type"]).replace("KV_", "")
        print("layer %d, KV head %d: %d of %d positions, %s" % (layer, head, count, int(m["options"]["context"]), dtype))
        if len(words) == 3:
            self.print_one(m, layer, head, in_range("position", words[2], count))
        else:
            self.print_all(m, layer, head, count)

    def print_one(self, m, layer, head, position):
        token = tokens_by_position(m).get(position)
        print("position %d" % position + ("" if token is None else ", token %d%s" % (token, spelling(token))))
        key, value = cached_pairs(m, layer, head, [position])[0]
        print_numbers("key", key)
        print_numbers("value", value)

    def print_all(self, m, layer, head, count):
        first, tokens = max(0, count - MOST_LINES), tokens_by_position(m)
        if first:
            print("... positions 0 .. %d; print one with limpid kv %d %d POS" % (first - 1, layer, head))
        for position, (key, value) in enumerate(cached_pairs(m, layer, head, range(first, count)), first):
            token = tokens.get(position)
            print("position %-4d key length %-10.6g value length %-10.6g%s" % (
                position, magnitude(key), magnitude(value), "" if token is None else " %d%s" % (token, spelling(token))))


def define():
    """After the prefix `limpid` exists."""
    Kv()

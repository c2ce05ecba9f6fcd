# gdb commands for limpid-gdb.py about what attention reads: kv, attention.
import math

import gdb

from limpid_commands import Command, in_range, number, usage
from limpid_program import (attended, cached_pairs, call, layer_at_hand, model, need_calls, rows_at_hand, spelling, stage_at_hand,
                            tensor, tokens_by_position, written)

MOST_LINES, BAR = 32, 20


def magnitude(values):
    return math.sqrt(sum(v * v for v in values))


def print_numbers(what, values):
    print("%s, length %.6g" % (what, magnitude(values)))
    for i in range(0, len(values), 8):
        print("  " + " ".join("%12.6g" % v for v in values[i:i + 8]))


def layer_and_head(command, argument, head, count_of):
    """The arguments L H [THIRD] of a command, checked: the model, the layer, the head and THIRD or None."""
    words = [number(word, command) for word in gdb.string_to_argv(argument)]
    if len(words) not in (2, 3):
        raise usage(command)
    m = model()
    layer = in_range("layer", words[0], int(m["config"]["n_layers"]))
    return m, layer, in_range(head, words[1], int(m["config"][count_of])), words[2] if len(words) == 3 else None


class Kv(Command):
    """limpid kv L H [POS]: the cached keys and values of KV head H in layer L: lengths; at POS all numbers."""

    def __init__(self):
        super().__init__("kv", gdb.COMMAND_DATA)

    def perform(self, argument):
        m, layer, head, position = layer_and_head(self, argument, "KV head", "n_kv_heads")
        need_calls()
        count = written(m, layer)
        if not count:
            raise gdb.GdbError("layer %d has no keys yet: limpid next att_heads %d" % (layer, layer))
        dtype = str(m["options"]["kv_type"]).replace("KV_", "")
        print("layer %d, KV head %d: %d of %d positions, %s" % (layer, head, count, int(m["options"]["context"]), dtype))
        held = int(call("int kv_cache_first(void*,int,int)", m["cache"].address, layer, 0))
        if position is None:
            self.print_all(m, layer, head, held, count)
        elif position < held:
            raise gdb.GdbError("position %d: this layer has a window, and keeps %d .. %d" % (position, held, count - 1))
        else:
            self.print_one(m, layer, head, in_range("position", position, count))

    def print_one(self, m, layer, head, position):
        token = tokens_by_position(m).get(position)
        print("position %d" % position + ("" if token is None else ", token %d%s" % (token, spelling(token))))
        key, value = cached_pairs(m, layer, head, [position])[0]
        print_numbers("key", key)
        print_numbers("value", value)

    def print_all(self, m, layer, head, held, count):
        first, tokens = max(held, count - MOST_LINES), tokens_by_position(m)
        if held:
            print("positions 0 .. %d: no more kept, the layer has a window" % (held - 1))
        if first > held:
            print("... positions %d .. %d; print one with limpid kv %d %d POS" % (held, first - 1, layer, head))
        for position, (key, value) in enumerate(cached_pairs(m, layer, head, range(first, count)), first):
            token = tokens.get(position)
            print("position %-4d key length %-10.6g value length %-10.6g%s" % (
                position, magnitude(key), magnitude(value), "" if token is None else " %d%s" % (token, spelling(token))))


# ---- attention ----


def part_shows(kind, a, p, t):
    """kernels/key_pattern.h, part_shows."""
    return {"PATTERN_WINDOW": abs(p - t) < a, "PATTERN_LOCAL": abs(p - t) <= a // 2,
            "PATTERN_STRIDED": t == p or t % a == 0, "PATTERN_GLOBAL": t < a or p < a or t == p,
            "PATTERN_BLOCK": abs(t // a - p // a) <= 1}[kind]


def visible_keys(m, layer, p):
    need_calls()
    pattern = gdb.parse_and_eval("model_pattern")(m.address, layer)
    parts = [(str(part["kind"]), int(part["a"])) for part in
             (pattern["parts"][i] for i in range(int(pattern["n_parts"])))]
    first = max(0, p - int(pattern["window"]) + 1) if int(pattern["window"]) else 0
    return [t for t in range(first, p + 1) if not parts or any(part_shows(kind, a, p, t) for kind, a in parts)]


def attention_weights(query, pairs, scale, cap):
    """The softmax over the keys, in double: within float32's rounding what the backend computes."""
    scores = [scale * sum(q * k for q, k in zip(query, key)) for key, _ in pairs]
    if cap:
        scores = [cap * math.tanh(score / cap) for score in scores]
    if not all(math.isfinite(score) for score in scores):
        raise gdb.GdbError("the scores hold NaN or infinity: limpid tensor q, limpid kv L H show where")
    largest = max(scores)
    shares = [math.exp(score - largest) for score in scores]
    return [share / sum(shares) for share in shares]


def print_weights(weights, keys, tokens):
    """The largest of them, in the order of the text."""
    listed = sorted(sorted(range(len(keys)), key=lambda i: -weights[i])[:MOST_LINES])
    for i in listed:
        token = tokens.get(keys[i])
        text = "" if token is None else " %d%s" % (token, spelling(token))
        print("  %8.6f  %-*s  position %-4d%s" % (weights[i], BAR, "#" * round(BAR * weights[i]), keys[i], text))
    if len(listed) < len(keys):
        rest = 1 - sum(weights[i] for i in listed)
        print("  %8.6f  the %d other keys together" % (max(rest, 0), len(keys) - len(listed)))


class Attention(Command):
    """limpid attention L H [ROW]: how much head H of layer L attends to each token, from a row (the last)."""

    def __init__(self):
        super().__init__("attention", gdb.COMMAND_DATA)

    def perform(self, argument):
        m, layer, head, row = layer_and_head(self, argument, "head", "n_heads")
        # The queries stay in scratch.q until the next layer's, and the keys are in the cache by then.
        if layer_at_hand() != layer or not attended(stage_at_hand()):
            raise gdb.GdbError("the queries of layer %d are not at hand: limpid next att_heads %d" % (layer, layer))
        rows = int(m["chunk"]["n"])
        self.show(m, layer, head, rows - 1 if row is None else in_range("row", row, rows))

    def show(self, m, layer, head, row):
        config, (tokens, positions, sequences) = m["config"], rows_at_hand(m)
        position, sequence, width = positions[row], sequences[row], int(config["head_dim"])
        kv_head = head // (int(config["n_heads"]) // int(config["n_kv_heads"]))
        keys = visible_keys(m, layer, position)
        pairs = cached_pairs(m, layer, kv_head, keys, sequence)
        query = tensor(m, "q").rows(row, 1)[0][head * width:(head + 1) * width]
        weights = attention_weights(query, pairs, float(config["layers"][layer]["attention_scale"]),
                                    float(config["score_softcap"]))
        print("layer %d, head %d with KV head %d: row %d, position %d, token %d%s sees %d key%s" % (
            layer, head, kv_head, row, position, tokens[row], spelling(tokens[row]), len(keys), "s"[:len(keys) != 1]))
        here = {p: t for t, p, s in zip(tokens, positions, sequences) if s == sequence}
        print_weights(weights, keys, {**(tokens_by_position(m) if sequence == 0 else {}), **here})


def define():
    """After the prefix `limpid` exists."""
    Kv()
    Attention()

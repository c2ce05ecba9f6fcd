#!/usr/bin/env python3
"""Estimates the time of one decoded token on an H100, from what check_sass.py read of the machine code.

    tests/sass/check_sass.py --json build/cuda-sass >now.json
    tests/sass/gpu_estimate.py [--kernels] [BEFORE.json] NOW.json

No GPU was asked: constants are those of data sheets and of published measurements, the rest is arithmetic, and
+-25 % is what may be expected of it. One row per model and type of weights, Markdown; --kernels: also each kernel of
a layer, in microseconds. A short context, one row of x, a16, five kernels a layer in a graph, each beginning before
the one before it has ended:

    gap       until the kernel's blocks have met the wait
    prologue  every block's own copy of x: the norm's factor, outliers, integers
    stream    the weights, through memory; what was asked for before the wait is in L2 by then
    tail      sums, heads, stores
"""
import json
import sys
from math import ceil, log

READ = 3.0e6        # bytes a microsecond that reading reaches, of 3.35e6
L2_READ = 5.5e6     # the same from L2
PROCESSORS, CLOCK, SCHEDULERS = 132, 1755, 4  # cycles a microsecond; schedulers of a processor
MISS, L2_HIT = 0.6, 0.17                      # microseconds of a load from memory, and from L2
GAP, NORM_FACTOR, BARRIER = 0.8, 0.45, 0.1
ROUND_LATENCY = 450 / CLOCK                   # of one round of quantising: its shuffles one after another
SPLIT, SPLIT_LATENCY = 64, 355 / CLOCK        # positions of a split; of joining one, each load alone
JOINED, ARRIVAL = 16, 0.9                     # splits that a block joins (attention_join.h); of a counter and a barrier
ROWS = WARPS = 8                              # rows of weights, warps: of a block

#            dim   hidden layers heads kv  head_dim vocab
SHAPES = {
    "0.6B": (1024, 3072, 28, 16, 8, 128, 151936),
    "1B": (2048, 8192, 16, 32, 8, 64, 128256),
    "3B": (3072, 8192, 28, 24, 8, 128, 128256),
}
DEPTHS = (1024, 4096, 16384)
BYTES = {"BF16": 2.0, "Q8_0": 34 / 32, "Q4_0": 18 / 32}


class Code:
    """What the machine code shows of the kernels that a token runs."""

    def __init__(self, kernels, quantised):
        form = "TWO_DIGITS,1" if quantised else "FLOAT_VECTOR,1"
        self.variants = [k for k in kernels if k["name"].startswith(f"project_few_kernel<{form}")]
        self.tells_host = any(k["to_host"] for k in kernels)  # else a copy in the stream brings each token
        self.attention = next(k for k in kernels if k["name"].startswith("attention_kernel<BF16,128"))

    def kernel(self, sparse):
        """The one for matrices with few rows, where there is such a one."""
        few = [k for k in self.variants if "SPARSE" in k["name"]]
        return few[0] if sparse and few else next(k for k in self.variants if k not in few)

    @staticmethod
    def loops(kernel, kind):
        return [loop for loop in kernel["loops"] if loop["kind"] == kind]

    def fences(self):
        return self.kernel(False)["fences"]

    def norm_is_asked_for(self):
        """Before the wait, with the weights of the first row."""
        return self.kernel(False)["prefetches"] > 1


def blocks_per_processor(kernel):
    return min(3, 65536 // (kernel["registers"] * 32 * WARPS))


def prologue(code, kernel, kind, cols, normed, resident):
    cold = MISS if normed and not code.norm_is_asked_for() else L2_HIT
    time = BARRIER + (NORM_FACTOR if normed else 0)
    if kind == "BF16":
        take = max(code.loops(kernel, "take"), key=lambda loop: loop["in_flight_bytes"])
        elements = take["in_flight_bytes"] / 8  # of x and of the norm's weights
        return time + ceil(cols / (32 * WARPS * elements)) * cold
    per_warp = cols / (32 * WARPS)  # groups of 32
    quantise = min(code.loops(kernel, "quantise"), key=lambda loop: loop["per_group"])
    groups = quantise["instructions"] / quantise["per_group"]  # in one round
    warps = resident * WARPS / SCHEDULERS
    # find_outliers: 21 instructions for 32 numbers in rounds as long as these; before it read four columns a lane, 30.
    outliers = ceil(per_warp / max(4, groups)) * cold + per_warp * (21 if groups > 4 else 30) * warps / CLOCK + 0.3
    rounds = ceil(per_warp / groups)
    return time + outliers + rounds * max(ROUND_LATENCY, quantise["instructions"] * warps / CLOCK)


def stream(code, kernel, kind, rows, cols, pair, resident):
    """Least time by bytes, by latency of a warp's rounds, by instructions: the longest of the three."""
    size = rows * pair * cols * BYTES[kind]
    loop = max(code.loops(kernel, kind), key=lambda loop: loop["in_flight"])
    blocks = ceil(rows / ROWS)
    slots = PROCESSORS * resident
    asked = min(rows, slots * ROWS) * min(cols * BYTES[kind], 4096) * (0.8 if kind == "BF16" else 0.7)
    asked = min(asked, size / 2)
    by_bytes = (size - asked) / READ / 0.93 + asked / L2_READ
    each = 16 * loop["in_flight"] * 32 / pair  # bytes that a warp has in flight, of one matrix
    rounds = ceil(cols * BYTES[kind] * 0.94 / each)
    waves = ceil(blocks / slots) if blocks <= 3 * slots else blocks / slots
    by_latency = waves * (rounds * (MISS + 0.15) + 0.15) - 0.45
    by_issue = 0.0
    if loop["per_group"]:
        by_issue = rows * pair * cols / 32 / 32 * loop["per_group"] / (PROCESSORS * SCHEDULERS * CLOCK)
    return max(by_bytes, by_latency, by_issue)


def project(code, kind, rows, cols, normed, pair=1, tail=0.3):
    sparse = ceil(rows / ROWS) <= PROCESSORS * 2 and pair == 1
    kernel = code.kernel(sparse)
    resident = min(blocks_per_processor(kernel), ceil(rows / ROWS / PROCESSORS))
    parts = (GAP, prologue(code, kernel, kind, cols, normed, resident),
             stream(code, kernel, kind, rows, cols, pair, resident), tail)
    return rows * pair * cols * BYTES[kind], parts


def attention(code, heads, kv_heads, position):
    """Over the keys up to `position`: what one split takes, and the join. Splits one after another; or, where they are
    loaded as float4s, JOINED of them by a block and the results again."""
    splits = position // SPLIT + 1
    joins = code.loops(code.attention, "join")
    if splits == 1 or not joins:
        return 2.6 + 0.3
    loop = min(joins, key=lambda loop: loop["in_flight"])
    if loop["in_flight_bytes"] >= 16 * loop["in_flight"]:
        levels = ceil(log(splits, JOINED) - 1e-9)
        return 2.6 + levels * (ARRIVAL + min(splits, JOINED) / loop["in_flight"] * SPLIT_LATENCY)
    fences = 1.3 if code.attention["fences"] else 0.3
    return 2.6 + fences + heads // kv_heads * splits * SPLIT_LATENCY / loop["in_flight"]


def token(code, kind, shape, position=SPLIT):
    """(bytes, microseconds, [(kernel, bytes, parts)] of a layer and the head)."""
    dim, hidden, layers, heads, kv_heads, head_dim, vocab = SHAPES[shape]
    q, kv = heads * head_dim, kv_heads * head_dim
    kernels = [("qkv", *project(code, kind, q + 2 * kv, dim, True, tail=1.6 if code.fences() else 0.9)),
               ("attention", 0, (GAP, 0, attention(code, heads, kv_heads, position), 0)),
               ("o", *project(code, kind, dim, q, False)),
               ("gate and up", *project(code, kind, hidden, dim, True, pair=2, tail=0.4)),
               ("down", *project(code, kind, dim, hidden, False))]
    head = ("head", *project(code, kind, vocab, dim, True))
    size = layers * sum(k[1] for k in kernels) + head[1]
    host = 5 if code.tells_host else 12  # embed, the choice of the token, and its copy
    return size, layers * sum(sum(k[2]) for k in kernels) + sum(head[2]) + host, kernels + [head]


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def print_kernels(kernels):
    print("\n| kernel | MB | ideal | gap | prologue | stream | tail | us |\n|---|---|---|---|---|---|---|---|")
    for name, size, parts in kernels:
        gap, before, through, tail = parts
        print(f"| {name} | {size / 1e6:.1f} | {size / READ:.1f} | {gap:.1f} | {before:.1f} | {through:.1f} "
              f"| {tail:.1f} | {sum(parts):.1f} |")
    print()


def print_attention(readings, names):
    print("\n| attention of one layer, us |" + "".join(f" {p} keys, {name} |" for name in names for p in DEPTHS))
    print("|---|" + "---|" * len(readings) * len(DEPTHS))
    for shape, (_, _, _, heads, kv_heads, _, _) in SHAPES.items():
        print(f"| {shape} |" + "".join(f" {attention(Code(r, False), heads, kv_heads, p - 1):.0f} |"
                                       for r in readings for p in DEPTHS))


def main(arguments):
    detailed = "--kernels" in arguments
    paths = [a for a in arguments if a != "--kernels"]
    if not 1 <= len(paths) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    readings = [load(path) for path in paths]
    names = ["before", "now"][-len(paths):]
    print("| model | MB a token | ideal us |" + "".join(f" {name}, us | of read bandwidth |" for name in names))
    print("|---|---|---|" + "---|---|" * len(paths))
    for shape in SHAPES:
        for kind in BYTES:
            tokens = [token(Code(kernels, kind != "BF16"), kind, shape) for kernels in readings]
            ideal = tokens[0][0] / READ
            print(f"| {shape} {kind} | {tokens[0][0] / 1e6:.0f} | {ideal:.0f} |" +
                  "".join(f" {us:.0f} | {100 * ideal / us:.0f} % |" for _, us, _ in tokens))
            if detailed:
                print_kernels(tokens[-1][2])
    print_attention(readings, names)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

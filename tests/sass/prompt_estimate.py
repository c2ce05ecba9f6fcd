#!/usr/bin/env python3
"""Estimates the time of a prompt on an H100, and the share of its matrix products in it, before and after prompts
were fused (GPU step C).

    tests/sass/prompt_estimate.py [--kernels | --code attention_tiles.cubin]

No GPU was asked: constants are those of gpu_estimate.py, of a data sheet, of one published measurement, or assumed; the
rest is arithmetic, and +-30 % is what may be expected of it. One row per model and precision, Markdown; --kernels:
the kernels of one layer instead, in microseconds; --code: what TILE_CODE has of the tiles of attention. A share is that
of cuBLASLt's products in the whole prompt; FLOP/s are those of the weights, each counted once, as a share of cuBLASLt's
rate with large matrices. Before is 4a9e1fb.
Launches and bytes are counted from these functions, in the order of a layer:

    launch_norm_parts     norm.cu                norm, and x as bf16 parts       before: run_norm, blas_split
    multiply_once         project_blas.cu        products with one part of x     before: multiply_slice
    multiply_stacked      project_blas.cu        both parts as 2 n rows, join    before: multiply_slice, per part
    next_slice            project_blas.cu        quantised weights as parts      the same before
    fuse_norm_and_rotate_qk                      heads, and the cache            the same before
    run_tiles_parts       attention_tiles.cu     attention, and its parts        before: run_tiles, blas_split
    launch_activate_parts activate.cu            activation, and its parts       before: run_activate, blas_split
    residual_of           fused_prompts.cu       the residual as C = D           before: run_add
    graph_of_pass         recording.cu           full pieces as graphs           before: one launch at a time
"""
import sys
from collections import deque
from dataclasses import dataclass
from math import ceil

from gpu_estimate import BYTES, CLOCK, GAP, L2_HIT, L2_READ, MISS, NORM_FACTOR, PROCESSORS, READ, SHAPES
from sass import disassemble, read_kernels

PEAK = 989e6            # FLOP a microsecond of bf16, dense, by the data sheet
# What cuBLASLt is taken to reach of it: cuBLAS's 741 TFLOP/s at 6,144 cubed, on an H100 SXM, as published with
# github.com/pranjalssh/fast.cu (798 at 8,192 cubed).
SHARE_OF_PEAK = 0.75
# What a block of cuBLASLt computes, and how much of that rate blocks of the size reach: the fastest is taken.
BLAS_TILES = ((128, 256, 1.0), (128, 128, 0.85), (64, 128, 0.6), (64, 64, 0.4))
BLAS_FILL = 1.5         # its first loads and last stores, microseconds
STREAM_GAP = GAP + 0.4  # of launches one at a time: assumed
LAUNCH, BLAS_CALL, GRAPH = 2.5, 4.0, 10.0  # of the host, microseconds, assumed: a kernel, a product, a graph
L2_KEEPS = 30e6         # bytes that the next kernel still finds in L2, of 50e6
BLOCK, HEAD_BLOCK = 0.5, 0.6  # of a block with one load and one store, of a head that is rotated; microseconds

PIECE = 512                              # rows of a pass (DEFAULT_MAX_ROWS)
UNPACKED, SUMS = 32 << 20, 16 << 20      # UNPACKED_BYTES, SUMS_BYTES
SLICE_ROWS, MAX_PROJECTIONS = 64, 3
QUERIES = KEYS = 64                      # of a tile of attention
# Of one tile and warp, read off the machine code of tiles_kernel for sm_90 (nvcc 13.0), by head_dim: instructions on
# the way that a causal layer takes (tile_instructions; before by hand in the same way); tensor instructions of these;
# and loads one after another, which nothing hides.
TILE_CODE = {
    "before": {64: (1756, 128, 2), 128: (2736, 256, 4)},
    "now": {64: (1307, 128, 0), 128: (1899, 256, 0)},
}
TENSOR_CYCLES = 6.5     # of one m16n8k16: mma.sync is assumed to reach 62 % of the rate of wgmma
ALONE = 2.0             # cycles an instruction of a warp that has a scheduler for itself, assumed

MODELS = (("BF16", "a8"), ("BF16", "a16"), ("Q8_0", "a8"), ("Q8_0", "a16"))
LENGTHS = (512, 2048)
NORMED_HEADS = ("0.6B",)  # a norm for each head of queries and keys


@dataclass
class Kernel:
    name: str
    us: float
    is_product: bool = False


@dataclass
class Model:
    shape: str
    dtype: str
    precision: str
    fused: bool  # as it is now

    def __post_init__(self):
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, self.head_dim, self.vocab = SHAPES[self.shape]
        self.x_parts = 2 if self.precision == "a16" else 1
        # parts_of: of BF16 one, of quantised weights as many as x has.
        self.w_parts = 1 if self.dtype == "BF16" else self.x_parts


# ---- single kernels ----

def product(m, n, k):
    """out (n, m) = x (n, k) w (m, k): by whole waves of blocks, no faster than w comes from memory."""
    times = [ceil(ceil(m / a) * ceil(n / b) / PROCESSORS) * 2 * a * b * k * PROCESSORS / (PEAK * SHARE_OF_PEAK * share)
             for tile in BLAS_TILES for a, b, share in (tile, (tile[1], tile[0], tile[2]))]
    return Kernel("products", BLAS_FILL + max(min(times), 2 * m * k / READ), True)


def sweep(name, size, blocks, each=BLOCK, resident=8):
    """A kernel that reads and writes `size` bytes, in blocks of 256 threads."""
    waves = blocks / (PROCESSORS * resident)
    return Kernel(name, max(size / (L2_READ if size <= L2_KEEPS else READ), waves * each, L2_HIT + 0.3))


def elementwise(name, count, each):
    return sweep(name, count * each, count / 256)


def split(model, n, cols):
    """x as bf16 parts, in a kernel of its own; eight elements a thread."""
    return sweep("split", n * cols * (4 + 2 * model.x_parts), n * cols / 8 / 256)


def unpack(model, rows, cols):
    """Quantised weights as bf16 parts: read from memory, written to L2; 32 elements a thread."""
    count = rows * cols
    us = max(count * BYTES[model.dtype] / READ, count * 2 * model.w_parts / L2_READ)
    return Kernel("unpack", us + MISS)


def norm(model, n):
    written = 2 * model.x_parts if model.fused else 4
    return Kernel("norm", NORM_FACTOR + 2 * L2_HIT + n * model.dim * (4 + written) / L2_READ)


def rotate(model, n):
    """A block for each head of each row, one chain of loads and barriers after another; 40 registers: 6 at a time."""
    heads = model.heads + 2 * model.kv_heads
    each = HEAD_BLOCK + (NORM_FACTOR if model.shape in NORMED_HEADS else 0)
    return sweep("heads", n * heads * model.head_dim * 8, n * heads, each, resident=6)


def tiles_of_blocks(model, n, start):
    """Tiles of keys that each block of one key-value head walks."""
    group = model.heads // model.kv_heads
    blocks = ceil(n * group / QUERIES)
    last_rows = [min(n, ceil((b + 1) * QUERIES / group)) - 1 for b in range(blocks)]
    return [(start + row) // KEYS + 1 for row in last_rows]


def attention(model, n, start):
    """The longest block alone, or all blocks by what a processor issues: a warp of a block has a scheduler."""
    instructions, tensor, loads = TILE_CODE["now" if model.fused else "before"][model.head_dim]
    tiles = tiles_of_blocks(model, n, start)
    alone = max(tiles) * (instructions * ALONE / CLOCK + loads * L2_HIT)
    shared = sum(tiles) * model.kv_heads / PROCESSORS * max(instructions, tensor * TENSOR_CYCLES) / CLOCK
    return Kernel("attention", max(alone, shared) + 2 * MISS)


# ---- the products of a call ----

def slice_rows(model, rows, cols, most):
    """next_slice: how many rows of a matrix there is room for."""
    rows = min(rows, most)
    if model.dtype == "BF16":
        return rows
    room = UNPACKED // (cols * 2 * model.w_parts)
    return rows if rows <= room else room // SLICE_ROWS * SLICE_ROWS


def multiply_plainly(model, matrices, n):
    """multiply_once; before also with two parts of x, one product for each pair of parts."""
    products = {(1, 1): 1, (1, 2): 2, (2, 2): 3}[model.w_parts, model.x_parts]
    kernels = []
    for rows, cols in matrices:
        first = 0
        while first < rows:
            size = slice_rows(model, rows - first, cols, rows)
            kernels += [unpack(model, size, cols)] if model.dtype != "BF16" else []
            kernels += [product(size, n, cols)] * products
            first += size
    return kernels


def join(model, columns, n, adds):
    return elementwise("join", columns * n, 16 if adds else 12)


def multiply_stacked(model, matrices, n, adds):
    """Sums of several slices wait for one join, as many as there is room for."""
    room_of_all = SUMS // 4 // (2 * PIECE) // SLICE_ROWS * SLICE_ROWS * PIECE // n
    kernels, waiting, count = [], 0, 0
    for rows, cols in matrices:
        first = 0
        while first < rows:
            room, wanted = room_of_all - waiting, rows - first
            if count and (room < wanted or count == MAX_PROJECTIONS):
                kernels.append(join(model, waiting, n, adds))
                waiting = count = 0
                continue
            size = slice_rows(model, wanted, cols, room if room >= wanted else room // SLICE_ROWS * SLICE_ROWS)
            kernels += [unpack(model, size, cols)] if model.dtype != "BF16" else []
            kernels += [product(size, 2 * n, cols)] + [product(size, n, cols)] * (model.w_parts - 1)
            waiting, count, first = waiting + size, count + 1, first + size
    return kernels + [join(model, waiting, n, adds)]


def project(model, matrices, n, adds=False):
    """A call of project, and the addition to the residual stream behind it."""
    if model.fused and model.x_parts == 2:
        return multiply_stacked(model, matrices, n, adds)
    kernels = multiply_plainly(model, matrices, n)
    if adds and not model.fused:
        kernels.append(elementwise("add", n * model.dim, 12))
    return kernels


# ---- a pass ----

def layer(model, n, start):
    """Kernels of one layer for n rows, behind `start` others."""
    dim, hidden, q, kv = model.dim, model.hidden, model.heads * model.head_dim, model.kv_heads * model.head_dim
    own_split = (lambda cols: []) if model.fused else (lambda cols: [split(model, n, cols)])
    activated = 8 + (2 * model.x_parts if model.fused else 4)  # bytes an element: gate, up; parts, or floats
    return [norm(model, n), *own_split(dim), *project(model, [(q, dim), (kv, dim), (kv, dim)], n),
            rotate(model, n), attention(model, n, start), *own_split(q), *project(model, [(dim, q)], n, True),
            norm(model, n), *own_split(dim), *project(model, [(hidden, dim)] * 2, n),
            elementwise("activate", n * hidden / (4 if model.fused else 1), activated * (4 if model.fused else 1)),
            *own_split(hidden), *project(model, [(dim, hidden)], n, True)]


def time_of_pass(model, n, start, is_last, in_graph):
    """(microseconds, of which products, launches of the host)."""
    kernels = layer(model, n, start) * model.layers
    others = [elementwise("embed", n * model.dim, 6)]
    if is_last:  # the norm and the head, of one row
        others += [Kernel("norm", 1.0), Kernel("head", model.vocab * model.dim * BYTES[model.dtype] / READ / 0.85 + 2)]
    kernels += others
    products = sum(k.us for k in kernels if k.is_product)
    work = sum(k.us for k in kernels) + len(kernels) * (GAP if in_graph else STREAM_GAP)
    host = GRAPH if in_graph else sum(BLAS_CALL if k.is_product else LAUNCH for k in kernels)
    return max(work, host), products, 1 if in_graph else len(kernels)


def prompt(model, length, replayed=True):
    """The sums of its passes. What is recorded: full pieces of a list that came before (graph_of_pass). Of the first
    prompt ever that is all but its first piece and its last, which alone has the head."""
    starts = range(0, length, PIECE)
    graphs = [model.fused and (replayed or 0 < s < length - PIECE) for s in starts]
    passes = [time_of_pass(model, PIECE, s, s + PIECE == length, g) for s, g in zip(starts, graphs)]
    return [sum(values) for values in zip(*passes)]


def least(model, length):
    """All weights of the layers by all rows, once, at the rate of large matrices: microseconds."""
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    weights = model.layers * model.dim * (2 * q + 2 * kv + 3 * model.hidden)
    return 2 * weights * length / (PEAK * SHARE_OF_PEAK)


# ---- machine code ----

def shortest(kernel, places):
    """Instructions on the shortest way through `places`, indices in this order, and back to the first."""
    after, total = kernel.successors(), 0
    for start, end in zip(places, places[1:] + places[:1]):
        far, todo = {}, deque([(start, 0)])
        while end not in far:
            at, steps = todo.popleft()
            for to in after[at]:
                if to not in far:
                    far[to] = steps + 1
                    todo.append((to, steps + 1))
        total += far[end]
    return total


def tile_instructions(kernel, head_dim):
    """Of the loop over tiles the shortest way past all that every tile needs: a layer without window, pattern or cap,
    and a tile that is seen whole. The loop that checks values for numbers that are not finite (check_values) is
    counted by its rounds, the loop that copies by a pattern not at all."""
    every = kernel.instructions
    needed = [i for i, x in enumerate(every) if x.name == "HMMA"]
    around = [s for s in kernel.spans() if s[0] <= needed[0] and needed[-1] <= s[1]]
    first, last = min(around, key=lambda s: s[1] - s[0])
    copies = kernel.loops(lambda x: x.name == "LDGSTS")
    is_alone = lambda i: not any(a <= i <= b for a, b in copies if (a, b) != (first, last) and b - a < last - first)
    places = [i for i in range(first, last + 1)
              if every[i].name in ("HMMA", "BAR") or every[i].name == "LDGSTS" and is_alone(i)]
    checks = kernel.loops(lambda x: x.op == "LDS.128")
    check = min((s for s in checks if first <= s[0] and s[1] <= last), key=lambda s: s[1] - s[0])
    loads = [i for i in range(check[0], check[1] + 1) if every[i].op == "LDS.128"]
    rounds = KEYS * head_dim // 8 // 128 // len(loads)
    return shortest(kernel, places) + rounds * shortest(kernel, loads)


def print_code(path):
    print("| kernel | instructions of a tile | of these tensor |\n|---|---|---|")
    for kernel in read_kernels(disassemble(path)):
        head_dim = int(kernel.name.rpartition("<")[2].rstrip(">"))
        if head_dim in TILE_CODE["now"]:  # heads of 256 keep no queries in registers
            tensor = sum(x.name == "HMMA" for x in kernel.instructions)
            print(f"| `{kernel.name}` | {tile_instructions(kernel, head_dim)} | {tensor} |")


# ---- tables ----

def print_prompts():
    columns = [f"{length}: {column}" for length in LENGTHS
               for column in ("before, us", "share", "now, us", "share", "FLOP/s")]
    print("| model | launches of a layer: before, now | " + " | ".join(columns) + " | 512, the first prompt, us |")
    print("|---|---|" + "---|" * (len(columns) + 1))
    for shape in SHAPES:
        for dtype, precision in MODELS:
            models = [Model(shape, dtype, precision, fused) for fused in (False, True)]
            cells = [f"{shape} {dtype} {precision}", ", ".join(str(len(layer(m, PIECE, 0))) for m in models)]
            for length in LENGTHS:
                for model in models:
                    us, products, _ = prompt(model, length)
                    cells += [f"{us:.0f}", f"{100 * products / us:.0f} %"]
                cells.append(f"{100 * least(models[1], length) / us:.0f} %")
            print("| " + " | ".join(cells) + f" | {prompt(models[1], PIECE, False)[0]:.0f} |")


def print_kernels():
    names = ("products", "unpack", "split", "join", "norm", "heads", "attention", "activate", "add")
    print("| one layer, 512 rows, us | | " + " | ".join(names) + " | gaps |\n|---|---|" + "---|" * (len(names) + 1))
    for shape in SHAPES:
        for dtype, precision in (MODELS[0], MODELS[-1]):
            for fused in (False, True):
                kernels = layer(Model(shape, dtype, precision, fused), PIECE, 0)
                sums = [sum(k.us for k in kernels if k.name == name) for name in names]
                sums.append(len(kernels) * (GAP if fused else STREAM_GAP))
                print(f"| {shape} {dtype} {precision} | {'now' if fused else 'before'} | " +
                      " | ".join(f"{us:.0f}" if us else "-" for us in sums) + " |")


def main(arguments):
    if arguments[:1] == ["--code"] and len(arguments) == 2:
        print_code(arguments[1])
    elif arguments == ["--kernels"]:
        print_kernels()
    elif arguments:
        print(__doc__, file=sys.stderr)
        return 2
    else:
        print_prompts()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

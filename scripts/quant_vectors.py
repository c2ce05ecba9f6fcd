#!/usr/bin/env python3
"""Hashes of dequantised and quantised blocks by the Python package gguf, for tests/weights/test_quant.c.

    python -m venv v && v/bin/pip install gguf numpy && v/bin/python scripts/quant_vectors.py

With two files, scripts/quant_vectors.py QUANTISED.gguf F32.gguf, where the second is what `run convert
QUANTISED.gguf F32.gguf --type f32` made of the first, it says whether the package reads the same
numbers from the blocks as limpid, bit for bit.

Inputs come from splitmix64 with seed 1, as tests/test.h has it: bytes of 64 blocks, halves kept
finite; numbers as sums of such bytes, so that both sides have the same float32.
"""
import sys

sys.dont_write_bytecode = True
from common import end_with, need_modules

need_modules("pip install gguf numpy", "gguf", "numpy")
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, GGUFReader, quants

BLOCKS = 64
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
          T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
MASK = (1 << 64) - 1


def splitmix(count):
    state, out = 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out.append(z ^ (z >> 31))
    return out


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def compare(quantised, plain):
    wanted = {t.name: t.data for t in GGUFReader(plain).tensors}
    same, differ = {}, []
    for tensor in GGUFReader(quantised).tensors:
        kind = tensor.tensor_type
        values = quants.dequantize(tensor.data, kind).astype("<f4")
        if tensor.name in wanted and values.tobytes() == wanted[tensor.name].tobytes():
            same[kind.name] = same.get(kind.name, 0) + 1
        else:
            differ.append(tensor.name)
    print("the same numbers:", ", ".join(f"{n} {name}" for name, n in sorted(same.items())))
    print(*[f"other numbers: {name}" for name in differ], sep="\n", end="\n" if differ else "")
    return bool(differ)


def main():
    if len(sys.argv) == 3:
        return compare(*sys.argv[1:])
    if len(sys.argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    for kind, halves in HALVES.items():
        _, size = GGML_QUANT_SIZES[kind]
        raw = np.array([v & 255 for v in splitmix(BLOCKS * size)], np.uint8).reshape(BLOCKS, size)
        for at in halves:
            raw[:, at + 1] = raw[:, at + 1] & 0xBF | 0x20  # exponent 8 .. 15 of 31: finite
        out = quants.dequantize(raw, kind).astype("<f4").ravel()
        print(f"dequantise {kind.name}: 0x{fnv(out.tobytes()):016x}")
    bits = splitmix(BLOCKS * 32)
    values = np.array([((v >> 40) - (1 << 23)) for v in bits], np.float64).astype(np.float32)
    values *= np.float32(2.0 ** -23)
    values[:32] = 0
    values = values.reshape(BLOCKS, 32)
    for kind in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16, T.F16):
        data = values.astype(np.float16) if kind == T.F16 else quants.quantize(values, kind)
        print(f"quantise {kind.name}: 0x{fnv(data.tobytes()):016x}")
    return 0


if __name__ == "__main__":
    end_with(main)

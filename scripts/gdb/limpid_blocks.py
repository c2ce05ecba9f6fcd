# Dequantises blocks of weights, bit for bit like weights/unpack.c and quant.c, where the layouts are
# drawn. Needs neither gdb nor numpy.
import struct


def f32(x):
    """Rounds to float32, as the program does after every product and sum."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def half(b, at):
    return struct.unpack_from("<e", b, at)[0]


def nibbles(b):
    return [x & 15 for x in b] + [x >> 4 for x in b]


def bits(b, width, pieces):
    """Bit fields of each len(b) / pieces bytes: first the lowest field of every byte, then the next ..."""
    size, out = len(b) // pieces, []
    for piece in range(pieces):
        for shift in range(0, 8, width):
            out += [x >> shift & (1 << width) - 1 for x in b[piece * size:(piece + 1) * size]]
    return out


def minima(b, d, dmin):
    """Eight 6-bit scales and minima in 12 bytes (Q4_K, Q5_K)."""
    s, m = [], []
    for g in range(8):
        scale = b[g] & 63 if g < 4 else b[g + 4] & 15 | b[g - 4] >> 6 << 4
        minimum = b[g + 4] & 63 if g < 4 else b[g + 4] >> 4 | b[g] >> 6 << 4
        s.append(f32(d * scale))
        m.append(-f32(dmin * minimum))
    return s, m


def q4_0(b):
    return [q - 8 for q in nibbles(b[2:])], [half(b, 0)], None


def q4_1(b):
    return nibbles(b[4:]), [half(b, 0)], [half(b, 2)]


def fifth(b, at):
    word = struct.unpack_from("<I", b, at)[0]
    return [q + 16 * (word >> i & 1) for i, q in enumerate(nibbles(b[at + 4:]))]


def q5_0(b):
    return [q - 16 for q in fifth(b, 2)], [half(b, 0)], None


def q5_1(b):
    return fifth(b, 4), [half(b, 0)], [half(b, 2)]


def q8_0(b):
    return struct.unpack("<32b", b[2:]), [half(b, 0)], None


def q2_k(b):
    d, dmin = half(b, 80), half(b, 82)
    return bits(b[16:80], 2, 2), [f32(d * (x & 15)) for x in b[:16]], [-f32(dmin * (x >> 4)) for x in b[:16]]


def q3_k(b):
    third, low, top = bits(b[:32], 1, 1), bits(b[32:96], 2, 2), bits(b[104:108], 2, 1)
    scales = [x | t << 4 for x, t in zip(nibbles(b[96:104]), top)]
    return [x + 4 * t - 4 for x, t in zip(low, third)], [f32(half(b, 108) * (s - 32)) for s in scales], None


def q4_k(b):
    s, m = minima(b[4:16], half(b, 0), half(b, 2))
    return bits(b[16:], 4, 4), s, m


def q5_k(b):
    s, m = minima(b[4:16], half(b, 0), half(b, 2))
    return [x + 16 * h for x, h in zip(bits(b[48:], 4, 4), bits(b[16:48], 1, 1))], s, m


def q6_k(b):
    scales = struct.unpack_from("<16b", b, 192)
    q = [x + 16 * h - 32 for x, h in zip(bits(b[:128], 4, 2), bits(b[128:192], 2, 2))]
    return q, [f32(half(b, 208) * s) for s in scales], None


# Elements and bytes of a block, and the function that unpacks it: (q, scales, minima), element = q s + m.
BLOCKS = {"Q4_0": (32, 18, q4_0), "Q4_1": (32, 20, q4_1), "Q5_0": (32, 22, q5_0), "Q5_1": (32, 24, q5_1),
          "Q8_0": (32, 34, q8_0), "Q2_K": (256, 84, q2_k), "Q3_K": (256, 110, q3_k), "Q4_K": (256, 144, q4_k),
          "Q5_K": (256, 176, q5_k), "Q6_K": (256, 210, q6_k)}


def block_values(b, unpack):
    q, s, m = unpack(b)
    group = len(q) // len(s)
    products = (f32(x * s[i // group]) for i, x in enumerate(q))
    return [f32(x + m[i // group]) for i, x in enumerate(products)] if m else list(products)

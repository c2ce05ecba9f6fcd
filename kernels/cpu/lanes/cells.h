// Reading a cell of a panel (layout: panels.h): its elements as bytes or int16 words, its scales as
// floats.
// `dtype` is a constant wherever these are used, so that each type becomes its own loop.
#pragma once

#include "kernels/cpu/project_kernels.h"
#include "kernels/cpu/simd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// A kernel that is compiled once for each type and block size, which are constants in it. In plain
// C there is one for all of them: a switch costs little beside sixteen lanes in a loop. So it is
// under clang's AddressSanitizer, which takes minutes to compile what is unrolled for every type.
#if defined(__has_feature)
#define CLANG_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define CLANG_ADDRESS_SANITIZER 0
#endif
#if defined(ISA_portable) || CLANG_ADDRESS_SANITIZER
#define SPECIALISED static __attribute__((noinline))
#else
#define SPECIALISED ALWAYS_INLINE
#endif

// f(type, ...) with the quantised type as a constant; float types are project_float's.
#define TYPE_CASE(type, f, ...)                                                                    \
    case type:                                                                                     \
        f(type, __VA_ARGS__);                                                                      \
        break
#define WITH_CONSTANT_TYPE(dtype, f, ...)                                                          \
    switch (dtype) {                                                                               \
        TYPE_CASE(DTYPE_Q4_0, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q4_1, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q5_0, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q5_1, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q8_0, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q8_GROUP, f, __VA_ARGS__);                                                 \
        TYPE_CASE(DTYPE_Q2_K, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q3_K, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q4_K, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q5_K, f, __VA_ARGS__);                                                     \
        TYPE_CASE(DTYPE_Q6_K, f, __VA_ARGS__);                                                     \
    default: break;                                                                                \
    }

// Prefetch distances in bytes. One or two rows of inputs take a line as fast as memory gives it;
// whether that needs prefetches is the processor's matter (isa_prefetch). On Intel's the L1 cache
// has too few misses open: from afar to the L2 cache, from there to the L1 cache. GB/s of one row
// on a Xeon with AMX, one thread (a plain read of memory: 16), matrices of 200 and 400 MB, and
// three smaller ones:
//
//                    Q8_0 a16   Q4_0 a16   a8     Q4_K a8    Q4_0 a16 of 28 MB   7   1
//     none                11         10                                    18  26  34
//     L1, 4 KB            13         10     10         10                  25  27  40
//     both, L1 2 KB       14         14     14         13                  26  27  37
//
// A column of floats is two lines (F16) or four, asked for together, and there it is best to stay
// within a page: GB/s of matrices of 600 and 1200 MB with one and two rows (a plain read of memory:
// 16; one with prefetches: 20):
//
//                            F16           F32
//     none                              15    14
//     L1, 4 KB             14    13
//     L1, 2 KB             16    15
//     L1, 1 KB             15    15
//     both, 2 and 16 KB    15    15     15    15
//     both, 1 and 3.5 KB   17    17     17    17
//
// On Zen 5 one row of F16 takes 38 GB/s without, 41 with prefetches to the L1 cache, of 41. On Zen
// 4 prefetches take the place of loads: GB/s of one row with AVX-512, one thread, with and without,
// out of memory and out of the L3 cache:
//
//                       Q8_0 a16     a8     Q4_1 a16     a8     Q5_0 a16     a8      F16
//     memory   with        28        24        31        31        23        25       32
//              without     33        32        32        33        27        30       34
//     L3       with        67        76        44        60                           65
//              without     80        87        44        62                           91
//
// With more rows arithmetic takes as long as memory, and the few misses that an L1 cache has open
// do not cover its latency: to the L2 cache from afar, and from there to the L1 cache. GB/s of Q8_0
// out of memory at a8 on Zen 4, one thread (a plain read: 24; out of the cache eight rows take 21,
// and without any prefetch out of memory 10) and two:
//
//                    one thread: 4 rows    8    16     two: 4     8    16
//     L1, 4 KB                        22    13     9         35    26    17
//     L2, 16 KB                       22    21    11
//     both, L1 2 KB                   26    21    11         33    34    21
//
// Prefetches past the last panel are wasted.
enum {
    ROW_AHEAD = 4096,
    L1_AHEAD = 2048,
    L2_AHEAD = 16384,
    FLOAT_L1_AHEAD = 1024,
    FLOAT_L2_AHEAD = 3584,
};

// Every cache line of bytes [p, p + bytes).
ALWAYS_INLINE void prefetch_l1(const uint8_t *p, size_t bytes) {
    UNROLL(16)
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(p + at, 0, 3);
}

ALWAYS_INLINE void prefetch_l2(const uint8_t *p, size_t bytes) {
    UNROLL(16)
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(p + at, 0, 2);
}

// Field f of every byte of a plane of `bits` bits, moved to start at bit `to`.
// x86 shifts 16-bit words but no single bytes. Bits of the upper byte that come into the lower one
// are masked off with the rest.
ALWAYS_INLINE I16x32 plane_field(const uint8_t *plane, int bits, int f, int to) {
    int per_byte = 8 / bits, at = f % per_byte * bits, mask = ((1 << bits) - 1) << to;
    I16x32 words = i16_load(plane + 64 * (f / per_byte));
    if (bits == 8) return words;
    if (at > to) words = i16_shift_right(words, at - to);
    if (at < to) words = i16_shift_left(words, to - at);
    return i16_and(words, i16_set((int16_t)(mask << 8 | mask)));
}

// Byte vector f: four columns of the cell's 16 rows, uncentred.
ALWAYS_INLINE I16x32 cell_bytes(DType dtype, const uint8_t *planes, int f) {
    const PanelFormat format = panel_format(dtype);
    const int low_bits = format.low_bits, high_bits = format.high_bits;
    // Both planes have their fields in the same order: low bits below high bits.
    I16x32 elements = plane_field(planes, low_bits, f, 0);
    if (!high_bits) return elements;
    return i16_or(elements, plane_field(planes + 64 * low_bits, high_bits, f, low_bits));
}

// Word vectors j and j + 2, j = word_of(f): columns 2j, 2j + 1 and 2j + 4, 2j + 5 of the cell's 16
// rows, uncentred.
typedef struct WordPair {
    I16x32 low, high;
} WordPair;

ALWAYS_INLINE int word_of(int f) {
    return f / 2 * 4 + f % 2;
}

ALWAYS_INLINE WordPair cell_words(DType dtype, const uint8_t *planes, int f) {
    //    bytes of a row, field f:   0    1     2     3       c = 8 (f / 2) + 2 (f % 2)
    //    columns:                   c    c+4   c+1   c+5     lower halves c, c+1; upper c+4, c+5
    I16x32 bytes = cell_bytes(dtype, planes, f);
    return (WordPair){i16_and(bytes, i16_set(0xff)), i16_shift_right(bytes, 8)};
}

// Byte vectors of a group of which byte sums hold the products; 0: of none.
ALWAYS_INLINE int byte_run(const DType dtype) {
    const PanelFormat format = panel_format(dtype);
    const int per_group = 8 / format.groups,
              run = byte_sums_run(format.low_bits + format.high_bits);
    return run < per_group ? run : per_group;
}

// Whether this type is multiplied with a block's inputs as bytes.
ALWAYS_INLINE bool takes_bytes(const DType dtype, const InputBlock *x) {
    return x->quads && byte_run(dtype);
}

// Where an element is (panels.h): the byte vector of its panel, and which of a row's four bytes.
ALWAYS_INLINE size_t byte_vector_of(size_t column) {
    return column / 8 * 2 + column % 4 / 2;
}
ALWAYS_INLINE int byte_of(size_t column) {
    return (int)(column % 2 * 2 + column % 8 / 4);
}

// One superblock of a panel, up to 8 cells.
typedef struct Superblock {
    const uint8_t *bytes;
    size_t n_cells;
    F32x16 d, dmin; // K-quants
} Superblock;

// `n_cells` are left in the panel.
ALWAYS_INLINE Superblock superblock_open(DType dtype, const uint8_t *bytes, size_t n_cells) {
    const uint16_t *halves = (const uint16_t *)bytes; // superblocks and their parts are aligned
    Superblock superblock = {.bytes = bytes,
                             .n_cells = n_cells < SUPERBLOCK_CELLS ? n_cells : SUPERBLOCK_CELLS};
    // Sixteen halves, one for each row, d and then dmin.
    bool has_d = panel_format(dtype).header_bytes, has_dmin = has_d && panel_format(dtype).affine;
    superblock.d = has_d ? f32_from_half(halves) : f32_zero();
    superblock.dmin = has_dmin ? f32_from_half(halves + 16) : f32_zero();
    return superblock;
}

// What a cell prefetches: its share of what lies ahead, an eighth of a superblock, header and
// scales included, so no line is left out. `prefetch` is a constant.
typedef struct Ahead {
    Prefetch prefetch;
    size_t far; // bytes, to the L2 cache
    const uint8_t *share;
    size_t lines; // of it
} Ahead;

ALWAYS_INLINE Ahead cell_ahead(const DType dtype, const Superblock *superblock, size_t c,
                               const Prefetch prefetch, size_t far) {
    const PanelFormat format = panel_format(dtype);
    const size_t bytes = superblock_bytes(&format, SUPERBLOCK_CELLS) / SUPERBLOCK_CELLS;
    return (Ahead){prefetch, far, superblock->bytes + c * bytes, (bytes + 63) / 64};
}

// Part f, of eight, of the cell's share, before byte vector f is loaded. A whole cell's prefetches
// in one place take all the misses that an L1 cache can have open, and the loads behind them wait.
// One thread of a Xeon with AMX, out of memory, Gop/s of a16 with one and four rows of inputs:
//
//                        Q8_0       Q4_0       Q4_K       Q6_K
//     a cell at once    27   96    50  152    47  150    33  104
//     a line at a time  30  106    57  162    58  162    38  118
ALWAYS_INLINE void prefetch_step(const Ahead *ahead, const int f) {
    if (ahead->prefetch == PREFETCH_NONE) return;
    const size_t first = (size_t)f * ahead->lines / 8, end = (size_t)(f + 1) * ahead->lines / 8;
    UNROLL(2)
    for (size_t line = first; line < end; line++) {
        const uint8_t *p = ahead->share + 64 * line;
        prefetch_l1(p + (ahead->prefetch == PREFETCH_L1 ? ROW_AHEAD : L1_AHEAD), 64);
        if (ahead->prefetch == PREFETCH_L1_AND_L2) prefetch_l2(p + ahead->far, 64);
    }
    __asm__ volatile("" ::: "memory"); // or the compiler moves the prefetches of a cell together
}

// s and m of each scale group of a cell; precision.h says what they are in each type.
typedef struct CellScales {
    F32x16 s[2], m[2];
} CellScales;

ALWAYS_INLINE F32x16 f32_from_u8(const uint8_t *p) {
    return f32_from_i32(i32_from_u8(p));
}

// Those that begin at `scales`.
ALWAYS_INLINE CellScales cell_scales_from(DType dtype, const Superblock *superblock,
                                          const uint8_t *scales) {
    const F32x16 d = superblock->d, minus = f32_mul(f32_set(-1.0f), superblock->dmin); // exact
    CellScales out;
    const uint16_t *halves = (const uint16_t *)scales;
    out.s[0] = out.s[1] = out.m[0] = out.m[1] = f32_zero();
    switch (dtype) {
    case DTYPE_Q8_GROUP: out.s[0] = f32_load((const float *)scales); break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        out.s[0] = f32_mul(d, f32_from_u8(scales));
        out.m[0] = f32_mul(minus, f32_from_u8(scales + 16));
        break;
    case DTYPE_Q3_K:
    case DTYPE_Q6_K:
        for (int g = 0; g < 2; g++)
            out.s[g] = f32_mul(d, f32_from_i32(i32_from_i8(scales + 16 * g)));
        break;
    // sc in the lower four bits of a byte, sm in the upper four.
    case DTYPE_Q2_K:
        for (int g = 0; g < 2; g++) {
            I32x16 both = i32_from_u8(scales + 16 * g), sm = i32_shift_right(both, 4);
            I32x16 sc = i32_sub(both, i32_shift_left(sm, 4));
            out.s[g] = f32_mul(d, f32_from_i32(sc));
            out.m[g] = f32_mul(minus, f32_from_i32(sm));
        }
        break;
    default:
        out.s[0] = f32_from_half(halves);
        if (dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1) out.m[0] = f32_from_half(halves + 16);
    }
    return out;
}

ALWAYS_INLINE CellScales cell_scales(DType dtype, const Superblock *superblock, size_t cell) {
    const PanelFormat format = panel_format(dtype);
    return cell_scales_from(dtype, superblock, superblock->bytes + cell_scales_at(&format, cell));
}

// Of each scale group 16 floats s and, in affine types, 16 floats m. Returns where the next cell's
// go.
ALWAYS_INLINE float *store_scales(const DType dtype, float *to, CellScales w) {
    const PanelFormat format = panel_format(dtype);
    UNROLL(2)
    for (int g = 0; g < format.groups; g++, to += 16) {
        f32_store(to, w.s[g]);
        if (format.affine) f32_store(to += 16, w.m[g]);
    }
    return to;
}

// Quantised panels times quantised inputs: integers inside a scale group, then one fused
// multiply-add per group, in order (precision.h).
//
// One row reads the panel as it is packed. Elements of less than 8 bits: a load, a shift and a mask
// give 64 of them as bytes, 16 rows x 4 columns, which are multiplied with both signed bytes of
// z = 256 h + l apart: half of the instructions that 16-bit words take. Q8 is widened to words.
//
// In a8 an input is one signed byte, z = l, and one digit does. Outliers come last, one column of a
// cell for each. More rows: project_tile.c.
//
// Both compute the same integers and the same roundings, so a row has the same bits either
// way.
//
// Measured on Zen 4 (EPYC Genoa, 2 virtual processors, not idle), one thread. One row in the cache,
// GB/s of stored weights (memory gives 31), before outliers, which take 3 to 4 % of it:
//
//                 Q2_K  Q3_K  Q4_0  Q4_1  Q4_K  Q5_0  Q6_K  Q8_0
//     AVX2        12.0  15.0  32.0  34.5  29.5  23.0  26.0  52.0
//     AVX-512     18.0  20.5  41.1  45.3  39.6  35.7  37.2  61.0
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// ---- one row, straight from the packed panel ----

// Prefetch distance in bytes. Hardware prefetchers are not enough everywhere: a Sapphire Rapids
// core decodes Q8_0 at 10 GB/s without this and at 14 with it, of 16 that memory gives; 2 to 8 KB
// do the same. The prefetches past the last panel are wasted.
enum { PREFETCH_AHEAD = 4096 };

ALWAYS_INLINE void prefetch_planes(const PanelFormat *format, const uint8_t *planes) {
    UNROLL(8)
    for (int line = 0; line < format->low_bits + format->high_bits; line++)
        __builtin_prefetch(planes + PREFETCH_AHEAD + 64 * line);
}

// isum[g] of a cell of bytes: words times words.
ALWAYS_INLINE void dot_words(I32x16 *isum, const uint8_t *planes, const int groups,
                             const int32_t *pairs) {
    I32x16 sums[4]; // several, so that the additions do not wait for each other
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        sums[i] = i32_zero();
    UNROLL(16)
    for (int j = 0; j < 16; j++) {
        // Columns 0 .. 15 go to sums 0 and 1, columns 16 .. 31 to sums 2 and 3: the two scale
        // groups.
        const int i = j / 8 * 2 + j % 2;
        sums[i] = i32_dot(sums[i], i16_from_i8(planes + 32 * j), i16_pair(pairs + j));
    }
    isum[0] = i32_add(sums[0], sums[1]);
    isum[1] = i32_add(sums[2], sums[3]);
    if (groups == 1) isum[0] = i32_add(isum[0], isum[1]);
}

// isum[g] of a cell of smaller elements: bytes times each digit of the activations.
// The products with h and with l are summed apart, each in as many vectors as byte sums hold, and
// then joined: 256 high + low. A run never crosses from one scale group into the next.
ALWAYS_INLINE void dot_digits(I32x16 *isum, const DType dtype, const uint8_t *planes,
                              const int groups, const int32_t *digits) {
    const int per_group = 8 / groups, run = byte_run(dtype);
    UNROLL(4)
    for (int first = 0; first < 8; first += run) {
        ByteSums high = i32_zero(), low = i32_zero();
        UNROLL(8)
        for (int f = first; f < first + run; f++) {
            // Four words for two byte vectors: h, h, l, l (lanes/inputs.c).
            const int32_t *at = digits + f / 2 * 4 + f % 2;
            I16x32 elements = cell_bytes(dtype, planes, f);
            high = byte_sums_add(high, elements, i16_pair(at));
            low = byte_sums_add(low, elements, i16_pair(at + 2));
        }
        I32x16 sum = byte_sums_join(high, low), *to = isum + first / per_group;
        *to = first % per_group ? i32_add(*to, sum) : sum;
    }
}

// isum[g] of a cell of smaller elements times bytes.
ALWAYS_INLINE void dot_quads(I32x16 *isum, const DType dtype, const uint8_t *planes,
                             const int groups, const int32_t *quads) {
    const int per_group = 8 / groups, run = byte_run(dtype);
    UNROLL(4)
    for (int first = 0; first < 8; first += run) {
        ByteSums sums = byte_sums_zero();
        UNROLL(8)
        for (int f = first; f < first + run; f++)
            sums = byte_sums_add(sums, cell_bytes(dtype, planes, f), i16_pair(quads + f));
        I32x16 sum = byte_sums_i32(sums), *to = isum + first / per_group;
        *to = first % per_group ? i32_add(*to, sum) : sum;
    }
}

SPECIALISED F32x16 dot_panel(const DType dtype, const bool bytes, const uint8_t *panel,
                             size_t n_cells, const InputBlock *x) {
    const PanelFormat format = panel_format(dtype);
    const int groups = format.groups;
    const float *scales = x->scales;
    F32x16 acc = f32_zero();
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        Superblock superblock = superblock_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < superblock.n_cells; c++, scales += 4) {
            const uint8_t *planes = superblock.bytes + cell_planes_at(&format, c);
            const int32_t *sums = x->sums + 3 * (cell + c);
            I32x16 isum[2];
            prefetch_planes(&format, planes);
            if (format.low_bits == 8)
                dot_words(isum, planes, groups, x->pairs + 16 * (cell + c));
            else if (bytes)
                dot_quads(isum, dtype, planes, groups, x->quads + 8 * (cell + c));
            else
                dot_digits(isum, dtype, planes, groups, x->digits + 16 * (cell + c));
            CellScales w = cell_scales(dtype, &superblock, c);
            F32x16 d = f32_set(scales[0]);
            UNROLL(2)
            for (int g = 0; g < groups; g++) {
                // sum (q - centre) z = sum q z - centre * sum z: one subtraction for a group
                // instead of one for each vector of elements, and the integer is the same.
                int32_t sum_z = sums[groups == 1 ? 0 : 1 + g];
                if (format.centre) isum[g] = i32_sub(isum[g], i32_set(format.centre * sum_z));
                acc = f32_fma(f32_from_i32(isum[g]), f32_mul(w.s[g], d), acc);
                // scales[1 ..] are d * sum z of the cell and of its halves.
                const int sum = groups == 1 ? 1 : 2 + g;
                if (format.affine) acc = f32_fma(w.m[g], f32_set(scales[sum]), acc);
            }
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
    return acc;
}

// Field f of a plane (panels.h), of one of the four bytes of each row.
ALWAYS_INLINE I32x16 plane_element(const uint8_t *plane, int bits, int f, int byte) {
    const int per_byte = 8 / bits;
    I32x16 bytes = i32_load((const int32_t *)(const void *)(plane + 64 * (f / per_byte)));
    return i32_bits(bytes, 8 * byte + f % per_byte * bits, bits);
}

// One column of a cell: its elements of 16 rows, centred.
ALWAYS_INLINE I32x16 cell_column(const DType dtype, const uint8_t *planes, int column) {
    const PanelFormat format = panel_format(dtype);
    const int low = format.low_bits, high = format.high_bits;
    if (low == 8) {
        I16x32 two = i16_from_i8(planes + column / 2 * 32);
        return column % 2 ? i16_odd(two) : i16_even(two);
    }
    // panels.h, read backwards: which field, and which of a row's four bytes, holds this column.
    const int f = column / 8 * 2 + column % 4 / 2, byte = column % 2 * 2 + column % 8 / 4;
    I32x16 q = plane_element(planes, low, f, byte);
    if (high) q = i32_add(q, i32_shift_left(plane_element(planes + 64 * low, high, f, byte), low));
    return format.centre ? i32_sub(q, i32_set(format.centre)) : q;
}

// acc + what the outliers of one row of inputs come to (precision.h).
ALWAYS_INLINE F32x16 add_outliers(F32x16 acc, const DType dtype, const uint8_t *panel,
                                  size_t n_cells, const Outlier *outliers) {
    const PanelFormat format = panel_format(dtype);
    UNROLL(2)
    for (int o = 0; o < OUTLIERS; o++) {
        // All superblocks before this one are whole, so its address is a multiple of one size. An
        // empty slot has x = 0 and adds 0 times column 0.
        size_t cell = outliers[o].column / CELL_COLS, c = cell % SUPERBLOCK_CELLS, first = cell - c;
        int column = (int)(outliers[o].column % CELL_COLS),
            g = format.groups == 1 ? 0 : column / 16;
        const uint8_t *bytes =
            panel + first / SUPERBLOCK_CELLS * superblock_bytes(&format, SUPERBLOCK_CELLS);
        Superblock superblock = superblock_open(dtype, bytes, n_cells - first);
        CellScales w = cell_scales(dtype, &superblock, c);
        I32x16 q = cell_column(dtype, bytes + cell_planes_at(&format, c), column);
        F32x16 weights = f32_fma(f32_from_i32(q), g ? w.s[1] : w.s[0], g ? w.m[1] : w.m[0]);
        acc = f32_fma(weights, f32_set(outliers[o].x), acc);
    }
    return acc;
}

// ---- float32 inputs: the panel becomes floats ----

// (cols, 16) floats: word vector j has columns 2j and 2j + 1 of sixteen rows, the even words one
// column, the odd words the other.
SPECIALISED void widen_panel(const DType dtype, float *to, const uint8_t *panel, size_t n_cells) {
    const PanelFormat format = panel_format(dtype);
    const I16x32 centre = i16_set(format.centre);
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        Superblock superblock = superblock_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < superblock.n_cells; c++) {
            const uint8_t *planes = superblock.bytes + cell_planes_at(&format, c);
            CellScales w = cell_scales(dtype, &superblock, c);
            UNROLL(16)
            for (int j = 0; j < 16; j++, to += 32) {
                const int g = format.groups == 1 ? 0 : j / 8;
                I16x32 q = i16_sub(cell_words(dtype, planes, j), centre);
                F32x16 even = f32_mul(f32_from_i32(i16_even(q)), w.s[g]);
                F32x16 odd = f32_mul(f32_from_i32(i16_odd(q)), w.s[g]);
                f32_store(to, format.affine ? f32_add(even, w.m[g]) : even);
                f32_store(to + 16, format.affine ? f32_add(odd, w.m[g]) : odd);
            }
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
}

// ---- all of it for one type ----

SPECIALISED void project_type(const DType dtype, const PanelWork *work) {
    size_t n_cells = work->matrix->cols / CELL_COLS;
    // f32: widened once, then all blocks. One row: straight from the packed panel, which is read
    // once and not written. More rows: unpacked once, then all blocks.
    bool single = work->n_blocks == 1 && work->blocks->n == 1;
    bool bytes = takes_bytes(dtype, work->blocks);
    for (size_t p = work->first_panel; p < work->end_panel; p++) {
        const uint8_t *panel = work->matrix->panels + p * work->matrix->panel_bytes;
        if (work->as_floats) {
            widen_panel(dtype, work->scratch, panel, n_cells);
            for (size_t b = 0; b < work->n_blocks; b++)
                ISA_NAME(project_floats)(work, p, work->scratch, work->blocks + b);
        } else if (single) {
            F32x16 acc = bytes ? dot_panel(dtype, true, panel, n_cells, work->blocks)
                               : dot_panel(dtype, false, panel, n_cells, work->blocks);
            acc = add_outliers(acc, dtype, panel, n_cells, work->blocks->outliers);
            store_rows(work, p, work->blocks, &acc);
        } else {
            ISA_NAME(project_tile)(work, p);
        }
    }
}

void ISA_NAME(project_quantised)(const PanelWork *work) {
    WITH_CONSTANT_TYPE(work->matrix->dtype, project_type, work);
}

// ---- the table of this instruction set ----

static void panels(const PanelWork *work) {
    if (dtype_is_float(work->matrix->dtype))
        ISA_NAME(project_float)(work);
    else
        ISA_NAME(project_quantised)(work);
}

extern const ProjectKernels ISA_NAME(project_kernels);
const ProjectKernels ISA_NAME(project_kernels) = {
    .block_rows = BLOCK_ROWS,
    .quantise = ISA_NAME(quantise_block),
    .panels = panels,
};

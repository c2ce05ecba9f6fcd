// Quantised panels, whatever the inputs: which kernel takes them, and the panel as floats.
//
//     float32 inputs     the panel is widened once, then as F32 panels
//     a few rows         project_direct.c: straight from the packed panel
//     more rows          project_tile.c: unpacked once for all of them
//
// The two of integers compute the same integers and the same roundings, so a row has the same bits
// either way: integers inside a scale group, then one fused multiply-add per group, in order
// (precision.h).
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

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
            for (int i = 0; i < 16; i++) {
                const int f = i / 2, g = format.groups == 1 ? 0 : f / 4;
                WordPair words = cell_words(dtype, planes, f);
                I16x32 q = i16_sub(i % 2 ? words.high : words.low, centre);
                F32x16 even = f32_mul(f32_from_i32(i16_even(q)), w.s[g]);
                F32x16 odd = f32_mul(f32_from_i32(i16_odd(q)), w.s[g]);
                float *at = to + 32 * (word_of(f) + i % 2 * 2);
                f32_store(at, format.affine ? f32_add(even, w.m[g]) : even);
                f32_store(at + 16, format.affine ? f32_add(odd, w.m[g]) : odd);
            }
            to += 32 * 16;
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
}

// ---- all of it for one type ----

SPECIALISED void project_type(const DType dtype, const PanelWork *work) {
    size_t n_cells = work->matrix->cols / CELL_COLS;
    for (size_t p = work->first_panel; p < work->end_panel; p++) {
        const uint8_t *panel = work->matrix->panels + p * work->matrix->panel_bytes;
        widen_panel(dtype, work->scratch, panel, n_cells);
        for (size_t b = 0; b < work->n_blocks; b++)
            ISA_NAME(project_floats)(work, p, work->scratch, work->blocks + b);
    }
}

void ISA_NAME(project_quantised)(const PanelWork *work) {
    if (work->as_floats)
        WITH_CONSTANT_TYPE(work->matrix->dtype, project_type, work)
    else if (takes_direct(work->matrix->dtype, work->n))
        ISA_NAME(project_direct)(work);
    else
        for (size_t p = work->first_panel; p < work->end_panel; p++)
            ISA_NAME(project_tile)(work, p);
}

// ---- the table of this instruction set ----

static void panels(const PanelWork *work) {
#if defined(ISA_avx512)
    const DType dtype = work->matrix->dtype;
    if (work->n == 1 && work->prefetch == PREFETCH_NONE &&
        (dtype == DTYPE_F16 || dtype == DTYPE_BF16)) {
        project_float_avx2(work); // on a Zen 4
        return;
    }
#endif
    if (dtype_is_float(work->matrix->dtype))
        ISA_NAME(project_float)(work);
    else
        ISA_NAME(project_quantised)(work);
}

static int block_rows(DType dtype, int n, bool quads) {
    if (n <= BLOCK_ROWS || dtype_is_float(dtype)) return BLOCK_ROWS;
    const PanelFormat format = panel_format(dtype);
    bool one_plane = !format.high_bits && format.groups == 1;
    return quads && byte_run(dtype) && one_plane ? BLOCK_ROWS : FEWER_ROWS;
}

static InputForm form_of(DType dtype, int n, int rows, bool quads) {
    if (takes_direct(dtype, n)) return input_form(dtype, rows, quads);
    return quads && byte_run(dtype) ? INPUT_QUADS : INPUT_WORDS;
}

const ProjectKernels ISA_NAME(project_kernels) = {
    .block_rows = block_rows,
    .digit_rows = DIRECT_ROWS,
    .form = form_of,
    .quantise = ISA_NAME(quantise_row),
    .panels = panels,
};

// Token embedding: rows gathered out of packed panels (layout: panels.h).
#include "kernels/cpu/cpu.h"
#include "weights/quant.h"

#include <string.h>

static uint16_t load_word(const uint8_t *p) {
    uint16_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static float load_half(const uint8_t *p) {
    return half_to_float(load_word(p));
}

// Element i of lane r in one bit plane. This inverts the drawing in panels.h: column i is field 2
// (i / 8) + (i / 2) % 2, and byte (0, 2, 1, 3)[(i % 2) + 2 (i / 4 % 2)] of the four bytes of row r.
// The field numbers run on through the vectors of 64 bytes, 8 / bits of them to a vector.
static int plane_element(const uint8_t *plane, int bits, int r, int i) {
    int field = i / 8 * 2 + i / 2 % 2, per_byte = 8 / bits;
    const uint8_t *bytes = plane + field / per_byte * 64 + 4 * r;
    return bytes[i % 2 * 2 + i / 4 % 2] >> field % per_byte * bits & ((1 << bits) - 1);
}

// Element `i` (0 .. 31) of lane r of a cell, centred.
static int cell_element(const uint8_t *planes, const PanelFormat *format, int r, int i) {
    int low = format->low_bits, high = format->high_bits;
    int element = plane_element(planes, low, r, i);
    // The planes of `low` bits take 64 bytes for each bit; the plane of the high bits follows them.
    if (high) element |= plane_element(planes + low * 64, high, r, i) << low;
    return element - format->centre;
}

// s and m of scale group g of a cell; `header` holds d and dmin of the superblock.
static void cell_scale(float *s, float *m, DType dtype, const uint8_t *scales,
                       const uint8_t *header, int r, int g) {
    *m = 0.0f;
    switch (dtype) {
    case DTYPE_Q8_GROUP: memcpy(s, scales + 4 * r, 4); break;
    case DTYPE_Q2_K:
        *s = load_half(header + 2 * r) * (float)(scales[16 * g + r] & 15);
        *m = -(load_half(header + 32 + 2 * r) * (float)(scales[16 * g + r] >> 4));
        break;
    case DTYPE_Q3_K:
    case DTYPE_Q6_K: *s = load_half(header + 2 * r) * (float)(int8_t)scales[16 * g + r]; break;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        *s = load_half(header + 2 * r) * (float)scales[r];
        *m = -(load_half(header + 32 + 2 * r) * (float)scales[16 + r]);
        break;
    default:
        *s = load_half(scales + 2 * r);
        if (dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1) *m = load_half(scales + 32 + 2 * r);
    }
}

// Row `row` of a quantised table. The projections multiply sixteen rows of a panel at a time; here
// one lane is read out of every cell, so this walks all parts of the panel for a sixteenth of them.
// That is one row per token and does not need to be fast.
static void quantised_row(float *out, const DeviceMatrix *table, size_t row) {
    const PanelFormat format = panel_format(table->dtype);
    const uint8_t *superblock = table->panels + row / PANEL_ROWS * table->panel_bytes;
    int r = (int)(row % PANEL_ROWS), group = CELL_COLS / format.groups;
    for (size_t left = table->cols / CELL_COLS, count; left; left -= count) {
        // The last superblock of a row may be shorter, which moves no part within it.
        count = left < SUPERBLOCK_CELLS ? left : SUPERBLOCK_CELLS;
        for (size_t c = 0; c < count; c++, out += CELL_COLS) {
            const uint8_t *scales = superblock + cell_scales_at(&format, c);
            const uint8_t *planes = superblock + cell_planes_at(&format, c);
            for (int g = 0; g < format.groups; g++) {
                float s, m;
                cell_scale(&s, &m, table->dtype, scales, superblock, r, g);
                for (int i = g * group; i < (g + 1) * group; i++) {
                    out[i] = (float)cell_element(planes, &format, r, i) * s;
                    if (format.affine) out[i] += m;
                }
            }
        }
        superblock += superblock_bytes(&format, count);
    }
}

// Row `row` of a float table. In a strip of w panels neighbouring columns of a row are 16 w
// elements apart. The last strip may have fewer than STRIP_PANELS panels.
static void float_row(float *out, const DeviceMatrix *table, size_t row) {
    size_t size = panel_format(table->dtype).low_bits, panel = row / PANEL_ROWS;
    size_t first = panel / STRIP_PANELS * STRIP_PANELS, width = table->n_panels - first;
    if (width > STRIP_PANELS) width = STRIP_PANELS;
    const uint8_t *from = table->panels + first * table->panel_bytes;
    from += (row - first * PANEL_ROWS) * size;
    for (size_t k = 0; k < table->cols; k++, from += width * PANEL_ROWS * size) {
        if (table->dtype == DTYPE_F32)
            memcpy(out + k, from, 4);
        else
            out[k] = table->dtype == DTYPE_F16 ? load_half(from) : bf16_to_float(load_word(from));
    }
}

static void table_row(float *out, const DeviceMatrix *table, size_t row) {
    if (dtype_is_float(table->dtype))
        float_row(out, table, row);
    else
        quantised_row(out, table, row);
}

typedef struct Embedding {
    float *out, scale;
    const DeviceMatrix *table, *learned;
    const Rows *rows;
    const Device *device;
} Embedding;

// Items are rows of the batch. The learned position (GPT-2) is unpacked into the thread's own
// scratch row and then added, so that the scale is applied to the token's row alone.
static void embed_task(void *context, size_t begin, size_t end, int thread) {
    const Embedding *e = context;
    size_t dim = e->table->cols;
    for (size_t i = begin; i < end; i++) {
        float *x = e->out + i * dim, *learned = project_scratch_row(e->device, thread);
        table_row(x, e->table, (size_t)e->rows->tokens[i]);
        for (size_t k = 0; k < dim; k++)
            x[k] *= e->scale;
        if (!e->learned) continue;
        table_row(learned, e->learned, (size_t)e->rows->positions[i]);
        for (size_t k = 0; k < dim; k++)
            x[k] += learned[k];
    }
}

void embed(Device *device, float *out, const DeviceMatrix *table, const DeviceMatrix *learned,
           float scale, const Rows *rows) {
    if (!device_ok(device)) return;
    Embedding e = {out, scale, table, learned, rows, device};
    device_run(device, embed_task, &e, (size_t)rows->n, 4);
}

// device_matrix: rows as a file stores them -> panels (layout: panels.h). All threads share the
// work; a thread holds 16 unpacked rows at a time and nothing else.
#include "kernels/cpu/cpu.h"
#include "kernels/host.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

typedef struct Packing {
    const Matrix *matrix;
    DeviceMatrix *packed;
    uint8_t *scratch; // per thread
    size_t scratch_bytes;
} Packing;

static const uint8_t *stored_row(const Matrix *m, size_t row) {
    return (const uint8_t *)m->data +
           matrix_stored_row(m, row) * dtype_row_bytes(m->dtype, m->cols);
}

// ---- float types ----

// Element by element, TRANSPOSE_COLS columns of all rows at a time: what is written stays in the
// cache.
enum { TRANSPOSE_COLS = 64 };

static void transpose_row(uint8_t *lane, size_t stride, const uint8_t *row, size_t size,
                          size_t count) {
    if (size == 4) {
        for (size_t k = 0; k < count; k++)
            memcpy(lane + k * stride, row + k * 4, 4);
    } else {
        for (size_t k = 0; k < count; k++)
            memcpy(lane + k * stride, row + k * 2, 2);
    }
}

static void pack_strip(const Packing *packing, size_t strip) {
    const Matrix *m = packing->matrix;
    DeviceMatrix *packed = packing->packed;
    size_t size = panel_format(packed->dtype).low_bits, first = strip * STRIP_PANELS;
    size_t width =
        packed->n_panels - first < STRIP_PANELS ? packed->n_panels - first : STRIP_PANELS;
    size_t first_row = first * PANEL_ROWS, stride = width * PANEL_ROWS * size;
    size_t n_rows = width * PANEL_ROWS;
    if (n_rows > m->rows - first_row) n_rows = m->rows - first_row;
    uint8_t *to = packed->panels + first * packed->panel_bytes;
    float *row = (float *)packing->scratch; // only where Q8_GROUP becomes floats
    for (size_t k = 0; k < m->cols; k += TRANSPOSE_COLS) {
        size_t count = m->cols - k < TRANSPOSE_COLS ? m->cols - k : TRANSPOSE_COLS;
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *from = (const uint8_t *)row;
            if (m->dtype == DTYPE_Q8_GROUP)
                matrix_row(row, m, first_row + r);
            else
                from = stored_row(m, first_row + r);
            transpose_row(to + k * stride + r * size, stride, from + k * size, size, count);
        }
    }
}

// ---- quantised types ----

// One plane of `bits` bits, those from `shift` on, of the elements q of row r.
static void pack_plane(uint8_t *plane, int r, const uint8_t *q, int bits, int shift) {
    int mask = (1 << bits) - 1, per_byte = 8 / bits;
    for (int f = 0; f < 8; f++) {
        uint8_t *bytes = plane + f / per_byte * 64 + 4 * r;
        const uint8_t *columns = q + f / 2 * 8 + f % 2 * 2;
        int at = f % per_byte * bits;
        bytes[0] = (uint8_t)(bytes[0] | (columns[0] >> shift & mask) << at);
        bytes[1] = (uint8_t)(bytes[1] | (columns[4] >> shift & mask) << at);
        bytes[2] = (uint8_t)(bytes[2] | (columns[1] >> shift & mask) << at);
        bytes[3] = (uint8_t)(bytes[3] | (columns[5] >> shift & mask) << at);
    }
}

// The 32 columns of 16 rows; q + r * cols is row r, centred. The planes are zero before.
static void pack_planes(uint8_t *planes, const PanelFormat *format, const int8_t *q, size_t cols) {
    int low = format->low_bits, high = format->high_bits;
    for (int r = 0; r < PANEL_ROWS; r++, q += cols) {
        uint8_t stored[CELL_COLS];
        for (int i = 0; i < CELL_COLS; i++)
            stored[i] = (uint8_t)(q[i] + format->centre);
        pack_plane(planes, r, stored, low, 0);
        if (high) pack_plane(planes + low * 64, r, stored, high, low);
    }
}

// Row r of a superblock of a type without blocks of 256: its scales as they are stored.
static void pack_block_scales(uint8_t *superblock, const PanelFormat *format, const Matrix *m,
                              size_t row, size_t cell, size_t n_cells, size_t r) {
    for (size_t c = 0; c < n_cells; c++) {
        uint8_t *scales = superblock + cell_scales_at(format, c);
        if (m->dtype == DTYPE_Q8_GROUP) {
            size_t groups = m->cols / m->group_size, first = matrix_stored_row(m, row) * groups;
            size_t group = first + (cell + c) * CELL_COLS / m->group_size;
            memcpy(scales + 4 * r, (const uint8_t *)m->scales + 4 * group, 4);
            continue;
        }
        const uint8_t *block = stored_row(m, row) + (cell + c) * dtype_info(m->dtype)->block_bytes;
        memcpy(scales + 2 * r, block, 2); // d, or d and m, come first
        if (format->affine) memcpy(scales + 32 + 2 * r, block + 2, 2);
    }
}

// Row r of a block of 256: its elements into q, its scales into the superblock.
static void unpack_k_block(int8_t *q, uint8_t *superblock, const PanelFormat *format, DType dtype,
                           const uint8_t *block, size_t r) {
    uint8_t sc[16], sm[16];
    uint16_t halves[2];
    unpack_scales(q, sc, sm, halves, dtype, block);
    memcpy(superblock + 2 * r, &halves[0], 2);
    if (format->affine) memcpy(superblock + 32 + 2 * r, &halves[1], 2);
    for (size_t i = 0; i < SUPERBLOCK_CELLS * format->groups; i++) {
        uint8_t *scales = superblock + cell_scales_at(format, i / format->groups);
        uint8_t *group = scales + i % format->groups * PANEL_ROWS;
        group[r] = dtype == DTYPE_Q2_K ? (uint8_t)(sc[i] | sm[i] << 4) : sc[i];
        if (format->affine && dtype != DTYPE_Q2_K) scales[PANEL_ROWS + r] = sm[i];
    }
}

static void pack_panel(const Packing *packing, size_t panel, int8_t *q, float *s) {
    const Matrix *m = packing->matrix;
    const DeviceMatrix *packed = packing->packed;
    const PanelFormat format_of = panel_format(packed->dtype), *format = &format_of;
    size_t n_cells = m->cols / CELL_COLS, first = panel * PANEL_ROWS;
    size_t n_rows = m->rows - first < PANEL_ROWS ? m->rows - first : PANEL_ROWS;
    bool is_k = dtype_info(m->dtype)->block == 256;
    size_t block_bytes = dtype_info(m->dtype)->block_bytes;
    memset(q, 0, PANEL_ROWS * m->cols);
    for (size_t r = 0; r < n_rows && !is_k; r++)
        matrix_unpack(q + r * m->cols, s, s + m->cols, m, first + r);
    uint8_t *superblock = packed->panels + panel * packed->panel_bytes;
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        size_t count = n_cells - cell < SUPERBLOCK_CELLS ? n_cells - cell : SUPERBLOCK_CELLS;
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *block = stored_row(m, first + r) + cell / SUPERBLOCK_CELLS * block_bytes;
            int8_t *elements = q + r * m->cols + cell * CELL_COLS;
            if (is_k)
                unpack_k_block(elements, superblock, format, m->dtype, block, r);
            else
                pack_block_scales(superblock, format, m, first + r, cell, count, r);
        }
        for (size_t c = 0; c < count; c++)
            pack_planes(superblock + cell_planes_at(format, c), format, q + (cell + c) * CELL_COLS,
                        m->cols);
        superblock += superblock_bytes(format, count);
    }
}

static void pack_task(void *context, size_t begin, size_t end, int thread) {
    Packing packing = *(const Packing *)context;
    packing.scratch += (size_t)thread * packing.scratch_bytes;
    float *s = (float *)packing.scratch; // s and m of one row, then 16 rows of q
    int8_t *q = (int8_t *)(s + 2 * packing.matrix->cols);
    for (size_t item = begin; item < end; item++) {
        if (dtype_is_float(packing.packed->dtype))
            pack_strip(&packing, item);
        else
            pack_panel(&packing, item, q, s);
    }
}

// ---- the interface ----

// llama2.c halves its groups until they divide the width of the model. Groups that do not fill
// cells of 32 (models narrower than 32 or so) become float32.
static DType packed_dtype(const Matrix *m) {
    bool odd_groups = m->dtype == DTYPE_Q8_GROUP && m->group_size % CELL_COLS != 0;
    return odd_groups ? DTYPE_F32 : m->dtype;
}

static size_t packed_panel_bytes(DType dtype, size_t cols) {
    const PanelFormat format_of = panel_format(dtype), *format = &format_of;
    if (dtype_is_float(dtype)) return cols * PANEL_ROWS * format->low_bits;
    size_t n_cells = cols / CELL_COLS, rest = n_cells % SUPERBLOCK_CELLS;
    size_t bytes = n_cells / SUPERBLOCK_CELLS * superblock_bytes(format, SUPERBLOCK_CELLS);
    return bytes + (rest ? superblock_bytes(format, rest) : 0);
}

// The sizes of a matrix as it is packed, without its panels.
static DeviceMatrix packed_shape(const Matrix *matrix) {
    DType dtype = packed_dtype(matrix);
    return (DeviceMatrix){.dtype = dtype,
                          .rows = matrix->rows,
                          .cols = matrix->cols,
                          .n_panels = (matrix->rows + PANEL_ROWS - 1) / PANEL_ROWS,
                          .panel_bytes = packed_panel_bytes(dtype, matrix->cols)};
}

// What the scratch of the operations is made for.
static void note_shape(Device *device, const DeviceMatrix *packed) {
    bool integers = !dtype_is_float(packed->dtype) && device->precision != PRECISION_F32;
    if (packed->cols > device->max_cols) device->max_cols = packed->cols;
    if (packed->rows > device->max_matrix_rows) device->max_matrix_rows = packed->rows;
    if (integers)
        device->needs_integers = true;
    else
        device->needs_floats = true;
}

void device_plan_matrix(Device *device, const Matrix *matrix) {
    DeviceMatrix packed = packed_shape(matrix);
    size_t panels = panel_memory_needs(packed.n_panels * packed.panel_bytes);
    device->planned = sum_or_most(device->planned, sum_or_most(sizeof packed, panels));
    note_shape(device, &packed);
}

DeviceMatrix *device_matrix(Device *device, const Matrix *matrix) {
    DeviceMatrix *packed = device_alloc(device, sizeof *packed);
    if (!packed) return NULL;
    *packed = packed_shape(matrix);
    Packing packing = {.matrix = matrix, .packed = packed};
    packing.scratch_bytes = matrix->cols * (2 * sizeof(float) + PANEL_ROWS);
    size_t threads = (size_t)device->info.threads;
    packed->panels = panel_memory(device, packed->n_panels * packed->panel_bytes);
    packing.scratch = device_alloc(device, threads * packing.scratch_bytes);
    if (device_ok(device)) {
        bool strips = dtype_is_float(packed->dtype);
        size_t items = packed->n_panels;
        if (strips) items = (items + STRIP_PANELS - 1) / STRIP_PANELS;
        device_run(device, pack_task, &packing, items, strips ? 1 : STRIP_PANELS);
        note_shape(device, packed);
    }
    device_free(device, packing.scratch);
    return device_ok(device) ? packed : NULL; // device_close frees what there is of it
}

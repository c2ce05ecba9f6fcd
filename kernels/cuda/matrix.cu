// device_matrix: rows as a file stores them -> planes (matrix.h draws them), packed on the host
// into pinned memory while what was packed before is on its way.
#include "kernels/cuda/matrix.h"

#include <string.h>

extern "C" {
#include "weights/quant.h"
}

// ---- one row ----

static const uint8_t *stored_row(const Matrix *m, size_t row) {
    return (const uint8_t *)m->data +
           matrix_stored_row(m, row) * dtype_row_bytes(m->dtype, m->cols);
}

// u[32], uncentred, into the low plane and the high plane of one chunk.
static void pack_chunk(uint8_t *low, uint8_t *high, const uint8_t u[CHUNK], const Layout &layout) {
    if (layout.low_bits == 8) {
        memcpy(low, u, CHUNK);
        return;
    }
    for (int j = 0; j < 16; j++)
        low[j] = (uint8_t)((u[j] & 15) | (u[j + 16] & 15) << 4);
    uint32_t words[2] = {0, 0};
    for (int j = 0; j < CHUNK; j++) {
        uint32_t above = u[j] >> 4;
        int b = j % 4, w = j / 4;
        if (layout.high_bits == 1) words[0] |= above << (8 * b + w);
        if (layout.high_bits == 2) words[w / 4] |= above << (8 * b + 2 * (w % 4));
    }
    memcpy(high, words, (size_t)high_bytes(layout));
}

// What a row of quantised weights becomes: one run of bytes per plane.
struct PackedRow {
    uint8_t *low, *high, *scales, *supers;
};

// K-quants: sc and sm of every group, d and dmin of the block.
static void pack_k_block(PackedRow *to, const Layout &layout, const Matrix *m, const uint8_t *block,
                         int8_t q[256]) {
    uint8_t sc[16], sm[16];
    uint16_t supers[2];
    unpack_scales(q, sc, sm, supers, m->dtype, block);
    for (int i = 0; i < SUPER_CHUNKS * layout.groups; i++) {
        uint8_t *scales = to->scales + i / layout.groups * scale_bytes(layout);
        scales[i % layout.groups] = sc[i];
        if (layout.affine) scales[layout.groups + i % layout.groups] = sm[i];
    }
    memcpy(to->supers, supers, (size_t)super_bytes(layout));
    to->supers += super_bytes(layout);
}

// Types with one scale per block of 32, as the block stores it; Q8_GROUP's, one per chunk.
static void pack_scale(PackedRow *to, const Layout &layout, const Matrix *m, size_t row,
                       size_t chunk) {
    if (layout.floats) {
        size_t groups = m->cols / m->group_size;
        size_t group = matrix_stored_row(m, row) * groups + chunk * CHUNK / m->group_size;
        memcpy(to->scales, (const uint8_t *)m->scales + 4 * group, 4);
        return;
    }
    const DTypeInfo *info = dtype_info(m->dtype);
    const uint8_t *block = stored_row(m, row) + chunk * info->block_bytes;
    memcpy(to->scales, block, (size_t)scale_bytes(layout)); // d, or d and m, come first
}

static void pack_row(PackedRow to, const Layout &layout, const Matrix *m, size_t row) {
    const DTypeInfo *info = dtype_info(m->dtype);
    int8_t q[256];
    uint8_t u[CHUNK];
    float s[16], offsets[16];
    for (size_t c = 0; c < m->cols / CHUNK; c++) {
        const int8_t *elements = q;
        if (layout.k) {
            if (c % SUPER_CHUNKS == 0)
                pack_k_block(&to, layout, m,
                             stored_row(m, row) + c / SUPER_CHUNKS * info->block_bytes, q);
            elements += c % SUPER_CHUNKS * CHUNK;
        } else {
            pack_scale(&to, layout, m, row, c);
            if (layout.floats)
                memcpy(q, stored_row(m, row) + c * CHUNK, CHUNK);
            else
                unpack(q, s, offsets, m->dtype, stored_row(m, row) + c * info->block_bytes, CHUNK);
        }
        for (int j = 0; j < CHUNK; j++)
            u[j] = (uint8_t)(elements[j] + layout.centre);
        pack_chunk(to.low, to.high, u, layout);
        to.low += low_bytes(layout);
        to.high += high_bytes(layout);
        to.scales += scale_bytes(layout);
    }
}

// ---- all rows ----

// Sends one plane: `bytes` per row, `offset` into the packed row. Rows are packed anew for each
// plane, which a GPU's appetite for side-by-side loads is worth.
struct PlaneSizes {
    size_t low, high, scales, supers; // bytes per row
};

static PlaneSizes plane_sizes(const Layout &layout, size_t cols) {
    size_t chunks = cols / CHUNK, blocks = (chunks + SUPER_CHUNKS - 1) / SUPER_CHUNKS;
    return PlaneSizes{chunks * (size_t)low_bytes(layout), chunks * (size_t)high_bytes(layout),
                      chunks * (size_t)scale_bytes(layout), blocks * (size_t)super_bytes(layout)};
}

static size_t padded(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// Each plane of the matrix begins at a multiple of 256 bytes.
static void send_quantised(Device *device, DeviceMatrix *to, const Matrix *m) {
    Layout layout = layout_of(m->dtype);
    PlaneSizes sizes = plane_sizes(layout, m->cols);
    size_t row_bytes = sizes.low + sizes.high + sizes.scales + sizes.supers;
    uint8_t *row = (uint8_t *)host_alloc(device, row_bytes);
    const size_t lengths[] = {sizes.low, sizes.high, sizes.scales, sizes.supers};
    const uint8_t *const planes[] = {to->planes.low, to->planes.high, to->planes.scales,
                                     to->planes.supers};
    size_t offset = 0;
    for (int p = 0; p < 4 && device_ok(device); offset += lengths[p++]) {
        if (!lengths[p] || !staging_begin(device, (void *)planes[p])) continue;
        for (size_t r = 0; r < m->rows; r++) {
            PackedRow packed = {row, row + sizes.low, row + sizes.low + sizes.high,
                                row + sizes.low + sizes.high + sizes.scales};
            pack_row(packed, layout, m, r);
            for (size_t done = 0, n; done < lengths[p]; done += n) {
                n = staging_share(lengths[p] - done);
                uint8_t *at = staging_take(device, n);
                if (!at) break;
                memcpy(at, row + offset + done, n);
            }
        }
        staging_end(device);
    }
    host_free(device, row);
}

// Rows padded with zeros to whole loads of 16 bytes.
static void send_floats(Device *device, DeviceMatrix *to, const Matrix *m) {
    size_t size = to->planes.dtype == DTYPE_F32 ? 4 : 2, bytes = to->planes.stride * size;
    float *widened =
        m->dtype == to->planes.dtype ? NULL : (float *)host_alloc(device, m->cols * sizeof(float));
    if (!staging_begin(device, (void *)to->planes.low)) return;
    for (size_t r = 0; r < m->rows && device_ok(device); r++) {
        const uint8_t *from = stored_row(m, r);
        if (widened) {
            matrix_row(widened, m, r);
            from = (const uint8_t *)widened;
        }
        for (size_t done = 0, n; done < bytes; done += n) {
            n = staging_share(bytes - done);
            uint8_t *at = staging_take(device, n);
            if (!at) break;
            size_t left = m->cols * size > done ? m->cols * size - done : 0;
            memset(at, 0, n);
            memcpy(at, from + done, left < n ? left : n);
        }
    }
    staging_end(device);
    host_free(device, widened);
}

// llama2.c halves its groups until they divide the width of the model.
static DType packed_dtype(const Matrix *m) {
    bool odd_groups = m->dtype == DTYPE_Q8_GROUP && m->group_size % CHUNK != 0;
    return odd_groups ? DTYPE_F32 : m->dtype;
}

// Fills in the planes but their addresses; returns the bytes of each.
static PlaneSizes lay_out(Planes *planes, const Matrix *matrix) {
    planes->dtype = packed_dtype(matrix);
    planes->rows = matrix->rows;
    planes->cols = matrix->cols;
    Layout layout = layout_of(planes->dtype);
    PlaneSizes row = plane_sizes(layout, matrix->cols);
    if (!layout.low_bits) {
        size_t size = planes->dtype == DTYPE_F32 ? 4 : 2;
        planes->stride = (matrix->cols * size + 15) / 16 * 16 / size;
        row.low = planes->stride * size;
    }
    planes->row_bytes = row.low;
    return PlaneSizes{padded(row.low * matrix->rows), padded(row.high * matrix->rows),
                      padded(row.scales * matrix->rows), padded(row.supers * matrix->rows)};
}

static size_t all_planes(const PlaneSizes &sizes) {
    return sizes.low + sizes.high + sizes.scales + sizes.supers;
}

// The largest matrix decides how much scratch its operations need.
static void note_shape(Device *device, const Planes *planes) {
    if (planes->cols > device->max_cols) device->max_cols = planes->cols;
    if (planes->rows > device->max_matrix_rows) device->max_matrix_rows = planes->rows;
    size_t elements = planes->rows * whole_eights(planes->cols);
    if (!is_blas_operand(device, planes->dtype) && elements > device->max_unpacked)
        device->max_unpacked = elements;
}

void device_plan_matrix(Device *device, const Matrix *matrix) {
    Planes planes = {};
    device->planned += all_planes(lay_out(&planes, matrix));
    note_shape(device, &planes);
}

DeviceMatrix *device_matrix(Device *device, const Matrix *matrix) {
    DeviceMatrix *m = (DeviceMatrix *)host_alloc(device, sizeof *m);
    if (!m) return NULL;
    Planes *planes = &m->planes;
    PlaneSizes sizes = lay_out(planes, matrix);
    m->bytes = all_planes(sizes);
    m->memory = (uint8_t *)device_alloc(device, m->bytes);
    if (device_ok(device)) {
        planes->low = m->memory;
        planes->high = planes->low + sizes.low;
        planes->scales = planes->high + sizes.high;
        planes->supers = planes->scales + sizes.scales;
        if (layout_of(planes->dtype).low_bits)
            send_quantised(device, m, matrix);
        else
            send_floats(device, m, matrix);
        note_shape(device, planes);
    }
    if (device_ok(device)) return m;
    device_matrix_free(device, m);
    return NULL;
}

void device_matrix_free(Device *device, DeviceMatrix *matrix) {
    if (!matrix) return;
    device_free(device, matrix->memory);
    host_free(device, matrix);
}

bool device_matrix_borrows(const DeviceMatrix *matrix) {
    (void)matrix;
    return false;
}

size_t device_matrix_bytes(const DeviceMatrix *matrix) {
    return matrix->bytes;
}

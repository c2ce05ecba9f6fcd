// device_matrix: planes (matrix.h samples them), packed on the host (pack.h) into pinned memory
// while what was packed before is on its way.
#include "kernels/cuda/project/matrix.h"
#include "kernels/cuda/project/pack.h"

// ---- sending ----

// As many units as fit in a half of the staging memory, packed there in one go. The low plane,
// which is first and most, is what staging_end sends, behind the others: the half is free when that
// copy has ended.
static void send_units(Device *device, const Planes *planes, Packer *packer,
                       const PackedShape *shape, size_t first, size_t count) {
    const uint8_t *const all[N_PLANES] = {planes->low, planes->high, planes->scales,
                                          planes->supers};
    size_t bytes = 0;
    for (size_t unit : shape->unit_bytes)
        bytes += count * unit;
    if (!staging_begin(device, (void *)(planes->low + first * shape->unit_bytes[0]))) return;
    //     this half:   low plane of the units | high | scales | supers
    uint8_t *at = staging_take(device, bytes);
    if (!at) return;
    packer_run(packer, at, first, count);
    for (int p = 0; p < N_PLANES; at += count * shape->unit_bytes[p++])
        if (p && shape->unit_bytes[p] &&
            !CUDA_CHECK(device, cudaMemcpyAsync((void *)(all[p] + first * shape->unit_bytes[p]), at,
                                                count * shape->unit_bytes[p],
                                                cudaMemcpyHostToDevice, device->stream)))
            return;
    device->staging.used = count * shape->unit_bytes[0];
    staging_end(device);
}

static void send(Device *device, const Planes *planes, const Matrix *matrix) {
    PackedShape shape = packed_shape(matrix);
    Packer *packer = packer_open(matrix, 0);
    if (!packer) {
        device_fail(device, ERROR_MEMORY, "no memory to pack a matrix of %zu columns",
                    matrix->cols);
        return;
    }
    size_t unit = 0;
    for (size_t bytes : shape.unit_bytes)
        unit += bytes;
    for (size_t first = 0, count; first < shape.units && device_ok(device); first += count) {
        count =
            STAGING_BYTES / unit < shape.units - first ? STAGING_BYTES / unit : shape.units - first;
        send_units(device, planes, packer, &shape, first, count);
    }
    packer_close(packer);
}

// ---- all planes ----

struct PlaneSizes {
    size_t low, high, scales, supers; // bytes
};

// Each plane of the matrix begins at a multiple of 256 bytes.
static size_t padded(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// Fills in the planes but their addresses; returns the bytes of each.
static PlaneSizes lay_out(Planes *planes, const Matrix *matrix) {
    PackedShape shape = packed_shape(matrix);
    const size_t *unit = shape.unit_bytes;
    planes->dtype = shape.dtype;
    planes->rows = matrix->rows;
    planes->cols = matrix->cols;
    for (int p = 0; p < N_PLANES; p++)
        planes->row_bytes[p] = (unsigned)(shape.row_units * unit[p]);
    if (!layout_of(shape.dtype).low_bits)
        planes->stride = planes->row_bytes[0] / (shape.dtype == DTYPE_F32 ? 4 : 2);
    return PlaneSizes{padded(shape.units * unit[0]), padded(shape.units * unit[1]),
                      padded(shape.units * unit[2]), padded(shape.units * unit[3])};
}

static size_t all_planes(const PlaneSizes &sizes) {
    return sizes.low + sizes.high + sizes.scales + sizes.supers;
}

// The largest matrix decides how much scratch its operations need.
static void note_shape(Device *device, const Planes *planes) {
    if (planes->cols > device->max_cols) device->max_cols = planes->cols;
    if (planes->rows > device->max_matrix_rows) device->max_matrix_rows = planes->rows;
    size_t elements = planes->rows * round_up_8(planes->cols);
    if (!is_blas_operand(device, planes->dtype) && elements > device->max_unpacked)
        device->max_unpacked = elements;
}

// Counts what device_matrix would take, without taking it.
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
    uint8_t *memory = (uint8_t *)device_alloc(device, all_planes(sizes));
    if (device_ok(device)) {
        planes->low = memory;
        planes->high = planes->low + sizes.low;
        planes->scales = planes->high + sizes.high;
        planes->supers = planes->scales + sizes.scales;
        send(device, planes, matrix);
        note_shape(device, planes);
    }
    return device_ok(device) ? m : NULL; // device_close frees what there is of it
}

// project for the rows of a prompt, by cuBLASLt. The tensor cores multiply bf16 and add in float32,
// so a float is taken apart into bf16 parts: h, the nearest one, and l, the nearest to what is left
// of it: |x - h| <= 2^-8 |x|, |x - h - l| <= 2^-16 |x|. Quantised weights and float16 are unpacked
// into such parts for each use, as many rows at a time as stay in L2 (UNPACKED_BYTES).
//
//   precision  weights      products                        off by at most, of |w| |x|
//   a8         all of them  wh xh                           2^-7
//   a16        BF16         w xl + w xh                     2^-16    what x loses
//              F16          wl xh + wh xl + wh xh           2 2^-16  and wl xl
//              quantised    the same                        3 2^-16  and what w loses
//              F32          w x in float32, never TF32      0
//   f32        all of them  w x in float32, never TF32      0
//
// and float32 sums. Integers (precision.h), the form for fewer rows, are off by half a step:
// 2^-8 and 2^-16 of the largest |x| of a group, for its smaller elements too; only outliers are
// not. That comes to about the same, and tensor cores for int8 cannot have a scale per 32. a16 does
// promise float weights float32; there two parts of x fall short of it and halve the work of three.
//
// Both parts of x are the rows of one product, so that w is read once and small matrices have twice
// the tiles to share among the processors:
//
//   x (2 n, k):      xh           sums (2 n, m):  wh xh
//                    xl                           wh xl, then + wl xh where w has two parts
//
// and out is the lower half plus the upper one: the smallest products are added first, so that they
// are not lost one by one against the large one. wl xl is left out.
#include "kernels/cuda/project/blas.h"

#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/project/project.h"

// Unpacked weights at a time: what is written should still be in the L2 cache (50 MB on an
// H100) when it is read; a slice of 4,096 by 2,048 still fills all processors. Not yet measured
// on a GPU.
constexpr size_t UNPACKED_BYTES = 32 << 20;
enum { SLICE_ROWS = 64, THREADS = 256 }; // a slice has a multiple of so many rows

// Sums at a time, which should still be in the L2 cache too: 4,096 columns for 512 rows.
constexpr size_t SUMS_BYTES = 16 << 20;

struct BlasScratch {
    uint16_t *x;      // bf16 (parts, n, columns rounded up to a multiple of 8)
    uint8_t *weights; // all parts of a slice
    size_t weight_bytes;
    float *sums; // (2, n, columns of some slices); NULL where x has one part
    size_t sums_floats;
};

// ---- unpacking ----

struct UnpackWork {
    Planes from;
    size_t first_row;
    unsigned rows, units; // units of UNIT elements per row of `to`
    void *to[MAX_PARTS];  // bf16, or float32 where there is but one part and PARTS is 0
    size_t stride;        // elements of a row of `to`, a multiple of 8; zeros beyond the columns
};

// 16-byte stores of eight elements.
template <int PARTS>
static __device__ __forceinline__ void store_parts(const UnpackWork &work, size_t at,
                                                   const float (&values)[8]) {
    if constexpr (PARTS == 0) {
        memcpy((float *)work.to[0] + at, values, sizeof values);
        return;
    }
    float left[8];
    memcpy(left, values, sizeof left);
    for (int p = 0; p < PARTS; p++) {
        alignas(16) uint16_t part[8];
        for (int j = 0; j < 8; j++)
            part[j] = take_part(left[j]);
        *(int4 *)((uint16_t *)work.to[p] + at) = *(const int4 *)part;
    }
}

// Elements col .. col + 7 of a chunk, as quant.h says it.
template <DType D>
static __device__ __forceinline__ void chunk_values(float (&values)[8], const Chunk<D> &c,
                                                    int eighth) {
    constexpr Layout L = layout_of(D);
    int group = L.groups == 2 && eighth >= 2;
    for (int j = 0; j < 8; j++) {
        int word = c.q[2 * eighth + j / 4] >> (8 * (j % 4));
        int q = L.low_bits == 8 ? (int)(int8_t)word : word & 0xff;
        float element = (float)(q - L.centre) * c.s[group];
        values[j] = L.affine ? element + c.m[group] : element;
    }
}

template <DType D>
// Columns beyond the row become 0: cuBLASLt multiplies rows of whole eights.
static __device__ __forceinline__ void float_values(float (&values)[8], const Planes &w, size_t row,
                                                    size_t col, bool whole) {
    if (whole && col + 8 <= w.cols) {
        load_elements<D, 8>(values, w, row, col);
        return;
    }
    for (int j = 0; j < 8; j++) {
        float one[1] = {0.0f};
        if (col + j < w.cols) load_elements<D, 1>(one, w, row, col + j);
        values[j] = one[0];
    }
}

// One thread per chunk of a quantised row, or per eight elements of floats; `whole`: rows of floats
// begin at multiples of 16 bytes.
template <DType D, int PARTS>
static __global__ void __launch_bounds__(THREADS) unpack_kernel(UnpackWork work, bool whole) {
    unsigned at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= work.rows * work.units) return;
    unsigned row = at / work.units, unit = at % work.units;
    float values[8];
    wait_for_earlier_kernels();
    if constexpr (layout_of(D).low_bits != 0) {
        Chunk<D> chunk = load_chunk<D>(work.from, work.first_row + row, unit, work.units);
        UNROLL
        for (int i = 0; i < CHUNK / 8; i++) {
            chunk_values<D>(values, chunk, i);
            store_parts<PARTS>(work, row * work.stride + unit * CHUNK + 8 * i, values);
        }
    } else {
        float_values<D>(values, work.from, work.first_row + row, (size_t)unit * 8, whole);
        store_parts<PARTS>(work, row * work.stride + (size_t)unit * 8, values);
    }
}

// Never overlapped: x is read past what keeps caches coherent too (load_stream), and a launch of
// its own is what makes an earlier kernel's x visible to such loads.
template <DType D> static void launch_unpack(Device *device, const UnpackWork &work, int parts) {
    unsigned blocks = blocks_for((size_t)work.rows * work.units, THREADS);
    size_t bytes = work.from.stride * (D == DTYPE_F32 ? 4 : 2);
    bool whole = bytes % 16 == 0 && (uintptr_t)work.from.low % 16 == 0;
    if (parts == 0)
        LAUNCH(device, (unpack_kernel<D, 0>), blocks, THREADS, work, whole);
    else if (parts == 1)
        LAUNCH(device, (unpack_kernel<D, 1>), blocks, THREADS, work, whole);
    else
        LAUNCH(device, (unpack_kernel<D, 2>), blocks, THREADS, work, whole);
}

typedef void LaunchUnpack(Device *device, const UnpackWork &work, int parts);
static LaunchUnpack *const TYPES[DTYPE_COUNT] = OF_EVERY_DTYPE(launch_unpack);

// Rows first .. first + rows - 1 of `from` -> to.
static void unpack(Device *device, const Planes &from, size_t first, size_t rows, void *const *to,
                   size_t stride, int parts) {
    UnpackWork work = {};
    work.from = from;
    work.first_row = first;
    work.rows = (unsigned)rows;
    work.units = (unsigned)(layout_of(from.dtype).low_bits ? stride / CHUNK : stride / 8);
    for (int p = 0; p < MAX_PARTS; p++)
        work.to[p] = to[p];
    work.stride = stride;
    TYPES[from.dtype](device, work, parts);
}

// ---- products ----

// How many bf16 parts weights and activations have; 0: they are float32.
struct PartCounts {
    int weights, x;
};

// As the table above says.
static PartCounts parts_of(const Device *device, DType dtype) {
    if (device->precision == PRECISION_F32) return PartCounts{0, 0};
    if (device->precision == PRECISION_A8) return PartCounts{1, 1};
    if (dtype == DTYPE_F32) return PartCounts{0, 0};
    return dtype == DTYPE_BF16 ? PartCounts{1, 2} : PartCounts{2, 2};
}

// Some rows of a matrix as cuBLASLt takes them.
struct RowSlice {
    const void *parts[MAX_PARTS];
    size_t first, rows, stride;
};

static size_t part_bytes(int parts) { // of one element of one part
    return parts ? sizeof(uint16_t) : sizeof(float);
}

// At most `most` rows from `first` on, and no more than there is room to unpack; as stored where
// cuBLASLt reads them so.
static RowSlice next_slice(Device *device, const Planes &w, size_t first, size_t most, int parts) {
    RowSlice slice = {};
    slice.first = first;
    slice.rows = w.rows - first < most ? w.rows - first : most;
    if (is_blas_operand(device, w.dtype)) {
        slice.parts[0] = w.low + first * w.row_bytes[0];
        slice.stride = w.stride;
        return slice;
    }
    const BlasScratch *s = device->blas_scratch;
    //     room for a slice:   part 0 (rows, stride) | part 1 (rows, stride)
    slice.stride = round_up_8(w.cols);
    size_t row_bytes = slice.stride * part_bytes(parts) * (size_t)(parts ? parts : 1);
    size_t room = s->weight_bytes / row_bytes;
    if (slice.rows > room) slice.rows = room / SLICE_ROWS * SLICE_ROWS;
    void *to[MAX_PARTS] = {};
    for (int p = 0; p == 0 || p < parts; p++)
        to[p] = s->weights + (size_t)p * slice.rows * slice.stride * part_bytes(parts);
    unpack(device, w, first, slice.rows, to, slice.stride, parts);
    for (int p = 0; p < MAX_PARTS; p++)
        slice.parts[p] = to[p];
    return slice;
}

// One matrix of a call, and what becomes of it. residual not NULL: the sums and the bias are added
// to it, and what is in out afterwards has no meaning.
struct BlasMatrix {
    const Planes *w;
    float *out;
    const float *bias;
    float *residual;
};

// The product of a slice and x (n, cols), as far as all matrices have it in common.
static BlasProduct product_of(const Planes &w, const RowSlice &slice, int n, PartCounts parts) {
    BlasProduct product = {};
    product.type = parts.weights ? BLAS_BF16 : BLAS_F32;
    product.w = slice.parts[0];
    product.m = (int)slice.rows, product.n = n;
    product.k = (int)(parts.weights ? round_up_8(w.cols) : w.cols);
    product.w_stride = slice.stride;
    product.x_stride = (size_t)product.k;
    return product;
}

// out += bias; or residual += out + bias.
static __global__ void bias_kernel(float *out, const float *bias, float *residual, size_t rows,
                                   size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    wait_for_earlier_kernels();
    float sum = out[i] + bias[i % rows];
    if (residual)
        residual[i] += sum;
    else
        out[i] = sum;
}

// Where x has one part, or is float32. Without a bias the residual stream is C and D: the bits of
// a product and an addition, since a sum meets it whole.
static void multiply_once(Device *device, const BlasMatrix &matrix, const float *x, int n,
                          PartCounts parts) {
    const Planes &w = *matrix.w;
    bool adds = matrix.residual && !matrix.bias;
    for (size_t first = 0; first < w.rows && device_ok(device);) {
        RowSlice slice = next_slice(device, w, first, w.rows, parts.weights);
        BlasProduct product = product_of(w, slice, n, parts);
        product.x = parts.x ? (const void *)device->blas_scratch->x : x;
        product.out = (adds ? matrix.residual : matrix.out) + first;
        product.out_stride = w.rows;
        product.adds = adds;
        blas_product(device, &product);
        first += slice.rows;
    }
    size_t count = (size_t)n * w.rows;
    if (matrix.bias)
        LAUNCH(device, bias_kernel, blocks_for(count, THREADS), THREADS, matrix.out, matrix.bias,
               matrix.residual, w.rows, count);
}

// ---- both parts of x as the rows of one product ----

// A slice whose sums wait to be joined. All in floats; the lower half is `half` behind the upper.
struct SumsOfSlice {
    const float *sums, *bias; // (2, n, stride); (columns) or NULL
    float *out;               // of the slice's first column
    size_t half, stride, out_stride;
    bool adds; // to what is in out
};

struct JoinWork {
    SumsOfSlice slices[MAX_PROJECTIONS];
    unsigned first_column[MAX_PROJECTIONS + 1]; // of each slice, in the list of all columns
    int count;
    size_t used; // floats of the room for sums
};

// One thread per column of a slice. Grid: rows of x, columns.
static __global__ void __launch_bounds__(THREADS) join_kernel(JoinWork w) {
    unsigned at = blockIdx.y * THREADS + threadIdx.x;
    if (at >= w.first_column[w.count]) return;
    int p = 0;
    while (p + 1 < w.count && at >= w.first_column[p + 1])
        p++;
    const SumsOfSlice &s = w.slices[p];
    size_t column = at - w.first_column[p], from = blockIdx.x * s.stride + column;
    float *out = s.out + blockIdx.x * s.out_stride + column;
    wait_for_earlier_kernels();
    float sum = s.sums[from + s.half] + s.sums[from];
    if (s.bias) sum += s.bias[column];
    *out = s.adds ? *out + sum : sum;
}

// Joins what waits, so that its room is free again.
static void join(Device *device, JoinWork *work, int n) {
    if (work->count)
        LAUNCH(device, join_kernel,
               dim3((unsigned)n, blocks_for(work->first_column[work->count], THREADS)), THREADS,
               *work);
    *work = JoinWork{};
}

static void multiply_stacked_slice(Device *device, JoinWork *work, const BlasMatrix &matrix, int n,
                                   const RowSlice &slice, PartCounts parts) {
    const BlasScratch *s = device->blas_scratch;
    SumsOfSlice *sums = &work->slices[work->count++];
    float *upper = s->sums + work->used;
    sums->stride = round_up_8(slice.rows);
    sums->half = (size_t)n * sums->stride;
    sums->sums = upper;
    sums->bias = matrix.bias ? matrix.bias + slice.first : NULL;
    sums->out = (matrix.residual ? matrix.residual : matrix.out) + slice.first;
    sums->out_stride = matrix.w->rows;
    sums->adds = matrix.residual != NULL;
    work->used += 2 * sums->half;
    work->first_column[work->count] = work->first_column[work->count - 1] + (unsigned)slice.rows;

    BlasProduct product = product_of(*matrix.w, slice, 2 * n, parts);
    product.x = s->x;
    product.out = upper, product.out_stride = sums->stride;
    blas_product(device, &product);
    if (parts.weights == 1) return;
    product.w = slice.parts[1], product.n = n;
    product.out = upper + sums->half, product.adds = true;
    blas_product(device, &product);
}

// A matrix in one slice where there is room, else in as many as it takes.
static void multiply_stacked(Device *device, JoinWork *work, const BlasMatrix &matrix, int n,
                             PartCounts parts) {
    size_t rows = matrix.w->rows, floats = device->blas_scratch->sums_floats;
    for (size_t first = 0; first < rows && device_ok(device);) {
        size_t room = (floats - work->used) / (2 * (size_t)n), wanted = round_up_8(rows - first);
        if (work->count && (room < wanted || work->count == MAX_PROJECTIONS)) {
            join(device, work, n);
            continue;
        }
        if (room < wanted) room = room / SLICE_ROWS * SLICE_ROWS;
        RowSlice slice = next_slice(device, *matrix.w, first, room, parts.weights);
        multiply_stacked_slice(device, work, matrix, n, slice, parts);
        first += slice.rows;
    }
}

// ---- the call ----

static void multiply_all(Device *device, const BlasMatrix *matrices, int count, const float *x,
                         int n) {
    JoinWork work = {};
    for (int p = 0; p < count && device_ok(device); p++) {
        PartCounts parts = parts_of(device, matrices[p].w->dtype);
        if (parts.x == 2)
            multiply_stacked(device, &work, matrices[p], n, parts);
        else
            multiply_once(device, matrices[p], x, n, parts);
    }
    join(device, &work, n);
}

void launch_blas(Device *device, const ProjectWork *work) {
    BlasMatrix matrices[MAX_PROJECTIONS] = {};
    for (int p = 0; p < work->count; p++)
        matrices[p] = BlasMatrix{&work->weights[p], work->out[p], work->bias[p], NULL};
    multiply_all(device, matrices, work->count, work->x, work->n);
}

void project_by_blas(Device *device, const ProjectOperation *op, float *residual) {
    BlasMatrix matrices[MAX_PROJECTIONS] = {};
    for (int p = 0; p < op->count; p++) {
        const Projection *to = &op->projections[p];
        matrices[p] = BlasMatrix{&to->weight->planes, to->out, to->bias, residual};
    }
    multiply_all(device, matrices, op->count, op->x, op->n);
}

// Counted as products of n rows: one of 2 n rows is as much work as two.
int blas_products(const Device *device, DType dtype) {
    PartCounts parts = parts_of(device, dtype);
    return parts.x ? parts.x + parts.weights - 1 : 0;
}

InputParts blas_input(const Device *device, int n, size_t cols) {
    InputParts to = {};
    to.stride = round_up_8(cols);
    to.parts[0] = device->blas_scratch->x;
    if (device->precision == PRECISION_A16) to.parts[1] = to.parts[0] + (size_t)n * to.stride;
    return to;
}

void blas_split(Device *device, const float *x, int n, size_t cols) {
    if (device->precision == PRECISION_F32) return;
    Planes from = {};
    from.dtype = DTYPE_F32;
    from.rows = (size_t)n, from.cols = from.stride = cols;
    from.low = (const uint8_t *)x;
    InputParts input = blas_input(device, n, cols);
    void *to[MAX_PARTS] = {input.parts[0], input.parts[1]};
    unpack(device, from, 0, (size_t)n, to, input.stride, input.parts[1] ? 2 : 1);
}

// blas_ready opens the library, so it is asked only for a prompt.
bool fits_blas(Device *device, int n) {
    return n >= PROMPT_ROWS && device->blas_scratch && blas_ready(device);
}

// Bytes of the unpacked weights of a slice.
// No more than the largest matrix needs, and at least SLICE_ROWS rows of the longest.
static size_t slice_bytes(const Device *device) {
    size_t wanted = device->max_unpacked * sizeof(float);
    size_t most = SLICE_ROWS * round_up_8(device->max_cols) * sizeof(float);
    if (most < UNPACKED_BYTES) most = UNPACKED_BYTES;
    return wanted < most ? wanted : most;
}

static int parts_of_x(const Device *device) {
    return device->precision == PRECISION_F32 ? 0 : device->precision == PRECISION_A8 ? 1 : 2;
}

static size_t part_bytes(const Device *device, int max_rows) {
    return (size_t)max_rows * round_up_8(device->max_cols) * sizeof(uint16_t);
}

// Room for the sums of SUMS_BYTES, or of the largest matrix; and for at least one slice.
static size_t sums_floats(const Device *device, int max_rows) {
    if (parts_of_x(device) < 2) return 0;
    size_t each = 2 * (size_t)max_rows, most = SUMS_BYTES / sizeof(float) / each;
    size_t columns = round_up_8(device->max_matrix_rows);
    if (columns > most) columns = most;
    // Slices are cut to a multiple of SLICE_ROWS.
    return each * ((columns + SLICE_ROWS - 1) / SLICE_ROWS * SLICE_ROWS);
}

size_t project_blas_bytes(const Device *device, int max_rows) {
    if (max_rows < PROMPT_ROWS) return 0;
    return blas_bytes() + slice_bytes(device) + sums_floats(device, max_rows) * sizeof(float) +
           (size_t)parts_of_x(device) * part_bytes(device, max_rows);
}

void project_blas_reserve(Device *device) {
    if (device->max_rows < PROMPT_ROWS) return;
    blas_reserve(device);
    BlasScratch *s = (BlasScratch *)host_alloc(device, sizeof *s);
    if (!s) return;
    s->weight_bytes = slice_bytes(device);
    if (s->weight_bytes) s->weights = (uint8_t *)device_alloc(device, s->weight_bytes);
    s->sums_floats = sums_floats(device, device->max_rows);
    if (s->sums_floats) s->sums = (float *)device_alloc(device, s->sums_floats * sizeof(float));
    if (parts_of_x(device))
        s->x = (uint16_t *)device_alloc(device, (size_t)parts_of_x(device) *
                                                    part_bytes(device, device->max_rows));
    if (device_ok(device)) device->blas_scratch = s;
}

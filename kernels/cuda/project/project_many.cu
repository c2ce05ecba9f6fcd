// project for many rows of x, eight of them at a time. Blocks that take the same rows of weights
// for other rows of x run side by side, so that the L2 cache has what one of them has loaded:
// the weights come from memory about once.
#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/project/project.h"

enum { MANY = 8 };

// ---- activations as integers ----

struct QuantiseShared {
    Outlier outliers[OUTLIERS];
    OutlierKeys keys[1];
};

// One block per row of x: its outliers, then its integers.
static __global__ void __launch_bounds__(PROJECT_THREADS)
    quantise_kernel(QuantisedRows out, const float *x, size_t cols, int levels) {
    QuantiseShared &shared = block_memory<QuantiseShared>();
    size_t before = blockIdx.x * cols;
    wait_for_earlier_kernels();
    PlainRow row = {x + before};
    find_outliers(shared.outliers, shared.keys, 1, (unsigned)cols, [&](unsigned) { return row; });
    if (threadIdx.x < OUTLIERS)
        out.outliers[blockIdx.x * OUTLIERS + threadIdx.x] = shared.outliers[threadIdx.x];
    OutlierColumns taken = outlier_columns(shared.outliers);
    quantise_row(out, row, 0, (unsigned)cols, taken, before, levels,
                 [](const float4(&)[2], unsigned) {});
}

void quantise_rows(Device *device, const float *x, int n, size_t cols) {
    assert(is_aligned(x) && cols % CHUNK == 0);
    int levels = device->precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    LAUNCH(device, quantise_kernel, (unsigned)n, PROJECT_THREADS, device->quantised, x, cols,
           levels);
}

// ---- products ----

// The sums of all lanes -> out, by lane 0. MANY rows of x from `first` on, or as many as there are.
// The lanes meet here for the first time: until then each has its own sum over every 32nd chunk, as
// in project_few.cu, so a row of x has the same bits in both.
static __device__ __forceinline__ void store_rows(const ProjectWork &work, int p, size_t row,
                                                  int first, float (&acc)[MANY]) {
    UNROLL
    for (int i = 0; i < MANY; i++) {
        if (first + i >= work.n) continue;
        float sum = warp_sum(acc[i]);
        if (threadIdx.x % WARP) continue;
        if (work.bias[p]) sum += work.bias[p][row];
        work.out[p][(size_t)(first + i) * work.weights[p].rows + row] = sum;
    }
}

template <DType D, int DIGITS>
static __device__ __forceinline__ void dot_many(float (&acc)[MANY], const ProjectWork &work,
                                                const Planes &w, size_t row, int first) {
    size_t chunks = w.cols / CHUNK;
    int n = work.n - first < MANY ? work.n - first : MANY;
    OutlierProduct met = {};
    if constexpr (DIGITS != 0)
        met = load_outlier<D>(w, row, work.z.outliers + (size_t)first * OUTLIERS, n);
    for (size_t c = threadIdx.x % WARP; c < chunks; c += WARP) {
        Chunk<D> chunk = load_chunk<D>(w, row, c, chunks);
        UNROLL
        for (int i = 0; i < MANY; i++) {
            if (i >= n) continue;
            size_t x_row = (size_t)(first + i);
            if constexpr (DIGITS == 0) {
                const float *x = work.x + x_row * w.cols + c * CHUNK;
                acc[i] = dot_chunk_floats<D>(acc[i], chunk, [&](int quad) {
                    const float *four = x + 4 * quad;
                    return float4{four[0], four[1], four[2], four[3]};
                });
            } else {
                acc[i] = dot_chunk<D, DIGITS>(acc[i], chunk, work.z, x_row * chunks + c);
            }
        }
    }
    if constexpr (DIGITS != 0) add_outlier<D, MANY>(acc, met, n);
}

template <DType D, int LOAD>
static __device__ __forceinline__ void dot_many_floats(float (&acc)[MANY], const ProjectWork &work,
                                                       const Planes &w, size_t row, int first) {
    for (size_t col = threadIdx.x % WARP * LOAD; col < w.cols; col += WARP * LOAD) {
        Eight<D> eight;
        float element[1];
        if constexpr (LOAD == FLOAT_LOAD)
            eight = load_eight<D>(w, row, col);
        else
            load_elements<D, 1>(element, w, row, col);
        UNROLL
        for (int i = 0; i < MANY; i++) {
            if (first + i >= work.n) continue;
            const float *x = work.x + (size_t)(first + i) * w.cols + col;
            if constexpr (LOAD == FLOAT_LOAD)
                acc[i] =
                    dot_eight<D>(acc[i], eight, ((const float4 *)x)[0], ((const float4 *)x)[1]);
            else
                acc[i] = fmaf(element[0], *x, acc[i]);
        }
    }
}

// MODE: digits of quantised types; LOAD of float types.
template <DType D, int MODE>
static __global__ void __launch_bounds__(PROJECT_THREADS) project_many_kernel(ProjectWork work) {
    //    blockIdx.x:   0        1        ..  passes-1 | passes ..
    //    weights:      rows 0 .. 7                    | rows 8 .. 15
    //    rows of x:    0 .. 7   8 .. 15  ..           | 0 .. 7 ..
    unsigned passes = ((unsigned)work.n + MANY - 1) / MANY; // side by side: one finds the weights
    unsigned at = blockIdx.x / passes * ROWS_PER_BLOCK + threadIdx.x / WARP; // that another loaded
    if (at >= work.first_row[work.count]) return;                            // the whole warp
    int p = matrix_of_row(work, at), first = (int)(blockIdx.x % passes) * MANY;
    size_t row = at - work.first_row[p];
    float acc[MANY];
    UNROLL
    for (int i = 0; i < MANY; i++)
        acc[i] = 0.0f;
    wait_for_earlier_kernels();
    if constexpr (layout_of(D).low_bits != 0)
        dot_many<D, MODE>(acc, work, work.weights[p], row, first);
    else
        dot_many_floats<D, MODE>(acc, work, work.weights[p], row, first);
    store_rows(work, p, row, first, acc);
}

// ---- choosing ----

template <DType D> static void launch_type(Device *device, const ProjectWork &work) {
    dim3 grid(blocks_for(work.first_row[work.count], ROWS_PER_BLOCK) *
              blocks_for((size_t)work.n, MANY));
    if constexpr (layout_of(D).low_bits != 0) {
        if (device->precision == PRECISION_F32)
            LAUNCH(device, (project_many_kernel<D, 0>), grid, PROJECT_THREADS, work);
        else if (device->precision == PRECISION_A16)
            LAUNCH(device, (project_many_kernel<D, 2>), grid, PROJECT_THREADS, work);
        else
            LAUNCH(device, (project_many_kernel<D, 1>), grid, PROJECT_THREADS, work);
    } else if (whole_loads(work.weights[0], work.x)) {
        LAUNCH(device, (project_many_kernel<D, FLOAT_LOAD>), grid, PROJECT_THREADS, work);
    } else {
        LAUNCH(device, (project_many_kernel<D, 1>), grid, PROJECT_THREADS, work);
    }
}

typedef void LaunchType(Device *device, const ProjectWork &work);
static LaunchType *const TYPES[DTYPE_COUNT] = OF_EVERY_DTYPE(launch_type);

void launch_many(Device *device, const ProjectWork *work) {
    TYPES[work->weights[0].dtype](device, *work);
}

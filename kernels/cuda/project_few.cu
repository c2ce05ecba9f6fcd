// project for few rows of x, as decoding asks for it. Every block makes what it needs of x itself,
// in shared memory: the norm before it, whole numbers for quantised weights. That costs each block
// a few kilobytes out of the second cache and saves a kernel, and the wait between two, per step.
// On the way out a sum is stored, added to the residual stream, or gated by its neighbour; of q, k
// and v, the block that brings the last rows of a head brings the head to its place (place.h).
//
// A grid of a few blocks per processor walks the rows of weights; the first of them is asked for
// before the kernel before this one has ended.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/dot.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/project.h"

enum { MAX_FEW = 4, BLOCKS_PER_PROCESSOR = 4 };
enum { FEW_FLOATS = 8192, FEW_INTEGERS = 12288 }; // of x, all rows together

struct FewShared {
    float parts[PROJECT_THREADS / WARP];
    bool last; // no other block works on the head
};

struct FewFloats {
    float x[FEW_FLOATS];
    FewShared shared;
};

struct FewIntegers {
    alignas(16) int8_t low[FEW_INTEGERS], high[FEW_INTEGERS];
    float scales[FEW_INTEGERS / CHUNK];
    int2 sums[FEW_INTEGERS / CHUNK];
    FewShared shared;
};

// ---- x ----

static __device__ __forceinline__ float row_factor(const ProjectWork &work, const float *x,
                                                   float *parts) {
    if (!work.norm_weight) return 1.0f;
    return norm_factor(x, work.weights[0].cols, 0.0f, work.norm_eps, parts);
}

// Element j of row i after the norm; the first block keeps it for whoever asks.
static __device__ __forceinline__ float normed(const ProjectWork &work, float x, float factor,
                                               size_t i, size_t j) {
    if (!work.norm_weight) return x;
    float y = x * factor * work.norm_weight[j];
    if (!blockIdx.x) work.norm_out[i * work.weights[0].cols + j] = y;
    return y;
}

static __device__ void take_floats(FewFloats &memory, const ProjectWork &work, size_t cols) {
    for (int i = 0; i < work.n; i++) {
        const float *x = work.x + (size_t)i * cols;
        float factor = row_factor(work, x, memory.shared.parts);
        for (size_t j = threadIdx.x; j < cols; j += PROJECT_THREADS)
            memory.x[(size_t)i * cols + j] = normed(work, x[j], factor, (size_t)i, j);
    }
    __syncthreads();
}

static __device__ QuantisedRows take_integers(FewIntegers &memory, const ProjectWork &work,
                                              size_t cols, int digits) {
    QuantisedRows z = {memory.high, memory.low, memory.scales, memory.sums};
    int levels = digits == 1 ? A8_LEVELS : A16_LEVELS;
    if (digits == 1) z.high = NULL;
    for (int i = 0; i < work.n; i++) {
        const float *x = work.x + (size_t)i * cols;
        float factor = row_factor(work, x, memory.shared.parts);
        for (size_t j = threadIdx.x; j < cols; j += PROJECT_THREADS) { // whole warps
            size_t at = (size_t)i * cols + j;
            quantise_group(z, normed(work, x[j], factor, (size_t)i, j), at, at / CHUNK, levels);
        }
    }
    __syncthreads();
    return z;
}

// ---- one row of weights ----

template <DType D, int MODE, int N>
static __device__ __forceinline__ void dot_row(float (&acc)[N], const Planes &w, size_t row,
                                               const QuantisedRows &z, const float *x, int n) {
    for (int i = 0; i < N; i++)
        acc[i] = 0.0f;
    if constexpr (layout_of(D).low_bits != 0) {
        size_t chunks = w.cols / CHUNK;
        for (size_t c = threadIdx.x % WARP; c < chunks; c += WARP) {
            Chunk<D> chunk = load_chunk<D>(w, row, c, chunks);
            for (int i = 0; i < N; i++) {
                size_t x_row = (size_t)(i < n ? i : 0);
                if (MODE == 0)
                    acc[i] = dot_chunk_floats<D>(acc[i], chunk, x + x_row * w.cols + c * CHUNK);
                else
                    acc[i] = dot_chunk<D, MODE>(acc[i], chunk, z, x_row * chunks + c);
            }
        }
    } else {
        for (size_t col = threadIdx.x % WARP * MODE; col < w.cols; col += WARP * MODE) {
            float elements[MODE ? MODE : 1];
            load_elements<D, MODE>(elements, w, row, col);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < MODE; j++)
                    acc[i] =
                        fmaf(elements[j], x[(size_t)(i < n ? i : 0) * w.cols + col + j], acc[i]);
        }
    }
    for (int i = 0; i < N; i++)
        acc[i] = warp_sum(acc[i]);
}

// up and gate are the first and the second matrix, as model/ projects them.
template <DType D, int MODE, int N>
static __device__ __forceinline__ void gated_row(const ProjectWork &work, unsigned row,
                                                 const QuantisedRows &z, const float *x) {
    float up[N], gate[N];
    dot_row<D, MODE, N>(up, work.weights[0], row, z, x, work.n);
    dot_row<D, MODE, N>(gate, work.weights[1], row, z, x, work.n);
    if (threadIdx.x % WARP) return;
    for (int i = 0; i < N && i < work.n; i++) {
        float u = work.bias[0] ? up[i] + work.bias[0][row] : up[i];
        float g = work.bias[1] ? gate[i] + work.bias[1][row] : gate[i];
        size_t at = (size_t)i * work.weights[1].rows + row;
        work.out[0][at] = u;
        work.out[1][at] = activation(g, work.activation) * u;
    }
}

template <DType D, int MODE, int N>
static __device__ __forceinline__ void plain_row(const ProjectWork &work, unsigned at,
                                                 const QuantisedRows &z, const float *x) {
    int p = matrix_of_row(work, at);
    size_t row = at - work.first_row[p];
    float acc[N];
    dot_row<D, MODE, N>(acc, work.weights[p], row, z, x, work.n);
    if (threadIdx.x % WARP) return;
    for (int i = 0; i < N && i < work.n; i++) {
        float sum = work.bias[p] ? acc[i] + work.bias[p][row] : acc[i];
        size_t to = (size_t)i * work.weights[p].rows + row;
        work.out[p][to] = sum;
        if (work.epilogue == EPILOGUE_ADD) work.residual[to] += sum;
    }
}

// After the rows from `first` on: those of one head, since heads are whole blocks of rows.
static __device__ void finish_head(const ProjectWork &work, unsigned first, FewShared &shared) {
    unsigned head_dim = (unsigned)work.place.kv.head_dim, head = first / head_dim;
    if (!arrives_last(work.arrived + head, head_dim / ROWS_PER_BLOCK, shared.last)) return;
    for (int i = 0; i < work.n; i++)
        place_head(work.place, i, (int)head, shared.parts);
}

static __device__ __forceinline__ void ask_for_first_row(const ProjectWork &work, unsigned at) {
    int p = matrix_of_row(work, at);
    const Planes &w = work.weights[p];
    size_t row_bytes = w.row_bytes, lane = threadIdx.x % WARP * 128;
    if (lane < row_bytes) prefetch(w.low + (at - work.first_row[p]) * row_bytes + lane);
}

template <DType D, int MODE, int N>
static __global__ void __launch_bounds__(PROJECT_THREADS) project_few_kernel(ProjectWork work) {
    constexpr bool INTEGERS = layout_of(D).low_bits != 0 && MODE != 0;
    unsigned rows =
        work.epilogue == EPILOGUE_ACTIVATE ? work.first_row[1] : work.first_row[work.count];
    unsigned at = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP;
    unsigned step = gridDim.x * ROWS_PER_BLOCK;
    if (at < rows) ask_for_first_row(work, at);
    wait_for_earlier_kernels();
    QuantisedRows z = {};
    const float *x = NULL;
    FewShared *shared;
    if constexpr (INTEGERS) {
        FewIntegers &memory = block_memory<FewIntegers>();
        z = take_integers(memory, work, work.weights[0].cols, MODE);
        shared = &memory.shared;
    } else {
        FewFloats &memory = block_memory<FewFloats>();
        take_floats(memory, work, work.weights[0].cols);
        x = memory.x;
        shared = &memory.shared;
    }
    let_next_kernel_start();
    for (; at < rows; at += step) {
        if (work.epilogue == EPILOGUE_ACTIVATE)
            gated_row<D, MODE, N>(work, at, z, x);
        else
            plain_row<D, MODE, N>(work, at, z, x);
        if (work.epilogue == EPILOGUE_PLACE) finish_head(work, at - threadIdx.x / WARP, *shared);
    }
}

// ---- choosing ----

bool fits_few(const Device *device, const ProjectWork *work) {
    bool integers = meets_integers(device, work->weights[0].dtype);
    size_t numbers = (size_t)work->n * work->weights[0].cols;
    return work->n <= MAX_FEW && numbers <= (size_t)(integers ? FEW_INTEGERS : FEW_FLOATS);
}

template <DType D, int N>
static void launch_rows(Device *device, const ProjectWork &work, dim3 grid) {
    if constexpr (layout_of(D).low_bits != 0) {
        if (device->precision == PRECISION_F32)
            LAUNCH_OVERLAPPED(device, (project_few_kernel<D, 0, N>), grid, PROJECT_THREADS, work);
        else if (device->precision == PRECISION_A16)
            LAUNCH_OVERLAPPED(device, (project_few_kernel<D, 2, N>), grid, PROJECT_THREADS, work);
        else
            LAUNCH_OVERLAPPED(device, (project_few_kernel<D, 1, N>), grid, PROJECT_THREADS, work);
    } else if (work.weights[0].cols % FLOAT_LOAD == 0) {
        LAUNCH_OVERLAPPED(device, (project_few_kernel<D, FLOAT_LOAD, N>), grid, PROJECT_THREADS,
                          work);
    } else {
        LAUNCH_OVERLAPPED(device, (project_few_kernel<D, 1, N>), grid, PROJECT_THREADS, work);
    }
}

template <DType D> static void launch_type(Device *device, const ProjectWork &work) {
    unsigned rows = work.first_row[work.count];
    unsigned blocks = blocks_for(rows, ROWS_PER_BLOCK);
    unsigned most = (unsigned)device->n_processors * BLOCKS_PER_PROCESSOR;
    dim3 grid(blocks < most ? blocks : most);
    if (work.n == 1)
        launch_rows<D, 1>(device, work, grid);
    else
        launch_rows<D, MAX_FEW>(device, work, grid);
}

typedef void LaunchType(Device *device, const ProjectWork &work);
static LaunchType *const TYPES[DTYPE_COUNT] = OF_EVERY_DTYPE(launch_type);

void launch_few(Device *device, const ProjectWork *work) {
    TYPES[work->weights[0].dtype](device, *work);
}

// project for few rows of x, as decoding asks for it. Every block makes what it needs of x itself,
// in shared memory: the norm before it, whole numbers for quantised weights. That costs each block
// a few kilobytes out of the second cache and saves a kernel, and the wait between two, per step.
// On the way out a sum is stored, added to the residual stream, or gated by its neighbour; of q, k
// and v, the block that brings the last rows of a head brings the head to its place (place.h).
//
// However many columns there are: what shared memory has no room for passes through it in pieces.
//
// A grid of a few blocks per processor walks the rows of weights; the first of them is asked for
// before the kernel before this one has ended.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/dot.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/project.h"

#include <type_traits>

enum { MAX_FEW = 8 };
enum { FEW_FLOATS = 8192, FEW_INTEGERS = 12288 }; // of x at once, all rows together

// Loads of 16 bytes that a lane has under way: with 32 warps to a processor some 64 KiB, where the
// memory of an H100 asks for about 20 to be busy.
enum { LOADS = 4 };

// Sums of several rows take registers: then fewer blocks fit.
constexpr unsigned blocks_per_processor(int n) {
    return n == 1 ? 3 : 2;
}

struct FewShared {
    float parts[PROJECT_THREADS / WARP];
    float factors[MAX_FEW]; // of the norm, by row of x
    bool last;              // no other block works on the head
};

struct FewFloats {
    alignas(16) float x[FEW_FLOATS];
    FewShared shared;
};

struct FewIntegers {
    alignas(16) int8_t low[FEW_INTEGERS], high[FEW_INTEGERS];
    float scales[FEW_INTEGERS / CHUNK];
    int2 sums[FEW_INTEGERS / CHUNK];
    Outlier outliers[MAX_FEW * OUTLIERS];
    uint64_t largest[PROJECT_THREADS / WARP];
    FewShared shared;
};

// What shared memory holds depends on what the weights are multiplied with.
template <DType D, int MODE>
constexpr bool MEETS_INTEGERS = layout_of(D).low_bits != 0 && MODE != 0;
template <DType D, int MODE>
using Memory = std::conditional_t<MEETS_INTEGERS<D, MODE>, FewIntegers, FewFloats>;

// ---- x ----

// Columns first .. end of x are in shared memory, `stride` of them per row: all columns, or as many
// as there is room for in whole passes of a warp, so that a lane meets its columns in one order.
struct Piece {
    size_t first, end, stride;
};

static __device__ __forceinline__ Piece first_piece(size_t cols, int n, size_t room) {
    size_t whole = (cols + CHUNK - 1) / CHUNK * CHUNK, share = room / (size_t)n;
    size_t stride = whole <= share ? whole : share / (WARP * CHUNK) * (WARP * CHUNK);
    return Piece{0, cols < stride ? cols : stride, stride};
}

static __device__ __forceinline__ Piece piece_after(const Piece &piece, size_t cols) {
    size_t end = piece.end + piece.stride;
    return Piece{piece.end, end < cols ? end : cols, piece.stride};
}

// Where column j of a piece lies. Lanes read 16 bytes each, 32 or 128 bytes apart, and shared
// memory serves eight lanes at once: every 128 bytes have their eight quads in another order, so
// that no two of the eight meet in a bank.
static __device__ __forceinline__ size_t float_place(size_t j) {
    return j ^ (j >> 3 & 28);
}

static __device__ void take_factors(FewShared &shared, const ProjectWork &work, size_t cols) {
    for (int i = 0; i < work.n && work.norm_weight; i++) {
        float factor =
            norm_factor(work.x + (size_t)i * cols, cols, 0.0f, work.norm_eps, shared.parts);
        if (!threadIdx.x) shared.factors[i] = factor;
    }
    __syncthreads();
}

// Element j of row i after the norm; `keep`: for whoever asks.
static __device__ __forceinline__ float normed(const ProjectWork &work, const FewShared &shared,
                                               size_t i, size_t j, bool keep) {
    size_t at = i * work.weights[0].cols + j;
    float x = work.x[at];
    if (!work.norm_weight) return x;
    float y = x * shared.factors[i] * work.norm_weight[j];
    if (keep) work.norm_out[at] = y;
    return y;
}

static __device__ void take(FewFloats &memory, const ProjectWork &work, const Piece &piece,
                            int digits, bool keep) {
    (void)digits;
    for (size_t i = 0; i < (size_t)work.n; i++)
        for (size_t j = piece.first + threadIdx.x; j < piece.end; j += PROJECT_THREADS)
            memory.x[i * piece.stride + float_place(j - piece.first)] =
                normed(work, memory.shared, i, j, keep);
}

static __device__ __forceinline__ QuantisedRows rows_of(FewIntegers &memory, int digits) {
    return QuantisedRows{digits == 1 ? NULL : memory.high, memory.low, memory.scales, memory.sums,
                         memory.outliers};
}

static __device__ void take_outliers(FewFloats &memory, const ProjectWork &work) {
    (void)memory, (void)work;
}

static __device__ void take_outliers(FewIntegers &memory, const ProjectWork &work) {
    for (size_t i = 0; i < (size_t)work.n; i++)
        find_outliers(memory.outliers + i * OUTLIERS, memory.largest, work.weights[0].cols,
                      [&](size_t j) { return normed(work, memory.shared, i, j, false); });
}

static __device__ void take(FewIntegers &memory, const ProjectWork &work, const Piece &piece,
                            int digits, bool keep) {
    QuantisedRows z = rows_of(memory, digits);
    int levels = digits == 1 ? A8_LEVELS : A16_LEVELS;
    for (size_t i = 0; i < (size_t)work.n; i++)
        for (size_t j = piece.first + threadIdx.x; j < piece.end; j += PROJECT_THREADS) {
            size_t at = i * piece.stride + (j - piece.first); // whole warps
            float x = normed(work, memory.shared, i, j, keep);
            if (has_left(memory.outliers + i * OUTLIERS, OUTLIERS, j)) x = 0.0f;
            quantise_group(z, x, at, at / CHUNK, levels);
        }
}

// ---- a row of weights, of R matrices at once ----

// Chunks of 32 columns; the lane's loads are all asked for before the first is looked at.
template <DType D, int MODE, int N, int R>
static __device__ __forceinline__ void add_chunks(float (&acc)[R][N], const Planes *w, size_t row,
                                                  Memory<D, MODE> &memory, const Piece &piece,
                                                  int n) {
    constexpr int STEPS = layout_of(D).low_bits == 8 || R == 2 ? 1 : 2;
    size_t chunks = w->cols / CHUNK, before = piece.first / CHUNK, end = piece.end / CHUNK;
    for (size_t c = before + threadIdx.x % WARP; c < end; c += STEPS * WARP) {
        Chunk<D> chunk[R][STEPS];
        UNROLL
        for (int s = 0; s < STEPS; s++)
            UNROLL
        for (int r = 0; r < R; r++)
            if (c + s * WARP < end) chunk[r][s] = load_chunk<D>(w[r], row, c + s * WARP, chunks);
        UNROLL
        for (int s = 0; s < STEPS; s++) {
            if (c + s * WARP >= end) continue; // and no `break`, so that loops unroll
            size_t at = c + s * WARP - before;
            UNROLL
            for (int i = 0; i < N; i++) {
                UNROLL
                for (int r = 0; r < R; r++) {
                    if (i >= n) continue;
                    if constexpr (MODE == 0) {
                        const float *x = memory.x + i * piece.stride;
                        acc[r][i] = dot_chunk_floats<D>(acc[r][i], chunk[r][s], [&](int quad) {
                            return *(const float4 *)(x + float_place(at * CHUNK + 4 * quad));
                        });
                    } else {
                        acc[r][i] =
                            dot_chunk<D, MODE>(acc[r][i], chunk[r][s], rows_of(memory, MODE),
                                               i * (piece.stride / CHUNK) + at);
                    }
                }
            }
        }
    }
}

// Float weights, eight columns at a time.
template <DType D, int N, int R>
static __device__ __forceinline__ void add_eights(float (&acc)[R][N], const Planes *w, size_t row,
                                                  const FewFloats &memory, const Piece &piece,
                                                  int n) {
    constexpr int STEPS = LOADS / (D == DTYPE_F32 ? 2 : 1) / R;
    constexpr size_t STEP = WARP * FLOAT_LOAD;
    for (size_t col = piece.first + threadIdx.x % WARP * FLOAT_LOAD; col < piece.end;
         col += STEPS * STEP) {
        Eight<D> eight[R][STEPS];
        UNROLL
        for (int s = 0; s < STEPS; s++)
            UNROLL
        for (int r = 0; r < R; r++)
            if (col + s * STEP < piece.end) eight[r][s] = load_eight<D>(w[r], row, col + s * STEP);
        UNROLL
        for (int s = 0; s < STEPS; s++) {
            if (col + s * STEP >= piece.end) continue; // and no `break`, so that loops unroll
            size_t j = col + s * STEP - piece.first;
            UNROLL
            for (int i = 0; i < N; i++) {
                if (i >= n) continue;
                const float *x = memory.x + i * piece.stride;
                const float4 low = *(const float4 *)(x + float_place(j));
                const float4 high = *(const float4 *)(x + float_place(j + 4));
                UNROLL
                for (int r = 0; r < R; r++)
                    acc[r][i] = dot_eight<D>(acc[r][i], eight[r][s], low, high);
            }
        }
    }
}

// And one at a time, where rows do not hold whole eights.
template <DType D, int N, int R>
static __device__ __forceinline__ void add_ones(float (&acc)[R][N], const Planes *w, size_t row,
                                                const FewFloats &memory, const Piece &piece,
                                                int n) {
    for (size_t col = piece.first + threadIdx.x % WARP; col < piece.end; col += WARP)
        UNROLL
    for (int r = 0; r < R; r++) {
        float element[1];
        load_elements<D, 1>(element, w[r], row, col);
        UNROLL
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            float x = memory.x[i * piece.stride + float_place(col - piece.first)];
            acc[r][i] = fmaf(element[0], x, acc[r][i]);
        }
    }
}

// Row `row` of R matrices from w on, times all of x: sums of whole warps. All threads of the block
// come here, also those without a row, since x passes through shared memory in pieces; `first`: for
// the first time, so that nothing of x is there yet.
template <DType D, int MODE, int N, int R>
static __device__ __forceinline__ void dot_rows(float (&acc)[R][N], const ProjectWork &work,
                                                const Planes *w, size_t row, bool has_row,
                                                Memory<D, MODE> &memory, bool first) {
    constexpr size_t ROOM = MEETS_INTEGERS<D, MODE> ? FEW_INTEGERS : FEW_FLOATS;
    size_t cols = work.weights[0].cols;
    int n = N == 1 ? 1 : work.n;
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int i = 0; i < N; i++)
        acc[r][i] = 0.0f;
    Piece piece = first_piece(cols, n, ROOM);
    for (; piece.first < cols; piece = piece_after(piece, cols)) {
        if (first || piece.stride < cols) {
            __syncthreads(); // nobody reads the piece before
            take(memory, work, piece, MODE, first && !blockIdx.x);
            __syncthreads();
        }
        if (!has_row) continue;
        if constexpr (layout_of(D).low_bits != 0)
            add_chunks<D, MODE, N, R>(acc, w, row, memory, piece, n);
        else if constexpr (MODE == FLOAT_LOAD)
            add_eights<D, N, R>(acc, w, row, memory, piece, n);
        else
            add_ones<D, N, R>(acc, w, row, memory, piece, n);
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int i = 0; i < N; i++)
        if (has_row && i < n) acc[r][i] = warp_sum(acc[r][i]);
    if constexpr (MEETS_INTEGERS<D, MODE>)
        if (has_row) add_outliers<D, N, R>(acc, w, row, memory.outliers, n);
}

// up and gate are the first and the second matrix, as model/ projects them.
template <DType D, int MODE, int N>
static __device__ __forceinline__ void gated_row(const ProjectWork &work, size_t row, bool has_row,
                                                 Memory<D, MODE> &memory, bool first) {
    float acc[2][N];
    dot_rows<D, MODE, N, 2>(acc, work, work.weights, row, has_row, memory, first);
    if (!has_row || threadIdx.x % WARP) return;
    UNROLL
    for (int i = 0; i < N; i++) {
        if (i >= work.n) continue;
        float up = work.bias[0] ? acc[0][i] + work.bias[0][row] : acc[0][i];
        float gate = work.bias[1] ? acc[1][i] + work.bias[1][row] : acc[1][i];
        size_t to = (size_t)i * work.weights[1].rows + row;
        work.out[0][to] = up;
        work.out[1][to] = activation(gate, work.activation) * up;
    }
}

template <DType D, int MODE, int N>
static __device__ __forceinline__ void plain_row(const ProjectWork &work, unsigned at, bool has_row,
                                                 Memory<D, MODE> &memory, bool first) {
    int p = matrix_of_row(work, at);
    size_t row = at - work.first_row[p];
    float acc[1][N];
    dot_rows<D, MODE, N, 1>(acc, work, work.weights + p, row, has_row, memory, first);
    if (!has_row || threadIdx.x % WARP) return;
    UNROLL
    for (int i = 0; i < N; i++) {
        if (i >= work.n) continue;
        float sum = work.bias[p] ? acc[0][i] + work.bias[p][row] : acc[0][i];
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
static __global__ void __launch_bounds__(PROJECT_THREADS, blocks_per_processor(N))
    project_few_kernel(ProjectWork work) {
    unsigned rows =
        work.epilogue == EPILOGUE_ACTIVATE ? work.first_row[1] : work.first_row[work.count];
    unsigned first = blockIdx.x * ROWS_PER_BLOCK, warp = threadIdx.x / WARP;
    if (first + warp < rows) ask_for_first_row(work, first + warp);
    wait_for_earlier_kernels();
    Memory<D, MODE> &memory = block_memory<Memory<D, MODE>>();
    take_factors(memory.shared, work, work.weights[0].cols);
    take_outliers(memory, work);
    let_next_kernel_start();
    for (unsigned at = first; at < rows; at += gridDim.x * ROWS_PER_BLOCK) { // the block's
        bool has_row = at + warp < rows;
        if (work.epilogue == EPILOGUE_ACTIVATE)
            gated_row<D, MODE, N>(work, at + warp, has_row, memory, at == first);
        else
            plain_row<D, MODE, N>(work, at + warp, has_row, memory, at == first);
        if (work.epilogue == EPILOGUE_PLACE) finish_head(work, at, memory.shared);
    }
}

// ---- choosing ----

bool fits_few(const ProjectWork *work) {
    return work->n <= MAX_FEW;
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
    unsigned most = (unsigned)device->n_processors * blocks_per_processor(work.n);
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

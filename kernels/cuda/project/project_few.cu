// project for few rows of x, as in decoding. Every block prepares its own copy of x in shared
// memory: the norm before it, integers for quantised weights. That costs each block a few kilobytes
// read from L2 and saves a kernel, and the wait between two, per step. The epilogue stores a sum,
// adds it to the residual stream or gates it by its neighbour; of q, k and v, the block that
// finishes the last rows of a head also applies the head's norm and rotation (steps.h).
//
// However many columns there are: what shared memory has no room for passes through it in slices.
// However many types: a file of Q4_K_M has wv in another type than wq. A warp takes one row of one
// matrix at a time, so it branches on the type once, and a kernel has code for all types that meet
// x in the same form.
//
// A grid of a few blocks per processor walks the rows of weights. Blocks take up to eight rows of
// x, as many as fit; one row and float weights of one type have a kernel of their own
// (project_one.cu). For more, several grids of fewer blocks walk the weights side by side, so that
// the L2 cache has for the others what one of them has loaded.
#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/project/row_walk.h"
#include "kernels/cuda/project/shared_x.h"
#include "kernels/cuda/steps.h"

enum { MAX_FEW = 32 }; // rows of x

// Loads of 16 bytes in flight per lane of float weights. With 24 warps on a processor they are 48
// KiB, where an H100 needs about 20 KiB to keep its memory busy. A quantised matrix with so few
// rows that a processor gets one or two blocks has SPARSE: twice as many bytes from each warp. What
// is added, and in which order, is the same, so the choice may depend on the GPU.
enum { LOADS = 4 };
enum Loads { FULL, SPARSE };

// More loads, and sums of several rows, take registers: then fewer blocks fit.
constexpr unsigned blocks_per_processor(int n, Loads loads) {
    return n == 1 && loads == FULL ? 3 : 2;
}

// ---- a row of weights, of R matrices at once ----

static __device__ __forceinline__ size_t clamp_index(size_t i, size_t last) {
    return i < last ? i : last;
}

// Chunks of 32 columns; all loads of the lane are issued before the first result is used. None of
// them is conditional, since a branch would wait for the first one: past the end the last chunk is
// loaded again.
template <DType D, InputForm M, int N, int R, Loads L>
static __device__ __forceinline__ void add_chunks(float (&acc)[R][N], const Planes *w, size_t row,
                                                  Memory<M, N> &memory, const ColumnSlice &slice,
                                                  int n) {
    // Unpacking takes registers: half of the loads, of two chunks of nibbles, of one chunk of
    // bytes, or (R 2) of one chunk of nibbles from each matrix. With SPARSE four chunks of either.
    constexpr int STEPS = L == SPARSE ? 4 / R : layout_of(D).low_bits == 8 || R == 2 ? 1 : 2;
    size_t chunks = w->cols / CHUNK, before = slice.first / CHUNK, end = slice.end / CHUNK;
    for (size_t c = before + threadIdx.x % WARP; c < end; c += STEPS * WARP) {
        Chunk<D> chunk[R][STEPS];
        UNROLL
        for (int s = 0; s < STEPS; s++)
            UNROLL
        for (int r = 0; r < R; r++)
            chunk[r][s] = load_chunk<D>(w[r], row, clamp_index(c + s * WARP, end - 1), chunks);
        UNROLL
        for (int s = 0; s < STEPS; s++) {
            if (c + s * WARP >= end) continue; // and no `break`, so that loops unroll
            size_t at = c + s * WARP - before;
            UNROLL
            for (int i = 0; i < N; i++) {
                UNROLL
                for (int r = 0; r < R; r++) {
                    if (i >= n) continue;
                    if constexpr (M == DEQUANTISED) {
                        const float *x = memory.x + i * slice.stride;
                        acc[r][i] = dot_chunk_floats<D>(acc[r][i], chunk[r][s], [&](int quad) {
                            return *(const float4 *)(x + swizzle_float(at * CHUNK + 4 * quad));
                        });
                    } else {
                        acc[r][i] = dot_chunk<D, digits_of(M)>(acc[r][i], chunk[r][s],
                                                               rows_of(memory, digits_of(M)),
                                                               i * (slice.stride / CHUNK) + at);
                    }
                }
            }
        }
    }
}

// Float weights, eight columns at a time.
template <DType D, int N, int R, Loads L>
static __device__ __forceinline__ void add_vectors(float (&acc)[R][N], const Planes *w, size_t row,
                                                   const FewFloats<N> &memory,
                                                   const ColumnSlice &slice, int n) {
    // Eight float32 are two loads, eight 16-bit elements one.
    constexpr int STEPS = LOADS / (D == DTYPE_F32 ? 2 : 1) / R;
    constexpr size_t STEP = WARP * FLOAT_LOAD;
    for (size_t col = slice.first + threadIdx.x % WARP * FLOAT_LOAD; col < slice.end;
         col += STEPS * STEP) {
        Eight<D> eight[R][STEPS];
        UNROLL
        for (int s = 0; s < STEPS; s++)
            UNROLL
        for (int r = 0; r < R; r++)
            eight[r][s] =
                load_eight<D>(w[r], row, clamp_index(col + s * STEP, slice.end - FLOAT_LOAD));
        UNROLL
        for (int s = 0; s < STEPS; s++) {
            if (col + s * STEP >= slice.end) continue; // and no `break`, so that loops unroll
            size_t j = col + s * STEP - slice.first;
            UNROLL
            for (int i = 0; i < N; i++) {
                if (i >= n) continue;
                const float *x = memory.x + i * slice.stride;
                const float4 low = *(const float4 *)(x + swizzle_float(j));
                const float4 high = *(const float4 *)(x + swizzle_float(j + 4));
                UNROLL
                for (int r = 0; r < R; r++)
                    acc[r][i] = dot_eight<D>(acc[r][i], eight[r][s], low, high);
            }
        }
    }
}

// One at a time, where the number of columns is no multiple of 8.
template <DType D, int N, int R>
static __device__ __forceinline__ void add_scalars(float (&acc)[R][N], const Planes *w, size_t row,
                                                   const FewFloats<N> &memory,
                                                   const ColumnSlice &slice, int n) {
    for (size_t col = slice.first + threadIdx.x % WARP; col < slice.end; col += WARP)
        UNROLL
    for (int r = 0; r < R; r++) {
        float element[1];
        load_elements<D, 1>(element, w[r], row, col);
        UNROLL
        for (int i = 0; i < N; i++) {
            if (i >= n) continue;
            float x = memory.x[i * slice.stride + swizzle_float(col - slice.first)];
            acc[r][i] = fmaf(element[0], x, acc[r][i]);
        }
    }
}

// Outliers belong to whole rows of x, so they are added once, with the last slice, and last
// (precision.h).
template <DType D, InputForm M, int N, int R, Loads L>
static __device__ __forceinline__ void add_integers(float (&acc)[R][N], const Planes *w, size_t row,
                                                    Memory<M, N> &memory, const ColumnSlice &slice,
                                                    int n) {
    bool is_last = slice.end == w->cols;
    OutlierProduct met[R] = {};
    UNROLL
    for (int r = 0; r < R; r++)
        if (is_last) met[r] = load_outlier<D>(w[r], row, memory.outliers, n);
    add_chunks<D, M, N, R, L>(acc, w, row, memory, slice, n);
    UNROLL
    for (int r = 0; r < R; r++)
        if (is_last) add_outlier<D, N>(acc[r], met[r], n);
}

// What is in shared memory of x, times the same columns of R matrices of one type.
template <InputForm M, int N, int R, Loads L>
static __device__ __forceinline__ void add_slice(float (&acc)[R][N], const Planes *w, size_t row,
                                                 Memory<M, N> &memory, const ColumnSlice &slice,
                                                 int n) {
    with_type(w->dtype, [&](auto type) {
        if constexpr (!accepts(M, type.value))
            return;
        else if constexpr (M == FLOAT_SCALAR)
            add_scalars<type.value, N, R>(acc, w, row, memory, slice, n);
        else if constexpr (M == FLOAT_VECTOR)
            add_vectors<type.value, N, R, L>(acc, w, row, memory, slice, n);
        else if constexpr (digits_of(M) != 0)
            add_integers<type.value, M, N, R, L>(acc, w, row, memory, slice, n);
        else
            add_chunks<type.value, M, N, R, L>(acc, w, row, memory, slice, n);
    });
}

// Row `row` of R matrices from w on, times all rows of the group: sums of whole warps. All threads
// of the block come here, also those without a row, since x passes through shared memory in slices;
// `first`: for the first time, so that nothing of x is there yet.
template <InputForm M, int N, int R, Loads L>
static __device__ __forceinline__ void dot_rows(float (&acc)[R][N], const ProjectWork &work,
                                                const Group &group, const Planes *w, size_t row,
                                                bool has_row, Memory<M, N> &memory, bool first) {
    size_t cols = work.weights[0].cols;
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int i = 0; i < N; i++)
        acc[r][i] = 0.0f;
    ColumnSlice slice = first_slice(cols, group.n, Memory<M, N>::ROOM);
    for (; slice.first < cols; slice = slice_after(slice, cols)) {
        // Where all columns fit, x is taken once and serves all rows that the block walks over.
        // Else each row of weights makes all slices pass through shared memory again.
        if (first || slice.stride < cols) {
            __syncthreads(); // no thread still reads the last slice
            // Only block 0 of a group writes the norm's output to global memory, while it takes x
            // for the first time.
            take<M, N>(memory, work, group, slice, first && !blockIdx.x);
            __syncthreads();
        }
        if (has_row) add_slice<M, N, R, L>(acc, w, row, memory, slice, group.n);
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
    for (int i = 0; i < N; i++)
        if (has_row && i < group.n) acc[r][i] = warp_sum(acc[r][i]);
}

// up and gate are the first and the second matrix, as model/ projects them; of one type.
template <InputForm M, int N, Loads L>
static __device__ __forceinline__ void gated_row(const ProjectWork &work, const Group &group,
                                                 size_t row, bool has_row, Memory<M, N> &memory,
                                                 bool first) {
    float acc[2][N];
    dot_rows<M, N, 2, L>(acc, work, group, work.weights, row, has_row, memory, first);
    if (!has_row || threadIdx.x % WARP) return;
    UNROLL
    for (int i = 0; i < N; i++) {
        if (i >= group.n) continue;
        float up = work.bias[0] ? acc[0][i] + work.bias[0][row] : acc[0][i];
        float gate = work.bias[1] ? acc[1][i] + work.bias[1][row] : acc[1][i];
        size_t to = (group.first + (size_t)i) * work.weights[1].rows + row;
        work.out[0][to] = up;
        work.out[1][to] = activation(gate, work.activation) * up;
    }
}

template <InputForm M, int N, Loads L>
static __device__ __forceinline__ void plain_row(const ProjectWork &work, const Group &group,
                                                 unsigned at, bool has_row, Memory<M, N> &memory,
                                                 bool first) {
    int p = matrix_of_row(work, at);
    size_t row = at - work.first_row[p];
    float acc[1][N];
    dot_rows<M, N, 1, L>(acc, work, group, work.weights + p, row, has_row, memory, first);
    if (!has_row || threadIdx.x % WARP) return;
    UNROLL
    for (int i = 0; i < N; i++) {
        if (i >= group.n) continue;
        float sum = work.bias[p] ? acc[0][i] + work.bias[p][row] : acc[0][i];
        size_t to = (group.first + (size_t)i) * work.weights[p].rows + row;
        work.out[p][to] = sum;
        if (work.epilogue == EPILOGUE_ADD) work.residual[to] += sum;
    }
}

// Grid: a walk over the rows of weights; groups of rows of x.
template <InputForm M, int N, Loads L>
static __global__ void __launch_bounds__(PROJECT_THREADS, blocks_per_processor(N, L))
    project_few_kernel(ProjectWork work) {
    unsigned rows = walked_rows(work);
    unsigned first = blockIdx.x * ROWS_PER_BLOCK, warp = threadIdx.x / WARP;
    wait_for_earlier_kernels();
    let_next_kernel_start(); // its blocks may take their places
    Memory<M, N> &memory = block_memory<Memory<M, N>>();
    Group group = group_of_block<N>(work);
    compute_factors(memory.shared, work, group, work.weights[0].cols);
    collect_outliers<M, N>(memory, work, group);
    for (unsigned at = first; at < rows; at += gridDim.x * ROWS_PER_BLOCK) { // the block's
        bool has_row = at + warp < rows;
        if (L == FULL && work.epilogue == EPILOGUE_ACTIVATE)
            gated_row<M, N, L>(work, group, at + warp, has_row, memory, at == first);
        else
            plain_row<M, N, L>(work, group, at + warp, has_row, memory, at == first);
        if (work.epilogue == EPILOGUE_HEADS) // whose rows are whole runs of eight
            finish_heads(work, group, at, at + ROWS_PER_BLOCK, memory.shared);
    }
}

// ---- choosing ----

bool fits_few(const Device *device, int n) {
    return n <= MAX_FEW && !device->switches.nofew;
}

// Groups of rows that fit in shared memory whole: x is then taken once, while in slices it is taken
// again for every eight rows of weights. Each group reads all weights from L2: with rows as long
// that fewer than LEAST of them fit, slices read less.
unsigned few_groups(const Device *device, const ProjectWork *work) {
    bool integers = digits_of(form_of(device, work)) != 0;
    size_t room = integers ? integer_room(work->n) : float_room(work->n), least = integers ? 2 : 3;
    size_t fit = room / ((work->weights[0].cols + CHUNK - 1) / CHUNK * CHUNK);
    if (fit < least || fit > GROUP_ROWS) fit = GROUP_ROWS;
    return blocks_for((size_t)work->n, fit);
}

// As many blocks as run at once, in all groups together; each walks on to its next rows.
template <InputForm M, int N, Loads L>
static void launch_kernel(Device *device, const ProjectWork &work, unsigned blocks,
                          unsigned groups) {
    unsigned most = (unsigned)device->n_processors * blocks_per_processor(N, L) / groups;
    if (!most) most = 1;
    dim3 grid(blocks < most ? blocks : most, groups);
    LAUNCH_OVERLAPPED(device, (project_few_kernel<M, N, L>), grid, PROJECT_THREADS, work);
}

// One row of x has kernels of its own: fewer registers, so a third block fits on a processor.
template <InputForm M> static void launch_form(Device *device, const ProjectWork &work) {
    unsigned blocks = blocks_for(walked_rows(work), ROWS_PER_BLOCK);
    constexpr Loads FEW_BLOCKS = digits_of(M) ? SPARSE : FULL;
    unsigned few = (unsigned)device->n_processors * blocks_per_processor(1, SPARSE);
    if (work.n > 1)
        launch_kernel<M, GROUP_ROWS, FULL>(device, work, blocks, few_groups(device, &work));
    else if (blocks > few || work.epilogue == EPILOGUE_ACTIVATE)
        launch_kernel<M, 1, FULL>(device, work, blocks, 1);
    else
        launch_kernel<M, 1, FEW_BLOCKS>(device, work, blocks, 1);
}

void launch_few(Device *device, const ProjectWork *work) {
    typedef void LaunchForm(Device * device, const ProjectWork &work);
    static LaunchForm *const FORMS[] = {launch_form<FLOAT_SCALAR>, launch_form<FLOAT_VECTOR>,
                                        launch_form<DEQUANTISED>, launch_form<ONE_DIGIT>,
                                        launch_form<TWO_DIGITS>};
    InputForm form = form_of(device, work);
    assert(form == FLOAT_SCALAR ||
           (is_aligned(work->x) && is_aligned(work->norm_weight) && is_aligned(work->norm_out)));
    if (chain_project(device, work)) return;
    if (form == FLOAT_VECTOR && launch_one(device, work)) return;
    FORMS[form](device, *work);
}

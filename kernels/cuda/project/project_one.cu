// project for one row of x and float weights, as a single sequence decodes. The time of such a
// product is that of reading its weights, so memory must never wait for anything else:
//
//   every warp has two batches of loads of its own rows, in registers. While it multiplies the one,
//     the other is on its way; a batch is asked for again as soon as it is used up, on over the
//     ends of rows;
//   both are asked for before the kernel before this one has ended: weights do not depend on it.
//     The norm of x runs while they arrive;
//   a processor has two blocks of a launch and room for one of the next, which comes as soon as
//     these have waited.
//
//   loads of a lane    0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 ..    of one row, then of the next
//                      multiplied  arriving  asked for when 0 to 3 are used up
//
// Each block has an equal share of the rows, each of its warps every eighth of them. What is added,
// and in which order, is as in project_few.cu, which has the same epilogues. Left to it: matrices
// of several types in one call, columns that are no multiple of 8, and rows of x that do not fit in
// a block's shared memory.
#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/project/row_walk.h"
#include "kernels/cuda/project/shared_x.h"
#include "kernels/cuda/steps.h"

enum {
    BLOCKS = 2,      // of a launch on a processor
    FITTING = 3,     // blocks that fit there; for a fourth the compiler would spill registers
    BATCH = 4,       // 16-byte loads; 64 KiB a processor are on their way in two of them
    ROWS_WANTED = 4, // of a block, where there are processors enough
};

typedef FewFloats<1> OneMemory;

// ---- x in shared memory ----
//
// The weights of the norm are copied there too, behind x where half of the room is enough for it:
// no kernel writes them, so the copy is under way while the kernel before this one ends.

static constexpr unsigned NORM_ROOM = (unsigned)FewFloats<1>::ROOM / 2; // columns

static __device__ __forceinline__ bool copies_norm(const ProjectWork &work) {
    return work.norm_weight && work.weights[0].cols <= NORM_ROOM;
}

// By the threads that use them (for_quads).
static __device__ __forceinline__ void copy_norm(OneMemory &memory, const ProjectWork &work) {
    if (!copies_norm(work)) return;
    for (unsigned j = threadIdx.x * QUAD; j < work.weights[0].cols; j += PROJECT_THREADS * QUAD)
        copy_async(memory.x + NORM_ROOM + j, work.norm_weight + j, true);
}

static __device__ __forceinline__ void copy_x(float *x, const ProjectWork &work) {
    for (unsigned j = threadIdx.x * QUAD; j < work.weights[0].cols; j += PROJECT_THREADS * QUAD)
        copy_async(x + swizzle_float(j), work.x + j, true);
    wait_for_copies();
}

// The first block keeps what the norm gives.
static __device__ __forceinline__ void norm_x(OneMemory &memory, const ProjectWork &work) {
    Group group = {0, 1};
    float *x = memory.x;
    unsigned cols = (unsigned)work.weights[0].cols;
    compute_factors(memory.shared, work, group, cols);
    const float factor = memory.shared.factors[0];
    float *kept = kept_row(work, group, 0, !blockIdx.x);
    const float *weight = copies_norm(work) ? x + NORM_ROOM : work.norm_weight;
    wait_for_copies();
    // Few loads at once: registers are full of weights.
    for_quads<2>(PlainRow{work.x}, 0, cols, [&](const float4 &four, unsigned j, bool is_inside) {
        if (!is_inside) return;
        const float4 y = normed(four, factor, *(const float4 *)(weight + j));
        *(float4 *)(x + swizzle_float(j)) = y;
        if (kept) *(float4 *)(kept + j) = y;
    });
}

// All threads see it afterwards.
static __device__ __forceinline__ void take_x(OneMemory &memory, const ProjectWork &work) {
    if (work.norm_weight)
        norm_x(memory, work);
    else
        copy_x(memory.x, work);
    __syncthreads();
}

// ---- loads in order ----

// A batch of loads of a lane: eight columns each, a warp's step apart. A row is whole batches: past
// its end its last columns are loaded again, so that no load is conditional.
template <DType D> struct Batch {
    static constexpr unsigned LOADS = BATCH / (D == DTYPE_F32 ? 2 : 1);
    static constexpr unsigned STEP = WARP * FLOAT_LOAD;
    Eight<D> eight[LOADS];
};

// Where the next batch is.
template <DType D> struct Cursor {
    RowWalk walk;
    unsigned start; // its first column

    __device__ __forceinline__ void load(Batch<D> &batch, const ProjectWork &work) {
        if (!walk.is_there()) return;
        const Planes &w = work.weights[walk.p];
        unsigned last = (unsigned)w.cols - FLOAT_LOAD;
        size_t row = walk.row(work);
        UNROLL
        for (unsigned s = 0; s < Batch<D>::LOADS; s++) {
            unsigned col = start + s * Batch<D>::STEP + threadIdx.x % WARP * FLOAT_LOAD;
            batch.eight[s] = load_eight<D>(w, row, col < last ? col : last);
        }
        start += Batch<D>::LOADS * Batch<D>::STEP;
        if (start <= last) return;
        start = 0;
        walk.next(work);
    }
};

// ---- the first rows, to the L2 cache ----
//
// A block's first rows are asked for once more, all by one instruction: registers ask for much of
// them too, a few loads of each warp at a time. On an H200 `o` of a 1B in BF16 took 3.6 us with it
// and 3.9 in the version before it, which is not all due to it: it was not measured by itself.

// Of all blocks together. 4 MiB are as good on an H200, 16 and 32 slower.
enum { AHEAD = 8 << 20 };

static __device__ __forceinline__ void prefetch_rows(const Planes &w, size_t row, unsigned count) {
    prefetch(w.low + row * w.row_bytes[0], count * w.row_bytes[0]);
}

// Of the block's rows, first .. end - 1 in the list of all rows, the first. By one thread.
static __device__ __forceinline__ void prefetch_share(const ProjectWork &work, unsigned first,
                                                      unsigned end) {
    if (threadIdx.x) return;
    bool is_pair = work.epilogue == EPILOGUE_ACTIVATE;
    unsigned rows = AHEAD / (gridDim.x * work.weights[0].row_bytes[0]) / (is_pair ? 2 : 1);
    if (end - first > rows) end = first + rows;
    for (int p = 0; is_pair && p < 2; p++)
        prefetch_rows(work.weights[p], first, end - first);
    while (!is_pair && first < end) {
        int p = matrix_of_row(work, first);
        unsigned stop = work.first_row[p + 1] < end ? work.first_row[p + 1] : end;
        prefetch_rows(work.weights[p], first - work.first_row[p], stop - first);
        first = stop;
    }
}

// ---- products ----

// What a warp has of the row that it multiplies.
struct Sum {
    RowWalk walk;
    unsigned start;          // first column of the next batch
    float acc, up, residual; // as store_sum wants them
};

template <DType D>
static __device__ __forceinline__ void add_batch(Sum &sum, const OneMemory &memory,
                                                 const ProjectWork &work, const Batch<D> &batch) {
    const float *x = memory.x;
    const unsigned cols = (unsigned)work.weights[0].cols;
    // What the sum is added to is loaded while the last batch of the row is multiplied.
    bool ends = sum.start + Batch<D>::LOADS * Batch<D>::STEP >= cols;
    if (ends && work.epilogue == EPILOGUE_ADD) sum.residual = work.residual[sum.walk.row(work)];
    UNROLL
    for (unsigned s = 0; s < Batch<D>::LOADS; s++) {
        unsigned col = sum.start + s * Batch<D>::STEP + threadIdx.x % WARP * FLOAT_LOAD;
        if (col >= cols) continue; // and no `break`, so that the loop unrolls
        sum.acc = dot_eight<D>(sum.acc, batch.eight[s], *(const float4 *)(x + swizzle_float(col)),
                               *(const float4 *)(x + swizzle_float(col + 4)));
    }
}

// Behind a batch: the end of the row, where it is one.
template <DType D>
static __device__ __forceinline__ void end_batch(Sum &sum, const ProjectWork &work) {
    sum.start += Batch<D>::LOADS * Batch<D>::STEP;
    if (sum.start < work.weights[0].cols) return;
    sum.up = store_sum(work, sum.walk, warp_sum(sum.acc), load_bias(work, sum.walk), sum.residual,
                       sum.up);
    sum.walk.next(work);
    sum.acc = 0.0f, sum.start = 0;
}

// Two batches: the one that is multiplied, the other on its way.
template <DType D> struct Batches {
    Batch<D> a, b;
    Cursor<D> next;

    __device__ __forceinline__ void begin(const ProjectWork &work, const RowWalk &walk) {
        next = Cursor<D>{walk, 0};
        next.load(a, work);
        next.load(b, work);
    }
    __device__ __forceinline__ void multiply(Sum sum, const OneMemory &memory,
                                             const ProjectWork &work) {
        while (sum.walk.is_there()) {
            add_batch<D>(sum, memory, work, a);
            next.load(a, work);
            end_batch<D>(sum, work);
            if (!sum.walk.is_there()) return;
            add_batch<D>(sum, memory, work, b);
            next.load(b, work);
            end_batch<D>(sum, work);
        }
    }
};

// Grid: equal shares of the rows of weights.
template <DType D>
static __global__ void __launch_bounds__(PROJECT_THREADS, FITTING)
    project_one_kernel(ProjectWork work) {
    OneMemory &memory = block_memory<OneMemory>();
    const Share share = share_of_block(work);
    RowWalk walk = first_rows(work, share);
    Batches<D> batches;
    if (!work.nothing_ahead) {
        batches.begin(work, walk);
        copy_norm(memory, work);
        prefetch_share(work, share.first, share.end);
    }
    wait_for_earlier_kernels();
    let_next_kernel_start();
    if (work.nothing_ahead) {
        batches.begin(work, walk);
        copy_norm(memory, work);
    }
    take_x(memory, work);
    batches.multiply(Sum{walk, 0, 0.0f, 0.0f, 0.0f}, memory, work);
    if (work.epilogue == EPILOGUE_HEADS)
        finish_heads(work, Group{0, 1}, share.first, share.end, memory.shared);
}

bool launch_one(Device *device, const ProjectWork *work) {
    const Planes *w = work->weights;
    for (int p = 1; p < work->count; p++)
        if (w[p].dtype != w[0].dtype) return false;
    if (work->n != 1 || w[0].cols > FewFloats<1>::ROOM) return false;
    unsigned most = (unsigned)device->n_processors * BLOCKS;
    unsigned blocks = blocks_for(walked_rows(*work), ROWS_WANTED);
    if (blocks > most) blocks = most;
    if (w[0].dtype == DTYPE_F32)
        LAUNCH_OVERLAPPED(device, project_one_kernel<DTYPE_F32>, blocks, PROJECT_THREADS, *work);
    else if (w[0].dtype == DTYPE_F16)
        LAUNCH_OVERLAPPED(device, project_one_kernel<DTYPE_F16>, blocks, PROJECT_THREADS, *work);
    else
        LAUNCH_OVERLAPPED(device, project_one_kernel<DTYPE_BF16>, blocks, PROJECT_THREADS, *work);
    return true;
}

// The persistent kernel: the steps of a chain, one after another, with a grid barrier between them.
//
// What a step computes is what the kernels of project_one.cu, project_few.cu and attention.cu
// compute, added in the same order: the same functions do it, but for weights that lie in shared
// memory when they are multiplied.
#include "kernels/cuda/persistent/chain.h"
#include "kernels/cuda/persistent/ring.h"
#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/project/shared_x.h"

template <InputForm M> struct PersistentMemory {
    union {
        Memory<M, 1> x;
        AttentionMemory<64, 2> narrow_heads_of_two; // query heads of a key-value head
        AttentionMemory<64, HEADS> narrow_heads;
        AttentionMemory<128, 2> wide_heads_of_two;
        AttentionMemory<128, HEADS> wide_heads;
    };
    alignas(16) float norm_weight[NORM_COLUMNS];
    Step window[WINDOW]; // step i is in window[i % WINDOW]
    CopyBarrier barriers[WARPS][PIECES];
    alignas(128) uint8_t rings[1]; // (WARPS, ring_bytes)
};

// ---- steps in shared memory ----

template <class M>
static __device__ __forceinline__ void load_step(M &memory, const Chain &chain, int i) {
    static_assert(sizeof(Step) % 16 == 0, "whole copies");
    if (i >= chain.count) return;
    uint8_t *to = (uint8_t *)&memory.window[i % WINDOW];
    const uint8_t *from = (const uint8_t *)(chain.steps + i);
    for (unsigned at = threadIdx.x * 16; at < sizeof(Step); at += PROJECT_THREADS * 16)
        copy_async(to + at, from + at, true);
}

// The weights of a norm are no kernel's output: those of the next step are copied while this one is
// multiplied, and the step is told that they are there.
template <class M>
static __device__ __forceinline__ void use_loaded_norm(M &memory, const Chain &chain, int i) {
    if (threadIdx.x || i >= chain.count) return;
    Step &step = memory.window[i % WINDOW];
    if (step.kind == STEP_PROJECT && step.project.norm_weight)
        step.project.work.norm_weight = memory.norm_weight;
}

template <class M>
static __device__ __forceinline__ void load_norm(M &memory, const Chain &chain, int i) {
    if (i >= chain.count) return;
    const Step &step = memory.window[i % WINDOW];
    if (step.kind != STEP_PROJECT || !step.project.norm_weight) return;
    unsigned cols = (unsigned)step.project.work.weights[0].cols;
    for (unsigned j = threadIdx.x * QUAD; j < cols; j += PROJECT_THREADS * QUAD)
        copy_async(memory.norm_weight + j, step.project.norm_weight + j, true);
}

// ---- the grid barrier ----

// A poll takes 0.15 us at least (docs/gpu.md), so ten seconds or more: then a block is lost, and the
// launch shall fail and not hang.
enum { MOST_POLLS = 1 << 26 };

// All threads of all blocks come here before step i: each sees afterwards what all of them have
// written in the steps before. `meanwhile`: what a block does while it waits.
template <class Meanwhile>
static __device__ __forceinline__ void grid_barrier(const Chain &chain, int i, const Meanwhile &meanwhile) {
    __syncthreads();
    if (i && !threadIdx.x) arrive_and_go(chain.arrived);
    meanwhile();
    if (!threadIdx.x)
        for (unsigned polls = 0; load_counter(chain.arrived) < (unsigned)i * gridDim.x; polls++)
            if (polls == MOST_POLLS) give_up();
    __syncthreads();
}

// Behind the last step: the counter is 0 again for the next launch.
static __device__ __forceinline__ void leave_chain(const Chain &chain) {
    if (threadIdx.x) return;
    unsigned all = (unsigned)chain.count * gridDim.x;
    if (arrive(chain.arrived, 1) == all - 1) *chain.arrived = 0;
}

// ---- a product ----

// Columns first .. first + count - 1 of a row, which are the first of `w`: several steps of the
// warp at a time, all of whose loads are issued before the first sum; then those that are left.
template <DType D, unsigned STEPS>
static __device__ __forceinline__ float dot_steps(float acc, const FewFloats<1> &memory,
                                                  const Planes &w, unsigned first, unsigned at) {
    constexpr unsigned STEP = WARP * FLOAT_LOAD;
    Eight<D> eight[STEPS];
    float4 low[STEPS], high[STEPS];
    UNROLL
    for (unsigned s = 0; s < STEPS; s++) {
        unsigned col = at + s * STEP;
        eight[s] = load_eight<D, FromShared>(w, 0, col);
        low[s] = *(const float4 *)(memory.x + swizzle_float(first + col));
        high[s] = *(const float4 *)(memory.x + swizzle_float(first + col + 4));
    }
    UNROLL
    for (unsigned s = 0; s < STEPS; s++)
        acc = dot_eight<D>(acc, eight[s], low[s], high[s]);
    return acc;
}

template <DType D, int DIGITS>
static __device__ __forceinline__ float dot_piece(float acc, FewFloats<1> &memory, const Planes &w,
                                                  unsigned first, unsigned count) {
    constexpr unsigned STEP = WARP * FLOAT_LOAD, STEPS = D == DTYPE_F32 ? 2 : 4;
    unsigned col = threadIdx.x % WARP * FLOAT_LOAD;
    for (; col + (STEPS - 1) * STEP < count; col += STEPS * STEP)
        acc = dot_steps<D, STEPS>(acc, memory, w, first, col);
    for (; col < count; col += STEP)
        acc = dot_steps<D, 1>(acc, memory, w, first, col);
    return acc;
}

template <DType D, int DIGITS>
static __device__ __forceinline__ float dot_piece(float acc, FewIntegers<1> &memory,
                                                  const Planes &w, unsigned first, unsigned count) {
    const QuantisedRows x = rows_of(memory, DIGITS);
    unsigned chunk = threadIdx.x % WARP, end = count / CHUNK, before = first / CHUNK;
    for (; chunk + WARP < end; chunk += 2 * WARP) {
        const Chunk<D> a = load_chunk<D, FromShared>(w, 0, chunk, 0);
        const Chunk<D> b = load_chunk<D, FromShared>(w, 0, chunk + WARP, 0);
        acc = dot_chunk<D, DIGITS>(acc, a, x, before + chunk);
        acc = dot_chunk<D, DIGITS>(acc, b, x, before + chunk + WARP);
    }
    if (chunk < end)
        acc =
            dot_chunk<D, DIGITS>(acc, load_chunk<D, FromShared>(w, 0, chunk, 0), x, before + chunk);
    return acc;
}

// What a warp has of a chain.
template <InputForm M> struct Warp {
    PersistentMemory<M> &memory;
    Ring<digits_of(M) != 0 ? ALL_PLANES : 1u> ring;
    int known; // steps before this one are in the window

    // One row of weights times x.
    template <DType D>
    __device__ __forceinline__ float dot_row(const ProjectStep &step, int p, size_t row) {
        const Planes &w = step.work.weights[p];
        const PieceSize &sizes = step.pieces[p];
        unsigned cols = (unsigned)w.cols, index = 0;
        float acc[1] = {0.0f};
        OutlierProduct met = {};
        if constexpr (digits_of(M) != 0) met.outlier = own_outlier(memory.x.outliers, 1);
        for (unsigned first = 0; first < cols; first += sizes.columns, index++) {
            const Piece piece = piece_of<planes_of<D>()>(w, sizes, row, index);
            const Planes part = ring.take(w, piece);
            unsigned left = cols - first, count = left < sizes.columns ? left : sizes.columns;
            if constexpr (digits_of(M) != 0)
                if (met.outlier.column - first < count) // below `first` too: it wraps around
                    met.weight = load_element<D>(part, 0, met.outlier.column - first);
            acc[0] = dot_piece<D, digits_of(M)>(acc[0], memory.x, part, first, count);
            ring.give_back(piece);
            ring.fill(memory.window, known);
        }
        if constexpr (digits_of(M) != 0) add_outlier<D, 1>(acc, met, 1);
        return warp_sum(acc[0]);
    }

    __device__ __forceinline__ float dot(const ProjectStep &step, int p, size_t row) {
        float sum = 0.0f;
        with_type(step.work.weights[p].dtype, [&](auto type) {
            if constexpr (accepts(M, type.value)) sum = dot_row<type.value>(step, p, row);
        });
        return sum;
    }

    // `i`: the number of the step behind it.
    __device__ __forceinline__ void project(const ProjectStep &step, const Chain &chain, int i) {
        const ProjectWork &work = step.work;
        const Group group = {0, 1};
        const Share share = share_of_block(work);
        size_t cols = work.weights[0].cols;
        compute_factors(memory.x.shared, work, group, cols);
        collect_outliers<M, 1>(memory.x, work, group);
        take<M, 1>(memory.x, work, group, first_slice(cols, 1, Memory<M, 1>::ROOM), !blockIdx.x);
        __syncthreads();
        load_norm(memory, chain, i); // nobody reads this step's any more
        float up = 0.0f;
        for (RowWalk walk = first_rows(work, share); walk.is_there(); walk.next(work)) {
            size_t row = walk.row(work);
            float residual = work.epilogue == EPILOGUE_ADD ? work.residual[row] : 0.0f;
            float bias = load_bias(work, walk);
            up = store_sum(work, walk, dot(step, walk.p, row), bias, residual, up);
        }
        if (work.epilogue == EPILOGUE_HEADS)
            finish_heads(work, group, share.first, share.end, memory.x.shared);
    }
};

// ---- attention ----

// A tile of heads over a split of the cache at a time: those of all splits that have keys to see
// are dealt out to the blocks.
template <int DIM, int H>
static __device__ __forceinline__ void attend_as(AttentionMemory<DIM, H> &memory,
                                                 const AttentionWork &w) {
    Tile first = tile_at<true>(w, 0, 0, 0);
    int tiles = row_tiles(w), count = (first.n_splits - first.first_split) * tiles;
    for (int i = (int)blockIdx.x; i < count; i += (int)gridDim.x) {
        Tile t = tile_at<true>(w, first.first_split + i / tiles, i % tiles, 0);
        attend_tile<DTYPE_F16, DIM, H, true>(memory, w, t);
        __syncthreads(); // the memory is free for the next one
    }
}

template <InputForm M>
static __device__ __forceinline__ void attend(PersistentMemory<M> &memory, const AttentionWork &w) {
    bool is_narrow = w.op.shape.head_dim == 64, is_of_two = w.group <= 2;
    if (is_narrow && is_of_two)
        attend_as(memory.narrow_heads_of_two, w);
    else if (is_narrow)
        attend_as(memory.narrow_heads, w);
    else if (is_of_two)
        attend_as(memory.wide_heads_of_two, w);
    else
        attend_as(memory.wide_heads, w);
}

// ---- the kernel ----

// Barriers of all rings, and the first steps.
template <class M>
static __device__ __forceinline__ void begin_chain(M &memory, const Chain &chain) {
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (lane < PIECES) copy_barrier_init(&memory.barriers[warp][lane]);
    copy_barriers_made();
    for (int i = 0; i + 1 < WINDOW; i++)
        load_step(memory, chain, i);
    wait_for_copies();
    __syncthreads();
    for (int i = 0; i + 1 < WINDOW; i++)
        use_loaded_norm(memory, chain, i);
    load_norm(memory, chain, 0);
}

// Grid: a block for each processor.
template <InputForm M>
static __global__ void __launch_bounds__(PROJECT_THREADS, 1) persistent_kernel(Chain chain) {
    typedef PersistentMemory<M> BlockMemory;
    BlockMemory &memory = launched_memory<BlockMemory>();
    unsigned warp = threadIdx.x / WARP;
    begin_chain(memory, chain);
    Warp<M> own = {memory, {}, 0};
    own.ring.begin(memory.rings + warp * chain.ring_bytes, memory.barriers[warp], chain);
    for (int i = 0; i < chain.count; i++) {
        // While step i - 1 was done, step i + WINDOW - 2 was copied, and the norm of this one.
        wait_for_copies();
        grid_barrier(chain, i, [&] {
            int last = i + WINDOW - 2;
            if (i) use_loaded_norm(memory, chain, last);
            own.known = last + 1 < chain.count ? last + 1 : chain.count;
            own.ring.fill(memory.window, own.known);
        });
        load_step(memory, chain, i + WINDOW - 1);
        const Step &step = memory.window[i % WINDOW];
        if (step.kind == STEP_PROJECT) {
            own.project(step.project, chain, i + 1);
        } else {
            load_norm(memory, chain, i + 1);
            attend(memory, step.attention);
        }
    }
    wait_for_copies();
    __syncthreads();
    leave_chain(chain);
}

// ---- launching ----

template <InputForm M> static void launch_kernel(Device *device, const Chain &chain) {
    size_t rings = (size_t)WARPS * chain.ring_bytes;
    LAUNCH_COOPERATIVE(device, persistent_kernel<M>, (unsigned)device->n_processors,
                       PROJECT_THREADS, persistent_bytes(M) + rings, chain);
}

bool has_persistent_kernel(InputForm form) {
    return form == FLOAT_VECTOR || digits_of(form);
}

size_t persistent_bytes(InputForm form) {
    return form == FLOAT_VECTOR ? offsetof(PersistentMemory<FLOAT_VECTOR>, rings)
                                : offsetof(PersistentMemory<TWO_DIGITS>, rings);
}

void launch_chain(Device *device, InputForm form, const Chain &chain) {
    if (form == FLOAT_VECTOR) launch_kernel<FLOAT_VECTOR>(device, chain);
    if (form == ONE_DIGIT) launch_kernel<ONE_DIGIT>(device, chain);
    if (form == TWO_DIGITS) launch_kernel<TWO_DIGITS>(device, chain);
}

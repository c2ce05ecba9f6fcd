// Categorical sampling: uniform * total weight is a point on the running sum over the tokens that
// the cuts have kept; the token there is the result. Every block adds up a run of ids. The last
// block finds the run, then the thread, then the token.
#include "kernels/cuda/sample/sample.h"

// `target` and `run` are written by the one thread that holds_target is true for, read by all of
// the block behind a barrier.
struct CategoricalMemory {
    unsigned long long parts[SAMPLE_WARPS];
    unsigned long long target; // counted from the beginning of the run
    int run;
    bool last;
};

// True for one thread: the running sum passes `target` within what it holds.
static __device__ __forceinline__ bool holds_target(const Prefix &prefix, unsigned long long held,
                                                    unsigned long long target) {
    return prefix.before <= target && target - prefix.before < held;
}

// SAMPLE_BLOCKS runs at most, fewer than a block has threads: thread i has the share of run i.
static __device__ void find_run(CategoricalMemory &m, const unsigned long long *shares,
                                float uniform) {
    unsigned long long held = threadIdx.x < gridDim.x ? shares[threadIdx.x] : 0;
    Prefix prefix = block_prefix_sum(m.parts, held);
    unsigned long long target = target_weight(prefix.total, uniform);
    if (holds_target(prefix, held, target)) {
        m.run = (int)threadIdx.x;
        m.target = target - prefix.before;
    }
    __syncthreads();
}

// A thread takes neighbouring ids of the run, so that threads are in the order of ids.
static __device__ void find_token(CategoricalMemory &m, const SampleWork &work, const Row &r,
                                  int begin, int end) {
    // The run is walked twice: once for the sum of each thread, then by one thread for the token.
    // Weights are computed again, since keeping them would take a row of 64-bit numbers.
    int each = (end - begin + SAMPLE_THREADS - 1) / SAMPLE_THREADS;
    int from = begin + (int)threadIdx.x * each, to = from + each < end ? from + each : end;
    unsigned long long held = 0;
    for (int t = from; t < to; t++)
        held += kept_weight(r, t);
    Prefix prefix = block_prefix_sum(m.parts, held);
    if (!holds_target(prefix, held, m.target)) return;
    unsigned long long sum = prefix.before;
    for (int t = from; t < to; t++) {
        sum += kept_weight(r, t);
        if (sum <= m.target) continue;
        give_token(work, t);
        return;
    }
}

// Grid: runs of the row, rows.
static __global__ void __launch_bounds__(SAMPLE_THREADS) categorical_kernel(SampleWork work) {
    CategoricalMemory &m = block_memory<CategoricalMemory>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    Row r = row_of_block(work);
    if (!r.samples) return give_answer(work, r);
    // Within the run threads are interleaved here, so that they read neighbouring logits: a sum of
    // integers does not depend on the order.
    int each = (r.vocab_size + (int)gridDim.x - 1) / (int)gridDim.x;
    int begin = (int)blockIdx.x * each;
    unsigned long long held = 0;
    for (int t = begin + (int)threadIdx.x; t < begin + each && t < r.vocab_size;
         t += SAMPLE_THREADS)
        held += kept_weight(r, t);
    held = block_prefix_sum(m.parts, held).total;
    unsigned long long *shares = work.scratch.shares + blockIdx.y * SAMPLE_BLOCKS;
    if (!threadIdx.x) shares[blockIdx.x] = held;
    if (!arrives_last(work.scratch.arrived + blockIdx.y, gridDim.x, m.last)) return;
    find_run(m, shares, work.uniform[blockIdx.y]);
    begin = m.run * each;
    int end = begin + each < r.vocab_size ? begin + each : r.vocab_size;
    find_token(m, work, r, begin, end);
}

void sample_categorical(Device *device, const SampleWork *work, unsigned rows, unsigned blocks) {
    LAUNCH_OVERLAPPED(device, categorical_kernel, dim3(blocks, rows), SAMPLE_THREADS, *work);
}

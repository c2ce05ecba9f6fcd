// The token that the drawn weight falls on, among those that the cuts have left. Every block adds
// up a run of ids; the last one finds the run, then the thread of it, then the token.
#include "kernels/cuda/sample/sample.h"

struct DrawMemory {
    unsigned long long parts[SAMPLE_WARPS];
    unsigned long long target; // from the begin of the run on
    int run;
    bool last;
};

// The running sum goes over `target` at this place; of one thread.
static __device__ __forceinline__ bool is_drawn(const Place &place, unsigned long long held,
                                                unsigned long long target) {
    return place.before <= target && target - place.before < held;
}

static __device__ void find_run(DrawMemory &m, const unsigned long long *shares, float uniform) {
    unsigned long long held = threadIdx.x < gridDim.x ? shares[threadIdx.x] : 0;
    Place place = block_place(m.parts, held);
    unsigned long long target = drawn_weight(place.total, uniform);
    if (is_drawn(place, held, target)) {
        m.run = (int)threadIdx.x;
        m.target = target - place.before;
    }
    __syncthreads();
}

// A thread has neighbours of the run, so that threads are in the order of ids.
static __device__ void find_token(DrawMemory &m, const Row &r, int begin, int end, int32_t *out) {
    int each = (end - begin + SAMPLE_THREADS - 1) / SAMPLE_THREADS;
    int from = begin + (int)threadIdx.x * each, to = from + each < end ? from + each : end;
    unsigned long long held = 0;
    for (int t = from; t < to; t++)
        held += kept_weight(r, t);
    Place place = block_place(m.parts, held);
    if (!is_drawn(place, held, m.target)) return;
    unsigned long long sum = place.before;
    for (int t = from; t < to; t++) {
        sum += kept_weight(r, t);
        if (sum <= m.target) continue;
        *out = t;
        return;
    }
}

// Grid: runs of the row, rows.
static __global__ void __launch_bounds__(SAMPLE_THREADS) draw_kernel(SampleWork work) {
    DrawMemory &m = block_memory<DrawMemory>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    Row r = row_of_block(work);
    if (!r.draws) return;
    int each = (r.vocab_size + (int)gridDim.x - 1) / (int)gridDim.x;
    int begin = (int)blockIdx.x * each;
    unsigned long long held = 0;
    for (int t = begin + (int)threadIdx.x; t < begin + each && t < r.vocab_size;
         t += SAMPLE_THREADS)
        held += kept_weight(r, t);
    held = block_place(m.parts, held).total;
    unsigned long long *shares = work.scratch.shares + blockIdx.y * SAMPLE_BLOCKS;
    if (!threadIdx.x) shares[blockIdx.x] = held;
    if (!arrives_last(work.scratch.arrived + blockIdx.y, gridDim.x, m.last)) return;
    find_run(m, shares, work.uniform[blockIdx.y]);
    begin = m.run * each;
    int end = begin + each < r.vocab_size ? begin + each : r.vocab_size;
    find_token(m, r, begin, end, work.out + blockIdx.y);
}

void draw(Device *device, const SampleWork *work, unsigned rows, unsigned blocks) {
    LAUNCH_OVERLAPPED(device, draw_kernel, dim3(blocks, rows), SAMPLE_THREADS, *work);
}

// The cuts of top_k and top_p: which key is the last one kept. Both find where a running sum in
// order reaches a value: top_k counts tokens, top_p adds weights.
//
//   count_kernel    adds all tokens up by bucket; the last block finds the bucket of the first cut
//   select_kernel   once a cut: lists the keys of its bucket; the last block finds the key in the
//                   list, and the bucket of the second cut
//
// A bucket usually has some hundred keys. Where all logits are equal one bucket has all keys: the
// last block is then slow, and still right.
#include "kernels/cuda/sample/sample.h"

// 64-bit sums in two halves: shared memory adds 32 bits atomically in one step, but 64 bits by a
// compare-and-swap loop.
struct Tally {
    unsigned low[BUCKETS], high[BUCKETS];
};

// Shared memory of a block: two tallies of 2,048 pairs of words, 32 KiB.
struct CutMemory {
    Tally tallies[MEASURES];
    unsigned long long parts[SAMPLE_WARPS];
    unsigned long long before; // what precedes `found`
    int found;
    bool last;
};

static __device__ void tally_clear(Tally &tally) {
    for (int i = (int)threadIdx.x; i < BUCKETS; i += SAMPLE_THREADS)
        tally.low[i] = 0, tally.high[i] = 0;
}

// atomicAdd returns the lower half before the addition: where the sum is smaller than that, there
// was a carry, and this thread alone adds it.
static __device__ __forceinline__ void tally_add(Tally &tally, int at, unsigned long long more) {
    unsigned part = (unsigned)more, before = atomicAdd(&tally.low[at], part);
    unsigned rest = (unsigned)(more >> 32) + (before + part < before);
    if (rest) atomicAdd(&tally.high[at], rest);
}

static __device__ __forceinline__ unsigned long long tally_sum(const Tally &tally, int at) {
    return (unsigned long long)tally.high[at] << 32 | tally.low[at];
}

// Bucket 0 has the largest logits. The difference is that of weight_of, so a larger logit is never
// in a later bucket. Beyond 32 e^-32 * 2^40 is below 1: the weight would be 0.
static __device__ __forceinline__ int bucket_of(const Row &r, float logit) {
    float below = (r.largest - logit) / r.temperature;
    return below < 32.0f ? (int)(below * (BUCKETS / 32)) : BUCKETS;
}

// The thread holds `sums` of neighbouring buckets, and all before it hold `sum`. In which bucket
// the running sum reaches `wanted` goes to m.found, for all threads; -1: in none.
static __device__ void find_bucket(CutMemory &m, const unsigned long long *sums,
                                   unsigned long long sum, double wanted) {
    if (!threadIdx.x) m.found = -1;
    __syncthreads();
    for (int i = 0; i < BUCKETS_PER_THREAD; i++) {
        unsigned long long next = sum + sums[i];
        if ((double)sum < wanted && (double)next >= wanted) { // of one thread
            m.found = (int)threadIdx.x * BUCKETS_PER_THREAD + i;
            m.before = sum;
        }
        sum = next;
    }
    __syncthreads();
}

// ---- the bucket ----

// The bucket of a row's cut by that measure, into r.cut; its sums are 0 again. Of bucket `split`
// only `part` is left by the cut before, of those behind it nothing.
static __device__ bool find_cut(CutMemory &m, const SampleWork &work, const Row &r, Measure measure,
                                int split, unsigned long long part) {
    unsigned long long *sums =
        work.scratch.sums + ((size_t)blockIdx.y * MEASURES + measure) * BUCKETS;
    unsigned long long own[BUCKETS_PER_THREAD], held = 0;
    for (int i = 0; i < BUCKETS_PER_THREAD; i++) {
        int bucket = (int)threadIdx.x * BUCKETS_PER_THREAD + i;
        own[i] = bucket < split ? sums[bucket] : bucket == split ? part : 0;
        sums[bucket] = 0;
        held += own[i];
    }
    Prefix prefix = block_prefix_sum(m.parts, held);
    // At least one token stays: the first one's weight is 2^40.
    double wanted = measure == TOKENS ? (double)work.rule.top_k
                                      : fmax(1.0, (double)work.rule.top_p * (double)prefix.total);
    find_bucket(m, own, prefix.before, wanted);
    if (!threadIdx.x) {
        r.cut->bucket = m.found;
        r.cut->measure = measure;
        r.cut->before = m.before;
        r.cut->wanted = wanted;
    }
    return m.found >= 0;
}

// Adds this block's share of the row to the row's sums.
// In shared memory first: thousands of tokens fall into the same few buckets, and the additions to
// global memory are one for each bucket and block.
static __device__ void count_tokens(CutMemory &m, const SampleWork &work, const Row &r) {
    bool wanted[MEASURES] = {cuts_tokens(work), cuts_weight(work)};
    unsigned long long *sums = work.scratch.sums + (size_t)blockIdx.y * MEASURES * BUCKETS;
    for (int measure = 0; measure < MEASURES; measure++)
        if (wanted[measure]) tally_clear(m.tallies[measure]);
    __syncthreads();
    for (int t = (int)(blockIdx.x * SAMPLE_THREADS + threadIdx.x); t < r.vocab_size;
         t += (int)gridDim.x * SAMPLE_THREADS) {
        int bucket = bucket_of(r, r.logits[t]);
        if (bucket == BUCKETS) continue; // weight 0: kept or not, it is never sampled
        if (wanted[TOKENS]) tally_add(m.tallies[TOKENS], bucket, 1);
        if (wanted[WEIGHT]) tally_add(m.tallies[WEIGHT], bucket, weight_of(r, r.logits[t]));
    }
    __syncthreads();
    for (int measure = 0; measure < MEASURES; measure++) {
        for (int i = (int)threadIdx.x; wanted[measure] && i < BUCKETS; i += SAMPLE_THREADS) {
            unsigned long long sum = tally_sum(m.tallies[measure], i);
            if (sum) atomicAdd(&sums[measure * BUCKETS + i], sum);
        }
    }
}

// Grid: shares of the row, rows.
static __global__ void __launch_bounds__(SAMPLE_THREADS) count_kernel(SampleWork work) {
    CutMemory &m = block_memory<CutMemory>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    Row r = row_of_block(work);
    if (!r.samples) return;
    count_tokens(m, work, r);
    if (!arrives_last(work.scratch.arrived + blockIdx.y, gridDim.x, m.last)) return;
    // 0: all tokens are kept so far. top_k cuts before top_p; where it finds no bucket, it keeps
    // all that have a weight, and top_p's bucket can be found at once.
    if (!threadIdx.x) r.cut->least = 0;
    bool found = cuts_tokens(work) && find_cut(m, work, r, TOKENS, BUCKETS, 0);
    if (!found && cuts_weight(work)) find_cut(m, work, r, WEIGHT, BUCKETS, 0);
}

// ---- the key ----

// The key in the list at which the running sum in order, from c.before on, reaches c.wanted.
// Digit by digit of BUCKETS values, the highest in which the keys still differ first.
static __device__ unsigned long long select_key(CutMemory &m, const Row &r, const Cut &c,
                                                const unsigned long long *keys) {
    // All keys of the list at first; every turn narrows them down to those with one value of a
    // digit.
    unsigned long long first = 0, last = ~0ull, before = c.before;
    Tally &tally = m.tallies[0];
    for (;;) {
        unsigned long long most = 0, least = 0; // of the keys from first to last; least: its ~
        for (unsigned i = threadIdx.x; i < c.listed; i += SAMPLE_THREADS) {
            if (keys[i] < first || keys[i] > last) continue;
            most = larger(most, keys[i]);
            least = larger(least, ~keys[i]);
        }
        most = block_largest(m.parts, most);
        least = ~block_largest(m.parts, least);
        // One key is left: keys differ, since each has its token's id.
        if (most <= least) return least;
        int shift = 0;
        while ((most ^ least) >> shift >= BUCKETS)
            shift++;
        tally_clear(tally);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < c.listed; i += SAMPLE_THREADS) {
            if (keys[i] < least || keys[i] > most) continue;
            int digit = (int)(keys[i] >> shift & (BUCKETS - 1));
            // In order means falling keys, so the largest digit comes first.
            tally_add(tally, BUCKETS - 1 - digit,
                      c.measure == TOKENS ? 1 : weight_of(r, logit_of_key(keys[i])));
        }
        __syncthreads();
        unsigned long long own[BUCKETS_PER_THREAD], held = 0;
        for (int i = 0; i < BUCKETS_PER_THREAD; i++)
            held += own[i] = tally_sum(tally, (int)threadIdx.x * BUCKETS_PER_THREAD + i);
        find_bucket(m, own, before + block_prefix_sum(m.parts, held).before, c.wanted);
        before = m.before;
        // The digit found, with the digits above it, which all keys of this turn share.
        first = ((most >> shift | (BUCKETS - 1)) - (unsigned)m.found) << shift;
        last = first + (1ull << shift) - 1;
    }
}

// Writes the keys in the bucket, in any order. Those that an earlier cut has taken away may be
// among them: they come last, and a cut never gets that far.
static __device__ void list_keys(const Row &r, int bucket, unsigned long long *keys) {
    for (int t = (int)(blockIdx.x * SAMPLE_THREADS + threadIdx.x); t < r.vocab_size;
         t += (int)gridDim.x * SAMPLE_THREADS) {
        if (bucket_of(r, r.logits[t]) != bucket) continue;
        keys[atomicAdd(&r.cut->listed, 1u)] = order_key(r.logits[t], t);
    }
}

// Grid: shares of the row, rows.
static __global__ void __launch_bounds__(SAMPLE_THREADS) select_kernel(SampleWork work) {
    CutMemory &m = block_memory<CutMemory>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    Row r = row_of_block(work);
    if (!r.samples) return;
    int bucket = r.cut->bucket;
    if (bucket < 0) return;
    unsigned long long *keys = work.scratch.keys + (size_t)blockIdx.y * work.scratch.room;
    list_keys(r, bucket, keys);
    if (!arrives_last(work.scratch.arrived + blockIdx.y, gridDim.x, m.last)) return;
    Cut c = *r.cut;
    c.least = select_key(m, r, c, keys);
    if (!threadIdx.x) {
        r.cut->least = c.least;
        r.cut->bucket = -1;
        r.cut->listed = 0;
    }
    // top_p after top_k: of the bucket that top_k has split, the weight that is left, then find_cut
    // as before.
    if (c.measure != TOKENS || !cuts_weight(work)) return;
    unsigned long long part = 0;
    for (unsigned i = threadIdx.x; i < c.listed; i += SAMPLE_THREADS)
        if (keys[i] >= c.least) part += weight_of(r, logit_of_key(keys[i]));
    find_cut(m, work, r, WEIGHT, bucket, block_prefix_sum(m.parts, part).total);
}

void find_cuts(Device *device, const SampleWork *work, unsigned rows, unsigned blocks) {
    int cuts = cuts_tokens(*work) + cuts_weight(*work);
    if (!cuts) return;
    LAUNCH_OVERLAPPED(device, count_kernel, dim3(blocks, rows), SAMPLE_THREADS, *work);
    // One launch per cut. One with no bucket to look into ends at once.
    for (int i = 0; i < cuts; i++)
        LAUNCH_OVERLAPPED(device, select_kernel, dim3(blocks, rows), SAMPLE_THREADS, *work);
}

// The cuts that sort. typical_p (locally typical sampling, arXiv:2202.00666) keeps the tokens whose
// surprise, -log p, is nearest to the entropy, which its definition adds up in order. xtc takes all
// but the last of the likeliest away. One block does both, since they are off by default. Tokens of
// weight 0 are left out: they are last in order and are never sampled.
#include "kernels/cuda/sample/sample.h"
#include "kernels/log_double.h"

enum Order { BY_KEY, BY_SURPRISE, BY_ID };

struct TypicalMemory {
    unsigned long long sum; // weight of the candidates
    unsigned count;
    double entropy;
};

// By falling key; by rising surprise, equal ones by falling key; or by rising id. Empty candidates
// come last.
static __device__ __forceinline__ bool comes_before(const Candidate &a, const Candidate &b,
                                                    Order order) {
    if (!a.key || !b.key) return a.key > b.key;
    if (order == BY_SURPRISE && a.surprise != b.surprise) return a.surprise < b.surprise;
    return order == BY_ID ? (uint32_t)a.key > (uint32_t)b.key : a.key > b.key;
}

// Bitonic sort of `room` candidates, a power of two.
static __device__ void block_sort(Candidate *c, size_t room, Order order) {
    for (size_t run = 2; run <= room; run *= 2) {
        for (size_t step = run / 2; step; step /= 2) {
            for (size_t i = threadIdx.x; i < room; i += SAMPLE_THREADS) {
                // The pair (i, i ^ step) is compared by the thread of the lower index. Runs of
                // length `run` are sorted rising and falling in turn, so that two neighbours merge
                // in the next round.
                size_t j = i ^ step;
                if (j < i) continue;
                bool falling = (i & run) == 0;
                if (comes_before(c[j], c[i], order) != falling) continue;
                Candidate swapped = c[i];
                c[i] = c[j];
                c[j] = swapped;
            }
            __syncthreads();
        }
    }
}

// The kept tokens in order, then empty candidates up to a power of two, which is returned.
static __device__ size_t list_candidates(TypicalMemory &m, const Row &r, Candidate *c) {
    if (!threadIdx.x) m.count = 0, m.sum = 0;
    __syncthreads();
    for (int t = (int)threadIdx.x; t < r.vocab_size; t += SAMPLE_THREADS) {
        unsigned long long weight = kept_weight(r, t);
        if (!weight) continue;
        // In the order in which threads arrive; the sort that follows makes it the same every time.
        c[atomicAdd(&m.count, 1u)] = Candidate{0.0, order_key(r.logits[t], t), weight};
        atomicAdd(&m.sum, weight);
    }
    __syncthreads();
    size_t room = 1;
    while (room < m.count)
        room *= 2;
    for (size_t i = m.count + threadIdx.x; i < room; i += SAMPLE_THREADS)
        c[i] = Candidate{0.0, 0, 0};
    __syncthreads();
    block_sort(c, room, BY_KEY);
    return room;
}

static __device__ void find_surprises(TypicalMemory &m, Candidate *c) {
    double total = (double)m.sum;
    for (size_t i = threadIdx.x; i < m.count; i += SAMPLE_THREADS) {
        double p = (double)c[i].weight / total;
        c[i].surprise = p * log_double_inline(p);
    }
    __syncthreads();
    if (!threadIdx.x) { // in order, as the definition says
        double entropy = 0.0;
        for (size_t i = 0; i < m.count; i++)
            entropy -= c[i].surprise;
        m.entropy = entropy;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < m.count; i += SAMPLE_THREADS)
        c[i].surprise = fabs(-log_double_inline((double)c[i].weight / total) - m.entropy);
    __syncthreads();
}

// By one thread: keeps the first candidates that together hold `wanted` weight and empties the
// rest.
static __device__ void keep_first(TypicalMemory &m, Candidate *c, double wanted) {
    size_t kept = 1;
    m.sum = c[0].weight;
    while (kept < m.count && (double)m.sum < wanted)
        m.sum += c[kept++].weight;
    for (size_t i = kept; i < m.count; i++)
        c[i].key = 0;
}

// typical_p, of candidates in order; they are so afterwards.
static __device__ void cut_typical(TypicalMemory &m, Candidate *c, size_t room, float typical_p) {
    find_surprises(m, c);
    block_sort(c, room, BY_SURPRISE);
    // One thread: a running sum in order, as the reference adds it up.
    if (!threadIdx.x) keep_first(m, c, (double)typical_p * (double)m.sum);
    __syncthreads();
    block_sort(c, room, BY_KEY);
}

// By one thread, of candidates in order: empties the first that hold `wanted` each, but the last of
// them. Their number is at most 1 / xtc.
static __device__ void drop_likeliest(TypicalMemory &m, Candidate *c, double wanted) {
    for (size_t i = 0; i + 1 < m.count && c[i + 1].key && (double)c[i + 1].weight >= wanted; i++) {
        m.sum -= c[i].weight;
        c[i].key = 0;
    }
}

// One block, one row.
static __global__ void __launch_bounds__(SAMPLE_THREADS) sorted_kernel(SampleWork work) {
    TypicalMemory &m = block_memory<TypicalMemory>();
    wait_for_earlier_kernels();
    Row r = row_of_block(work);
    if (!r.samples) return give_answer(work, r);
    Candidate *c = work.scratch.candidates;
    size_t room = list_candidates(m, r, c);
    if (cuts_typical(work)) cut_typical(m, c, room, work.rule.typical_p);
    if (!threadIdx.x && work.rule.xtc > 0.0f)
        drop_likeliest(m, c, (double)work.rule.xtc * (double)m.sum);
    __syncthreads();
    block_sort(c, room, BY_ID);
    if (threadIdx.x) return;
    unsigned long long target = target_weight(m.sum, work.uniform[0]), sum = c[0].weight;
    // The kept candidates are first and in the order of ids; empty ones are never reached, since
    // the target is below the sum.
    size_t chosen = 0;
    while (sum <= target)
        sum += c[++chosen].weight;
    give_token(work, id_of_key(c[chosen].key));
}

void sample_sorted(Device *device, const SampleWork *work) {
    LAUNCH_OVERLAPPED(device, sorted_kernel, 1, SAMPLE_THREADS, *work);
}

// The next token from the logits, as kernels.h defines it; one block per row, but for the largest
// logit, which a whole grid looks for: a block alone would take as long over a large vocabulary as
// a small model over its layers.
//
// Nothing is sorted but for typical_p. Every token has a 64-bit key, larger for those that come
// first in order; the cut of top_k is found by counting tokens, that of top_p by adding their
// weights, byte by byte of the keys from the highest. Weights are whole numbers, so the order of
// adding them changes nothing: every backend returns the same token.
#include "kernels/cuda/device.h"
#include "kernels/exp_float.h"

enum { THREADS = 1024, DIGITS = 256 };

struct Candidate { // typical_p
    double surprise;
    uint64_t key, weight; // key 0: nothing, at the end
};

enum { LARGEST_BLOCKS = 32, LARGEST_ROWS = 32 }; // at most, of one launch

struct SampleScratch {
    Candidate *candidates; // (room), a power of two
    size_t room;
    uint64_t *largest; // (LARGEST_ROWS, LARGEST_BLOCKS) the largest key of each block's share
    unsigned *arrived; // (LARGEST_ROWS) blocks that have theirs
};

struct SampleMemory {
    unsigned long long sums[DIGITS]; // weights of the tokens with that byte
    unsigned counts[DIGITS];
    unsigned long long segments[THREADS]; // weights of one thread's tokens
    unsigned long long total, key, kept;
    double entropy;
    float parts[THREADS / WARP];
    bool last; // of the blocks of a row
};

// What all threads of the block know.
struct Draw {
    const float *logits;
    int vocab_size;
    SampleRule rule;
    float largest;
    int best;
};

static __device__ __forceinline__ uint64_t order_key(float logit, int id) {
    uint32_t bits;
    logit += 0.0f; // -0 becomes 0: equal floats have equal keys
    memcpy(&bits, &logit, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u; // rises with the float
    return (uint64_t)bits << 32 | (0xffffffffu - (uint32_t)id);
}

static __device__ __forceinline__ uint64_t weight_of(const Draw &d, int id) {
    float e = exp_float_inline((d.logits[id] - d.largest) / d.rule.temperature);
    return (uint64_t)(e * 0x1p40f);
}

// ---- the largest ----

static constexpr uint64_t NO_NUMBER = ~(uint64_t)0; // a key above all others: some logit is NaN

static __device__ __forceinline__ uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

// The largest of the threads' keys; every thread has it.
static __device__ uint64_t block_largest(SampleMemory &m, uint64_t key) {
    for (int bits = WARP / 2; bits; bits /= 2)
        key = larger(key, __shfl_xor_sync(ALL_LANES, (unsigned long long)key, bits));
    __syncthreads();
    if (threadIdx.x % WARP == 0) m.segments[threadIdx.x / WARP] = key;
    __syncthreads();
    for (int i = 0; i < THREADS / WARP; i++)
        key = larger(key, m.segments[i]);
    __syncthreads();
    return key;
}

// The largest key of every `step`-th logit from `first` on.
static __device__ uint64_t largest_key(SampleMemory &m, const float *logits, int first, int step,
                                       int vocab_size) {
    uint64_t key = 0;
    for (int t = first; t < vocab_size; t += step)
        key = larger(key, isnan(logits[t]) ? NO_NUMBER : order_key(logits[t], t));
    return block_largest(m, key);
}

// The token of a largest key; -1 for NO_NUMBER.
static __device__ __forceinline__ int token_of(uint64_t key) {
    return key == NO_NUMBER ? -1 : (int)(0xffffffffu - (uint32_t)key);
}

// Grid: shares of the row, rows. The last block of a row has the answer. `strict`: +infinity is no
// answer either.
static __global__ void __launch_bounds__(THREADS)
    argmax_kernel(int32_t *out, const float *logits, int vocab_size, SampleScratch scratch,
                  bool strict) {
    SampleMemory &m = block_memory<SampleMemory>();
    wait_for_earlier_kernels();
    const float *row = logits + (size_t)blockIdx.y * vocab_size;
    int first = (int)(blockIdx.x * THREADS + threadIdx.x), blocks = (int)gridDim.x;
    uint64_t key = largest_key(m, row, first, blocks * THREADS, vocab_size);
    if (blocks > 1) {
        uint64_t *keys = scratch.largest + (size_t)blockIdx.y * LARGEST_BLOCKS;
        if (!threadIdx.x) keys[blockIdx.x] = key;
        if (!arrives_last(scratch.arrived + blockIdx.y, (unsigned)blocks, m.last)) return;
        key = block_largest(m, (int)threadIdx.x < blocks ? keys[threadIdx.x] : 0);
    }
    if (threadIdx.x) return;
    int best = token_of(key);
    out[blockIdx.y] = strict && best >= 0 && row[best] == INFINITY ? -1 : best;
}

// ---- cuts ----

static __device__ void clear_digits(SampleMemory &m) {
    for (int i = threadIdx.x; i < DIGITS; i += THREADS)
        m.sums[i] = 0, m.counts[i] = 0;
    __syncthreads();
}

// Adds the tokens with key >= `least` whose higher bytes are those of `prefix`, by their byte at
// `shift`.
static __device__ void count_digits(SampleMemory &m, const Draw &d, uint64_t least, uint64_t prefix,
                                    int shift, bool weigh) {
    clear_digits(m);
    for (int t = threadIdx.x; t < d.vocab_size; t += THREADS) {
        uint64_t key = order_key(d.logits[t], t);
        if (key < least || (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8))) continue;
        int digit = (int)(key >> shift & 255);
        atomicAdd(&m.counts[digit], 1u);
        if (weigh) atomicAdd(&m.sums[digit], (unsigned long long)weight_of(d, t));
    }
    __syncthreads();
}

// The key of the last token of the shortest prefix, in order, with at least `count` tokens, or with
// (double)sum >= `share` where `weigh`; `least` where all that is left is not enough.
static __device__ uint64_t cut_key(SampleMemory &m, const Draw &d, uint64_t least, bool weigh,
                                   double share, unsigned long long count) {
    uint64_t prefix = 0;
    unsigned long long sum = 0, tokens = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        count_digits(m, d, least, prefix, shift, weigh);
        int digit = DIGITS - 1; // every thread walks the same list
        for (; digit >= 0; digit--) {
            bool enough =
                weigh ? (double)(sum + m.sums[digit]) >= share : tokens + m.counts[digit] >= count;
            if (m.counts[digit] && enough) break;
            sum += m.sums[digit];
            tokens += m.counts[digit];
        }
        __syncthreads();
        if (digit < 0) return least;
        prefix |= (uint64_t)digit << shift;
    }
    return prefix;
}

static __device__ __forceinline__ bool is_kept(const Draw &d, int id, uint64_t key, uint64_t least,
                                               uint64_t weight) {
    if (key < least) return false;
    return !(d.rule.min_p > 0.0f) || id == d.best ||
           (double)weight >= (double)d.rule.min_p * 0x1p40;
}

// Every thread's share of the ids is one run of them, in order: its weight into segments, the
// block's into total.
static __device__ void weigh_segments(SampleMemory &m, const Draw &d, uint64_t least, bool cuts) {
    int each = (d.vocab_size + THREADS - 1) / THREADS, first = (int)threadIdx.x * each;
    unsigned long long sum = 0;
    for (int t = first; t < first + each && t < d.vocab_size; t++) {
        uint64_t key = order_key(d.logits[t], t), weight = weight_of(d, t);
        if (cuts ? is_kept(d, t, key, least, weight) : key >= least) sum += weight;
    }
    m.segments[threadIdx.x] = sum;
    __syncthreads();
    if (!threadIdx.x) {
        m.total = 0;
        for (int i = 0; i < THREADS; i++)
            m.total += m.segments[i];
    }
    __syncthreads();
}

static __device__ __forceinline__ uint64_t drawn_weight(uint64_t total, float uniform) {
    return (uint64_t)((unsigned __int128)total * (uint64_t)(uniform * 0x1p24f) >> 24);
}

// The first kept token by rising id whose running sum passes the drawn weight.
static __device__ void draw_token(SampleMemory &m, const Draw &d, uint64_t least, float uniform,
                                  int32_t *out) {
    if (threadIdx.x) return;
    uint64_t target = drawn_weight(m.total, uniform), sum = 0;
    int each = (d.vocab_size + THREADS - 1) / THREADS, segment = 0;
    while (segment < THREADS - 1 && sum + m.segments[segment] <= target)
        sum += m.segments[segment++];
    for (int t = segment * each; t < d.vocab_size; t++) {
        uint64_t weight = weight_of(d, t);
        if (!is_kept(d, t, order_key(d.logits[t], t), least, weight)) continue;
        sum += weight;
        if (sum <= target) continue;
        *out = t;
        return;
    }
}

// ---- typical_p: what surprises about as much as the text does on the average ----

// By falling key, or by rising surprise, equal ones by falling key; nothing comes last.
static __device__ __forceinline__ bool comes_before(const Candidate &a, const Candidate &b,
                                                    bool by_surprise) {
    if (!a.key || !b.key) return a.key > b.key;
    if (by_surprise && a.surprise != b.surprise) return a.surprise < b.surprise;
    return a.key > b.key;
}

// Bitonic sort of `room` candidates, a power of two.
static __device__ void block_sort(Candidate *c, size_t room, bool by_surprise) {
    for (size_t run = 2; run <= room; run *= 2) {
        for (size_t step = run / 2; step; step /= 2) {
            for (size_t i = threadIdx.x; i < room; i += THREADS) {
                size_t j = i ^ step;
                if (j < i) continue;
                bool falling = (i & run) == 0;
                if (comes_before(c[j], c[i], by_surprise) != falling) continue;
                Candidate swapped = c[i];
                c[i] = c[j];
                c[j] = swapped;
            }
            __syncthreads();
        }
    }
}

static __device__ void sample_typical(SampleMemory &m, const Draw &d, uint64_t least,
                                      SampleScratch scratch, float uniform, int32_t *out) {
    Candidate *c = scratch.candidates;
    size_t room = 1; // as many as the tokens need
    while (room < (size_t)d.vocab_size)
        room *= 2;
    for (size_t t = threadIdx.x; t < room; t += THREADS) {
        c[t] = Candidate{0.0, 0, 0};
        if (t >= (size_t)d.vocab_size) continue;
        uint64_t key = order_key(d.logits[t], (int)t), weight = weight_of(d, (int)t);
        if (is_kept(d, (int)t, key, least, weight)) c[t] = Candidate{0.0, key, weight};
    }
    __syncthreads();
    block_sort(c, room, false);
    double total = (double)m.total;
    if (!threadIdx.x) { // in order, as the definition says
        double entropy = 0.0;
        for (size_t i = 0; i < room && c[i].weight; i++) {
            double p = (double)c[i].weight / total;
            entropy -= p * log(p);
        }
        m.entropy = entropy;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < room; i += THREADS) {
        double p = (double)c[i].weight / total;
        c[i].surprise = p > 0.0 ? fabs(-log(p) - m.entropy) : INFINITY;
    }
    __syncthreads();
    block_sort(c, room, true);
    if (threadIdx.x) return;
    double wanted = (double)d.rule.typical_p * total;
    uint64_t sum = c[0].weight;
    size_t kept = 1;
    while (kept < room && c[kept].key && (double)sum < wanted)
        sum += c[kept++].weight;
    // By rising id: the smallest id whose running sum passes the target, found without sorting
    // again.
    uint64_t target = drawn_weight(sum, uniform), passed = 0;
    for (long id = -1;;) {
        size_t next = kept;
        for (size_t i = 0; i < kept; i++) {
            long at = (long)(0xffffffffu - (uint32_t)c[i].key);
            if (at > id && (next == kept || at < (long)(0xffffffffu - (uint32_t)c[next].key)))
                next = i;
        }
        id = (long)(0xffffffffu - (uint32_t)c[next].key);
        passed += c[next].weight;
        if (passed <= target) continue;
        *out = (int32_t)id;
        return;
    }
}

// ---- one row ----

static __global__ void __launch_bounds__(THREADS)
    sample_kernel(int32_t *out, const float *logits, int vocab_size, SampleRule rule,
                  const float *uniform, SampleScratch scratch, int row) {
    SampleMemory &m = block_memory<SampleMemory>();
    wait_for_earlier_kernels();
    row += (int)blockIdx.x;
    Draw d = {logits + (size_t)row * vocab_size, vocab_size, rule, 0.0f, 0};
    d.best = token_of(largest_key(m, d.logits, (int)threadIdx.x, THREADS, vocab_size));
    if (d.best < 0 || d.logits[d.best] == INFINITY || d.logits[d.best] == -INFINITY) {
        bool bad = d.best < 0 || d.logits[d.best] == INFINITY;
        if (!threadIdx.x) out[row] = bad ? -1 : d.best;
        return;
    }
    d.largest = d.logits[d.best];
    uint64_t least = 0;
    if (rule.top_k > 0 && rule.top_k < vocab_size)
        least = cut_key(m, d, least, false, 0.0, (unsigned long long)rule.top_k);
    if (rule.top_p < 1.0f) {
        weigh_segments(m, d, least, false);
        least = cut_key(m, d, least, true, (double)rule.top_p * (double)m.total, 0);
    }
    weigh_segments(m, d, least, true);
    if (rule.typical_p < 1.0f)
        sample_typical(m, d, least, scratch, uniform[row], out + row);
    else
        draw_token(m, d, least, uniform[row], out + row);
}

// ---- the operations; they are not part of a recorded pass ----

static size_t candidate_bytes(const Device *device) {
    size_t room = 1;
    while (room < device->max_matrix_rows)
        room *= 2;
    return room * sizeof(Candidate);
}

size_t sample_bytes(const Device *device) {
    return candidate_bytes(device) +
           LARGEST_ROWS * (LARGEST_BLOCKS * sizeof(uint64_t) + sizeof(unsigned));
}

void sample_reserve(Device *device) {
    size_t candidates = candidate_bytes(device);
    SampleScratch *s = (SampleScratch *)host_alloc(device, sizeof *s);
    uint8_t *at = (uint8_t *)device_alloc(device, sample_bytes(device));
    if (!s || !at) return;
    s->candidates = (Candidate *)at;
    s->room = candidates / sizeof(Candidate);
    s->largest = (uint64_t *)(at + candidates);
    s->arrived = (unsigned *)(s->largest + LARGEST_ROWS * LARGEST_BLOCKS);
    device->sampling = s;
}

// A block has a few logits per thread; without scratch a row has one block.
static void launch_argmax(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
                          bool strict) {
    SampleScratch scratch = {};
    unsigned blocks = 1;
    if (device->sampling) {
        scratch = *device->sampling;
        blocks = blocks_for((size_t)vocab_size, 2 * THREADS);
        if (blocks > LARGEST_BLOCKS) blocks = LARGEST_BLOCKS;
    }
    for (int i = 0, rows; i < n; i += rows) {
        rows = n - i < LARGEST_ROWS ? n - i : LARGEST_ROWS;
        LAUNCH_OVERLAPPED(device, argmax_kernel, dim3(blocks, (unsigned)rows), THREADS, out + i,
                          logits + (size_t)i * vocab_size, vocab_size, scratch, strict);
    }
}

void argmax(Device *device, int32_t *out, const float *logits, int n, int vocab_size) {
    device_sync(device);
    launch_argmax(device, out, logits, n, vocab_size, false);
}

void sample(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
            const SampleRule *rule, const float *uniform) {
    device_sync(device);
    if (!device_ok(device) || !n) return;
    if ((size_t)vocab_size > device->max_matrix_rows || !device->sampling) {
        device_fail(device, ERROR_DEVICE, "sample: room for %zu logits, got %d",
                    device->max_matrix_rows, vocab_size);
        return;
    }
    SampleScratch scratch = *device->sampling;
    if (rule->temperature == 0.0f) {
        launch_argmax(device, out, logits, n, vocab_size, true);
        return;
    }
    if (rule->typical_p < 1.0f) { // one after another: they share the scratch
        for (int i = 0; i < n; i++)
            LAUNCH(device, sample_kernel, 1, THREADS, out, logits, vocab_size, *rule, uniform,
                   scratch, i);
        return;
    }
    LAUNCH(device, sample_kernel, (unsigned)n, THREADS, out, logits, vocab_size, *rule, uniform,
           scratch, 0);
}

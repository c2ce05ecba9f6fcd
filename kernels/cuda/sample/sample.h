// What the steps of `sample` share: the tokens' order and weights, and the scratch by which one
// step passes its results to the next. sample.cu lists the steps.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/exp_float.h"

// Of every kernel here: threads of a block, and the most blocks that share a row.
enum { SAMPLE_THREADS = 1024, SAMPLE_BLOCKS = 32, SAMPLE_WARPS = SAMPLE_THREADS / WARP };

struct Candidate { // typical_p and xtc
    double surprise;
    uint64_t key, weight; // key 0: nothing, at the end
};

// Rows of a launch: as many lists of keys as fit into the memory of one row's candidates; and those
// of argmax, which keeps no list.
enum { SAMPLE_ROWS = sizeof(Candidate) / sizeof(uint64_t), ARGMAX_ROWS = 32 };

// Tokens fall into buckets by (largest logit - logit) / temperature, in steps of 1/64, which keeps
// the order of the logits. From 32 on weights are 0.
enum { BUCKETS = 2048, BUCKETS_PER_THREAD = BUCKETS / SAMPLE_THREADS };

enum Measure { TOKENS, WEIGHT, MEASURES }; // what top_k and top_p count

// The state of a row's cuts: tokens with keys of at least `least` are kept.
struct Cut {
    unsigned long long least;
    int bucket; // the next cut is inside it; -1: there is none
    Measure measure;
    unsigned long long before; // what the buckets before it hold
    double wanted;             // the cut is where the running sum reaches this
    unsigned listed;           // of the bucket's keys; 0 between launches
};

struct SampleScratch {
    union {                       // of `room` tokens, a power of two
        Candidate *candidates;    // (room)
        unsigned long long *keys; // (SAMPLE_ROWS, room) the tokens of a bucket
    };
    size_t room;
    unsigned long long *shares; // (ARGMAX_ROWS, SAMPLE_BLOCKS) what each block has found
    unsigned long long *sums;   // (SAMPLE_ROWS, MEASURES, BUCKETS); 0 between calls
    Cut *cuts;                  // (SAMPLE_ROWS)
    unsigned *arrived;          // (ARGMAX_ROWS) blocks of a row; 0 between launches
};

// Some rows, all of them by one rule; out[row] is the token of the largest logit until the last
// step, which samples.
struct SampleWork {
    int32_t *out;        // (rows)
    const float *logits; // (rows, vocab_size)
    int vocab_size;
    SampleRule rule;
    const float *uniform; // (rows)
    SampleScratch scratch;
    Sent sent; // the first row's token, with the launch that has it
};

static DEVICE_FUNCTION inline bool cuts_tokens(const SampleWork &work) {
    return work.rule.top_k > 0 && work.rule.top_k < work.vocab_size;
}
static DEVICE_FUNCTION inline bool cuts_weight(const SampleWork &work) {
    return work.rule.top_p < 1.0f;
}
static DEVICE_FUNCTION inline bool cuts_typical(const SampleWork &work) {
    return work.rule.typical_p < 1.0f;
}

// The steps: into scratch.cuts, then into out.
void find_cuts(Device *device, const SampleWork *work, unsigned rows, unsigned blocks);
void sample_categorical(Device *device, const SampleWork *work, unsigned rows, unsigned blocks);
void sample_sorted(Device *device, const SampleWork *work); // typical_p and xtc; one row

// ---- a token's rank and weight ----

// Larger for those that come first.
static __device__ __forceinline__ unsigned long long order_key(float logit, int id) {
    uint32_t bits;
    logit += 0.0f; // -0 becomes 0: equal floats have equal keys
    memcpy(&bits, &logit, sizeof bits);
    // Floats as integers: positive ones rise with the bits, negative ones fall, so all bits of
    // these are flipped, and the sign bit of the others is set.
    bits = bits >> 31 ? ~bits : bits | 0x80000000u; // rises with the float
    return (unsigned long long)bits << 32 | (0xffffffffu - (uint32_t)id);
}
static __device__ __forceinline__ int id_of_key(unsigned long long key) {
    return (int)(0xffffffffu - (uint32_t)key);
}
static __device__ __forceinline__ float logit_of_key(unsigned long long key) {
    uint32_t bits = (uint32_t)(key >> 32);
    float logit;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

// The row that a block works at.
struct Row {
    const float *logits;
    int vocab_size, best;
    bool samples; // false: out already has the answer
    float largest, temperature, min_p;
    unsigned long long least; // key that is kept
    Cut *cut;
};

static __device__ __forceinline__ Row row_of_block(const SampleWork &work) {
    Row r = {};
    r.logits = work.logits + (size_t)blockIdx.y * work.vocab_size;
    r.vocab_size = work.vocab_size;
    r.best = work.out[blockIdx.y];
    // Infinite where `out` has the answer already: -1 (a NaN or +infinity among the logits), or 0
    // (all of them -infinity).
    r.largest = r.best < 0 ? INFINITY : r.logits[r.best];
    r.samples = fabsf(r.largest) < INFINITY;
    r.temperature = work.rule.temperature;
    r.min_p = work.rule.min_p;
    r.cut = work.scratch.cuts + blockIdx.y;
    if (cuts_tokens(work) || cuts_weight(work)) r.least = r.cut->least;
    return r;
}

// By one thread: the row's token, to the GPU and, of the first row, to the host.
static __device__ __forceinline__ void give_token(const SampleWork &work, int32_t token) {
    work.out[blockIdx.y] = token;
    if (!blockIdx.y) send_token(work.sent, token);
}

// Of a row that has its answer on the GPU already.
static __device__ __forceinline__ void give_answer(const SampleWork &work, const Row &r) {
    if (!blockIdx.x && !blockIdx.y && !threadIdx.x) send_token(work.sent, r.best);
}

static __device__ __forceinline__ unsigned long long weight_of(const Row &r, float logit) {
    float e = exp_float_inline((logit - r.largest) / r.temperature);
    return (unsigned long long)(e * 0x1p40f);
}

// 0 for tokens that a cut has removed.
static __device__ __forceinline__ unsigned long long kept_weight(const Row &r, int id) {
    if (order_key(r.logits[id], id) < r.least) return 0;
    unsigned long long weight = weight_of(r, r.logits[id]);
    // The largest weight is 2^40, so min_p of it is this product. The best token always stays.
    bool kept = !(r.min_p > 0.0f) || id == r.best || (double)weight >= (double)r.min_p * 0x1p40;
    return kept ? weight : 0;
}

// uniform * total, rounded down: the point of the running sum that is sampled.
static __device__ __forceinline__ unsigned long long target_weight(unsigned long long total,
                                                                   float uniform) {
    return (unsigned long long)((unsigned __int128)total * (uint64_t)(uniform * 0x1p24f) >> 24);
}

// ---- over a block; `parts` (SAMPLE_WARPS) of shared memory can be used again at once ----

static __device__ __forceinline__ unsigned long long larger(unsigned long long a,
                                                            unsigned long long b) {
    return a > b ? a : b;
}

// The largest of the threads' keys; every thread has it.
static __device__ __forceinline__ unsigned long long block_largest(unsigned long long *parts,
                                                                   unsigned long long key) {
    key = warp_largest(key);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = key;
    __syncthreads();
    for (int i = 0; i < SAMPLE_WARPS; i++)
        key = larger(key, parts[i]);
    return key;
}

struct Prefix {
    unsigned long long before, total; // held by the threads before this one, and by all
};

// Within a warp by doubling: after the step `back` a lane has the sum of 2 back lanes up to its
// own. Then every thread adds up the totals of the warps before its own.
//
//     held        a    b     c      d
//     back 1      a    a+b   b+c    c+d
//     back 2      a    a+b   a+b+c  a+b+c+d
static __device__ __forceinline__ Prefix block_prefix_sum(unsigned long long *parts,
                                                          unsigned long long held) {
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned long long sum = held;
    for (unsigned back = 1; back < WARP; back *= 2) {
        unsigned long long earlier = __shfl_sync(ALL_LANES, sum, (lane - back) % WARP);
        if (lane >= back) sum += earlier;
    }
    __syncthreads();
    if (lane == WARP - 1) parts[warp] = sum;
    __syncthreads();
    Prefix prefix = {sum - held, 0};
    for (unsigned i = 0; i < SAMPLE_WARPS; i++) {
        if (i < warp) prefix.before += parts[i];
        prefix.total += parts[i];
    }
    return prefix;
}

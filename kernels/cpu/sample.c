// The next token from the logits. kernels.h has the definition, reference/sample.c sorts for it.
//
// Here nothing is sorted but for typical_p. One pass finds the largest logit of every 256; those
// maxima bound the top_k, and a threshold that is lowered until the weights above it reach top_p of
// the total finds the nucleus. The logits above (some hundreds of 150,000) are collected by rising
// id, and each cut selects among them by a radix select on their keys, highest byte first. Weights
// are integers, so the order of summing changes nothing.
#include "kernels/cpu/cpu.h"
#include "kernels/host.h"
#include "kernels/precision.h"

#include <math.h>
#include <string.h>

// Smaller keys come first; sorts are stable.
typedef struct Candidate {
    uint64_t key;
    uint64_t weight;
    uint32_t id;
} Candidate;

struct SampleScratch {
    size_t room;            // logits of a row
    float *largest;         // (blocks)
    uint64_t *sums;         // (blocks)
    uint32_t *ids;          // (room)
    uint64_t *weights;      // (room) of the ids
    Candidate *kept, *swap; // (room)
};

typedef struct SampleWork {
    const SampleKernels *kernels;
    struct SampleScratch *scratch;
    const SampleRule *rule;
    const float *logits; // (count)
    size_t count;
    float max;
    bool finite; // no NaN, no +infinity
} SampleWork;

enum { SCRATCH_PARTS = 6 };
static void scratch_parts(MemoryPart parts[SCRATCH_PARTS], struct SampleScratch *s, size_t room) {
    const MemoryPart table[SCRATCH_PARTS] = {
        {&s->largest, blocks_of(room) * sizeof *s->largest},
        {&s->sums, blocks_of(room) * sizeof *s->sums},
        {&s->ids, room * sizeof *s->ids},
        {&s->weights, room * sizeof *s->weights},
        {&s->kept, room * sizeof *s->kept},
        {&s->swap, room * sizeof *s->swap},
    };
    memcpy(parts, table, sizeof table);
}

size_t sample_needs(const Device *device) {
    MemoryPart parts[SCRATCH_PARTS];
    struct SampleScratch none;
    scratch_parts(parts, &none, device->max_matrix_rows);
    return sizeof none + parts_bytes(parts, SCRATCH_PARTS);
}

void sample_reserve(Device *device) {
    MemoryPart parts[SCRATCH_PARTS];
    struct SampleScratch *s = device_alloc(device, sizeof *s);
    if (!s) return;
    s->room = device->max_matrix_rows;
    scratch_parts(parts, s, s->room);
    parts_alloc(device, parts, SCRATCH_PARTS);
    device->sampling = s;
}

// ---- order ----

// Rising with the float; equal floats, the two zeros among them, have equal keys.
static uint32_t rising_key(float x) {
    uint32_t bits;
    x += 0.0f; // -0 becomes 0
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static void insertion_sort(Candidate *c, size_t n) {
    for (size_t i = 1; i < n; i++) {
        Candidate x = c[i];
        size_t at = i;
        for (; at > 0 && c[at - 1].key > x.key; at--)
            c[at] = c[at - 1];
        c[at] = x;
    }
}

// Stable, by key, of which the lowest `bytes` matter: byte by byte, the lowest first. Allocates
// nothing, and a byte that all keys share costs one look.
static void sort(struct SampleScratch *s, size_t n, int bytes) {
    if (n <= 32) {
        insertion_sort(s->kept, n);
        return;
    }
    for (int shift = 0; shift < 8 * bytes; shift += 8) {
        size_t start[257] = {0};
        for (size_t i = 0; i < n; i++)
            start[(s->kept[i].key >> shift & 255) + 1]++;
        if (start[(s->kept[0].key >> shift & 255) + 1] == n) continue;
        for (int b = 0; b < 255; b++)
            start[b + 1] += start[b];
        for (size_t i = 0; i < n; i++)
            s->swap[start[s->kept[i].key >> shift & 255]++] = s->kept[i];
        Candidate *sorted = s->swap;
        s->swap = s->kept;
        s->kept = sorted;
    }
}

// ---- weights and thresholds ----

static uint64_t weight_of(const SampleWork *w, float logit) {
    return (uint64_t)(exp_float((logit - w->max) / w->rule->temperature) * 0x1p40f);
}

// At least `n` logits are not below this: the n-th largest of the block maxima. Bit by bit the
// largest key that so many maxima reach.
static float bound_of_top(const SampleWork *w, size_t n) {
    size_t n_blocks = blocks_of(w->count);
    uint32_t bound = 0;
    if (n > n_blocks) return -INFINITY;
    uint32_t *keys = w->scratch->ids; // free until ids are gathered
    for (size_t b = 0; b < n_blocks; b++)
        keys[b] = rising_key(w->scratch->largest[b]);
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        size_t reach = 0;
        for (size_t b = 0; b < n_blocks; b++)
            reach += keys[b] >= (bound | bit);
        if (reach >= n) bound |= bit;
    }
    for (size_t b = 0; b < n_blocks; b++)
        if (keys[b] == bound) return w->scratch->largest[b];
    return -INFINITY;
}

// Every candidate that is not below the threshold, by rising id. Below 2^-40 of the largest, some
// 27.7 temperatures down, weights are 0 and no token can be sampled.
static size_t gather(const SampleWork *w, float threshold) {
    struct SampleScratch *s = w->scratch;
    float floor = w->max - 28.0f * w->rule->temperature;
    if (!(threshold > floor)) threshold = floor;
    size_t n = w->kernels->gather(s->ids, w->logits, w->count, s->largest, threshold);
    w->kernels->weights(s->weights, s->ids, n, w->logits, w->max, w->rule->temperature);
    for (size_t i = 0; i < n; i++) {
        uint32_t key = ~rising_key(w->logits[s->ids[i]]);
        s->kept[i] = (Candidate){key, s->weights[i], s->ids[i]};
    }
    return n;
}

static uint64_t total_weight(const Candidate *c, size_t n) {
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += c[i].weight;
    return total;
}

// What a prefix in order counts: candidates (top_k), or their weights (top_p).
typedef enum Measure { BY_COUNT, BY_WEIGHT } Measure;

// The key at which the shortest prefix in order that reaches `wanted` ends, and in *before what the
// smaller keys hold together. Byte by byte from the highest: the one in which it is reached, then
// only the candidates that have it, in `room` (n).
static uint32_t key_of_prefix(const Candidate *c, size_t n, double wanted, Measure measure,
                              Candidate *room, uint64_t *before) {
    uint32_t key = 0;
    *before = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint64_t held[256] = {0};
        bool used[256] = {false};
        for (size_t i = 0; i < n; i++) {
            size_t byte = c[i].key >> shift & 255;
            held[byte] += measure == BY_COUNT ? 1 : c[i].weight;
            used[byte] = true;
        }
        uint32_t byte = 0, last = 255;
        while (!used[last])
            last--;
        while (byte < last && (!used[byte] || (double)(*before + held[byte]) < wanted))
            *before += held[byte++];
        key |= byte << shift;
        size_t left = 0;
        for (size_t i = 0; i < n; i++)
            if ((c[i].key >> shift & 255) == byte) room[left++] = c[i];
        c = room;
        n = left;
    }
    return key;
}

// Keeps that prefix, of candidates by rising id; they stay so. At least one stays.
static size_t keep_prefix(const struct SampleScratch *s, size_t n, double wanted, Measure measure) {
    Candidate *c = s->kept;
    uint64_t sum;
    uint32_t last = key_of_prefix(c, n, wanted, measure, s->swap, &sum);
    size_t kept = 0;
    bool reached = false;
    for (size_t i = 0; i < n; i++) {
        if (c[i].key > last || (c[i].key == last && reached)) continue;
        if (c[i].key == last) { // ties: by rising id, until it is reached
            sum += measure == BY_COUNT ? 1 : c[i].weight;
            reached = (double)sum >= wanted;
        }
        c[kept++] = c[i];
    }
    return kept;
}

// ---- the cuts ----

// The candidates that hold top_p of all the weight; some more may be among them.
static size_t gather_nucleus(const SampleWork *w, uint64_t total) {
    double wanted = (double)w->rule->top_p * (double)total;
    for (float depth = 5.0f;; depth *= 2.0f) {
        size_t n = gather(w, w->max - depth * w->rule->temperature);
        if (depth >= 28.0f || (double)total_weight(w->scratch->kept, n) >= wanted) return n;
    }
}

static size_t cut_min_p(Candidate *c, size_t n, float min_p) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)c[i].weight >= (double)min_p * 0x1p40) c[kept++] = c[i];
    return kept ? kept : 1;
}

// The only cut that asks for an order: the entropy is summed in it, and surprise breaks ties by it.
static size_t cut_typical(struct SampleScratch *s, size_t n, float typical_p) {
    sort(s, n, 4);
    double total = (double)total_weight(s->kept, n), entropy = 0, wanted = typical_p * total;
    for (size_t i = 0; i < n; i++) {
        double p = (double)s->kept[i].weight / total;
        if (p > 0) entropy -= p * log_double(p);
    }
    for (size_t i = 0; i < n; i++) {
        double p = (double)s->kept[i].weight / total;
        double surprise = p > 0 ? fabs(-log_double(p) - entropy) : INFINITY;
        memcpy(&s->kept[i].key, &surprise, sizeof surprise); // not negative: the bits rise with it
    }
    sort(s, n, 8);
    uint64_t sum = s->kept[0].weight;
    size_t kept = 1;
    while (kept < n && (double)sum < wanted)
        sum += s->kept[kept++].weight;
    for (size_t i = 0; i < kept; i++)
        s->kept[i].key = s->kept[i].id;
    sort(s, kept, 4);
    return kept;
}

// Candidates by rising id stay so. Of those with the share only the last in order stays: the
// smallest logit, the highest id among equals.
static size_t cut_xtc(const SampleWork *w, size_t n, float share) {
    Candidate *c = w->scratch->kept;
    double wanted = (double)share * (double)total_weight(c, n);
    size_t last = n, kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)c[i].weight >= wanted &&
            (last == n || w->logits[c[i].id] <= w->logits[c[last].id]))
            last = i;
    for (size_t i = 0; i < n; i++)
        if (i == last || (double)c[i].weight < wanted) c[kept++] = c[i];
    return kept;
}

// By inverse transform: the first candidate, by rising id, whose running sum exceeds the target.
static int pick(const Candidate *c, size_t n, float uniform) {
    unsigned __int128 total = total_weight(c, n);
    uint64_t target = (uint64_t)(total * (uint64_t)(uniform * 0x1p24f) >> 24), sum = 0;
    size_t i = 0;
    while ((sum += c[i].weight) <= target)
        i++;
    return (int)c[i].id;
}

// Nothing is cut: first the block that the target falls into, then the token in it.
static int pick_from_all(const SampleWork *w, uint64_t total, float uniform) {
    unsigned __int128 wide = total;
    uint64_t target = (uint64_t)(wide * (uint64_t)(uniform * 0x1p24f) >> 24), sum = 0;
    size_t b = 0;
    while (sum + w->scratch->sums[b] <= target)
        sum += w->scratch->sums[b++];
    size_t t = b * SAMPLE_BLOCK;
    while ((sum += weight_of(w, w->logits[t])) <= target)
        t++;
    return (int)t;
}

// ---- a row ----

// The lowest id of the largest logit.
static int first_of(const SampleWork *w) {
    size_t t = 0;
    while (w->scratch->largest[t] != w->max)
        t++;
    for (t *= SAMPLE_BLOCK; w->logits[t] != w->max;)
        t++;
    return (int)t;
}

static void scan_task(void *context, size_t begin, size_t end, int thread) {
    SampleWork *w = context;
    size_t from = begin * SAMPLE_BLOCK, to = end * SAMPLE_BLOCK;
    if (to > w->count) to = w->count;
    if (!w->kernels->scan(w->scratch->largest + begin, w->logits + from, to - from))
        __atomic_store_n(&w->finite, false, __ATOMIC_RELAXED);
    (void)thread;
}

static void sum_task(void *context, size_t begin, size_t end, int thread) {
    const SampleWork *w = context;
    size_t from = begin * SAMPLE_BLOCK, to = end * SAMPLE_BLOCK;
    if (to > w->count) to = w->count;
    w->kernels->sum_weights(w->scratch->sums + begin, w->logits + from, to - from, w->max,
                            w->rule->temperature);
    (void)thread;
}

static uint64_t sum_all(Device *device, SampleWork *w) {
    size_t n_blocks = blocks_of(w->count);
    uint64_t total = 0;
    device_run(device, sum_task, w, n_blocks, work_chunk(16 * SAMPLE_BLOCK));
    for (size_t b = 0; b < n_blocks; b++)
        total += w->scratch->sums[b];
    return total;
}

static int sample_row(Device *device, SampleWork *w, float uniform) {
    const SampleRule *rule = w->rule;
    struct SampleScratch *s = w->scratch;
    w->finite = true;
    device_run(device, scan_task, w, blocks_of(w->count), work_chunk(2 * SAMPLE_BLOCK));
    if (!w->finite) return -1;
    w->max = -INFINITY;
    for (size_t b = 0; b < blocks_of(w->count); b++)
        if (s->largest[b] > w->max) w->max = s->largest[b];
    if (w->max == -INFINITY) return 0;
    if (rule->temperature == 0) return first_of(w);

    bool top_k = rule->top_k > 0 && (size_t)rule->top_k < w->count, top_p = rule->top_p < 1;
    bool min_p = rule->min_p > 0, typical = rule->typical_p<1, xtc = rule->xtc> 0;
    uint64_t total = 0;
    size_t n;
    if (top_k) {
        n = gather(w, bound_of_top(w, (size_t)rule->top_k));
        n = keep_prefix(s, n, rule->top_k, BY_COUNT);
        total = total_weight(s->kept, n);
    } else if (top_p) {
        total = sum_all(device, w);
        n = gather_nucleus(w, total);
    } else if (min_p) {
        n = gather(w, w->max + rule->temperature * (logf(rule->min_p) - 1e-3f));
    } else if (typical || xtc) {
        n = gather(w, -INFINITY);
    } else {
        return pick_from_all(w, sum_all(device, w), uniform);
    }
    if (top_p) n = keep_prefix(s, n, (double)rule->top_p * (double)total, BY_WEIGHT);
    if (min_p) n = cut_min_p(s->kept, n, rule->min_p);
    if (typical) n = cut_typical(s, n, rule->typical_p);
    if (xtc) n = cut_xtc(w, n, rule->xtc);
    return pick(s->kept, n, uniform);
}

void sample(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
            const SampleRule *rule, const float *uniform) {
    if (!device_ok(device)) return;
    if (!device->sampling || (size_t)vocab_size > device->sampling->room) {
        device_fail(device, ERROR_DEVICE, "sample: room for %zu logits, got %d",
                    device->sampling ? device->sampling->room : 0, vocab_size);
        return;
    }
    SampleWork work = {
        .kernels = device->kernels->rows->sample, .scratch = device->sampling, .rule = rule};
    work.count = (size_t)vocab_size;
    for (int i = 0; i < n; i++) {
        work.logits = logits + (size_t)i * work.count;
        out[i] = sample_row(device, &work, uniform ? uniform[i] : 0.0f);
    }
}

// Attention of a few queries over one chunk of 256 positions of one KV head.
//
// All queries that share the KV head (the heads of its group and, in a prompt, several rows) go
// over a chunk together, so keys and values come from memory once:
//   scores       16 positions in the lanes: s = fma(k[j], q[j], s), channel j after channel
//   numerators   m = max s,  e = exp(s - m);  their sum in 16 lanes, tile after tile, then f32_sum
//   values       16 channels in the lanes: out = fma(v[t], e[t], out), position t after position
// How many queries and tiles share registers changes no bit: every result has its own chain.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd_math.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

// Most queries, tiles and vectors of channels whose sums are in registers at once. AVX-512 has 32
// registers of 16 lanes, AVX2 has 8.
enum { MOST_QUERIES = 8, MOST_TILES = 4, MOST_VECTORS = 4 };
#if ISA_avx512
enum { SCORE_QUERIES = 8, SCORE_TILES = 2, FEW_TILES = 4, VALUE_QUERIES = 4, VALUE_VECTORS = 4 };
#else
enum { SCORE_QUERIES = 6, SCORE_TILES = 1, FEW_TILES = 1, VALUE_QUERIES = 4, VALUE_VECTORS = 1 };
#endif

// While one chunk is worked on, the next is fetched into the second-level cache, evenly spread:
// keys during the scores, values during the values. One thread of a Zen 4, 3 query heads per KV
// head of 64 channels in half precision, 4,096 positions: 0.70 of the speed of a plain read with
// AVX-512 (0.45 without fetching), 0.60 with AVX2; with everything in the cache already 27 and 23
// GB/s.
INLINE void fetch(const unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(from + i, 0, 2);
}

INLINE F32x16 load_cached(const unsigned char *base, size_t index, const KvType type) {
    const uint16_t *narrow = (const uint16_t *)base + index;
    if (type == KV_F32) return f32_load((const float *)base + index);
    return type == KV_F16 ? f32_from_half(narrow) : f32_from_bf16(narrow);
}

INLINE void narrow_lanes(uint16_t *p, F32x16 x, KvType type) {
    if (type == KV_F16)
        f32_to_half(p, x);
    else
        f32_to_bf16(p, x);
}

// ---- writing ----

static void write_one(const Kv *kv, unsigned char *keys_at, unsigned char *values_at, size_t slot,
                      const float *k, const float *v) {
    size_t head_dim = (size_t)kv->shape.head_dim, key = kv_key_index(slot, head_dim);
    size_t value = slot * kv->value_dim;
    for (size_t j = 0; j < head_dim; j += KV_TILE) {
        size_t count = head_dim - j < KV_TILE ? head_dim - j : KV_TILE;
        F32x16 x = f32_load_part(v + j, count); // 0 in the padding
        if (kv->shape.type != KV_F32) {
            uint16_t lanes[KV_TILE], *keys = (uint16_t *)keys_at + key + j * KV_TILE;
            narrow_lanes((uint16_t *)values_at + value + j, x, kv->shape.type);
            narrow_lanes(lanes, f32_load_part(k + j, count), kv->shape.type);
            for (size_t i = 0; i < count; i++)
                keys[i * KV_TILE] = lanes[i];
        } else {
            float *keys = (float *)keys_at + key + j * KV_TILE;
            f32_store((float *)values_at + value + j, x);
            for (size_t i = 0; i < count; i++)
                keys[i * KV_TILE] = k[j + i];
        }
    }
}

// ---- scores ----

// How many of the queries that are left go together.
static int block_of(int left, int most) {
    if (left >= most) return most;
    return left < 4 ? left : 4;
}

// Blocks of n queries after one another, each as (head_dim, n): one channel of all is contiguous.
static void pack_queries(const QueryBlock *block) {
    int head_dim = block->kv->shape.head_dim, n;
    float *to = block->packed;
    for (int first = 0; first < block->n_queries; first += n) {
        n = block_of(block->n_queries - first, SCORE_QUERIES);
        for (int j = 0; j < head_dim; j++)
            for (int i = 0; i < n; i++)
                *to++ = block->q[first + i][j];
    }
}

// The scores of some queries with the keys of some tiles.
typedef struct ScoreWork {
    const QueryBlock *block;
    float *scores;             // (queries, ATTENTION_CHUNK)
    const float *q;            // (head_dim, queries), packed
    int begin, end;            // tiles, counted from position 0; one after another in the cache:
    const unsigned char *keys; // of tile `begin`
    const unsigned char *next; // the keys of the next chunk, to be fetched meanwhile, or NULL
} ScoreWork;

// Gemma 2: cap tanh(s / cap), before hidden keys are taken out.
static void bend_scores(float *scores, int n, int tiles, float cap) {
    F32x16 c = f32_set(cap);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < tiles; t++) {
            float *s = scores + i * ATTENTION_CHUNK + t * KV_TILE;
            f32_store(s, f32_mul(c, f32_tanh(f32_div(f32_load(s), c))));
        }
}

// n queries with `tiles` tiles from tile `first` on.
INLINE void score_tiles(const ScoreWork *w, int first, const KvType type, const int n,
                        const int tiles) {
    int head_dim = w->block->kv->shape.head_dim;
    size_t tile = (size_t)head_dim * KV_TILE, tile_bytes = tile * w->block->kv->element;
    const unsigned char *keys = w->keys + (size_t)(first - w->begin) * tile_bytes, *next = keys;
    size_t line = (size_t)tiles * KV_TILE * (type == KV_F32 ? sizeof(float) : sizeof(uint16_t));
    size_t step = w->next ? line : 0; // 0: fetches the same keys again, cheaper than a branch
    if (w->next) next = w->next + (size_t)(first % (ATTENTION_CHUNK / KV_TILE)) * tile_bytes;
    F32x16 sum[MOST_QUERIES][MOST_TILES];
    for (int i = 0; i < n; i++)
        for (int t = 0; t < tiles; t++)
            sum[i][t] = f32_zero();
    const float *q = w->q;
    for (int j = 0; j < head_dim; j++, q += n, next += step) {
        F32x16 k[MOST_TILES];
        fetch(next, line);
        for (int t = 0; t < tiles; t++)
            k[t] = load_cached(keys, (size_t)t * tile + (size_t)j * KV_TILE, type);
        for (int i = 0; i < n; i++) {
            F32x16 x = f32_set(q[i]);
            for (int t = 0; t < tiles; t++)
                sum[i][t] = f32_fma(k[t], x, sum[i][t]);
        }
    }
    float *scores = w->scores + first * KV_TILE % ATTENTION_CHUNK;
    F32x16 scale = f32_set(w->block->scale);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < tiles; t++)
            f32_store(scores + i * ATTENTION_CHUNK + t * KV_TILE, f32_mul(sum[i][t], scale));
    if (w->block->cap > 0.0f) bend_scores(scores, n, tiles, w->block->cap);
}

INLINE void score_run(const ScoreWork *w, const KvType type, const int n, const int tiles) {
    for (int t = w->begin, step; t < w->end; t += step) {
        step = w->end - t >= tiles ? tiles : 1;
        if (step == tiles)
            score_tiles(w, t, type, n, tiles);
        else
            score_tiles(w, t, type, n, 1);
    }
}

INLINE void score_queries(const ScoreWork *w, int n, const KvType type) {
    switch (n) {
    case 1: score_run(w, type, 1, MOST_TILES); break;
    case 2: score_run(w, type, 2, 2); break;
    case 3: score_run(w, type, 3, FEW_TILES); break;
    case 4: score_run(w, type, 4, FEW_TILES); break;
    default: score_run(w, type, SCORE_QUERIES, SCORE_TILES);
    }
}

// Positions lo .. hi, none where lo > hi.
typedef struct Span {
    int lo, hi;
} Span;

// What query i sees next, from position `from` on, in a chunk that ends before `end`.
INLINE Span next_span(const QueryBlock *block, int i, int from, int end) {
    Span span = {block->first[i], block->last[i]};
    if (block->sparse) {
        KeyRun run = key_run(&block->reach[i], from);
        span = (Span){run.first, run.end - 1};
    }
    return (Span){span.lo > from ? span.lo : from, span.hi < end ? span.hi : end - 1};
}

// The tiles of a chunk in which query i sees a key, one bit each.
static unsigned tiles_of(const QueryBlock *block, int i, int chunk) {
    int start = chunk * ATTENTION_CHUNK, end = start + ATTENTION_CHUNK;
    unsigned tiles = 0;
    Span s = next_span(block, i, start, end);
    for (; s.lo <= s.hi; s = next_span(block, i, s.hi + 1, end))
        tiles |= (2u << (s.hi - start) / KV_TILE) - (1u << (s.lo - start) / KV_TILE);
    return tiles;
}

// Moves *begin .. *end - 1 to the next tiles that follow one another, from *end on; false: no more.
INLINE bool next_tiles(unsigned tiles, int *begin, int *end) {
    unsigned left = tiles >> *end;
    if (!left) return false;
    *begin = *end + __builtin_ctz(left);
    *end = *begin + __builtin_ctz(~(tiles >> *begin));
    return true;
}

static void hide(float *scores, int from, int to) {
    for (int t = from; t < to; t++)
        scores[t % ATTENTION_CHUNK] = -INFINITY;
}

static int tile_begin(int position) {
    return position / KV_TILE * KV_TILE;
}

// -infinity for what query i does not see in the tiles in which it sees a key.
static void hide_others(const QueryBlock *block, int i, int chunk) {
    float *scores = block->scores + i * ATTENTION_CHUNK;
    int start = chunk * ATTENTION_CHUNK, end = start + ATTENTION_CHUNK, done = start;
    Span s = next_span(block, i, start, end);
    for (; s.lo <= s.hi; s = next_span(block, i, s.hi + 1, end)) {
        int gap = tile_begin(done + KV_TILE - 1); // the rest of the last span's tile
        hide(scores, done, gap < s.lo ? gap : s.lo);
        hide(scores, gap < tile_begin(s.lo) ? tile_begin(s.lo) : gap, s.lo);
        done = s.hi + 1;
    }
    hide(scores, done, tile_begin(done + KV_TILE - 1));
}

// All queries with the tiles begin .. end - 1, counted from position 0; of a ring that begins anew
// among them, those before that and those after it.
static void score_all(const QueryBlock *block, int begin, int end) {
    int n, head_dim = block->kv->shape.head_dim, tiles = kv_tiles(&block->layer);
    size_t tile_bytes = (size_t)head_dim * KV_TILE * block->kv->element;
    ScoreWork work = {.block = block, .q = block->packed, .begin = begin};
    work.end = begin + kv_run(tiles, begin, end);
    work.keys = block->region + (size_t)kv_slot(tiles, begin) * tile_bytes;
    if (work.end < end) score_all(block, work.end, end);
    for (int i = 0; i < block->n_queries; i += n, work.q += n * head_dim) {
        work.scores = block->scores + i * ATTENTION_CHUNK;
        work.next = i == 0 ? block->next_keys : NULL;
        n = block_of(block->n_queries - i, SCORE_QUERIES);
        switch (block->kv->shape.type) { // compiled once for each
        case KV_F16: score_queries(&work, n, KV_F16); break;
        case KV_BF16: score_queries(&work, n, KV_BF16); break;
        default: score_queries(&work, n, KV_F32);
        }
    }
}

// Scores the tiles in which some query sees a key; tiles[i]: those in which query i does.
static void score_chunk(const QueryBlock *block, int chunk, unsigned *tiles) {
    unsigned all = 0;
    for (int i = 0; i < block->n_queries; i++) {
        // The heads of one position see the same.
        bool same = i && block->last[i] == block->last[i - 1];
        tiles[i] = same ? tiles[i - 1] : tiles_of(block, i, chunk);
        all |= tiles[i];
    }
    int first = chunk * (ATTENTION_CHUNK / KV_TILE), begin, end = 0;
    while (next_tiles(all, &begin, &end))
        score_all(block, first + begin, first + end);
    for (int i = 0; i < block->n_queries; i++)
        if (tiles[i]) hide_others(block, i, chunk);
}

static void chunk_scores(const QueryBlock *block, int chunk) {
    unsigned tiles[ATTENTION_QUERIES];
    score_chunk(block, chunk, tiles);
}

// ---- softmax ----

// Scores become exp(score - max); where all are -infinity, 0.
static void numerators(float *scores, unsigned tiles, float *max, float *sum) {
    F32x16 largest = f32_set(-INFINITY), total = f32_zero();
    for (int begin, end = 0; next_tiles(tiles, &begin, &end);)
        for (int t = begin * KV_TILE; t < end * KV_TILE; t += KV_TILE)
            largest = f32_max(largest, f32_load(scores + t));
    *max = f32_largest(largest);
    F32x16 m = f32_set(*max == -INFINITY ? 0 : *max);
    for (int begin, end = 0; next_tiles(tiles, &begin, &end);)
        for (int t = begin * KV_TILE; t < end * KV_TILE; t += KV_TILE) {
            F32x16 e = f32_exp_below(f32_sub(f32_load(scores + t), m));
            f32_store(scores + t, e);
            total = f32_add(total, e);
        }
    *sum = f32_sum(total);
}

// ---- values ----

// The values of some positions, added up for some queries.
typedef struct ValueWork {
    const QueryBlock *block;
    float *out;                // (queries, value_dim)
    const float *weights;      // (queries, ATTENTION_CHUNK)
    Span span;                 // the positions
    const unsigned char *next; // the values of the next chunk, to be fetched meanwhile, or NULL
    int slot;                  // of the first; the others follow it
} ValueWork;

// `vectors` vectors of 16 channels from `channel` on, for n queries.
INLINE void add_values(const ValueWork *w, size_t channel, const KvType type, const int n,
                       const int vectors) {
    const Kv *kv = w->block->kv;
    size_t value_dim = kv->value_dim, first = (size_t)w->span.lo;
    const unsigned char *values = w->block->region + w->block->layer.values_offset +
                                  ((size_t)w->slot * value_dim + channel) * kv->element;
    // Each position fetches its share of the next chunk.
    size_t step = w->next ? (size_t)vectors * 16 * kv->element : 0;
    const unsigned char *next = values;
    if (w->next)
        next = w->next + channel * kv->element * ATTENTION_CHUNK + first % ATTENTION_CHUNK * step;
    float *out = w->out + channel;
    F32x16 sum[MOST_QUERIES][MOST_VECTORS];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < vectors; c++)
            sum[i][c] = f32_load(out + (size_t)i * value_dim + c * 16);
    const float *e = w->weights + first % ATTENTION_CHUNK;
    for (size_t t = 0; t <= (size_t)w->span.hi - first; t++, e++) {
        F32x16 v[MOST_VECTORS];
        fetch(next, step);
        next += step;
        for (int c = 0; c < vectors; c++)
            v[c] = load_cached(values, t * value_dim + (size_t)c * 16, type);
        for (int i = 0; i < n; i++) {
            F32x16 x = f32_set(e[i * ATTENTION_CHUNK]);
            for (int c = 0; c < vectors; c++)
                sum[i][c] = f32_fma(v[c], x, sum[i][c]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < vectors; c++)
            f32_store(out + (size_t)i * value_dim + c * 16, sum[i][c]);
}

// In sweeps over the positions, of some channels each.
INLINE void value_run(const ValueWork *w, const KvType type, const int n, const int vectors) {
    size_t value_dim = w->block->kv->value_dim, step;
    for (size_t channel = 0; channel < value_dim; channel += step) {
        step = value_dim - channel >= (size_t)vectors * 16 ? (size_t)vectors * 16 : 16;
        if (step > 16)
            add_values(w, channel, type, n, vectors);
        else
            add_values(w, channel, type, n, 1);
    }
}

INLINE void value_queries(const ValueWork *w, int n, const KvType type) {
    switch (n) {
    case 1: value_run(w, type, 1, MOST_VECTORS); break;
    case 2: value_run(w, type, 2, 2); break;
    case 3: value_run(w, type, 3, VALUE_VECTORS); break;
    default: value_run(w, type, VALUE_QUERIES, VALUE_VECTORS);
    }
}

// In one run of slots, or in two where a ring begins anew.
static void add_span(const ValueWork *all, int n) {
    int slots = all->block->layer.slots;
    ValueWork w = *all;
    for (int t = all->span.lo; t <= all->span.hi; t = w.span.hi + 1) {
        w.span = (Span){t, t + kv_run(slots, t, all->span.hi + 1) - 1};
        w.slot = kv_slot(slots, t);
        switch (w.block->kv->shape.type) {
        case KV_F16: value_queries(&w, n, KV_F16); break;
        case KV_BF16: value_queries(&w, n, KV_BF16); break;
        default: value_queries(&w, n, KV_F32);
        }
    }
}

// The first positions from `from` on that n queries see all of; none: end .. end - 1.
static Span common_span(const QueryBlock *block, int first, int n, int from, int end) {
    Span all = {from, end - 1};
    for (int i = 0; i < n; i++) {
        Span s = next_span(block, first + i, all.lo, end);
        if (s.lo > s.hi) return (Span){end, end - 1};
        if (s.lo > all.lo)
            all = s, i = -1; // the others once more
        else if (s.hi < all.hi)
            all.hi = s.hi;
    }
    return all;
}

// What query i sees of the positions from .. end - 1.
static void add_alone(const QueryBlock *block, int i, float *out, int from, int end) {
    ValueWork one = {.block = block, .out = out, .weights = block->scores + i * ATTENTION_CHUNK};
    one.span = next_span(block, i, from, end);
    for (; one.span.lo <= one.span.hi; one.span = next_span(block, i, one.span.hi + 1, end))
        add_span(&one, 1);
}

// n queries from `first` on: what they all see together, what is before, between and after it one
// by one. Each adds its positions in rising order.
static void sum_values(const QueryBlock *block, int chunk, float *out, int first, int n) {
    size_t value_dim = block->kv->value_dim;
    int end = (chunk + 1) * ATTENTION_CHUNK;
    for (int from = end - ATTENTION_CHUNK; from < end;) {
        Span all = common_span(block, first, n, from, end);
        for (int i = 0; i < n; i++)
            add_alone(block, first + i, out + (size_t)i * value_dim, from, all.lo);
        ValueWork shared = {.block = block,
                            .out = out,
                            .weights = block->scores + first * ATTENTION_CHUNK,
                            .span = all,
                            .next = first == 0 ? block->next_values : NULL};
        add_span(&shared, n);
        from = all.hi + 1;
    }
}

// ---- states ----

static void chunk_states(const QueryBlock *block, int chunk, const AttentionState *state) {
    size_t value_dim = block->kv->value_dim;
    unsigned tiles[ATTENTION_QUERIES];
    int n;
    score_chunk(block, chunk, tiles);
    for (int i = 0; i < block->n_queries; i++) {
        state->max[i] = -INFINITY;
        state->sum[i] = 0;
        if (tiles[i])
            numerators(block->scores + i * ATTENTION_CHUNK, tiles[i], state->max + i,
                       state->sum + i);
    }
    memset(state->out, 0, (size_t)block->n_queries * value_dim * sizeof *state->out);
    for (int i = 0; i < block->n_queries; i += n) {
        n = block->n_queries - i < VALUE_QUERIES ? block->n_queries - i : VALUE_QUERIES;
        sum_values(block, chunk, state->out + (size_t)i * value_dim, i, n);
    }
}

static float lane_0(F32x16 x) {
    float lanes[KV_TILE];
    f32_store(lanes, x);
    return lanes[0];
}

// With m = max(m1, m2):   sum = sum1 e^(m1 - m) + sum2 e^(m2 - m), and the same for out.
static void merge_states(const AttentionState *state, const AttentionState *next, int n_queries,
                         size_t value_dim) {
    for (int i = 0; i < n_queries; i++) {
        float *out = state->out + (size_t)i * value_dim;
        const float *more = next->out + (size_t)i * value_dim;
        if (next->sum[i] == 0) continue;
        if (state->sum[i] == 0) {
            state->max[i] = next->max[i];
            state->sum[i] = next->sum[i];
            memcpy(out, more, value_dim * sizeof *out);
            continue;
        }
        float max = state->max[i] > next->max[i] ? state->max[i] : next->max[i];
        F32x16 a = f32_exp(f32_set(state->max[i] - max)), b = f32_exp(f32_set(next->max[i] - max));
        state->max[i] = max;
        state->sum[i] =
            lane_0(f32_fma(f32_set(next->sum[i]), b, f32_mul(f32_set(state->sum[i]), a)));
        for (size_t c = 0; c < value_dim; c += 16)
            f32_store(out + c, f32_fma(f32_load(more + c), b, f32_mul(f32_load(out + c), a)));
    }
}

static void finish_query(float *out, const AttentionState *state, int i, const Kv *kv) {
    size_t head_dim = (size_t)kv->shape.head_dim;
    const float *from = state->out + (size_t)i * kv->value_dim;
    F32x16 inverse = f32_div(f32_set(1.0f), f32_set(state->sum[i]));
    for (size_t c = 0; c < head_dim; c += 16)
        f32_store_part(out + c, f32_mul(f32_load(from + c), inverse),
                       head_dim - c < 16 ? head_dim - c : 16);
}

extern const AttentionKernels ISA_NAME(attention_kernels);
const AttentionKernels ISA_NAME(attention_kernels) = {
    .write = write_one,
    .pack = pack_queries,
    .scores = chunk_scores,
    .chunk = chunk_states,
    .merge = merge_states,
    .finish = finish_query,
};

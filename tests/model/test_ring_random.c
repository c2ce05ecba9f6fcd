// Rings against a cache of all positions, over random windows, sizes of a pass and histories: what
// is fed, in which pieces, taken back, copied, saved and restored. Every logit has the same bits.
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 200, SEQUENCES = 3, MOST_ROWS = 40, MOST_LOGITS = 40 };

// What a sequence holds, as the test has fed it.
typedef struct Text {
    int32_t ids[CONTEXT];
    int length;
    int back; // the least length, but 0, that it can surely be cut to
} Text;

typedef struct History {
    TestRandom random;
    TinyModel *tiny;
    Model *ring, *all;
    Text texts[SEQUENCES];
    int round, step, begun_anew, refused;
} History;

static int below(History *h, int n) {
    return (int)(test_random(&h->random) % (uint64_t)n);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static TinyModel *random_tiny(History *h) {
    TinyShape shape = tiny_shape();
    shape.dim = shape.hidden_dim = 40; // attention is most of the work
    shape.n_heads = 4, shape.head_dim = 20;
    shape.max_seq_len = CONTEXT;
    shape.seed += (uint64_t)h->round;
    TinyModel *tiny = tiny_model_open(&shape);
    for (int l = 0; l < shape.n_layers; l++)
        tiny->config.layers[l].window = below(h, 4) ? 1 + below(h, below(h, 2) ? 12 : 90) : 0;
    if (!tiny->config.layers[1].window) tiny->config.layers[1].window = 1 + below(h, 20);
    return tiny;
}

static ModelOptions random_options(History *h) {
    return (ModelOptions){.context = CONTEXT,
                          .n_sequences = SEQUENCES,
                          .max_rows = SEQUENCES + below(h, below(h, 2) ? 12 : 70),
                          .max_logit_rows = MOST_LOGITS,
                          .precision = (Precision)below(h, 3),
                          .kv_type = (KvType)below(h, 3),
                          .threads = 1 + below(h, 3)};
}

// The other model cuts the rows elsewhere, where a device allows that.
static void open_both(History *h) {
    static const char *const PATTERNS[] = {"global:2+local:6", "strided:5", "block:7+local:3"};
    Error error = {0};
    ModelOptions options = random_options(h);
    h->ring = tiny_model_run(h->tiny, options);
    options.full_cache = true;
    if (device_info(h->ring->device)->batch_invariant) options.max_rows = SEQUENCES + below(h, 90);
    h->all = tiny_model_run(h->tiny, options);
    if (below(h, 3)) return;
    CHECK(attention_pattern_parse(&h->ring->pattern, PATTERNS[below(h, 3)], &error), "pattern");
    h->all->pattern = h->ring->pattern;
}

static void check_logits(const History *h, int rows, const char *what) {
    size_t bytes = (size_t)h->ring->config.vocab_size * sizeof(float);
    for (int i = 0; i < rows; i++)
        CHECK(!memcmp(model_logits(h->ring, i), model_logits(h->all, i), bytes),
              "round %d, step %d, %s: logits %d of %d; rows %d", h->round, h->step, what, i, rows,
              h->ring->options.max_rows);
}

// ---- what can happen ----

// Behind `length` tokens at least the rows of a pass can go, and never less than 16.
static void note_fed(const History *h, Text *t) {
    int rows = h->ring->options.max_rows > 16 ? h->ring->options.max_rows : 16;
    int back = t->length - 1 - rows;
    if (back > t->back) t->back = back;
}

// Rows of several sequences, in any order; the last ones want logits.
static void feed(History *h, int only) {
    int32_t tokens[MOST_ROWS], sequences[MOST_ROWS];
    bool wants[MOST_ROWS];
    int n = 0, wanted = 1 + below(h, MOST_ROWS);
    for (int i = 0; i < wanted; i++) {
        int q = only < 0 ? below(h, SEQUENCES) : only;
        Text *t = &h->texts[q];
        if (t->length == CONTEXT) continue;
        tokens[n] = below(h, h->tiny->config.vocab_size);
        sequences[n++] = q;
        t->ids[t->length++] = tokens[n - 1];
        note_fed(h, t);
    }
    if (!n) return;
    for (int i = 0; i < n; i++)
        wants[i] = i >= n - MOST_LOGITS;
    Batch batch = {.n = n, .tokens = tokens, .sequences = sequences, .wants_logits = wants};
    tiny_model_forward(h->ring, &batch);
    tiny_model_forward(h->all, &batch);
    check_logits(h, least(n, MOST_LOGITS), "fed");
}

static void cut_both(History *h, int q, int length) {
    Text *t = &h->texts[q];
    t->length = length;
    if (!length) t->back = 0;
    kv_cache_truncate(&h->all->cache, q, length);
}

// Any length up to that of a sequence, half of them at the edge of what the ring has, or beside it.
static int earlier(History *h, int q, int length) {
    int edge = kv_cache_lowest(&h->ring->cache, q, length) - 1 + below(h, 3);
    return edge >= 0 && edge <= length && below(h, 2) ? edge : length - below(h, length + 1);
}

static void go_back(History *h, int q) {
    Text *t = &h->texts[q];
    int wanted = earlier(h, q, t->length);
    int length = kv_cache_go_back(&h->ring->cache, q, wanted);
    CHECK(length == wanted || !length, "%d of %d", length, wanted);
    CHECK(length == wanted || wanted < t->back, "round %d, step %d: %d can be cut to %d", h->round,
          h->step, t->length, wanted);
    h->begun_anew += length < wanted;
    cut_both(h, q, length);
}

// By the position alone: rows over what the sequence has.
static void overwrite(History *h, int q) {
    int32_t tokens[MOST_ROWS], positions[MOST_ROWS], sequences[MOST_ROWS];
    Text *t = &h->texts[q];
    Error error = {0};
    int first = earlier(h, q, t->length), n = least(1 + below(h, 24), CONTEXT - first);
    if (n < 1) return;
    for (int i = 0; i < n; i++) {
        tokens[i] = below(h, h->tiny->config.vocab_size);
        positions[i] = first + i;
        sequences[i] = q;
    }
    Batch batch = {.n = n, .tokens = tokens, .positions = positions, .sequences = sequences};
    if (!model_forward(h->ring, &batch, &error)) {
        CHECK(error.code == ERROR_USAGE && first && first < t->back, "at %d: %s", first,
              error.message);
        CHECK_INT(kv_cache_length(&h->ring->cache, q), t->length);
        h->refused++;
        return;
    }
    cut_both(h, q, first);
    memcpy(t->ids + first, tokens, (size_t)n * sizeof *tokens);
    t->length += n;
    note_fed(h, t);
    tiny_model_forward(h->all, &batch);
    check_logits(h, 1, "overwritten");
}

static void copy(History *h, int to, int from) {
    kv_cache_copy(&h->ring->cache, to, from);
    kv_cache_copy(&h->all->cache, to, from);
    h->texts[to] = h->texts[from];
}

// A sequence into another one, by way of a snapshot; both caches of the same kind, or, with
// `across`, from the cache of all positions into the ring.
static void save_and_restore(History *h, int to, int from, bool across) {
    KvCache *ring = &h->ring->cache, *source = across ? &h->all->cache : ring;
    Error error = {0};
    Text *t = &h->texts[from];
    KvSnapshot saved = {t->length, kv_cache_lowest(source, from, t->length)};
    int length = kv_cache_checkpoint(ring, &saved, earlier(h, from, t->length));
    char *parts[LIMIT_LAYERS];
    for (int i = 0; i < kv_cache_parts(source); i++) {
        parts[i] = malloc(kv_cache_part_bytes(source, i, &saved) + 1);
        CHECK(kv_cache_save(source, from, i, &saved, parts[i], &error), "%s", error.message);
    }
    for (int i = 0; i < kv_cache_parts(source); i++) {
        kv_cache_restore(ring, to, i, parts[i], &saved, length);
        free(parts[i]);
    }
    CHECK(kv_cache_restored(ring, to, &saved, length, &error), "%s", error.message);
    kv_cache_copy(&h->all->cache, to, from);
    h->texts[to] = *t;
    if (across) h->texts[to].back = 0, note_fed(h, &h->texts[to]);
    cut_both(h, to, length);
}

// ---- histories ----

static void one_step(History *h) {
    int q = below(h, SEQUENCES), other = (q + 1 + below(h, SEQUENCES - 1)) % SEQUENCES;
    switch (below(h, 10)) {
    case 0:
    case 1:
    case 2: feed(h, q); break;
    case 3:
    case 4: feed(h, -1); break;
    case 5: go_back(h, q); break;
    case 6: overwrite(h, q); break;
    case 7: copy(h, other, q); break;
    case 8:
        save_and_restore(h, other, q, below(h, 2));
        go_back(h, other), feed(h, other);
        break;
    default: go_back(h, q), feed(h, q); break;
    }
    for (int i = 0; i < SEQUENCES; i++)
        CHECK(kv_cache_length(&h->ring->cache, i) == h->texts[i].length, "sequence %d", i);
}

// The whole of a text again, through an empty cache of all positions: the last logits.
static void check_text(History *h, int q) {
    const Text *t = &h->texts[q];
    if (t->length - 1 < h->ring->cache.lowest[q] || t->length < 2 ||
        !device_info(h->all->device)->batch_invariant)
        return;
    int32_t last[] = {t->ids[t->length - 1]}, sequence[] = {q};
    int32_t position[] = {t->length - 1};
    Batch again = {.n = 1, .tokens = last, .positions = position, .sequences = sequence};
    tiny_model_forward(h->ring, &again);
    kv_cache_reset(&h->all->cache, 0);
    tiny_model_forward(h->all, &(Batch){.n = t->length, .tokens = t->ids});
    check_logits(h, 1, "text");
}

Test(ring, has_the_same_bits_over_any_history) {
    int begun_anew = 0, refused = 0, rounds = TEST_EMULATED ? 1 : TEST_SANITIZED ? 8 : 32;
    for (int round = 0; round < rounds; round++) {
        History h = {.random = {(uint64_t)round + 1}, .round = round};
        h.tiny = random_tiny(&h);
        open_both(&h);
        for (h.step = 0; h.step < EMULATED(30, 50); h.step++)
            one_step(&h);
        for (int q = 0; q < SEQUENCES; q++)
            check_text(&h, q);
        begun_anew += h.begun_anew;
        refused += h.refused;
        model_close(h.ring);
        model_close(h.all);
        tiny_model_close(h.tiny);
    }
    CHECK(TEST_EMULATED || (begun_anew >= rounds / 8 && refused >= rounds / 8),
          "%d and %d: hardly any beyond a ring", begun_anew, refused);
}

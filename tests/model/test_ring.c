// Layers with a window keep the window and a pass: the same bits as with all positions kept, over
// every way of feeding, and what they have lost is computed again or refused, never read.
#include "model/decoder.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

enum { WINDOW = 8, CONTEXT = 120, TOKENS = 100, RING = 32, LOWEST = TOKENS - 1 - (RING - WINDOW) };
enum { SLOTS = RING + 16 }; // for tentative rows

// Layers 0 and 2 have a window.
static TinyModel *tiny_open(void) {
    TinyShape shape = tiny_shape();
    shape.window = WINDOW;
    shape.max_seq_len = CONTEXT;
    TinyModel *tiny = tiny_model_open(&shape);
    tiny->config.layers[1].window = 0;
    return tiny;
}

static void make_ids(const TinyModel *tiny, int32_t ids[CONTEXT]) {
    for (int i = 0; i < CONTEXT; i++)
        ids[i] = (7 * i + i / 9 + 3) % tiny->config.vocab_size;
}

static ModelOptions options_of(int max_rows) {
    return (ModelOptions){.context = CONTEXT,
                          .n_sequences = 3,
                          .max_rows = max_rows,
                          .max_logit_rows = CONTEXT,
                          .precision = PRECISION_A16,
                          .kv_type = KV_F16};
}

static void feed(Model *m, const int32_t *ids, int first, int end) {
    tiny_model_forward(m, &(Batch){.n = end - first, .tokens = ids + first});
}

static void check_logits(const Model *a, const Model *b, int rows, const char *what) {
    size_t bytes = (size_t)a->config.vocab_size * sizeof(float);
    for (int i = 0; i < rows; i++)
        CHECK(!memcmp(model_logits(a, i), model_logits(b, i), bytes), "%s: row %d", what, i);
}

// ---- the same bits ----

static void compare(const TinyModel *tiny, ModelOptions options) {
    int32_t ids[CONTEXT];
    bool wants[CONTEXT];
    memset(wants, true, sizeof wants);
    make_ids(tiny, ids);
    Model *ring = tiny_model_run(tiny, options);
    options.full_cache = true;
    Model *all = tiny_model_run(tiny, options);
    CHECK(kv_cache_rings(&ring->cache) && !kv_cache_rings(&all->cache), "one of each");
    Batch prompt = {.n = 70, .tokens = ids, .wants_logits = wants};
    tiny_model_forward(ring, &prompt);
    tiny_model_forward(all, &prompt);
    check_logits(ring, all, 70, "prompt");
    for (int i = 70; i < CONTEXT; i++) {
        feed(ring, ids, i, i + 1);
        feed(all, ids, i, i + 1);
        check_logits(ring, all, 1, "decode");
    }
    model_close(ring);
    model_close(all);
}

Test(ring, has_the_bits_of_a_cache_of_all_positions) {
    static const int ROWS[] = {3, 16, 40};
    TinyModel *tiny = tiny_open();
    for (int i = 0; i < 9; i++) {
        ModelOptions options = options_of(ROWS[i % 3]);
        options.precision = (Precision)(i / 3);
        options.kv_type = (KvType)((i + i / 3) % 3);
        options.threads = 1 + i % 3;
        if (!TEST_EMULATED || i % 4 == 0) compare(tiny, options);
    }
    tiny_model_close(tiny);
}

// Sequences of other lengths share passes; a pattern hides more than the window does.
Test(ring, has_the_same_bits_in_a_batch_and_under_a_pattern) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT], tokens[3 * CONTEXT], sequences[3 * CONTEXT];
    int n = 0;
    make_ids(tiny, ids);
    for (int i = 0; i < TOKENS; i++)
        for (int q = 0; q < 3; q++)
            if (q != 1 || i % 2) tokens[n] = ids[(i + q) % CONTEXT], sequences[n++] = q;
    for (int i = 0; i < 2; i++) {
        Error error = {0};
        ModelOptions options = options_of(17);
        Model *ring = tiny_model_run(tiny, options);
        options.full_cache = true;
        Model *all = tiny_model_run(tiny, options);
        if (i) CHECK(attention_pattern_parse(&ring->pattern, "global:2+local:6", &error), "parse");
        all->pattern = ring->pattern;
        Batch batch = {.n = n, .tokens = tokens, .sequences = sequences};
        tiny_model_forward(ring, &batch);
        tiny_model_forward(all, &batch);
        check_logits(ring, all, 1, "batch");
        model_close(ring);
        model_close(all);
    }
    tiny_model_close(tiny);
}

// ---- memory ----

// By hand: two rings of 32 and a layer of 120 positions; keys and values of two heads of 40
// channels in 16 bits. The cpu backend has whole tiles of 16 positions, and values of 48 channels.
Test(ring, takes_the_bytes_of_the_window_and_a_pass) {
    TinyModel *tiny = tiny_open();
    ModelOptions options = options_of(16);
    options.n_sequences = 1;
    Model *model = tiny_model_run(tiny, options);
    bool cpu = !strncmp(device_info(model->device)->description, "cpu", 3);
    int slot = 2 * (40 + 40) * 2, tile = 2 * (40 + 48) * 2; // bytes of a position
    int wanted = cpu ? (128 + 2 * SLOTS) * tile : (CONTEXT + 2 * SLOTS) * slot;
    CHECK_INT(kv_bytes(&model->cache.shape), wanted);
    CHECK(model_memory(model, &options).cache >= wanted, "memory");
    options.full_cache = true;
    double full = model_memory(model, &options).cache;
    CHECK_NEAR(full - model_memory(model, &model->options).cache,
               cpu ? 2 * (128 - SLOTS) * tile : 2 * (CONTEXT - SLOTS) * slot, 0);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- going back ----

Test(ring, goes_back_as_far_as_it_holds_and_refuses_more) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT];
    Error error = {0};
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options_of(16)),
          *whole = tiny_model_run(tiny, options_of(1));
    KvCache *cache = &model->cache;
    feed(whole, ids, 0, TOKENS);
    feed(model, ids, 0, RING);
    CHECK_INT(kv_cache_lowest(cache, 0, RING), 0); // all of it is there
    feed(model, ids, RING, TOKENS);
    CHECK_INT(kv_cache_lowest(cache, 0, TOKENS), LOWEST);
    CHECK_INT(kv_cache_first(cache, 0, 0), TOKENS - RING);
    CHECK_INT(kv_cache_first(cache, 1, 0), 0);

    int32_t position = LOWEST - 1;
    CHECK(!model_forward(model, &(Batch){.n = 1, .tokens = ids, .positions = &position}, &error),
          "a position that its keys have left");
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK_STRING(error.message,
                 "position 74 at row 0: layers with a window hold no more of "
                 "sequence 0 than what 75 and later positions see; 0 begins it anew");
    CHECK_INT(kv_cache_length(cache, 0), TOKENS);

    for (int i = 0; i < 3; i++) { // again and again
        CHECK_INT(kv_cache_go_back(cache, 0, 90), 90);
        tiny_model_forward(model, &(Batch){.n = 10, .tokens = ids + 20}); // others first
        CHECK_INT(kv_cache_go_back(cache, 0, LOWEST + 3 * i), LOWEST + 3 * i);
        feed(model, ids, LOWEST + 3 * i, TOKENS);
        if (device_info(model->device)->batch_invariant) check_logits(model, whole, 1, "again");
    }
    CHECK_INT(kv_cache_go_back(cache, 0, LOWEST - 1), 0);
    CHECK_INT(kv_cache_lowest(cache, 0, 0), 0);
    feed(model, ids, 0, TOKENS);
    if (device_info(model->device)->batch_invariant) check_logits(model, whole, 1, "from 0");
    model_close(model);
    model_close(whole);
    tiny_model_close(tiny);
}

// Rows that were taken back count no more than if they had not been written: the least length to go
// back to is that of the tokens, and behind it are the bits of all of them.
Test(ring, forgets_tentative_rows) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT];
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options_of(16)),
          *whole = tiny_model_run(tiny, options_of(1));
    KvCache *cache = &model->cache;
    feed(whole, ids, 0, TOKENS);
    for (int at = 0; at < TOKENS; at++) {
        Batch guessed = {
            .n = CONTEXT - at < 16 ? CONTEXT - at : 16, .tokens = ids + at, .tentative = true};
        tiny_model_forward(model, &guessed);
        kv_cache_truncate(cache, 0, at + 1);
        kv_cache_settle(cache, 0);
    }
    CHECK_INT(kv_cache_lowest(cache, 0, TOKENS), LOWEST);
    CHECK_INT(kv_cache_go_back(cache, 0, LOWEST), LOWEST);
    feed(model, ids, LOWEST, TOKENS);
    if (device_info(model->device)->batch_invariant) check_logits(model, whole, 1, "again");
    model_close(model);
    model_close(whole);
    tiny_model_close(tiny);
}

// A batch knows what its own rows overwrite.
Test(ring, refuses_a_batch_that_would_go_back_behind_its_own_rows) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT], positions[61];
    Error error = {0};
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options_of(16));
    for (int i = 0; i < 60; i++)
        positions[i] = i;
    positions[60] = 34; // 60 - 1 - 24 = 35
    Batch batch = {.n = 61, .tokens = ids, .positions = positions};
    CHECK(!model_forward(model, &batch, &error) && error.code == ERROR_USAGE, "%s", error.message);
    CHECK_INT(kv_cache_length(&model->cache, 0), 0);
    positions[60] = 35;
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
    positions[60] = 0;
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
    CHECK_INT(kv_cache_length(&model->cache, 0), 1);
    model_close(model);
    tiny_model_close(tiny);
}

static int stop_after;
static void stop_later(void *stop, const Model *model, const Stage *stage) {
    (void)model;
    if (stage->id == STAGE_EMBEDDING && !stop_after--) *(int *)stop = 1;
}

// Of a batch that was stopped far behind the text, what it has overwritten is gone.
Test(ring, forgets_a_text_whose_keys_a_stopped_batch_has_taken) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT];
    int stop = 0;
    Error error = {0};
    make_ids(tiny, ids);
    for (int chunks = 0; chunks <= 4; chunks += 4) {
        ModelOptions options = options_of(16);
        options.stop = &stop;
        stop = 0, stop_after = chunks;
        Model *model = tiny_model_run(tiny, options);
        feed(model, ids, 0, 20);
        CHECK(model_listen(model, stop_later, &stop, false, &error), "%s", error.message);
        Batch rest = {.n = 90, .tokens = ids + 20};
        CHECK(!model_forward(model, &rest, &error), "stopped");
        CHECK_INT(error.code, ERROR_INTERRUPTED);
        CHECK_INT(kv_cache_length(&model->cache, 0), chunks ? 0 : 20);
        model_close(model);
    }
    tiny_model_close(tiny);
}

Test(ring, a_decoder_goes_back_within_it_and_says_where_it_cannot) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT], text[60];
    Error error = {0};
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options_of(16));
    Decoder d;
    feed(model, ids, 0, 40);
    CHECK(decoder_begin(&d, model, &(DecoderOptions){.max_tokens = 60}, &error), "begin");
    for (int i = 0; i < 60; i++)
        text[i] = decoder_next(&d, &error);
    CHECK(!decoder_rewind(&d, 40, text[19]), "40 tokens back");
    CHECK_INT(d.taken, 60);
    CHECK(decoder_rewind(&d, 10, text[49]), "10 tokens back");
    for (int i = 50; i < 60; i++)
        CHECK_INT(decoder_next(&d, &error), text[i]);
    decoder_end(&d);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- copies and snapshots ----

Test(ring, a_copy_goes_on_with_the_same_bits) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT], sequences[CONTEXT];
    make_ids(tiny, ids);
    for (int i = 0; i < CONTEXT; i++)
        sequences[i] = 2;
    Model *model = tiny_model_run(tiny, options_of(16)),
          *whole = tiny_model_run(tiny, options_of(16));
    feed(model, ids, 0, TOKENS);
    kv_cache_copy(&model->cache, 2, 0);
    CHECK_INT(kv_cache_lowest(&model->cache, 2, TOKENS), LOWEST);
    feed(whole, ids, 0, TOKENS);
    for (int i = TOKENS; i < CONTEXT; i++) {
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = ids + i, .sequences = sequences});
        feed(whole, ids, i, i + 1);
        check_logits(model, whole, 1, "copy");
    }
    model_close(model);
    model_close(whole);
    tiny_model_close(tiny);
}

// Into a cache of other rings, or of none.
static void restore_into(const TinyModel *tiny, ModelOptions options, char *const parts[3],
                         const KvSnapshot *saved, int length) {
    int32_t ids[CONTEXT];
    Error error = {0};
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options), *whole = tiny_model_run(tiny, options);
    for (int i = 0; i < length; i++)
        feed(whole, ids, i, i + 1);
    for (int i = 0; i < 3; i++)
        kv_cache_restore(&model->cache, 0, i, parts[i], saved, length);
    CHECK(kv_cache_restored(&model->cache, 0, saved, length, &error), "%s", error.message);
    CHECK_INT(kv_cache_lowest(&model->cache, 0, length), LOWEST);
    for (int i = length; i < CONTEXT; i++) {
        feed(model, ids, i, i + 1);
        feed(whole, ids, i, i + 1);
        check_logits(model, whole, 1, "restored");
    }
    model_close(model);
    model_close(whole);
}

Test(ring, a_snapshot_has_what_is_held_and_fits_other_rings) {
    TinyModel *tiny = tiny_open();
    int32_t ids[CONTEXT];
    Error error = {0};
    char *parts[3];
    make_ids(tiny, ids);
    Model *model = tiny_model_run(tiny, options_of(16));
    for (int i = 0; i < TOKENS; i++)
        feed(model, ids, i, i + 1);
    KvSnapshot saved = {TOKENS, kv_cache_lowest(&model->cache, 0, TOKENS)};
    for (int i = 0; i < 3; i++) {
        // Keys and values of two heads of 40 channels in 16 bits, of 32 positions or of all.
        size_t bytes = kv_cache_part_bytes(&model->cache, i, &saved);
        CHECK_INT(bytes, (i == 1 ? TOKENS : RING) * 2 * 2 * 40 * 2);
        parts[i] = malloc(bytes);
        CHECK(kv_cache_save(&model->cache, 0, i, &saved, parts[i], &error), "%s", error.message);
    }
    CHECK_INT(kv_cache_checkpoint(&model->cache, &saved, CONTEXT), TOKENS);
    CHECK_INT(kv_cache_checkpoint(&model->cache, &saved, LOWEST), LOWEST);
    CHECK_INT(kv_cache_checkpoint(&model->cache, &saved, LOWEST - 1), 0);
    ModelOptions full = options_of(16);
    full.full_cache = true;
    const int lengths[] = {LOWEST, 90, TOKENS};
    for (int i = 0; i < 3; i++) {
        restore_into(tiny, options_of(16), parts, &saved, lengths[i]);
        restore_into(tiny, options_of(60), parts, &saved, lengths[i]);
        restore_into(tiny, full, parts, &saved, lengths[i]);
    }
    for (int i = 0; i < 3; i++)
        free(parts[i]);
    model_close(model);
    tiny_model_close(tiny);
}

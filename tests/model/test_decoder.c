// The decoder's tokens are those of sampling and feeding one at a time, at every pipeline depth and
// wherever the text ends, and the cache and the generator are the same afterwards.
#include "model/decoder.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

enum { PROMPT = 5, CONTEXT = 40 };
static const int32_t IDS[PROMPT] = {3, 17, 60, 5, 9};

// A model behind a prompt, with its sampler.
typedef struct Scene {
    TinyModel *tiny;
    Model *model;
    Sampler *sampler;
} Scene;

static const SampleRule GREEDY = {0.0f, 0, 1.0f, 0.0f, 1.0f, 0};
static const SampleRule RULES[] = {{0.0f, 0, 1.0f, 0.0f, 1.0f, 0},
                                   {1.0f, 0, 1.0f, 0.0f, 1.0f, 0},
                                   {0.8f, 20, 0.9f, 0.05f, 0.9f, 0},
                                   {1.0f, 0, 1.0f, 0.0f, 1.0f, 0.02f}}; // every other time

static TinyModel *tiny_open(void) {
    TinyShape shape = tiny_shape();
    shape.n_layers = 1;
    shape.untied = true;
    return tiny_model_open(&shape);
}

static Scene scene_of(TinyModel *tiny, const SamplerOptions *options) {
    Scene s = {.tiny = tiny};
    s.model =
        tiny_model_run(s.tiny, (ModelOptions){.context = CONTEXT, .precision = PRECISION_A16});
    Error error = {0};
    s.sampler = sampler_open(s.model->device, tiny->config.vocab_size, CONTEXT, options, &error);
    CHECK(s.sampler, "%s", error.message);
    for (int i = 0; i < PROMPT; i++)
        sampler_accept(s.sampler, IDS[i]);
    tiny_model_forward(s.model, &(Batch){.n = PROMPT, .tokens = IDS});
    return s;
}

static SamplerOptions plain(const SampleRule *rule) {
    SamplerOptions options = sampler_defaults();
    options.rule = *rule;
    options.xtc_probability = 0.5f;
    options.seed = 11;
    return options;
}

static Scene scene_open(const SampleRule *rule) {
    SamplerOptions options = plain(rule);
    return scene_of(tiny_open(), &options);
}

static void scene_close(Scene *s) {
    sampler_close(s->sampler);
    model_close(s->model);
    tiny_model_close(s->tiny);
}

// One token at a time: the last one is not fed.
static void step_by_step(Scene *s, int32_t *tokens, int count) {
    Error error = {0};
    for (int i = 0; i < count; i++) {
        if (i) tiny_model_forward(s->model, &(Batch){.n = 1, .tokens = tokens + i - 1});
        tokens[i] = sampler_next(s->sampler, model_logits(s->model, 0), &error);
        CHECK(tokens[i] >= 0, "%s", error.message);
        sampler_accept(s->sampler, tokens[i]);
    }
}

static Decoder begin(Scene *s, DecoderOptions options) {
    Error error = {0};
    Decoder d;
    options.sampler = s->sampler;
    CHECK(decoder_begin(&d, s->model, &options, &error), "%s", error.message);
    return d;
}

// `count` tokens by the decoder at a pipeline depth; -1: the one that it chooses.
static void decode(Scene *s, int32_t *tokens, int count, DecoderOptions options, int depth) {
    Error error = {0};
    Decoder d = begin(s, options);
    if (depth >= 0) d.depth = depth;
    for (int i = 0; i < count; i++) {
        CHECK(decoder_left(&d) > 0, "none is left after %d", i);
        tokens[i] = decoder_next(&d, &error);
        CHECK(tokens[i] >= 0, "%s", error.message);
        sampler_accept(s->sampler, tokens[i]);
    }
    decoder_end(&d);
}

// Both scenes have sampled the same `count` tokens; what they do next is the same too.
static void check_same(Scene *a, Scene *b, const int32_t *wanted, const int32_t *got, int count) {
    for (int i = 0; i < count; i++)
        CHECK(got[i] == wanted[i], "token %d: %d, not %d", i, (int)got[i], (int)wanted[i]);
    CHECK_INT(kv_cache_length(&b->model->cache, 0), kv_cache_length(&a->model->cache, 0));
    CHECK(sampler_uniform(a->sampler) == sampler_uniform(b->sampler), "the generator");
    if (kv_cache_length(&a->model->cache, 0) == CONTEXT) return;
    Batch next = {.n = 1, .tokens = IDS};
    tiny_model_forward(a->model, &next), tiny_model_forward(b->model, &next);
    size_t bytes = (size_t)a->model->config.vocab_size * sizeof(float);
    CHECK(!memcmp(model_logits(a->model, 0), model_logits(b->model, 0), bytes), "the next logits");
}

static void check(const SampleRule *rule, int count, int most, int depth) {
    int32_t wanted[CONTEXT + 1], got[CONTEXT + 1];
    Scene a = scene_open(rule), b = scene_open(rule);
    step_by_step(&a, wanted, count);
    decode(&b, got, count, (DecoderOptions){.max_tokens = (size_t)most}, depth);
    check_same(&a, &b, wanted, got, count);
    scene_close(&a), scene_close(&b);
}

Test(decoder, tokens_are_those_of_single_steps) {
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++)
        for (int depth = -1; depth < SEND_SLOTS; depth += 2)
            check(&RULES[r], 12, 100, depth);
}

// After the first token, in the middle, with nothing left under way.
Test(decoder, speculative_passes_are_discarded) {
    static const int COUNTS[][2] = {{1, 100}, {1, 1}, {2, 3}, {7, 8}, {9, 9}};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
        check(&RULES[1], COUNTS[i][0], COUNTS[i][1], 5);
}

// The last token needs no place in the cache.
Test(decoder, ends_where_the_context_does) {
    Scene s = scene_open(&GREEDY);
    Decoder d = begin(&s, (DecoderOptions){.max_tokens = 1000});
    CHECK_INT(decoder_left(&d), CONTEXT - PROMPT + 1);
    decoder_end(&d);
    CHECK_INT(kv_cache_length(&s.model->cache, 0), PROMPT);
    scene_close(&s);
    check(&GREEDY, CONTEXT - PROMPT + 1, 1000, 7);
    check(&GREEDY, CONTEXT - PROMPT + 1, 1000, 0);
}

// More uniform numbers than are sent to the device at once, and one text after another.
Test(decoder, continues_after_itself) {
    int32_t wanted[CONTEXT], got[CONTEXT];
    Scene a = scene_open(&RULES[1]), b = scene_open(&RULES[1]);
    for (int text = 0; text < 6; text++) {
        step_by_step(&a, wanted, 20);
        decode(&b, got, 20, (DecoderOptions){.max_tokens = 1000}, 2 * (text % 3));
        check_same(&a, &b, wanted, got, 20);
        kv_cache_truncate(&a.model->cache, 0, 7), kv_cache_truncate(&b.model->cache, 0, 7);
        sampler_reset(a.sampler), sampler_reset(b.sampler);
        tiny_model_forward(a.model, &(Batch){.n = 3, .tokens = IDS});
        tiny_model_forward(b.model, &(Batch){.n = 3, .tokens = IDS});
    }
    scene_close(&a), scene_close(&b);
}

// ---- the host takes part in every step ----

// Options of the sampler and of the decoder: the depth that it chooses is 0.
static void check_stepwise(const SamplerOptions *sampler, const DecoderOptions *options) {
    int32_t wanted[CONTEXT + 1], got[CONTEXT + 1];
    enum { MOST = CONTEXT - PROMPT + 1 };
    for (int count = 1; count <= MOST; count += MOST - 1) {
        TinyModel *tiny[] = {tiny_open(), tiny_open()};
        Scene a = scene_of(tiny[0], sampler), b = scene_of(tiny[1], sampler);
        step_by_step(&a, wanted, count);
        Decoder d = begin(&b, *options);
        CHECK_INT(d.depth, 0);
        decoder_end(&d);
        decode(&b, got, count, *options, -1);
        check_same(&a, &b, wanted, got, count);
        scene_close(&a), scene_close(&b);
    }
}

Test(decoder, penalties_are_applied_to_every_token) {
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++) {
        SamplerOptions options = plain(&RULES[r]);
        options.repeat_penalty = 1.5f;
        options.frequency_penalty = 0.3f;
        check_stepwise(&options, &(DecoderOptions){.max_tokens = 100});
    }
}

Test(decoder, without_the_cache_tokens_are_the_same) {
    SamplerOptions options = plain(&RULES[1]);
    check_stepwise(&options, &(DecoderOptions){.max_tokens = 100, .recompute = IDS});
}

Test(decoder, gives_the_logits_of_every_token) {
    SamplerOptions options = plain(&GREEDY);
    check_stepwise(&options, &(DecoderOptions){.max_tokens = 100, .wants_logits = true});
    Error error = {0};
    Scene a = scene_open(&GREEDY), b = scene_open(&GREEDY);
    Decoder d = begin(&b, (DecoderOptions){.max_tokens = 100, .wants_logits = true});
    size_t bytes = (size_t)a.model->config.vocab_size * sizeof(float);
    for (int i = 0; i < 9; i++) {
        int32_t token = decoder_next(&d, &error);
        CHECK(token >= 0, "%s", error.message);
        CHECK(!memcmp(decoder_logits(&d), model_logits(a.model, 0), bytes), "token %d", i);
        tiny_model_forward(a.model, &(Batch){.n = 1, .tokens = &token});
    }
    decoder_end(&d);
    scene_close(&a), scene_close(&b);
}

// The listener sees the last stage of every pass, with the token that it is of.
typedef struct Seen {
    int count, rows; // passes, and rows of all of them
    int32_t tokens[CONTEXT];
} Seen;

static void listener(void *context, const Model *model, const Stage *stage) {
    (void)model;
    Seen *seen = context;
    if (stage->id == STAGE_LOGITS) seen->tokens[seen->count++] = stage->rows.tokens[0];
    if (stage->id == STAGE_EMBEDDING) seen->rows += stage->rows.n;
}

// `rows`: of 8 passes for 9 tokens.
static void check_seen(const int32_t *recompute, int rows) {
    int32_t wanted[9], got[9];
    Seen seen = {0};
    Error error = {0};
    Scene a = scene_open(&RULES[1]), b = scene_open(&RULES[1]);
    step_by_step(&a, wanted, 9);
    CHECK(model_listen(b.model, listener, &seen, false, &error), "%s", error.message);
    decode(&b, got, 9, (DecoderOptions){.max_tokens = 100, .recompute = recompute}, -1);
    CHECK_INT(seen.count, 8);
    CHECK_INT(seen.rows, rows);
    for (int i = 0; i < 8; i++)
        CHECK_INT(seen.tokens[i], wanted[i]);
    CHECK(model_listen(b.model, NULL, NULL, false, &error), "%s", error.message);
    check_same(&a, &b, wanted, got, 9);
    scene_close(&a), scene_close(&b);
}

Test(decoder, a_listener_sees_every_pass) {
    check_seen(NULL, 8);
}

Test(decoder, without_the_cache_every_pass_runs_the_whole_text) {
    check_seen(IDS, 8 * PROMPT + 8 * 9 / 2);
}

// ---- going back ----

enum { WENT = 9, CHANGED = 4 }; // tokens before going back; of these the one that is changed

// Token by token as step_by_step does, but token CHANGED is another one.
static void step_changed(Scene *s, int32_t *tokens, int count, int32_t other) {
    Error error = {0};
    for (int i = 0; i < count; i++) {
        if (i) tiny_model_forward(s->model, &(Batch){.n = 1, .tokens = tokens + i - 1});
        tokens[i] = sampler_next(s->sampler, model_logits(s->model, 0), &error);
        CHECK(tokens[i] >= 0, "%s", error.message);
        if (i == CHANGED) tokens[i] = other;
        sampler_accept(s->sampler, tokens[i]);
    }
}

static void decode_more(Scene *s, Decoder *d, int32_t *tokens, int from, int to) {
    Error error = {0};
    for (int i = from; i < to; i++) {
        tokens[i] = decoder_next(d, &error);
        CHECK(tokens[i] >= 0, "%s", error.message);
        sampler_accept(s->sampler, tokens[i]);
    }
}

// After WENT tokens n are taken back; then the text has the tokens, the cache and the generator of
// one that never went on.
static void check_rewound(const SamplerOptions *sampler, DecoderOptions options, int depth, int n) {
    enum { COUNT = 12 };
    int32_t wanted[COUNT], got[COUNT];
    Scene a = scene_of(tiny_open(), sampler), b = scene_of(tiny_open(), sampler);
    step_by_step(&a, wanted, COUNT);
    options.max_tokens = COUNT + 3;
    Decoder d = begin(&b, options);
    if (!d.stepwise) d.depth = depth;
    decode_more(&b, &d, got, 0, WENT);
    decoder_rewind(&d, n, n < WENT ? got[WENT - n - 1] : IDS[PROMPT - 1]);
    sampler_forget(b.sampler, n);
    CHECK_INT(decoder_left(&d), COUNT + 3 - WENT + n);
    memset(got + WENT - n, 0xff, (size_t)n * sizeof *got);
    decode_more(&b, &d, got, WENT - n, COUNT);
    decoder_end(&d);
    check_same(&a, &b, wanted, got, COUNT);
    scene_close(&a), scene_close(&b);
}

static bool batch_invariant(void) {
    Scene s = scene_open(&GREEDY);
    bool invariant = device_info(s.model->device)->batch_invariant;
    scene_close(&s);
    return invariant;
}

// The prompt's last token alone has the bits that it has in the prompt only where the device is
// batch-invariant.
Test(decoder, rewound_it_gives_the_same_again) {
    SamplerOptions penalties = plain(&RULES[2]), few = plain(&RULES[1]);
    penalties.frequency_penalty = 0.3f;
    few.repeat_penalty = 1.5f;
    SamplerOptions follows = plain(&RULES[1]); // mirostat's state goes back too
    follows.mirostat_tau = 3.0f;
    few.repeat_last = 3; // tokens that left the window return
    for (int n = 0; n <= (batch_invariant() ? WENT : WENT - 1); n++) {
        for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++) {
            SamplerOptions options = plain(&RULES[r]);
            check_rewound(&options, (DecoderOptions){0}, r ? 5 : 0, n);
        }
        check_rewound(&follows, (DecoderOptions){0}, 0, n);
        check_rewound(&penalties, (DecoderOptions){0}, 0, n);
        check_rewound(&few, (DecoderOptions){.recompute = IDS}, 0, n);
    }
}

// A changed token is that of a text that had it in the first place.
Test(decoder, goes_on_from_another_token) {
    enum { COUNT = 12 };
    SamplerOptions few = plain(&RULES[1]), sampled = few;
    few.repeat_penalty = 1.5f;
    few.repeat_last = 3;
    for (int depth = 0; depth < 3; depth++) {
        int32_t wanted[COUNT], got[COUNT];
        const SamplerOptions *options = depth ? &sampled : &few;
        Scene a = scene_of(tiny_open(), options), b = scene_of(tiny_open(), options);
        Decoder d = begin(&b, (DecoderOptions){.max_tokens = 100});
        if (!d.stepwise) d.depth = 3 * depth;
        decode_more(&b, &d, got, 0, WENT);
        int32_t other = (got[CHANGED] + 5) % b.model->config.vocab_size;
        step_changed(&a, wanted, COUNT, other);
        decoder_rewind(&d, WENT - CHANGED - 1, other);
        sampler_forget(b.sampler, WENT - CHANGED);
        sampler_accept(b.sampler, got[CHANGED] = other);
        decode_more(&b, &d, got, CHANGED + 1, COUNT);
        decoder_end(&d);
        check_same(&a, &b, wanted, got, COUNT);
        scene_close(&a), scene_close(&b);
    }
}

// ---- NaN ----

// A token's embedding is NaN: the error is that of model_forward, at every depth.
Test(decoder, names_the_stage_that_is_not_finite) {
    int32_t tokens[4], got;
    Scene s = scene_open(&RULES[1]);
    step_by_step(&s, tokens, 4);
    scene_close(&s);
    for (int depth = 0; depth < SEND_SLOTS; depth += SEND_SLOTS - 1) {
        TinyModel *tiny = tiny_open();
        Matrix *table = &tiny->weights.token_embedding;
        ((float *)table->data)[(size_t)tokens[2] * table->cols] = NAN;
        SamplerOptions options = plain(&RULES[1]);
        Scene a = scene_of(tiny, &options);
        Error wanted = {0}, error = {0};
        Decoder d = begin(&a, (DecoderOptions){.max_tokens = 100});
        d.depth = depth;
        for (int i = 0; i < 3; i++)
            CHECK((got = decoder_next(&d, &error)) == tokens[i], "token %d: %d", i, got);
        CHECK_INT(decoder_next(&d, &error), -1);
        decoder_end(&d);
        CHECK_INT(kv_cache_length(&a.model->cache, 0), PROMPT + 2);
        kv_cache_truncate(&a.model->cache, 0, PROMPT);
        tiny_model_forward(a.model, &(Batch){.n = 2, .tokens = tokens});
        CHECK(!model_forward(a.model, &(Batch){.n = 1, .tokens = tokens + 2}, &wanted), "finite");
        CHECK_INT(error.code, ERROR_NONFINITE);
        CHECK_STRING(error.message, wanted.message);
        scene_close(&a);
    }
}

// ---- several sequences ----

enum { SEQUENCES = 3, STEPS = 6 };

static Model *several_open(const TinyModel *tiny) {
    Model *model = tiny_model_run(tiny, (ModelOptions){.context = CONTEXT,
                                                       .precision = PRECISION_A16,
                                                       .n_sequences = SEQUENCES,
                                                       .max_logit_rows = SEQUENCES});
    // 1, 2 and 2 tokens long
    static const int32_t SEQUENCE[PROMPT] = {0, 1, 1, 2, 2};
    static const bool WANTS[PROMPT] = {true, false, true, false, true};
    tiny_model_forward(model, &(Batch){PROMPT, IDS, NULL, SEQUENCE, WANTS});
    return model;
}

static int32_t likeliest(const float *logits, int count) {
    int32_t best = 0;
    for (int t = 1; t < count; t++)
        if (logits[t] > logits[best]) best = t;
    return best;
}

// Greedy tokens of several sequences, sampled and fed on the device; the first ones are given.
Test(decoder, continues_several_sequences_together) {
    static const int32_t ALL[SEQUENCES] = {0, 1, 2}, FIRST[SEQUENCES] = {8, 2, 30};
    static const bool WANTS[SEQUENCES] = {true, true, true};
    TinyModel *tiny = tiny_open();
    Model *a = several_open(tiny), *b = several_open(tiny);
    int vocab_size = tiny->config.vocab_size;
    size_t bytes = (size_t)SEQUENCES * (size_t)vocab_size * sizeof(float);
    float *logits = malloc(bytes);
    int32_t tokens[SEQUENCES];
    CHECK(logits);
    memcpy(tokens, FIRST, sizeof tokens);
    Error error = {0};
    Decoder d;
    DecoderOptions options = {.max_tokens = STEPS, .first = FIRST, .n_sequences = SEQUENCES};
    CHECK(decoder_begin(&d, b, &options, &error), "%s", error.message);
    for (int i = 0; i < STEPS; i++) {
        tiny_model_forward(a, &(Batch){SEQUENCES, tokens, NULL, ALL, WANTS});
        for (int q = 0; q < SEQUENCES; q++)
            tokens[q] = likeliest(model_logits(a, q), vocab_size);
        CHECK_INT(decoder_next(&d, &error), tokens[0]);
    }
    CHECK_INT(decoder_left(&d), 0);
    decoder_end(&d);
    device_download(b->device, logits, b->scratch.logits, bytes);
    CHECK(!memcmp(logits, model_logits(a, 0), bytes), "the logits after %d tokens", STEPS);
    for (int q = 0; q < SEQUENCES; q++)
        CHECK_INT(kv_cache_length(&b->cache, q), kv_cache_length(&a->cache, q));
    free(logits);
    model_close(a), model_close(b);
    tiny_model_close(tiny);
}

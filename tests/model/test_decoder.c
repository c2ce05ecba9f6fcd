// The decoder's tokens are those of sampling and feeding one at a time, at every pipeline depth and
// wherever the text ends, and the cache and the generator are the same afterwards.
#include "model/decoder.h"

#include "base/hash.h"
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

// Tokens that were sampled, and what a scene is like behind them.
typedef struct Text {
    int32_t tokens[CONTEXT + 1];
    int count, length; // of these; in the cache
    float uniform;     // the generator's next number
    uint64_t logits;   // a hash of those of the next token; 0 where the cache is full
} Text;

static void text_end(Scene *s, Text *text) {
    text->length = kv_cache_length(&s->model->cache, 0);
    text->uniform = sampler_uniform(s->sampler);
    text->logits = 0;
    if (text->length == CONTEXT) return;
    tiny_model_forward(s->model, &(Batch){.n = 1, .tokens = IDS});
    size_t bytes = (size_t)s->model->config.vocab_size * sizeof(float);
    text->logits = fnv1a(FNV_START, model_logits(s->model, 0), bytes);
}

// One token at a time: the last one is not fed. With `instead` >= 0, token CHANGED is that one.
enum { CHANGED = 4 };
static Text step_changed(Scene *s, int count, int32_t instead) {
    Error error = {0};
    Text text = {.count = count};
    for (int i = 0; i < count; i++) {
        if (i) tiny_model_forward(s->model, &(Batch){.n = 1, .tokens = text.tokens + i - 1});
        text.tokens[i] = sampler_next(s->sampler, model_logits(s->model, 0), &error);
        CHECK(text.tokens[i] >= 0, "%s", error.message);
        if (i == CHANGED && instead >= 0) text.tokens[i] = instead;
        sampler_accept(s->sampler, text.tokens[i]);
    }
    text_end(s, &text);
    return text;
}

static Text step_by_step(Scene *s, int count) {
    return step_changed(s, count, -1);
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

// The scene has sampled the tokens of `wanted`; what it does next is the same too.
static void check_same(Scene *s, const Text *wanted, const int32_t *got) {
    Text end;
    for (int i = 0; i < wanted->count; i++)
        CHECK(got[i] == wanted->tokens[i], "token %d: %d, not %d", i, got[i], wanted->tokens[i]);
    text_end(s, &end);
    CHECK_INT(end.length, wanted->length);
    CHECK(end.uniform == wanted->uniform, "the generator");
    CHECK(end.logits == wanted->logits, "the next logits");
}

static Text text_of(const SamplerOptions *options, int count) {
    Scene s = scene_of(tiny_open(), options);
    Text text = step_by_step(&s, count);
    scene_close(&s);
    return text;
}

static void check(const SampleRule *rule, const Text *wanted, int most, int depth) {
    int32_t got[CONTEXT + 1];
    Scene s = scene_open(rule);
    decode(&s, got, wanted->count, (DecoderOptions){.max_tokens = (size_t)most}, depth);
    check_same(&s, wanted, got);
    scene_close(&s);
}

Test(decoder, tokens_are_those_of_single_steps) {
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++) {
        SamplerOptions options = plain(&RULES[r]);
        Text wanted = text_of(&options, 12);
        for (int depth = -1; depth < SEND_SLOTS; depth += 2)
            check(&RULES[r], &wanted, 100, depth);
    }
}

// After the first token, in the middle, with nothing left under way.
Test(decoder, speculative_passes_are_discarded) {
    static const int COUNTS[][2] = {{1, 100}, {1, 1}, {2, 3}, {7, 8}, {9, 9}};
    SamplerOptions options = plain(&RULES[1]);
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        Text wanted = text_of(&options, COUNTS[i][0]);
        check(&RULES[1], &wanted, COUNTS[i][1], 5);
    }
}

// The last token needs no place in the cache.
Test(decoder, ends_where_the_context_does) {
    Scene s = scene_open(&GREEDY);
    Decoder d = begin(&s, (DecoderOptions){.max_tokens = 1000});
    CHECK_INT(decoder_left(&d), CONTEXT - PROMPT + 1);
    decoder_end(&d);
    CHECK_INT(kv_cache_length(&s.model->cache, 0), PROMPT);
    scene_close(&s);
    SamplerOptions options = plain(&GREEDY);
    Text wanted = text_of(&options, CONTEXT - PROMPT + 1);
    check(&GREEDY, &wanted, 1000, 7);
    check(&GREEDY, &wanted, 1000, 0);
}

// More uniform numbers than are sent to the device at once, and one text after another.
Test(decoder, continues_after_itself) {
    int32_t got[CONTEXT];
    Scene a = scene_open(&RULES[1]), b = scene_open(&RULES[1]);
    for (int i = 0; i < 6; i++) {
        Text wanted = step_by_step(&a, 20);
        decode(&b, got, 20, (DecoderOptions){.max_tokens = 1000}, 2 * (i % 3));
        check_same(&b, &wanted, got);
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
    int32_t got[CONTEXT + 1];
    enum { MOST = CONTEXT - PROMPT + 1 };
    for (int count = 1; count <= MOST; count += MOST - 1) {
        Text wanted = text_of(sampler, count);
        Scene s = scene_of(tiny_open(), sampler);
        Decoder d = begin(&s, *options);
        CHECK_INT(d.depth, 0);
        decoder_end(&d);
        decode(&s, got, count, *options, -1);
        check_same(&s, &wanted, got);
        scene_close(&s);
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
    int32_t got[9];
    Seen seen = {0};
    Error error = {0};
    SamplerOptions options = plain(&RULES[1]);
    Text wanted = text_of(&options, 9);
    Scene s = scene_of(tiny_open(), &options);
    CHECK(model_listen(s.model, listener, &seen, false, &error), "%s", error.message);
    decode(&s, got, 9, (DecoderOptions){.max_tokens = 100, .recompute = recompute}, -1);
    CHECK_INT(seen.count, 8);
    CHECK_INT(seen.rows, rows);
    for (int i = 0; i < 8; i++)
        CHECK_INT(seen.tokens[i], wanted.tokens[i]);
    CHECK(model_listen(s.model, NULL, NULL, false, &error), "%s", error.message);
    check_same(&s, &wanted, got);
    scene_close(&s);
}

Test(decoder, a_listener_sees_every_pass) {
    check_seen(NULL, 8);
}

Test(decoder, without_the_cache_every_pass_runs_the_whole_text) {
    check_seen(IDS, 8 * PROMPT + 8 * 9 / 2);
}

// ---- going back ----

enum { WENT = 9, COUNT = 12 }; // tokens before going back; in all

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
static void check_rewound_by(int n, const SamplerOptions *sampler, DecoderOptions options,
                             int depth, const Text *wanted) {
    int32_t got[COUNT];
    Scene s = scene_of(tiny_open(), sampler);
    options.max_tokens = COUNT + 3;
    Decoder d = begin(&s, options);
    if (!d.stepwise) d.depth = depth;
    decode_more(&s, &d, got, 0, WENT);
    decoder_rewind(&d, n, n < WENT ? got[WENT - n - 1] : IDS[PROMPT - 1]);
    sampler_forget(s.sampler, n);
    CHECK_INT(decoder_left(&d), COUNT + 3 - WENT + n);
    memset(got + WENT - n, 0xff, (size_t)n * sizeof *got);
    decode_more(&s, &d, got, WENT - n, COUNT);
    decoder_end(&d);
    check_same(&s, wanted, got);
    scene_close(&s);
}

static bool batch_invariant(void) {
    Scene s = scene_open(&GREEDY);
    bool invariant = device_info(s.model->device)->batch_invariant;
    scene_close(&s);
    return invariant;
}

// The prompt's last token alone has the bits that it has in the prompt only where the device is
// batch-invariant.
static void check_rewound(const SamplerOptions *sampler, DecoderOptions options, int depth) {
    Text wanted = text_of(sampler, COUNT);
    int most = batch_invariant() ? WENT : WENT - 1;
    for (int n = 0; n <= most; n += EMULATED(3, 1))
        check_rewound_by(n, sampler, options, depth, &wanted);
}

Test(decoder, rewound_it_gives_the_same_again) {
    SamplerOptions penalties = plain(&RULES[2]), few = plain(&RULES[1]);
    penalties.frequency_penalty = 0.3f;
    few.repeat_penalty = 1.5f;
    SamplerOptions follows = plain(&RULES[1]); // mirostat's state goes back too
    follows.mirostat_tau = 3.0f;
    few.repeat_last = 3; // tokens that left the window return
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++) {
        SamplerOptions options = plain(&RULES[r]);
        check_rewound(&options, (DecoderOptions){0}, r ? 5 : 0);
    }
    check_rewound(&follows, (DecoderOptions){0}, 0);
    check_rewound(&penalties, (DecoderOptions){0}, 0);
    check_rewound(&few, (DecoderOptions){.recompute = IDS}, 0);
}

// A changed token is that of a text that had it in the first place.
Test(decoder, goes_on_from_another_token) {
    SamplerOptions few = plain(&RULES[1]), sampled = few;
    few.repeat_penalty = 1.5f;
    few.repeat_last = 3;
    for (int depth = 0; depth < 3; depth++) {
        int32_t got[COUNT];
        const SamplerOptions *options = depth ? &sampled : &few;
        Scene a = scene_of(tiny_open(), options), b = scene_of(tiny_open(), options);
        Decoder d = begin(&b, (DecoderOptions){.max_tokens = 100});
        if (!d.stepwise) d.depth = 3 * depth;
        decode_more(&b, &d, got, 0, WENT);
        int32_t other = (got[CHANGED] + 5) % b.model->config.vocab_size;
        Text wanted = step_changed(&a, COUNT, other);
        decoder_rewind(&d, WENT - CHANGED - 1, other);
        sampler_forget(b.sampler, WENT - CHANGED);
        sampler_accept(b.sampler, got[CHANGED] = other);
        decode_more(&b, &d, got, CHANGED + 1, COUNT);
        decoder_end(&d);
        check_same(&b, &wanted, got);
        scene_close(&a), scene_close(&b);
    }
}

// ---- NaN ----

// A token's embedding is NaN: the error is that of model_forward, at every depth.
Test(decoder, names_the_stage_that_is_not_finite) {
    int32_t got;
    SamplerOptions options = plain(&RULES[1]);
    Text text = text_of(&options, 4);
    const int32_t *tokens = text.tokens;
    for (int depth = 0; depth < SEND_SLOTS; depth += SEND_SLOTS - 1) {
        TinyModel *tiny = tiny_open();
        Matrix *table = &tiny->weights.token_embedding;
        ((float *)table->data)[(size_t)tokens[2] * table->cols] = NAN;
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
    tiny_model_forward(model, &(Batch){PROMPT, IDS, NULL, SEQUENCE, WANTS, false});
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
        tiny_model_forward(a, &(Batch){SEQUENCES, tokens, NULL, ALL, WANTS, false});
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

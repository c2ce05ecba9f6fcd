// Tokens drawn and fed back on the device are those of sampling and feeding one at a time, whatever
// is under way when the text ends, and leave the same cache and the same generator behind.
#include "model/feedback.h"
#include "model/forward.h"
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

static const SampleRule GREEDY = {0.0f, 0, 1.0f, 0.0f, 1.0f};
static const SampleRule RULES[] = {
    {0.0f, 0, 1.0f, 0.0f, 1.0f}, {1.0f, 0, 1.0f, 0.0f, 1.0f}, {0.8f, 20, 0.9f, 0.05f, 0.9f}};

static TinyModel *tiny_open(void) {
    TinyShape shape = tiny_shape();
    shape.n_layers = 1;
    shape.untied = true;
    return tiny_model_open(&shape);
}

static Scene scene_of(TinyModel *tiny, const SampleRule *rule) {
    Scene s = {.tiny = tiny};
    s.model =
        tiny_model_run(s.tiny, (ModelOptions){.context = CONTEXT, .precision = PRECISION_A16});
    SamplerOptions options = sampler_defaults();
    options.rule = *rule;
    options.seed = 11;
    Error error = {0};
    s.sampler = sampler_open(s.model->device, tiny->config.vocab_size, CONTEXT, &options, &error);
    CHECK(s.sampler, "%s", error.message);
    tiny_model_forward(s.model, &(Batch){.n = PROMPT, .tokens = IDS});
    return s;
}

static Scene scene_open(const SampleRule *rule) {
    return scene_of(tiny_open(), rule);
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
    }
}

// `count` of at most `most` tokens with `ahead` of them under way.
static void fed_back(Scene *s, int32_t *tokens, int count, int most, int ahead) {
    Error error = {0};
    Feedback f;
    feedback_begin(&f, s->model, s->sampler, (size_t)most);
    f.ahead = ahead;
    for (int i = 0; i < count; i++) {
        CHECK(feedback_left(&f) > 0, "none is left of %d", most);
        tokens[i] = feedback_next(&f, &error);
        CHECK(tokens[i] >= 0, "%s", error.message);
    }
    feedback_end(&f);
}

// Both scenes have drawn the same `count` tokens; what they do next is the same too.
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

static void check(const SampleRule *rule, int count, int most, int ahead) {
    int32_t wanted[CONTEXT + 1], got[CONTEXT + 1];
    Scene a = scene_open(rule), b = scene_open(rule);
    step_by_step(&a, wanted, count);
    fed_back(&b, got, count, most, ahead);
    check_same(&a, &b, wanted, got, count);
    scene_close(&a), scene_close(&b);
}

Test(feedback, tokens_are_those_of_single_steps) {
    for (size_t r = 0; r < sizeof RULES / sizeof *RULES; r++)
        for (int ahead = 0; ahead < SEND_SLOTS; ahead += 3)
            check(&RULES[r], 12, 100, ahead);
}

// After the first token, in the middle, with nothing left under way.
Test(feedback, passes_that_nobody_asked_for_never_were) {
    static const int COUNTS[][2] = {{1, 100}, {1, 1}, {2, 3}, {7, 8}, {9, 9}};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
        check(&RULES[1], COUNTS[i][0], COUNTS[i][1], 5);
}

// The last token needs no place in the cache.
Test(feedback, ends_where_the_context_does) {
    Scene s = scene_open(&GREEDY);
    Feedback f;
    feedback_begin(&f, s.model, s.sampler, 1000);
    CHECK_INT(feedback_left(&f), CONTEXT - PROMPT + 1);
    feedback_end(&f);
    CHECK_INT(kv_cache_length(&s.model->cache, 0), PROMPT);
    scene_close(&s);
    check(&GREEDY, CONTEXT - PROMPT + 1, 1000, 7);
}

// More numbers than are sent to the device at once, and a text behind another one.
Test(feedback, goes_on_behind_itself) {
    int32_t wanted[CONTEXT], got[CONTEXT];
    Scene a = scene_open(&RULES[1]), b = scene_open(&RULES[1]);
    for (int text = 0; text < 6; text++) {
        step_by_step(&a, wanted, 20);
        fed_back(&b, got, 20, 1000, 2 * (text % 3));
        check_same(&a, &b, wanted, got, 20);
        kv_cache_truncate(&a.model->cache, 0, 7), kv_cache_truncate(&b.model->cache, 0, 7);
        tiny_model_forward(a.model, &(Batch){.n = 3, .tokens = IDS});
        tiny_model_forward(b.model, &(Batch){.n = 3, .tokens = IDS});
    }
    scene_close(&a), scene_close(&b);
}

// A token's embedding is NaN: what is said is what model_forward says, and what was under way does
// no harm.
Test(feedback, names_the_stage_that_is_not_finite) {
    int32_t tokens[4], got;
    Scene s = scene_open(&RULES[1]);
    step_by_step(&s, tokens, 4);
    scene_close(&s);
    for (int ahead = 0; ahead < SEND_SLOTS; ahead += SEND_SLOTS - 1) {
        TinyModel *tiny = tiny_open();
        Matrix *table = &tiny->weights.token_embedding;
        ((float *)table->data)[(size_t)tokens[2] * table->cols] = NAN;
        Scene a = scene_of(tiny, &RULES[1]);
        Error wanted = {0}, error = {0};
        Feedback f;
        feedback_begin(&f, a.model, a.sampler, 100);
        f.ahead = ahead;
        for (int i = 0; i < 3; i++)
            CHECK((got = feedback_next(&f, &error)) == tokens[i], "token %d: %d", i, got);
        CHECK_INT(feedback_next(&f, &error), -1);
        feedback_end(&f);
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

// The likeliest tokens of several sequences, drawn and fed back on the device.
Test(feedback, sequences_go_on_together) {
    static const int32_t ALL[SEQUENCES] = {0, 1, 2};
    static const bool WANTS[SEQUENCES] = {true, true, true};
    TinyModel *tiny = tiny_open();
    Model *a = several_open(tiny), *b = several_open(tiny);
    int vocab_size = tiny->config.vocab_size;
    size_t bytes = (size_t)SEQUENCES * (size_t)vocab_size * sizeof(float);
    float *logits = malloc(bytes);
    int32_t tokens[SEQUENCES], *drawn = device_alloc(b->device, sizeof tokens);
    CHECK(logits && drawn);
    forward_drawn_begin(b, SEQUENCES);
    for (int step = 0; step < STEPS; step++) {
        for (int q = 0; q < SEQUENCES; q++) {
            const float *row = model_logits(a, q);
            tokens[q] = 0;
            for (int t = 1; t < vocab_size; t++)
                if (row[t] > row[tokens[q]]) tokens[q] = t;
        }
        tiny_model_forward(a, &(Batch){SEQUENCES, tokens, NULL, ALL, WANTS});
        argmax(b->device, drawn, b->scratch.logits, SEQUENCES, vocab_size);
        forward_drawn(b, drawn, SEQUENCES);
    }
    device_download(b->device, logits, b->scratch.logits, bytes);
    CHECK(!memcmp(logits, model_logits(a, 0), bytes), "the logits behind %d tokens", STEPS);
    for (int q = 0; q < SEQUENCES; q++)
        CHECK_INT(kv_cache_length(&b->cache, q), kv_cache_length(&a->cache, q));
    free(logits);
    model_close(a), model_close(b);
    tiny_model_close(tiny);
}

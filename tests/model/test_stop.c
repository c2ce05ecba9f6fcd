// A pass that is stopped: nothing more is computed, the cache is as it was, and what follows has
// the same bits as without the stop.
#include "model/decoder.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

enum { PROMPT = 12, ROWS = 4, CONTEXT = 40 };
static const int32_t IDS[PROMPT] = {3, 17, 60, 5, 9, 1, 2, 44, 8, 21, 33, 7};

typedef struct Scene {
    TinyModel *tiny;
    Model *model, *undisturbed;
    int stop;
} Scene;

static void scene_open(Scene *s) {
    TinyShape shape = tiny_shape();
    shape.n_layers = 3;
    *s = (Scene){.tiny = tiny_model_open(&shape)};
    ModelOptions options = {.context = CONTEXT, .max_rows = ROWS};
    s->undisturbed = tiny_model_run(s->tiny, options);
    options.stop = &s->stop;
    s->model = tiny_model_run(s->tiny, options);
}

static void scene_close(Scene *s) {
    model_close(s->model);
    model_close(s->undisturbed);
    tiny_model_close(s->tiny);
}

static void check_stopped(Scene *s, const Batch *batch, int length) {
    Error error = {0};
    CHECK(!model_forward(s->model, batch, &error));
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    CHECK_STRING(error.message, "interrupted");
    CHECK_INT(kv_cache_length(&s->model->cache, 0), length);
}

static void check_same_logits(const Scene *s) {
    size_t bytes = (size_t)s->tiny->config.vocab_size * sizeof(float);
    CHECK(!memcmp(model_logits(s->model, 0), model_logits(s->undisturbed, 0), bytes));
}

// ---- stages ----

typedef struct Watch {
    Scene *scene;
    int seen, stop_at; // stages
} Watch;

static void stop_later(void *context, const Model *model, const Stage *stage) {
    Watch *w = context;
    (void)model, (void)stage;
    if (++w->seen == w->stop_at) w->scene->stop = 1;
}

Test(stop, no_stage_follows_and_the_cache_is_as_before) {
    Scene s;
    Error error = {0};
    scene_open(&s);
    tiny_model_forward(s.undisturbed, &(Batch){.n = PROMPT, .tokens = IDS});
    tiny_model_forward(s.model, &(Batch){.n = 2, .tokens = IDS});
    // In the first layer, in the last, and in the second chunk of four rows.
    for (int stop_at = 3; stop_at < 90; stop_at += 7) {
        Watch watch = {.scene = &s, .stop_at = stop_at};
        CHECK(model_listen(s.model, stop_later, &watch, false, &error));
        check_stopped(&s, &(Batch){.n = PROMPT - 2, .tokens = IDS + 2}, 2);
        CHECK_INT(watch.seen, stop_at);
        s.stop = 0;
    }
    CHECK(model_listen(s.model, NULL, NULL, false, &error));
    tiny_model_forward(s.model, &(Batch){.n = PROMPT - 2, .tokens = IDS + 2});
    check_same_logits(&s);
    scene_close(&s);
}

// Rows from position 3 on are written anew: what was behind it is gone.
Test(stop, a_batch_that_goes_back_keeps_what_is_before_it) {
    static const int32_t POSITIONS[] = {3, 4, 5};
    Scene s;
    scene_open(&s);
    tiny_model_forward(s.undisturbed, &(Batch){.n = PROMPT, .tokens = IDS});
    tiny_model_forward(s.model, &(Batch){.n = PROMPT, .tokens = IDS});
    s.stop = 1;
    check_stopped(&s, &(Batch){.n = 3, .tokens = IDS, .positions = POSITIONS}, 3);
    s.stop = 0;
    tiny_model_forward(s.model, &(Batch){.n = PROMPT - 3, .tokens = IDS + 3});
    check_same_logits(&s);
    scene_close(&s);
}

// ---- a decoder ----

static int decode(Decoder *d, int count, int32_t *out, Error *error) {
    int taken = 0;
    while (taken < count && (out[taken] = decoder_next(d, error)) >= 0)
        taken++;
    return taken;
}

// `stepwise`: every pass is a model_forward; else the tokens stay on the device.
static void check_decoder(bool stepwise) {
    Scene s;
    scene_open(&s);
    Error error = {0};
    Decoder d = {0};
    DecoderOptions options = {.max_tokens = 9, .wants_logits = stepwise};
    int32_t wanted[9], got[9];
    tiny_model_forward(s.undisturbed, &(Batch){.n = PROMPT, .tokens = IDS});
    CHECK(decoder_begin(&d, s.undisturbed, &options, &error));
    CHECK_INT(decode(&d, 9, wanted, &error), 9);
    decoder_end(&d);

    tiny_model_forward(s.model, &(Batch){.n = PROMPT, .tokens = IDS});
    CHECK(decoder_begin(&d, s.model, &options, &error));
    CHECK_INT(decode(&d, 4, got, &error), 4);
    s.stop = 1;
    CHECK_INT(decode(&d, 1, got + 4, &error), 0);
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    decoder_end(&d);
    CHECK_INT(kv_cache_length(&s.model->cache, 0), PROMPT + 3);

    s.stop = 0;
    error = (Error){0};
    tiny_model_forward(s.model, &(Batch){.n = 1, .tokens = got + 3});
    CHECK(decoder_begin(&d, s.model, &options, &error));
    CHECK_INT(decode(&d, 5, got + 4, &error), 5);
    decoder_end(&d);
    CHECK(!memcmp(got, wanted, sizeof got));
    scene_close(&s);
}

Test(stop, a_decoder_leaves_the_tokens_that_it_gave) {
    check_decoder(false);
    check_decoder(true);
}

// The model as a whole, on a small random Llama of odd sizes: however a text is cut into calls,
// with whatever company and however many threads, its logits are the same bits. And what is
// refused.
#include "model/model.h"
#include "tests/support/tiny_model.h"
#include "tests/test.h"

enum { LENGTH = 41 };

typedef struct Text {
    int32_t ids[LENGTH];
} Text;

static Text random_text(uint64_t seed, int vocab_size) {
    TestRandom random = {seed};
    Text text;
    for (int i = 0; i < LENGTH; i++)
        text.ids[i] = (int32_t)(test_random(&random) % (uint64_t)vocab_size);
    return text;
}

static Model *open_model(const TinyModel *tiny, ModelOptions options) {
    Error error = {0};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, &error);
    CHECK(model, "%s", error.message);
    return model;
}

static void forward(Model *model, const Batch *batch) {
    Error error = {0};
    CHECK(model_forward(model, batch, &error), "%s", error.message);
}

// malloced logits of every position of a text, one call for the whole of it.
static float *logits_at_once(Model *model, const Text *text) {
    bool all[LENGTH];
    size_t vocab_size = (size_t)model->config.vocab_size;
    float *out = malloc(LENGTH * vocab_size * sizeof *out);
    for (int i = 0; i < LENGTH; i++)
        all[i] = true;
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){.n = LENGTH, .tokens = text->ids, .wants_logits = all});
    for (int i = 0; i < LENGTH; i++)
        memcpy(out + (size_t)i * vocab_size, model_logits(model, i), vocab_size * sizeof *out);
    return out;
}

static void check_same(const Model *model, int row, const float *all, int position,
                       const char *what) {
    size_t vocab_size = (size_t)model->config.vocab_size;
    const float *got = model_logits(model, row), *wanted = all + (size_t)position * vocab_size;
    for (size_t t = 0; t < vocab_size; t++)
        CHECK(got[t] == wanted[t], "%s: position %d, token %zu: got %.9g, wanted %.9g", what,
              position, t, (double)got[t], (double)wanted[t]);
}

static const ModelOptions ROOMY = {.max_logit_rows = LENGTH, .precision = PRECISION_F32};

// ---- one text, cut in every way ----

static void check_cuts(Model *model, const Text *text, const float *all) {
    kv_cache_reset(&model->cache, 0);
    for (int i = 0; i < LENGTH; i++) { // token by token
        forward(model, &(Batch){.n = 1, .tokens = text->ids + i});
        check_same(model, 0, all, i, "token by token");
    }
    for (int i = 1; i <= LENGTH; i += 13) { // no cache: the whole prefix every time
        kv_cache_reset(&model->cache, 0);
        forward(model, &(Batch){.n = i, .tokens = text->ids});
        check_same(model, 0, all, i - 1, "without a cache");
    }
    for (int cut = 3; cut < LENGTH; cut += 11) { // in two
        kv_cache_reset(&model->cache, 0);
        forward(model, &(Batch){.n = cut, .tokens = text->ids});
        check_same(model, 0, all, cut - 1, "the first part");
        forward(model, &(Batch){.n = LENGTH - cut, .tokens = text->ids + cut});
        check_same(model, 0, all, LENGTH - 1, "the second part");
    }
}

static void check_shape(const TinyShape *shape) {
    TinyModel *tiny = tiny_model_open(shape);
    Text text = random_text(shape->seed, shape->vocab_size);
    for (int p = 0; p < 3; p++) {
        ModelOptions options = ROOMY;
        options.precision = (Precision)p;
        options.kv_type = p ? KV_F16 : KV_F32;
        Model *model = open_model(tiny, options);
        float *all = logits_at_once(model, &text);
        check_cuts(model, &text, all);
        model_close(model);
        options.max_rows = 7; // the call is cut into pieces
        options.threads = 3;
        model = open_model(tiny, options);
        float *again = logits_at_once(model, &text);
        CHECK(!memcmp(again, all, LENGTH * (size_t)shape->vocab_size * sizeof *all),
              "pieces of 7 rows, 3 threads");
        model_close(model);
        free(all), free(again);
    }
    tiny_model_close(tiny);
}

Test(model, any_cut_gives_the_same_bits) {
    TinyShape shape = tiny_shape();
    check_shape(&shape);
}

Test(model, any_cut_gives_the_same_bits_with_quantised_weights) {
    TinyShape shape = tiny_shape();
    shape.head_dim = 32;
    shape.dtype = DTYPE_Q8_0;
    check_shape(&shape);
    shape.dtype = DTYPE_Q4_0;
    shape.window = 10;
    check_shape(&shape);
}

Test(model, any_cut_gives_the_same_bits_in_every_dress) {
    TinyShape shape = tiny_shape();
    shape.layer_norm = shape.biases = shape.learned = shape.plain_ffn = true; // GPT-2's
    check_shape(&shape);
    shape = tiny_shape();
    shape.post_norms = shape.no_pre_norms = shape.untied = true; // OLMo 2's
    shape.qk_norm = QK_NORM_FULL_WIDTH;
    check_shape(&shape);
    shape = tiny_shape();
    shape.qk_norm = QK_NORM_PER_HEAD; // Qwen 3's, with Gemma's norms
    shape.post_norms = true;
    shape.dtype = DTYPE_BF16;
    check_shape(&shape);
}

// The same tokens in another order are another text: positions reach every layer.
Test(model, the_order_of_tokens_matters) {
    for (int learned = 0; learned < 2; learned++) {
        TinyShape shape = tiny_shape();
        shape.n_layers = 1; // one layer sees order by positions alone
        shape.learned = learned;
        TinyModel *tiny = tiny_model_open(&shape);
        Model *model = open_model(tiny, ROOMY);
        int32_t one[] = {7, 8, 9}, other[] = {8, 7, 9};
        forward(model, &(Batch){.n = 3, .tokens = one});
        float first = model_logits(model, 0)[0];
        kv_cache_reset(&model->cache, 0);
        forward(model, &(Batch){.n = 3, .tokens = other});
        CHECK(fabsf(model_logits(model, 0)[0] - first) > 1e-3f, "learned %d", learned);
        model_close(model);
        tiny_model_close(tiny);
    }
}

// ---- company ----

// Three texts side by side in one batch, in an order that mixes them, equal each alone.
Test(model, sequences_side_by_side_equal_each_alone) {
    enum { SEQUENCES = 3 };
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = ROOMY;
    options.n_sequences = SEQUENCES;
    options.max_logit_rows = SEQUENCES * LENGTH;
    options.max_rows = 50;
    Model *model = open_model(tiny, options);
    Text texts[SEQUENCES];
    float *all[SEQUENCES];
    for (int s = 0; s < SEQUENCES; s++) {
        texts[s] = random_text((uint64_t)s + 100, shape.vocab_size);
        all[s] = logits_at_once(model, &texts[s]);
    }
    int32_t tokens[SEQUENCES * LENGTH], sequences[SEQUENCES * LENGTH];
    bool wants[SEQUENCES * LENGTH];
    for (int i = 0; i < SEQUENCES * LENGTH; i++) {
        sequences[i] = 2 - i % SEQUENCES;
        tokens[i] = texts[sequences[i]].ids[i / SEQUENCES];
        wants[i] = i % 4 != 1;
    }
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){SEQUENCES * LENGTH, tokens, NULL, sequences, wants});
    for (int i = 0, row = 0; i < SEQUENCES * LENGTH; i++)
        if (wants[i]) check_same(model, row++, all[sequences[i]], i / SEQUENCES, "side by side");
    for (int s = 0; s < SEQUENCES; s++) {
        CHECK_INT(kv_cache_length(&model->cache, s), LENGTH);
        free(all[s]);
    }
    model_close(model);
    tiny_model_close(tiny);
}

// ---- the cache ----

Test(model, an_earlier_position_forgets_what_came_after) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = open_model(tiny, ROOMY);
    Text right = random_text(1, shape.vocab_size), wrong = random_text(2, shape.vocab_size);
    float *all = logits_at_once(model, &right);
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){.n = 10, .tokens = right.ids});
    forward(model, &(Batch){.n = 20, .tokens = wrong.ids});
    CHECK_INT(kv_cache_length(&model->cache, 0), 30);
    int32_t positions[] = {10, 11, 12};
    forward(model, &(Batch){.n = 3, .tokens = right.ids + 10, .positions = positions});
    check_same(model, 0, all, 12, "rewritten");
    CHECK_INT(kv_cache_length(&model->cache, 0), 13);
    // A step back inside one batch: the rows before it do not see what it writes.
    int32_t tokens[] = {right.ids[13], right.ids[14], wrong.ids[0]}, mixed[] = {13, 14, 13};
    bool wants[] = {true, true, true};
    forward(model, &(Batch){3, tokens, mixed, NULL, wants});
    check_same(model, 0, all, 13, "before the step back");
    check_same(model, 1, all, 14, "just before the step back");
    CHECK_INT(kv_cache_length(&model->cache, 0), 14);
    kv_cache_truncate(&model->cache, 0, 5);
    forward(model, &(Batch){.n = 1, .tokens = right.ids + 5});
    check_same(model, 0, all, 5, "truncated");
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

Test(model, a_copied_sequence_goes_on_as_the_first_would) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = ROOMY;
    options.n_sequences = 2;
    options.kv_type = KV_F16;
    Model *model = open_model(tiny, options);
    Text text = random_text(4, shape.vocab_size), other = random_text(5, shape.vocab_size);
    float *all = logits_at_once(model, &text);
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){.n = 17, .tokens = text.ids});
    kv_cache_copy(&model->cache, 1, 0);
    forward(model, &(Batch){.n = 9, .tokens = other.ids}); // sequence 0 goes elsewhere
    int32_t one = 1;
    for (int i = 17; i < LENGTH; i++) {
        forward(model, &(Batch){.n = 1, .tokens = text.ids + i, .sequences = &one});
        check_same(model, 0, all, i, "the copy");
    }
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- what is refused ----

static void check_refused(Model *model, const Batch *batch, int code, const char *message) {
    Error error = {0};
    CHECK(!model_forward(model, batch, &error), "accepted: %s", message);
    CHECK_INT(error.code, code);
    CHECK_STRING(error.message, message);
}

Test(model, refuses_what_does_not_fit) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = open_model(tiny, (ModelOptions){.context = 20, .n_sequences = 2});
    Text text = random_text(1, shape.vocab_size);
    int32_t below = -1, above = 101, far = 1, two = 2, early = -1;
    bool both[] = {true, true};
    check_refused(model, &(Batch){.n = 1, .tokens = &below}, 2,
                  "token -1 at row 0 is not in the vocabulary of 101");
    check_refused(model, &(Batch){.n = 1, .tokens = &above}, 2,
                  "token 101 at row 0 is not in the vocabulary of 101");
    check_refused(model, &(Batch){.n = 21, .tokens = text.ids}, 2,
                  "21 tokens do not fit the context of 20 (-c sets it)");
    check_refused(model, &(Batch){.n = 1, .tokens = text.ids, .sequences = &two}, 2,
                  "sequence 2 at row 0: the cache has 2");
    check_refused(model, &(Batch){.n = 1, .tokens = text.ids, .positions = &far}, 2,
                  "position 1 at row 0: sequence 0 holds 0 and continues there");
    check_refused(model, &(Batch){.n = 1, .tokens = text.ids, .positions = &early}, 2,
                  "position -1 at row 0: sequence 0 holds 0 and continues there");
    check_refused(model, &(Batch){.n = 2, .tokens = text.ids, .wants_logits = both}, 2,
                  "2 rows want logits, there is room for 1");
    check_refused(model, &(Batch){.n = 0, .tokens = text.ids}, 2, "a batch of 0 rows");
    CHECK_INT(kv_cache_length(&model->cache, 0), 0); // nothing has happened
    forward(model, &(Batch){.n = 20, .tokens = text.ids});
    check_refused(model, &(Batch){.n = 1, .tokens = text.ids}, 2,
                  "21 tokens do not fit the context of 20 (-c sets it)");
    model_close(model);
    tiny_model_close(tiny);
}

static void check_not_opened(const TinyModel *tiny, int code, const char *message) {
    Error error = {0};
    CHECK(!model_open(&tiny->config, &tiny->weights, &ROOMY, &error), "opened: %s", message);
    CHECK_INT(error.code, code);
    CHECK_STRING(error.message, message);
}

Test(model, refuses_weights_that_do_not_fit_the_config) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    LayerWeights *layer = &tiny->weights.layers[2];
    layer->wk.rows = 79;
    check_not_opened(tiny, 3, "layers.2.wk: wanted (80, 96), got (79, 96)");
    layer->wk.rows = 80;
    layer->w_down.data = NULL;
    check_not_opened(tiny, 3, "layers.2.w_down: missing");
    tiny->weights.final_norm = NULL;
    check_not_opened(tiny, 3, "final_norm: missing");
    tiny_model_close(tiny);
}

// ---- numbers that are not finite ----

static void check_blamed(TinyModel *tiny, float *where, float value, const char *stage) {
    float kept = *where;
    *where = value;
    for (int p = 0; p < 3; p++) {
        Error error = {0};
        Text text = random_text(3, tiny->config.vocab_size);
        ModelOptions options = {.precision = (Precision)p};
        Model *model = open_model(tiny, options);
        CHECK(!model_forward(model, &(Batch){.n = 9, .tokens = text.ids}, &error), "%s", stage);
        CHECK_INT(error.code, ERROR_NONFINITE);
        CHECK(strstr(error.message, stage), "wanted %s in: %s", stage, error.message);
        model_close(model);
    }
    *where = kept;
}

Test(model, names_the_first_stage_that_is_not_finite) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    LayerWeights *w = &tiny->weights.layers[1];
    check_blamed(tiny, (float *)w->att_norm + 5, NAN, "layers.1.att_norm at position 0 holds nan");
    check_blamed(tiny, (float *)w->att_norm + 5, INFINITY, "layers.1.att_norm");
    check_blamed(tiny, (float *)w->ffn_norm, NAN, "layers.1.ffn_norm");
    check_blamed(tiny, (float *)w->wk.data, NAN, "layers.1.k ");
    check_blamed(tiny, (float *)w->wv.data, NAN, "layers.1.v ");
    check_blamed(tiny, (float *)w->wo.data, NAN, "layers.1.att_out");
    check_blamed(tiny, (float *)w->w_up.data, NAN, "layers.1.ffn_up");
    check_blamed(tiny, (float *)w->w_down.data, NAN, "layers.1.ffn_out");
    check_blamed(tiny, (float *)tiny->weights.final_norm, NAN, "final_norm");
    tiny_model_close(tiny);
}

// ---- looking ----

typedef struct Seen {
    int stages, rows[STAGE_COUNT];
    double weight_sum;
    float logit;
} Seen;

static void seen_listener(void *context, const Model *model, const Stage *stage) {
    Seen *seen = context;
    seen->stages++;
    seen->rows[stage->id] += stage->rows.n;
    CHECK_INT(stage->shape[0], stage->rows.n);
    CHECK(stage->layer >= -1 && stage->layer < model->config.n_layers, "layer %d", stage->layer);
    for (size_t i = 0; i < stage_size(stage); i++) {
        CHECK(isfinite(stage->data[i]), "%s", stage_name(stage->id));
        if (stage->id == STAGE_ATT_WEIGHTS) seen->weight_sum += (double)stage->data[i];
    }
    if (stage->id == STAGE_LOGITS) seen->logit = stage->data[0];
}

Test(model, a_listener_sees_every_stage_and_changes_nothing) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = ROOMY;
    options.max_rows = 30;
    Model *model = open_model(tiny, options);
    Text text = random_text(1, shape.vocab_size);
    float *all = logits_at_once(model, &text);
    Seen seen = {0};
    Error error = {0};
    CHECK(model_listen(model, seen_listener, &seen, true, &error), "%s", error.message);
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){.n = LENGTH, .tokens = text.ids});
    // Two pieces of 16 stages per layer and the embedding; final norm and logits of the last row.
    CHECK_INT(seen.stages, 2 * (1 + 3 * 16) + 2);
    CHECK_INT(seen.rows[STAGE_EMBEDDING], LENGTH);
    CHECK_INT(seen.rows[STAGE_FFN_OUT], 3 * LENGTH);
    CHECK_INT(seen.rows[STAGE_FINAL_NORM], 1);
    CHECK_INT(seen.rows[STAGE_LOGITS], 1);
    CHECK_NEAR(seen.weight_sum, 3.0 * 6 * LENGTH, 1e-2); // every softmax sums to 1
    CHECK(seen.logit == model_logits(model, 0)[0], "the logit seen");
    for (size_t t = 0; t < 101; t++)
        CHECK_NEAR(model_logits(model, 0)[t], all[(LENGTH - 1) * 101 + t], 1e-4);
    CHECK(model_listen(model, NULL, NULL, false, &error), "%s", error.message);
    kv_cache_reset(&model->cache, 0);
    forward(model, &(Batch){.n = LENGTH, .tokens = text.ids});
    check_same(model, 0, all, LENGTH - 1, "after listening");
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- what it takes ----

Test(model, cost_is_what_the_shapes_say) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = {.context = 50, .n_sequences = 2, .max_rows = 8, .max_logit_rows = 3};
    ModelCost cost = model_cost(&tiny->config, &options);
    size_t cache = 2u * 3 * 2 * 50 * 80 * 4; // k and v, layers, sequences, positions, kv_dim, f32
    CHECK(cost.cache >= cache && cost.cache <= cache * 3 / 2, "%zu for %zu", cost.cache, cache);
    CHECK_INT(cost.rope, 2 * 50 * 20 * 4);
    CHECK_INT(cost.logits, 2 * 3 * 101 * 4);
    size_t scratch = 8u * (3 * 96 + 2 * 240 + 2 * 80 + 2 * 160 + 3) * 4 + 3 * 96 * 4;
    CHECK(cost.scratch >= scratch && cost.scratch < scratch + 13 * 64, "%zu", cost.scratch);
    tiny_model_close(tiny);
}

static void count_progress(void *context, double share) {
    double *last = context;
    CHECK(share >= *last && share <= 1.0, "%g after %g", share, *last);
    *last = share;
}

static void count_release(void *owner, const Matrix *matrix) {
    (void)matrix;
    (*(int *)owner)++;
}

Test(model, tells_progress_and_lets_go_of_what_it_has_copied) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    int released = 0;
    double last = 0.0;
    ModelOptions options = ROOMY;
    options.progress = count_progress;
    options.progress_context = &last;
    tiny->weights.release = count_release;
    tiny->weights.owner = &released;
    Model *model = open_model(tiny, options);
    CHECK_NEAR(last, 1.0, 1e-9);
    int matrices = 1 + 3 * 7; // the tied head is the embedding
    CHECK_INT(released, device_matrix_borrows(model->token_embedding) ? 0 : matrices);
    CHECK(model->head == model->token_embedding, "a tied head was uploaded twice");
    model_close(model);
    tiny_model_close(tiny);
}

// The whole model, on a small random Llama of odd sizes: its logits are the same bits however a
// text is cut into calls, whatever else is in the batch, and with any number of threads.
#include "model/model.h"
#include "tests/support/files/tiny_model.h"
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

// malloced logits of every position of a text, one call for the whole of it.
static float *logits_at_once(Model *model, const Text *text) {
    bool all[LENGTH];
    size_t vocab_size = (size_t)model->config.vocab_size;
    float *out = malloc(LENGTH * vocab_size * sizeof *out);
    for (int i = 0; i < LENGTH; i++)
        all[i] = true;
    kv_cache_reset(&model->cache, 0);
    tiny_model_forward(model, &(Batch){.n = LENGTH, .tokens = text->ids, .wants_logits = all});
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
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = text->ids + i});
        check_same(model, 0, all, i, "token by token");
    }
    for (int i = 1; i <= LENGTH; i += 13) { // no cache: the whole prefix every time
        kv_cache_reset(&model->cache, 0);
        tiny_model_forward(model, &(Batch){.n = i, .tokens = text->ids});
        check_same(model, 0, all, i - 1, "without a cache");
    }
    for (int cut = 3; cut < LENGTH; cut += 11) { // in two
        kv_cache_reset(&model->cache, 0);
        tiny_model_forward(model, &(Batch){.n = cut, .tokens = text->ids});
        check_same(model, 0, all, cut - 1, "the first part");
        tiny_model_forward(model, &(Batch){.n = LENGTH - cut, .tokens = text->ids + cut});
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
        Model *model = tiny_model_run(tiny, options);
        float *all = logits_at_once(model, &text);
        check_cuts(model, &text, all);
        model_close(model);
        options.max_rows = 7; // the call is cut into chunks
        options.threads = 3;
        model = tiny_model_run(tiny, options);
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

Test(model, any_cut_gives_the_same_bits_in_every_family) {
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

// The same tokens in another order give other logits: positions reach every layer.
Test(model, the_order_of_tokens_matters) {
    for (int learned = 0; learned < 2; learned++) {
        TinyShape shape = tiny_shape();
        shape.n_layers = 1; // one layer sees order by positions alone
        shape.learned = learned;
        TinyModel *tiny = tiny_model_open(&shape);
        Model *model = tiny_model_run(tiny, ROOMY);
        int32_t one[] = {7, 8, 9}, other[] = {8, 7, 9};
        tiny_model_forward(model, &(Batch){.n = 3, .tokens = one});
        float first = model_logits(model, 0)[0];
        kv_cache_reset(&model->cache, 0);
        tiny_model_forward(model, &(Batch){.n = 3, .tokens = other});
        CHECK(fabsf(model_logits(model, 0)[0] - first) > 1e-3f, "learned %d", learned);
        model_close(model);
        tiny_model_close(tiny);
    }
}

// ---- batches ----

// Three texts in one batch, in mixed order: each has the logits that it has by itself.
Test(model, sequences_side_by_side_equal_each_alone) {
    enum { SEQUENCES = 3 };
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = ROOMY;
    options.n_sequences = SEQUENCES;
    options.max_logit_rows = SEQUENCES * LENGTH;
    options.max_rows = 50;
    Model *model = tiny_model_run(tiny, options);
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
    tiny_model_forward(model, &(Batch){SEQUENCES * LENGTH, tokens, NULL, sequences, wants, false});
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
    Model *model = tiny_model_run(tiny, ROOMY);
    Text right = random_text(1, shape.vocab_size), wrong = random_text(2, shape.vocab_size);
    float *all = logits_at_once(model, &right);
    kv_cache_reset(&model->cache, 0);
    tiny_model_forward(model, &(Batch){.n = 10, .tokens = right.ids});
    tiny_model_forward(model, &(Batch){.n = 20, .tokens = wrong.ids});
    CHECK_INT(kv_cache_length(&model->cache, 0), 30);
    int32_t positions[] = {10, 11, 12};
    tiny_model_forward(model, &(Batch){.n = 3, .tokens = right.ids + 10, .positions = positions});
    check_same(model, 0, all, 12, "rewritten");
    CHECK_INT(kv_cache_length(&model->cache, 0), 13);
    // A step back inside one batch: the rows before it do not see what it writes.
    int32_t tokens[] = {right.ids[13], right.ids[14], wrong.ids[0]}, mixed[] = {13, 14, 13};
    bool wants[] = {true, true, true};
    tiny_model_forward(model, &(Batch){3, tokens, mixed, NULL, wants, false});
    check_same(model, 0, all, 13, "before the step back");
    check_same(model, 1, all, 14, "just before the step back");
    CHECK_INT(kv_cache_length(&model->cache, 0), 14);
    kv_cache_truncate(&model->cache, 0, 5);
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = right.ids + 5});
    check_same(model, 0, all, 5, "truncated");
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

Test(model, a_copied_sequence_continues_as_the_first_would) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = ROOMY;
    options.n_sequences = 2;
    options.kv_type = KV_F16;
    Model *model = tiny_model_run(tiny, options);
    Text text = random_text(4, shape.vocab_size), other = random_text(5, shape.vocab_size);
    float *all = logits_at_once(model, &text);
    kv_cache_reset(&model->cache, 0);
    tiny_model_forward(model, &(Batch){.n = 17, .tokens = text.ids});
    kv_cache_copy(&model->cache, 1, 0);
    tiny_model_forward(model,
                       &(Batch){.n = 9, .tokens = other.ids}); // sequence 0 continues differently
    int32_t one = 1;
    for (int i = 17; i < LENGTH; i++) {
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = text.ids + i, .sequences = &one});
        check_same(model, 0, all, i, "the copy");
    }
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- the listener ----

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
    Model *model = tiny_model_run(tiny, options);
    Text text = random_text(1, shape.vocab_size);
    float *all = logits_at_once(model, &text);
    Seen seen = {0};
    Error error = {0};
    CHECK(model_listen(model, seen_listener, &seen, true, &error), "%s", error.message);
    kv_cache_reset(&model->cache, 0);
    tiny_model_forward(model, &(Batch){.n = LENGTH, .tokens = text.ids});
    // Two chunks of 16 stages per layer and the embedding; final norm and logits of the last row.
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
    tiny_model_forward(model, &(Batch){.n = LENGTH, .tokens = text.ids});
    check_same(model, 0, all, LENGTH - 1, "after listening");
    free(all);
    model_close(model);
    tiny_model_close(tiny);
}

// ---- interventions ----

enum { TINY_LENGTH = 7, HEAD = 2 };

// Logits of every row of a short text, owned; with an intervention, or with NULL.
static float *logits_under(const TinyModel *tiny, Intervention *intervention, void *context,
                           uint32_t stages) {
    int32_t ids[TINY_LENGTH] = {5, 9, 2, 40, 17, 9, 3};
    bool wants[TINY_LENGTH] = {true, true, true, true, true, true, true};
    Error error = {0};
    ModelOptions options = ROOMY;
    options.max_logit_rows = TINY_LENGTH;
    Model *model = tiny_model_run(tiny, options);
    CHECK(model_intervene(model, intervention, context, stages, &error), "%s", error.message);
    tiny_model_forward(model, &(Batch){.n = TINY_LENGTH, .tokens = ids, .wants_logits = wants});
    size_t count = TINY_LENGTH * (size_t)tiny->config.vocab_size;
    float *logits = malloc(count * sizeof *logits);
    for (size_t i = 0; i < count; i++)
        logits[i] = model_logits(
            model, (int)(i / (size_t)tiny->config.vocab_size))[i % (size_t)tiny->config.vocab_size];
    model_close(model);
    return logits;
}

static bool silence_head(void *context, const Model *model, Stage *stage) {
    int *calls = context;
    size_t width = (size_t)model->config.head_dim, row = (size_t)model->config.q_dim;
    CHECK(stage->id == STAGE_ATT_HEADS, "%s was not asked for", stage_name(stage->id));
    *calls += 1;
    for (size_t i = 0; i < (size_t)stage->rows.n; i++)
        for (size_t k = 0; k < width; k++)
            stage->data[i * row + HEAD * width + k] = 0;
    return true;
}

// wo reads nothing of the head: the columns that belong to it are zero.
static void remove_head(TinyModel *tiny) {
    size_t width = (size_t)tiny->config.head_dim;
    for (int l = 0; l < tiny->config.n_layers; l++) {
        Matrix *wo = &tiny->weights.layers[l].wo;
        for (size_t r = 0; r < (size_t)wo->rows; r++)
            memset((float *)wo->data + (size_t)r * (size_t)wo->cols + HEAD * width, 0,
                   width * sizeof(float));
    }
}

static void check_equal(const float *a, const float *b, double budget, const char *what) {
    for (int i = 0; i < TINY_LENGTH * 101; i++)
        CHECK(fabs((double)a[i] - (double)b[i]) <= budget, "%s, logit %d: %.9g and %.9g", what, i,
              (double)a[i], (double)b[i]);
}

Test(model, a_silenced_head_is_a_model_whose_output_matrix_does_not_read_it) {
    TinyShape shape = tiny_shape();
    shape.dtype = DTYPE_F32;
    TinyModel *tiny = tiny_model_open(&shape);
    int calls = 0;
    float *whole = logits_under(tiny, NULL, NULL, 0);
    float *silenced = logits_under(tiny, silence_head, &calls, 1u << STAGE_ATT_HEADS);
    CHECK_INT(calls, shape.n_layers);
    remove_head(tiny);
    float *removed = logits_under(tiny, NULL, NULL, 0);
    check_equal(silenced, removed, 0, "silenced and removed");
    double largest = 0;
    for (int i = 0; i < TINY_LENGTH * 101; i++)
        largest = fmax(largest, fabs((double)whole[i] - (double)removed[i]));
    CHECK(largest > 1e-3, "the head writes nothing: %g", largest);
    free(whole), free(silenced), free(removed);
    tiny_model_close(tiny);
}

// What an intervention did to the stages of one pass, and what the listener then saw.
typedef struct Doubled {
    float wanted;
    int stages;
} Doubled;

static bool double_first(void *context, const Model *model, Stage *stage) {
    Doubled *doubled = context;
    (void)model;
    doubled->wanted = stage->data[0] *= 2;
    return true;
}

static void see_first(void *context, const Model *model, const Stage *stage) {
    Doubled *doubled = context;
    (void)model;
    if (stage->id != STAGE_LAYER_OUT) return;
    doubled->stages++;
    CHECK(stage->data[0] == doubled->wanted, "%.9g, changed to %.9g", (double)stage->data[0],
          (double)doubled->wanted);
}

Test(model, a_listener_sees_what_an_intervention_has_changed) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = tiny_model_run(tiny, ROOMY);
    Doubled doubled = {0};
    Error error = {0};
    int32_t token = 7;
    CHECK(model_listen(model, see_first, &doubled, false, &error) &&
              model_intervene(model, double_first, &doubled, 1u << STAGE_LAYER_OUT, &error),
          "%s", error.message);
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
    CHECK_INT(doubled.stages, shape.n_layers);
    model_close(model);
    tiny_model_close(tiny);
}

static bool write_back(void *context, const Model *model, Stage *stage) {
    (void)context, (void)model, (void)stage;
    return true;
}

Test(model, every_stage_written_back_as_it_was_gives_the_same_logits) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    float *plain = logits_under(tiny, NULL, NULL, 0);
    float *back = logits_under(tiny, write_back, NULL, UINT32_MAX);
    check_equal(plain, back, 0, "written back");
    free(plain), free(back);
    tiny_model_close(tiny);
}

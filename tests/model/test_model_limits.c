// Limits of the model: what is refused, errors of numbers that are not finite, and memory.
#include "model/model.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 21 };

// Any tokens of the vocabulary of 101.
static const int32_t IDS[LENGTH] = {3,  97, 14, 15, 92, 65, 35, 89, 79, 32, 38,
                                    46, 26, 43, 38, 32, 79, 50, 28, 84, 19};

// ---- what is refused ----

static void check_refused(Model *model, const Batch *batch, int code, const char *message) {
    Error error = {0};
    CHECK(!model_forward(model, batch, &error), "accepted: %s", message);
    CHECK_INT(error.code, code);
    CHECK_STRING(error.message, message);
}

Test(model_limits, refuses_what_does_not_fit) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = tiny_model_run(tiny, (ModelOptions){.context = 20, .n_sequences = 2});
    int32_t below = -1, above = 101, far = 1, two = 2, early = -1;
    bool both[] = {true, true};
    check_refused(model, &(Batch){.n = 1, .tokens = &below}, 2,
                  "token -1 at row 0 is not in the vocabulary of 101");
    check_refused(model, &(Batch){.n = 1, .tokens = &above}, 2,
                  "token 101 at row 0 is not in the vocabulary of 101");
    check_refused(model, &(Batch){.n = 21, .tokens = IDS}, 2,
                  "21 tokens do not fit the context of 20");
    check_refused(model, &(Batch){.n = 1, .tokens = IDS, .sequences = &two}, 2,
                  "sequence 2 at row 0: the cache has 2");
    check_refused(model, &(Batch){.n = 1, .tokens = IDS, .positions = &far}, 2,
                  "position 1 at row 0: sequence 0 holds 0 and continues there");
    check_refused(model, &(Batch){.n = 1, .tokens = IDS, .positions = &early}, 2,
                  "position -1 at row 0: sequence 0 holds 0 and continues there");
    check_refused(model, &(Batch){.n = 2, .tokens = IDS, .wants_logits = both}, 2,
                  "2 rows want logits, there is room for 1");
    check_refused(model, &(Batch){.n = 0, .tokens = IDS}, 2, "a batch of 0 rows");
    CHECK_INT(kv_cache_length(&model->cache, 0), 0); // unchanged
    tiny_model_forward(model, &(Batch){.n = 20, .tokens = IDS});
    check_refused(model, &(Batch){.n = 1, .tokens = IDS}, 2,
                  "21 tokens do not fit the context of 20");
    model_close(model);
    tiny_model_close(tiny);
}

static void check_not_opened(const TinyModel *tiny, int code, const char *message) {
    Error error = {0};
    ModelOptions options = {.precision = PRECISION_F32};
    CHECK(!model_open(&tiny->config, &tiny->weights, &options, &error), "opened: %s", message);
    CHECK_INT(error.code, code);
    CHECK_STRING(error.message, message);
}

Test(model_limits, refuses_weights_that_do_not_fit_the_config) {
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

static void check_named(TinyModel *tiny, float *where, float value, const char *stage) {
    float kept = *where;
    *where = value;
    for (int p = 0; p < 3; p++) {
        Error error = {0};
        ModelOptions options = {.precision = (Precision)p};
        Model *model = tiny_model_run(tiny, options);
        CHECK(!model_forward(model, &(Batch){.n = 9, .tokens = IDS}, &error), "%s", stage);
        CHECK_INT(error.code, ERROR_NONFINITE);
        CHECK(strstr(error.message, stage), "wanted %s in: %s", stage, error.message);
        model_close(model);
    }
    *where = kept;
}

Test(model_limits, names_the_first_stage_that_is_not_finite) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    LayerWeights *w = &tiny->weights.layers[1];
    check_named(tiny, (float *)w->att_norm + 5, NAN, "layers.1.att_norm at position 0 holds nan");
    check_named(tiny, (float *)w->att_norm + 5, INFINITY, "layers.1.att_norm");
    check_named(tiny, (float *)w->ffn_norm, NAN, "layers.1.ffn_norm");
    check_named(tiny, (float *)w->wk.data, NAN, "layers.1.k ");
    check_named(tiny, (float *)w->wv.data, NAN, "layers.1.v ");
    check_named(tiny, (float *)w->wo.data, NAN, "layers.1.att_out");
    check_named(tiny, (float *)w->w_up.data, NAN, "layers.1.ffn_up");
    check_named(tiny, (float *)w->w_down.data, NAN, "layers.1.ffn_out");
    check_named(tiny, (float *)tiny->weights.final_norm, NAN, "final_norm");
    tiny_model_close(tiny);
}

// ---- more elements than an int counts ----

static double available_gigabytes(void) {
    double kilobytes = 0.0;
    char line[200];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && !kilobytes && fgets(line, sizeof line, file))
        if (!strncmp(line, "MemAvailable:", 13)) kilobytes = strtod(line + 13, NULL);
    if (file) fclose(file);
    return kilobytes / 1e6;
}

// The logits of all tokens behind token `last`, of a cache that holds nothing else; owned.
static float *logits_behind(TinyModel *tiny, int32_t last) {
    Model *model = tiny_model_run(tiny, (ModelOptions){.context = 4, .max_rows = 1});
    size_t size = (size_t)tiny->config.vocab_size * sizeof(float);
    float *copy = malloc(size);
    CHECK(copy, "no memory for %zu bytes", size);
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &last});
    memcpy(copy, model_logits(model, 0), size);
    model_close(model);
    return copy;
}

// Embedding and head of 2^20 + 3 rows of 2048: zeros but for the last three, which are the whole
// vocabulary of the same model with three tokens. A row index that wraps at 2^31 elements finds
// zeros, or memory that is not there.
Test(model_limits, a_tensor_of_2_to_the_31_elements) {
    enum { DIM = 2048, FEW = 3, MANY = (1 << 20) + FEW };
    if (available_gigabytes() < 7) SKIP("less than 7 GB of memory are free");
    if (TEST_SANITIZED) SKIP("minutes under a sanitizer");
    TinyShape shape = tiny_shape_of_blocks();
    shape.dim = DIM;
    shape.vocab_size = FEW;
    shape.dtype = DTYPE_Q4_0;
    TinyModel *tiny = tiny_model_open(&shape);
    Matrix *embedding = &tiny->weights.token_embedding;
    float *few = logits_behind(tiny, FEW - 1);
    size_t row = dtype_row_bytes(DTYPE_Q4_0, DIM), size = MANY * row;
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(bytes != MAP_FAILED, "no %zu bytes", size);
    memcpy(bytes + (MANY - FEW) * row, embedding->data, FEW * row);
    embedding->data = bytes;
    embedding->rows = (size_t)MANY;
    tiny->weights.head = *embedding;
    tiny->config.vocab_size = MANY;
    float *many = logits_behind(tiny, MANY - 1);
    for (int i = 0; i < FEW; i++)
        CHECK(few[i] != 0.0f && many[MANY - FEW + i] == few[i], "token %d: %a, wanted %a", i,
              (double)many[MANY - FEW + i], (double)few[i]);
    for (int i = 0; i < MANY - FEW; i++)
        CHECK(many[i] == 0.0f, "token %d: %g", i, (double)many[i]);
    free(few);
    free(many);
    munmap(bytes, size);
    tiny_model_close(tiny);
}

// ---- memory ----

Test(model_limits, memory_is_what_the_shapes_say) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = {.context = 50, .n_sequences = 2, .max_rows = 8, .max_logit_rows = 3};
    Model *model = tiny_model_run(tiny, options);
    ModelMemory memory = model_memory(model, &options);
    double cache = 2. * 3 * 2 * 50 * 80 * 4; // k and v, layers, sequences, positions, kv_dim, f32
    KvShape shape_of_cache = model->cache.shape;
    CHECK(memory.cache >= cache, "%g for %g", memory.cache, cache);
    CHECK(kv_bytes(&shape_of_cache) <= 1.5 * cache, "%zu for %g", kv_bytes(&shape_of_cache), cache);
    CHECK_INT(memory.rope, 2 * 50 * 20 * 4);
    double scratch = 8. * (3 * 96 + 2 * 240 + 2 * 80 + 2 * 160 + 4) * 4 + 3 * 96 * 4 + 3 * 101 * 4;
    CHECK(memory.scratch >= scratch && memory.scratch < scratch + 14 * 64, "%g", memory.scratch);
    CHECK(memory.host >= 3 * 101 * 4, "%g", memory.host);
    model_close(model);
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

Test(model_limits, reports_progress_and_releases_what_it_has_copied) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    int released = 0;
    double last = 0.0;
    ModelOptions options = {.precision = PRECISION_F32};
    options.progress = count_progress;
    options.progress_context = &last;
    tiny->weights.release = count_release;
    tiny->weights.owner = &released;
    Model *model = tiny_model_run(tiny, options);
    CHECK_NEAR(last, 1.0, 1e-9);
    int matrices = 1 + 3 * 7; // the tied head is the embedding
    CHECK_INT(released, device_info(model->device)->borrows_weights ? 0 : matrices);
    CHECK(model->head == model->token_embedding, "a tied head was uploaded twice");
    model_close(model);
    tiny_model_close(tiny);
}

// What the CUDA backend makes of a recorded pass: a decode step is as few kernels as fused.cu says,
// a replay is one launch, and every host call fails once. That the numbers are those of single
// operations: test_passes.c.
#include "model/decoder.h"
#include "tests/cuda/emulator.h"
#include "tests/support/device.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/quant.h"

static Model *open_model(const TinyModel *tiny) {
    return tiny_model_run(tiny, (ModelOptions){.precision = PRECISION_A16, .kv_type = KV_BF16});
}

static void look(void *context, const Model *model, const Stage *stage) {
    (void)context, (void)model, (void)stage;
}

static void step(Model *model, int32_t token) {
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
}

// embed, so many per layer, the head with the norm before it: for n sequences, captured, then
// replayed.
static void check_kernels(const TinyModel *tiny, int n, int per_layer, const char *what) {
    enum { MOST = 33 };
    int32_t tokens[MOST], sequences[MOST];
    ModelOptions options = {
        .precision = PRECISION_A16, .kv_type = KV_BF16, .n_sequences = n, .max_rows = n};
    Model *model = tiny_model_run(tiny, options);
    for (int i = 0; i < n; i++)
        tokens[i] = 2 * i, sequences[i] = i;
    for (int i = 0; i < 3; i++) {
        long before = emulator_kernels();
        tiny_model_forward(model, &(Batch){.n = n, .tokens = tokens, .sequences = sequences});
        long kernels = emulator_kernels() - before,
             wanted = 1 + per_layer * tiny->config.n_layers + 1;
        CHECK(kernels == wanted, "%s, %d rows: %ld kernels, wanted %ld", what, n, kernels, wanted);
    }
    model_close(model);
}

Test(cuda_recording, a_step_is_five_kernels_per_layer) {
    static const int ROWS[] = {1, 2, 8, 9, 32};
    TinyShape shape = tiny_shape_of_blocks();
    for (int layers = 1; layers <= 6; layers++) {
        shape.n_layers = (layers + 1) / 2;
        shape.qk_norm = layers % 2 ? QK_NORM_NONE : QK_NORM_PER_HEAD;
        TinyModel *tiny = tiny_model_open(&shape);
        for (size_t i = 0; i < (layers < 3 ? 5 : 1); i++)
            check_kernels(tiny, ROWS[i], 5, "one type");
        tiny_model_close(tiny);
    }
}

// As llama.cpp mixes them: Q4_K_M, Q5_K_M, Q3_K_M, Q2_K; where rows do not hold 256, others in
// their place. A gate and an up of two types are activated by a kernel of their own; what is not
// quantised goes apart from what is: a norm, two launches and placing instead of one.
Test(cuda_recording, so_it_is_with_matrices_of_several_types) {
    static const struct {
        DType dtype, other;
        bool up;
        int kernels;
    } ROWS[] = {
        {DTYPE_Q4_K, DTYPE_Q6_K, false, 5}, {DTYPE_Q5_K, DTYPE_Q6_K, false, 5},
        {DTYPE_Q3_K, DTYPE_Q5_K, false, 5}, {DTYPE_Q2_K, DTYPE_Q3_K, false, 5},
        {DTYPE_Q5_0, DTYPE_Q8_0, false, 5}, {DTYPE_Q5_1, DTYPE_Q8_0, false, 5},
        {DTYPE_Q4_0, DTYPE_Q5_1, false, 5}, {DTYPE_BF16, DTYPE_F32, false, 5},
        {DTYPE_Q4_0, DTYPE_Q4_1, true, 6},  {DTYPE_Q8_0, DTYPE_F16, false, 8},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        TinyShape shape = tiny_shape_of_large_blocks();
        shape.dtype = ROWS[i].dtype;
        TinyModel *tiny = tiny_model_open(&shape);
        tiny_model_mix(tiny, ROWS[i].other, ROWS[i].up);
        char what[40];
        snprintf(what, sizeof what, "%s and %s", dtype_info(ROWS[i].dtype)->name,
                 dtype_info(ROWS[i].other)->name);
        check_kernels(tiny, i % 2 ? 10 : 1, ROWS[i].kernels, what);
        tiny_model_close(tiny);
    }
}

// Norms behind the blocks: one more each.
Test(cuda_recording, norms_behind_the_blocks_are_two_more) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.post_norms = true;
    shape.qk_norm = QK_NORM_PER_HEAD;
    TinyModel *tiny = tiny_model_open(&shape);
    check_kernels(tiny, 1, 7, "norms behind");
    tiny_model_close(tiny);
}

// Two calls: the graph and the copy of the logits; the rows' tokens, positions, sequences before.
Test(cuda_recording, a_replay_is_one_launch) {
    TinyShape shape = tiny_shape_of_blocks();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = open_model(tiny);
    step(model, 1), step(model, 2);
    emulator_fail_call(0, 0);
    step(model, 3);
    CHECK(emulator_calls() <= 6, "%ld host calls", emulator_calls());
    model_close(model);
    tiny_model_close(tiny);
}

// ---- a prompt ----

// Kernels and products of a prompt in one pass: embed, so many per layer, the residual of the last
// layer, whose product may still be read, and the head for one row.
static void check_prompt(DType dtype, Precision precision, int kernels, int products) {
    enum { ROWS = 66 };
    TinyShape shape = tiny_shape_of_blocks();
    shape.max_seq_len = ROWS;
    shape.dtype = dtype;
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = tiny_model_run(
        tiny, (ModelOptions){.precision = precision, .kv_type = KV_F16, .max_rows = ROWS});
    int32_t tokens[ROWS] = {1, 2, 3};
    long before = emulator_kernels(), multiplied = emulator_cublas_products();
    tiny_model_forward(model, &(Batch){.n = ROWS, .tokens = tokens});
    CHECK(emulator_kernels() - before == 1 + kernels * shape.n_layers + 1 + 1,
          "%s, precision %d: %ld kernels", dtype_info(dtype)->name, (int)precision,
          emulator_kernels() - before);
    CHECK_INT(emulator_cublas_products() - multiplied, products * shape.n_layers);
    model_close(model);
    tiny_model_close(tiny);
}

// Norm, queries and keys, attention, norm, activation; with two parts of x the halves of sums are
// joined: of q, k and v at once, and of gate and up one after another, since there is room for 128
// columns; what is not stored as bf16 is unpacked seven times.
Test(cuda_recording, a_layer_of_a_prompt_is_five_kernels_and_its_products) {
    check_prompt(DTYPE_BF16, PRECISION_A8, 5, 7);
    check_prompt(DTYPE_BF16, PRECISION_A16, 5 + 5, 7);
    check_prompt(DTYPE_Q8_0, PRECISION_A8, 5 + 7, 7);
    check_prompt(DTYPE_Q8_0, PRECISION_A16, 5 + 5 + 7, 14);
}

// What follows a norm and its product over 64 rows, named by what it reads again.
typedef enum Reader { READS_NOTHING, READS_NORM, READS_PRODUCT } Reader;

enum { READ_ROWS = 64, READ_WIDTH = 64, READ_FLOATS = READ_ROWS * READ_WIDTH };

// x, its norm, its product, the residual stream; then one of the two is read once more. Malloced.
static float *floats_of_prompt(Device *device, const float *before, const float *weight,
                               const DeviceMatrix *matrix, Reader reader, bool recorded) {
    float *floats = upload_floats(device, before, 6 * READ_FLOATS);
    float *x = floats, *normed = x + READ_FLOATS, *out = normed + READ_FLOATS;
    float *residual = out + READ_FLOATS, *a = residual + READ_FLOATS, *b = a + READ_FLOATS;
    if (recorded) device_begin(device, &(PassShape){.n = READ_ROWS, .max_position = 0});
    rmsnorm(device, normed, x, weight, READ_ROWS, READ_WIDTH, 1e-5f);
    project(device, normed, READ_ROWS, &(Projection){out, matrix, NULL}, 1);
    add(device, residual, out, READ_FLOATS);
    if (reader == READS_NORM) add(device, a, normed, READ_FLOATS);
    if (reader == READS_PRODUCT) add(device, a, out, READ_FLOATS);
    // Both are overwritten, so nothing reads them after the pass.
    rmsnorm(device, normed, b, weight, READ_ROWS, READ_WIDTH, 1e-5f);
    rmsnorm(device, out, b, weight, READ_ROWS, READ_WIDTH, 1e-5f);
    if (recorded) device_end(device);
    float *behind = fetch(device, floats, 6 * READ_FLOATS);
    device_free(device, floats);
    return behind;
}

Test(cuda_recording, floats_that_are_read_again_are_written) {
    Device *device = test_device(1, PRECISION_A16);
    TestRandom random = {12};
    Matrix host = random_matrix(&random, DTYPE_BF16, READ_WIDTH, READ_WIDTH);
    DeviceMatrix *matrix = device_matrix(device, &host);
    device_reserve(device, READ_ROWS);
    float *before = random_floats(&random, 6 * READ_FLOATS, 1.0f),
          *weight = upload_floats(device, before, READ_WIDTH);
    static const int KERNELS[] = {1 + 1 + 2, 1 + 1 + 1 + 2, 1 + 1 + 1 + 1 + 2};
    for (Reader reader = READS_NOTHING; reader <= READS_PRODUCT; reader++) {
        float *one = floats_of_prompt(device, before, weight, matrix, reader, false);
        long kernels = emulator_kernels();
        float *fused = floats_of_prompt(device, before, weight, matrix, reader, true);
        CHECK_INT(emulator_kernels() - kernels, KERNELS[reader]);
        for (int i = 0; i < 6 * READ_FLOATS; i++)
            CHECK(one[i] == fused[i], "reader %d: float %d is %.9g, one by one %.9g", (int)reader,
                  i, (double)fused[i], (double)one[i]);
        free(one), free(fused);
    }
    device_free(device, weight);
    random_matrix_free(&host);
    free(before);
    test_device_close(device);
}

// ---- the full pieces of a prompt ----

enum { PIECE = 64, MOST_PIECES = 9 };

// So many full pieces, the last with logits, which are returned, malloced; calls[i]: the host calls
// of piece i. With `plain` every operation runs by itself.
static float *logits_of_pieces(const TinyModel *tiny, ModelOptions options, int pieces, bool plain,
                               long calls[MOST_PIECES]) {
    size_t bytes = (size_t)tiny->config.vocab_size * sizeof(float);
    Error error = {0};
    options.max_rows = PIECE;
    Model *model = tiny_model_run(tiny, options);
    if (plain) CHECK(model_listen(model, look, NULL, false, &error), "%s", error.message);
    for (int p = 0; p < pieces; p++) {
        int32_t tokens[PIECE];
        bool wants_logits[PIECE] = {false};
        for (int i = 0; i < PIECE; i++)
            tokens[i] = (7 * (p * PIECE + i) + 3) % tiny->config.vocab_size;
        wants_logits[PIECE - 1] = p == pieces - 1;
        emulator_fail_call(0, 0);
        tiny_model_forward(model,
                           &(Batch){.n = PIECE, .tokens = tokens, .wants_logits = wants_logits});
        calls[p] = emulator_calls();
    }
    float *logits = malloc(bytes);
    CHECK(logits, "memory");
    memcpy(logits, model_logits(model, 0), bytes);
    model_close(model);
    return logits;
}

static void check_pieces(const TinyModel *tiny, ModelOptions options, int pieces,
                         long calls[MOST_PIECES]) {
    long others[MOST_PIECES];
    float *logits = logits_of_pieces(tiny, options, pieces, false, calls);
    float *plain = logits_of_pieces(tiny, options, pieces, true, others);
    for (int i = 0; i < tiny->config.vocab_size; i++)
        CHECK(logits[i] == plain[i], "token %d: %.9g, one by one %.9g", i, (double)logits[i],
              (double)plain[i]);
    free(logits), free(plain);
}

enum { CALLS_OF_REPLAY = 7, CALLS_OF_LAUNCHES = 20 }; // at most; at least

static void check_calls(const long *calls, const char *wanted) {
    for (int p = 0; wanted[p]; p++)
        CHECK(wanted[p] == 'r' ? calls[p] <= CALLS_OF_REPLAY : calls[p] >= CALLS_OF_LAUNCHES,
              "piece %d of %s: %ld host calls", p, wanted, calls[p]);
}

static TinyModel *open_for_pieces(DType dtype) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.n_layers = 2;
    shape.max_seq_len = PIECE * MOST_PIECES;
    shape.dtype = dtype;
    return tiny_model_open(&shape);
}

// l: launched one at a time; c: captured; r: replayed, one launch beside the tokens, positions and
// sequences. The last piece has logits, so it is another list.
Test(cuda_recording, full_pieces_of_a_prompt_are_replayed) {
    static const DType TYPES[] = {DTYPE_BF16, DTYPE_Q8_0};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        TinyModel *tiny = open_for_pieces(TYPES[t]);
        ModelOptions options = {.precision = PRECISION_A8, .kv_type = KV_F16};
        long calls[MOST_PIECES];
        check_pieces(tiny, options, 6, calls);
        check_calls(calls, "lcrrrl");
        tiny_model_close(tiny);
    }
}

// Over an f32 cache attention goes by splits, and its grids are sized by the positions, rounded to
// 256 and 512: four pieces each.
Test(cuda_recording, and_again_for_each_power_of_two_of_positions_where_grids_depend_on_them) {
    TinyModel *tiny = open_for_pieces(DTYPE_BF16);
    ModelOptions options = {.precision = PRECISION_A16, .kv_type = KV_F32};
    long calls[MOST_PIECES];
    check_pieces(tiny, options, MOST_PIECES, calls);
    check_calls(calls, "lcrrlcrrl");
    tiny_model_close(tiny);
}

// ---- what may not be fused ----

// (norm,) project, add over vectors of one buffer, named by where they begin.
typedef struct Vectors {
    const char *what;
    bool norm;
    int x, normed, out, residual;
    int kernels; // of the three operations, recorded
} Vectors;

enum { WIDTH = 64, FLOATS = 4 * WIDTH };

static void norm_project_add(Device *device, float *floats, const Vectors *v, const float *weight,
                             const DeviceMatrix *matrix) {
    float *x = floats + v->x, *out = floats + v->out;
    if (v->norm) {
        rmsnorm(device, floats + v->normed, x, weight, 1, WIDTH, 1e-5f);
        x = floats + v->normed;
    }
    project(device, x, 1, &(Projection){out, matrix, NULL}, 1);
    add(device, floats + v->residual, out, WIDTH);
}

// All floats behind the operations; malloced.
static float *floats_behind(Device *device, bool recorded, const float *before, const Vectors *v,
                            const float *weight, const DeviceMatrix *matrix) {
    float *floats = upload_floats(device, before, FLOATS);
    long kernels = emulator_kernels();
    if (recorded) device_begin(device, &(PassShape){.n = 1, .max_position = 0});
    norm_project_add(device, floats, v, weight, matrix);
    if (recorded) {
        device_end(device);
        CHECK(emulator_kernels() - kernels == v->kernels, "%s: %ld kernels", v->what,
              emulator_kernels() - kernels);
    }
    float *behind = fetch(device, floats, FLOATS);
    device_free(device, floats);
    return behind;
}

// Blocks of one launch run in no order: what one of them writes no other may read.
Test(cuda_recording, nothing_is_fused_that_writes_what_other_blocks_read) {
    static const Vectors ROWS[] = {
        {"apart", false, 0, 0, 128, 192, 1},
        {"the residual is x", false, 0, 0, 128, 0, 2},
        {"half of the residual is of x", false, 32, 0, 192, 64, 2},
        {"with a norm, apart", true, 0, 64, 128, 192, 1},
        {"the residual is what the norm reads", true, 0, 64, 128, 0, 2},
        {"the residual is what the norm wrote", true, 0, 64, 128, 64, 2},
        {"half of the residual is", true, 0, 64, 192, 96, 2},
        {"the result lies where the norm reads", true, 0, 64, 0, 192, 2},
        {"half of the result does", true, 0, 128, 32, 192, 2},
    };
    Device *device = test_device(1, PRECISION_A16);
    TestRandom random = {11};
    Matrix host = random_matrix(&random, DTYPE_Q8_0, WIDTH, WIDTH);
    DeviceMatrix *matrix = device_matrix(device, &host);
    device_reserve(device, 1);
    float *before = random_floats(&random, FLOATS, 1.0f),
          *weight = upload_floats(device, before, WIDTH);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        float *one = floats_behind(device, false, before, ROWS + i, weight, matrix);
        float *fused = floats_behind(device, true, before, ROWS + i, weight, matrix);
        for (int j = 0; j < FLOATS; j++)
            CHECK(one[j] == fused[j], "%s: float %d is %.9g, one by one %.9g", ROWS[i].what, j,
                  (double)fused[j], (double)one[j]);
        free(one), free(fused);
    }
    device_free(device, weight);
    random_matrix_free(&host);
    free(before);
    test_device_close(device);
}

// ---- memory of graphs ----

// One query at the last position of a cache of ones, recorded.
static void attend(Device *device, Kv *kv, int last, const Rows *rows, const float *q, float *out) {
    device_begin(device, &(PassShape){.n = 1, .max_position = last});
    attention(device, out, q, &(KvView){kv, 0}, rows, &(AttentionShape){1, 1, 8, 1.0f, {0}, 0},
              NULL);
    device_end(device);
    device_sync(device);
}

// A longer cache needs more scratch: graphs of shorter ones do not keep what was there before.
Test(cuda_recording, graphs_are_dropped_with_the_memory_that_they_use) {
    Device *device = test_device(1, PRECISION_A16);
    device_reserve(device, 1);
    float *q = poisoned(device, 8), *out = poisoned(device, 8);
    Kv *kv[2];
    Rows rows[2];
    for (int i = 0; i < 2; i++) {
        int32_t last = i ? 599 : 99, zero = 0;
        kv[i] = kv_open(device, &(KvShape){1, 1, 1, 8, last + 1, KV_F16, NULL, 0});
        rows[i] = test_rows(device, 1, NULL, &last, &zero);
    }
    attend(device, kv[0], 99, rows, q, out);
    long with_graph = emulator_live_objects();
    attend(device, kv[0], 99, rows, q, out);
    CHECK_INT(emulator_live_objects(), with_graph);
    attend(device, kv[1], 599, rows + 1, q, out); // the old graph goes, a new one comes
    CHECK_INT(emulator_live_objects(), with_graph);
    attend(device, kv[0], 99, rows, q, out);
    CHECK_INT(emulator_live_objects(), with_graph + 1);
    kv_close(device, kv[0]), kv_close(device, kv[1]);
    test_device_close(device);
}

// ---- faults ----

// Tokens that are sampled and fed on the device.
static bool try_decoder(Model *model, Error *error) {
    SamplerOptions rule = sampler_defaults();
    Sampler *sampler = sampler_open(model->device, model->config.vocab_size, 10, &rule, error);
    Decoder decoder = {0};
    DecoderOptions options = {.sampler = sampler, .max_tokens = 5};
    bool done = sampler && decoder_begin(&decoder, model, &options, error);
    for (int i = 0; i < 3 && done; i++)
        done = decoder_next(&decoder, error) >= 0;
    if (done) decoder_end(&decoder);
    sampler_close(sampler);
    return done;
}

// A sequence that goes on as another, a key, every stage with the attention weights, sampling by
// all the cuts there are.
static bool try_rest(Model *model, Error *error) {
    float key[16], value[16];
    int32_t token = 3, sequence = 1;
    kv_cache_copy(&model->cache, 1, 0);
    kv_read(model->device, &(KvView){model->cache.kv, 0}, 1, 0, 0, key, value);
    if (!model_listen(model, look, NULL, true, error) ||
        !model_forward(model, &(Batch){.n = 1, .tokens = &token, .sequences = &sequence}, error))
        return false;
    SamplerOptions options = sampler_defaults();
    options.rule = (SampleRule){0.8f, 20, 0.9f, 0.05f, 0.9f, 0};
    Sampler *sampler = sampler_open(model->device, model->config.vocab_size, 10, &options, error);
    bool done = sampler && sampler_next(sampler, model_logits(model, 0), error) >= 0;
    sampler_close(sampler);
    return done;
}

// *calls: host calls but those of closing, whose failures are ignored.
static bool try_all(const TinyModel *tiny, long *calls, Error *error) {
    ModelOptions options = {.precision = PRECISION_A16, .max_rows = 3, .n_sequences = 2};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, error);
    int32_t tokens[] = {1, 2, 3, 4, 5};
    bool done = model && model_forward(model, &(Batch){.n = 5, .tokens = tokens}, error) &&
                model_forward(model, &(Batch){.n = 1, .tokens = tokens}, error);
    if (done) CHECK(isfinite(model_logits(model, 0)[0]), "no logits");
    done = done && try_decoder(model, error) && try_rest(model, error);
    const Error *late = done ? device_error(model->device) : NULL; // of what was freed last
    if (late && late->code) done = error_copy(error, late);
    *calls = emulator_calls();
    model_close(model);
    return done;
}

// Four full pieces: launched, captured, replayed, and one with logits. They are too short for
// cuBLASLt.
enum { SHORT_PIECE = 33, SHORT_PIECES = 4 * SHORT_PIECE };

static bool try_pieces(const TinyModel *tiny, long *calls, Error *error) {
    int32_t tokens[SHORT_PIECES];
    ModelOptions options = {.precision = PRECISION_A16, .max_rows = SHORT_PIECE};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, error);
    for (int i = 0; i < SHORT_PIECES; i++)
        tokens[i] = i % tiny->config.vocab_size;
    bool done = model && model_forward(model, &(Batch){.n = SHORT_PIECES, .tokens = tokens}, error);
    *calls = emulator_calls();
    model_close(model);
    return done;
}

typedef bool Try(const TinyModel *tiny, long *calls, Error *error);

static void check_faults(const TinyModel *tiny, Try *try, const char *what) {
    Error error = {0};
    long calls, made;
    emulator_fail_call(0, 0);
    CHECK(try(tiny, &calls, &error), "%s: %s", what, error.message);
    CHECK(calls > 50, "%s: only %ld host calls", what, calls);
    for (long i = 1; i <= calls; i++) {
        static const int ERRORS[] = {2, 719}; // out of memory, a failed launch
        error = (Error){0};
        emulator_fail_call(i, ERRORS[i % 2]);
        bool done = try(tiny, &made, &error);
        CHECK(!done && error.code == ERROR_DEVICE, "%s, call %ld: %d %s", what, i, error.code,
              error.message);
        CHECK(strstr(error.message, "GPU: cuda") || strstr(error.message, "_kernel"),
              "%s, call %ld: %s", what, i, error.message);
        CHECK_INT(emulator_live_objects(), 0);
    }
    emulator_fail_call(0, 0);
}

Test(cuda_recording, every_host_call_fails_once) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.n_layers = 1;
    shape.max_seq_len = SHORT_PIECES;
    TinyModel *tiny = tiny_model_open(&shape);
    check_faults(tiny, try_all, "steps");
    check_faults(tiny, try_pieces, "pieces");
    tiny_model_close(tiny);
}

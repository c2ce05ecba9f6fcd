// What work_cost and model_memory predict: known figures of published models, formulas by hand, and
// the same numbers as the plain loops count and as every backend allocates.
#include "kernels/precision.h"
#include "model/cost.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

typedef struct Outline {
    Checkpoint *checkpoint;
    const Config *config;
    const Weights *weights;
    Model *planned;
} Outline;

static Outline open_outline(const char *preset, DType dtype) {
    Outline o = {0};
    Error error = {0};
    CHECK(checkpoint_open_outline(&o.checkpoint, preset, dtype, &error), "%s", error.message);
    o.config = checkpoint_config(o.checkpoint);
    o.weights = checkpoint_weights(o.checkpoint);
    o.planned =
        model_plan(o.config, o.weights, &(ModelOptions){.threads = 1, .kv_type = KV_F16}, &error);
    CHECK(o.planned, "%s", error.message);
    return o;
}

static void close_outline(Outline *o) {
    model_close(o->planned);
    checkpoint_close(o->checkpoint);
}

// ---- figures of the literature ----

// attention_costs(S, d = 4096, H = 32, 2 bytes) of teaching material, for one layer: four matrices
// (d, d), and every query meets every key.
Test(model_cost, attention_of_llama_7b_is_the_known_one) {
    static const double ROWS[][4] = {{256, 35433480192, 4194304, 4194304},
                                     {2048, 343597383680, 268435456, 33554432},
                                     {8192, 2199023255552, 4294967296, 134217728},
                                     {32768, 21990232555520, 68719476736, 536870912}};
    Outline o = open_outline("llama-7b", DTYPE_F16);
    for (int i = 0; i < 4; i++) {
        double s = ROWS[i][0], flops = attention_flops(o.config, s * s);
        Work work = {.sequences = 1, .tokens = s, .max_rows = 512};
        for (OperationId id = OPERATION_WQ; id <= OPERATION_WO; id++)
            flops += matrix_flops(o.config, id, &work);
        CHECK(flops == ROWS[i][1], "%.0f tokens: %.0f FLOP", s, flops);
        CHECK(score_bytes(o.config, s, s, 2) == ROWS[i][2], "%.0f tokens", s);
        CHECK(kv_needed_bytes(o.config, NULL, s, KV_F16) / 32 == ROWS[i][3], "%.0f tokens", s);
    }
    close_outline(&o);
}

// QKV, scores, values for d = 4096 in heads of 128, as (S, d) x (d, d), (S, 128) x (128, S) and
// (S, S) x (S, 128).
Test(model_cost, intensities_are_the_known_ones) {
    static const double ROWS[][3] = {{1, 0.9995, 0.4981},    {8, 7.9689, 3.8788},
                                     {64, 62.0606, 25.6},    {256, 227.5556, 64},
                                     {1024, 682.667, 102.4}, {4096, 1365.333, 120.4706}};
    for (int i = 0; i < 6; i++) {
        double s = ROWS[i][0];
        CHECK_NEAR(product_intensity(s, 4096, 4096, 2), ROWS[i][1], 5e-4);
        CHECK_NEAR(product_intensity(s, 128, s, 2), ROWS[i][2], 5e-5);
        CHECK_NEAR(product_intensity(s, s, 128, 2), ROWS[i][2], 5e-5);
    }
    // One query on 256 keys: about 1, not the 0.5 of a context of one token.
    CHECK_NEAR(product_intensity(1, 128, 256, 2), 0.988, 5e-4);
}

// 25, 37.5 and 43.75 % of the weights and 50, 75 and 87.5 % of the cache; not -25/-50/-75 %.
Test(model_cost, shared_heads_save_what_they_save) {
    static const double ROWS[][3] = {
        {8, 262144, 1}, {4, 196608, 0.5}, {2, 163840, 0.25}, {1, 147456, 0.125}};
    static const double NARROW[][3] = {
        {8, 524288, 4194304}, {4, 262144, 2097152}, {2, 131072, 1048576}, {1, 65536, 524288}};
    Config c = {.dim = 256, .n_heads = 8, .head_dim = 32, .q_dim = 256};
    for (int i = 0; i < 4; i++) {
        HeadCost cost = head_cost(&c, (int)ROWS[i][0], 128, KV_F16);
        CHECK(cost.parameters == ROWS[i][1], "%.0f", cost.parameters);
        CHECK(cost.kv_bytes == ROWS[i][2] * 2 * 256 * 128 * 2, "%.0f", cost.kv_bytes);
    }
    c = (Config){.dim = 512, .n_heads = 8, .head_dim = 64, .q_dim = 512};
    for (int i = 0; i < 4; i++) {
        HeadCost cost = head_cost(&c, (int)NARROW[i][0], 2048, KV_F16);
        CHECK(cost.kv_parameters == NARROW[i][1], "%.0f", cost.kv_parameters);
        CHECK(cost.kv_bytes == NARROW[i][2], "%.0f", cost.kv_bytes);
    }
}

static const struct {
    const char *name;
    double positions, kv_bytes; // f16
} CACHES[] = {
    {"gpt2", 1, 36864},
    {"stories15m", 1, 6912},
    {"llama2-7b", 1, 524288},
    {"llama3-8b", 1, 131072},
    {"llama3.2-1b", 1, 32768},
    {"smollm2-135m", 1, 23040},
    {"qwen3-0.6b", 1, 114688},
    {"gemma3-270m", 1, 18432},
    {"gemma3-1b", 1, 26624},
    {"gemma3-270m", 4096, 20447232},
    {"gemma3-270m", 32768, 108527616},
    {"gemma3-1b", 32768, 145752064},
    {"llama-65b", 2048, 5368709120},
    {"pythia-1b", 1, 131072},
    {"gemma2-2b", 1, 106496},
    {"gemma2-2b", 8192, 654311424}, // 13 layers keep 4,096
    {"granite3.3-2b", 1, 81920},
    {"exaone4-1.2b", 1, 61440},
    {"ernie4.5-0.3b", 1, 18432},
    {"phi4-mini", 1, 131072},
    {"olmo3-7b", 1, 524288},
    {"ministral3-3b", 1, 106496}, // 26 layers, 8 heads of 128
    {"granite4-350m", 1, 28672},  // 28 of 4 x 64
    {"granite4-1b", 1, 81920},    // 40 of 4 x 128
    {"hunyuan-0.5b", 1, 98304},   // 24 of 8 x 128
};

Test(model_cost, caches_of_published_models_are_the_known_ones) {
    for (size_t i = 0; i < sizeof CACHES / sizeof *CACHES; i++) {
        Outline o = open_outline(CACHES[i].name, DTYPE_F16);
        double bytes = kv_needed_bytes(o.config, NULL, CACHES[i].positions, KV_F16);
        CHECK(bytes == CACHES[i].kv_bytes, "%s: %.0f", CACHES[i].name, bytes);
        close_outline(&o);
    }
}

static const struct {
    const char *name;
    double parameters;
} SIZES[] = {
    {"gpt2", 124439808},
    {"gpt2-medium", 354823168},
    {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},
    {"distilgpt2", 81912576},
    {"llama2-7b", 6738415616},
    {"llama3-8b", 8030261248},
    {"smollm2-135m", 134515008},
    {"pythia-70m", 70426624},
    {"pythia-160m", 162322944},
    {"pythia-1b", 1011781632},
    {"pythia-1.4b", 1414647808},
    {"gemma2-2b", 2614341888},
    {"gemma2-9b", 9241705984},
    {"granite3.3-2b", 2533539840},
    {"exaone4-1.2b", 1279391488},
    {"ernie4.5-0.3b", 360748032},
    {"phi4-mini", 3836021760},
    {"olmo3-7b", 7298011136},
    {"stories15m", 15191712},
    {"qwen3-0.6b", 596049920},
    {"gemma3-270m", 268098176},
    {"gemma3-1b", 999885952},
    {"hunyuan-0.5b", 539010048},
    {"llama3.2-1b", 1235814400},
    {"llama-7b", 6738415616},
    {"mistral-7b", 7241732096},
    {"llama-65b", 65285660672},
    {"llama2-70b", 68976648192},
    // Cards: 3.4 B of text beside 0.4 B of vision; 350 M; 1.6 B. Embedding, layers, final norm:
    {"ministral3-3b", 131072. * 3072 + 26 * 116398080. + 3072},
    {"granite4-350m", 100352. * 1024 + 28 * 8914944. + 1024},
    {"granite4-1b", 100352. * 2048 + 40 * 35655680. + 2048}};

Test(model_cost, published_models_have_their_parameters) {
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        Outline o = open_outline(SIZES[i].name, DTYPE_F16);
        double count = parameter_count(o.planned, o.weights);
        CHECK(count == SIZES[i].parameters, "%s: %.0f", SIZES[i].name, count);
        close_outline(&o);
    }
}

// Every name that `cost` knows is in the table above.
Test(model_cost, each_preset_is_compared_with_its_published_size) {
    const Preset *preset;
    for (size_t p = 0; (preset = preset_at(p)); p++) {
        size_t i = 0, count = sizeof SIZES / sizeof *SIZES;
        while (i < count && strcmp(SIZES[i].name, preset->name) != 0)
            i++;
        CHECK(i < count, "%s", preset->name);
    }
}

// ---- by hand ----

Test(model_cost, keys_are_those_that_a_loop_counts) {
    static const int WINDOWS[] = {0, 1, 5, 16, 100};
    for (int w = 0; w < 5; w++)
        for (int start = 0; start < 40; start += 3)
            for (int n = 1; n < 40; n += 4) {
                int count = 0;
                KeyPattern pattern = {.window = WINDOWS[w]};
                for (int p = start; p < start + n; p++)
                    for (int t = 0; t <= p; t++)
                        count += key_visible(&pattern, p, t);
                CHECK_INT(keys_seen(&(Work){.start = start, .tokens = n}, WINDOWS[w]), count);
            }
}

// dim 4, hidden 8, 2 heads of 2, 1 for keys and values, 1 layer, 10 words, F32 weights, F16 cache;
// 3 tokens in 2 passes of 2 rows.
Test(model_cost, a_small_model_by_hand) {
    static const float NONE[1];
    LayerWeights layer = {.att_norm = NONE,
                          .ffn_norm = NONE,
                          .wq = {.rows = 4, .cols = 4, .data = NONE},
                          .wk = {.rows = 2, .cols = 4, .data = NONE},
                          .wv = {.rows = 2, .cols = 4, .data = NONE},
                          .wo = {.rows = 4, .cols = 4, .data = NONE},
                          .w_gate = {.rows = 8, .cols = 4, .data = NONE},
                          .w_up = {.rows = 8, .cols = 4, .data = NONE},
                          .w_down = {.rows = 4, .cols = 8, .data = NONE}};
    Weights weights = {.token_embedding = {.rows = 10, .cols = 4, .data = NONE},
                       .layers = &layer,
                       .final_norm = NONE,
                       .head = {.rows = 10, .cols = 4, .data = NONE}};
    Config config;
    Error error = {0};
    config_init(&config);
    config.dim = 4, config.hidden_dim = 8, config.n_layers = 1, config.n_heads = 2;
    config.n_kv_heads = 1, config.head_dim = 2, config.vocab_size = 10, config.max_seq_len = 16;
    CHECK(config_finish(&config, &error), "%s", error.message);
    Model *m =
        model_plan(&config, &weights, &(ModelOptions){.threads = 1, .kv_type = KV_F16}, &error);
    CHECK(m, "%s", error.message);
    WorkCost cost;
    work_cost(&cost, m, &weights, &(Work){.sequences = 1, .tokens = 3, .max_rows = 2});
    double numbers = 16 + 8 + 8 + 16 + 3 * 32;         // of the layer's matrices
    double flops = 2 * (3 * numbers + 40) + 4 * 4 * 6; // one row of logits; 1 + 2 + 3 keys
    double bytes = 2 * 4 * (numbers + 8) + 4 * (40 + 4) + 3 * 16; // two passes, one head
    CHECK_INT(cost.total.flops, flops);
    CHECK_INT(cost.total.weight_bytes, bytes);
    CHECK_INT(cost.total.kv_written_bytes, 3 * 2 * 2 * 2);
    CHECK_INT(cost.total.kv_bytes, 2 * 2 * 2 * (2 + 3)); // a pass reads 2 keys, the other 3
    CHECK_INT(cost.total.kv_query_bytes, 2 * 2 * 2 * 6);
    CHECK_INT(parameter_count(m, &weights), numbers + 40 + 12); // the same address: tied
    model_close(m);
}

// The largest sizes that limpid reads: finite, positive, and no integer overflows.
Test(model_cost, the_largest_sizes_stay_numbers) {
    Outline o = open_outline("llama2-70b", DTYPE_F32);
    Work works[] = {{.sequences = 1024, .tokens = LIMIT_CONTEXT, .max_rows = 512},
                    {.sequences = 1024,
                     .start = LIMIT_CONTEXT - 1,
                     .tokens = 1,
                     .decode = true,
                     .max_rows = 1024}};
    for (int i = 0; i < 2; i++) {
        WorkCost cost;
        work_cost(&cost, o.planned, o.weights, &works[i]);
        const Operation *t = &cost.total;
        CHECK(t->flops > 1e15 && isfinite(t->flops), "%g", t->flops);
        CHECK(t->kv_bytes > 1e12 && isfinite(t->kv_query_bytes), "%g", t->kv_bytes);
    }
    ModelOptions options = {.context = LIMIT_CONTEXT, .n_sequences = 1024, .max_logit_rows = 1024};
    ModelMemory memory = model_memory(o.planned, &options);
    CHECK(memory.cache > 1e15, "%g", memory.cache);
    close_outline(&o);
}

// ---- predicted = counted ----

typedef struct Case {
    TinyShape shape;
    Precision precision;
    KvType kv;
    int batch, max_rows;
} Case;

static void run(Model *m, int batch, int count, bool all_logits) {
    int32_t tokens[64], sequences[64];
    bool wants[64];
    int n = 0;
    for (int q = 0; q < batch; q++)
        for (int i = 0; i < count; i++, n++) {
            tokens[n] = (q + i) % m->config.vocab_size;
            sequences[n] = q;
            wants[n] = all_logits || i + 1 == count;
        }
    tiny_model_forward(m, &(Batch){n, tokens, NULL, sequences, wants, false});
}

static void check_counts(Model *m, const TinyModel *tiny, const Work *work) {
    WorkCost cost;
    DeviceCounts before, now;
    bool counts = device_counts(m->device, &before);
    run(m, (int)work->sequences, (int)work->tokens, work->all_logits);
    device_counts(m->device, &now);
    if (!counts) return;
    work_cost(&cost, m, &tiny->weights, work);
    double attention = operation_flops(&m->config, OPERATION_SCORES, work) +
                       operation_flops(&m->config, OPERATION_VALUES, work);
    CHECK_INT(2 * (now.weight_products - before.weight_products), cost.total.flops - attention);
    CHECK_INT(2 * (now.attention_products - before.attention_products), attention);
    CHECK_INT(now.weight_bytes - before.weight_bytes, cost.total.weight_bytes);
    CHECK_INT(now.kv_read_bytes - before.kv_read_bytes, cost.total.kv_query_bytes);
    CHECK_INT(now.kv_written_bytes - before.kv_written_bytes, cost.total.kv_written_bytes);
}

static void check_case(const Case *c) {
    TinyModel *tiny = tiny_model_open(&c->shape);
    ModelOptions options = {.threads = 2,
                            .precision = c->precision,
                            .kv_type = c->kv,
                            .context = 30,
                            .n_sequences = c->batch,
                            .max_rows = c->max_rows,
                            .max_logit_rows = 12 * c->batch};
    Model *m = tiny_model_run(tiny, options);
    Work work = {.sequences = c->batch, .tokens = 17, .max_rows = c->max_rows};
    check_counts(m, tiny, &work);
    work = (Work){
        .sequences = c->batch, .start = 17, .tokens = 1, .decode = true, .max_rows = c->max_rows};
    check_counts(m, tiny, &work);
    work = (Work){.sequences = c->batch,
                  .start = 18,
                  .tokens = 12,
                  .all_logits = true,
                  .max_rows = c->max_rows};
    check_counts(m, tiny, &work);
    ModelMemory memory = model_memory(m, &options);
    CHECK_INT(device_taken(m->device), model_memory_device(&memory));
    model_close(m);
    tiny_model_close(tiny);
}

// Llama's, GPT-2's, Gemma's and OLMo's parts, every type of weights and precision.
Test(model_cost, what_is_counted_and_allocated_is_what_was_predicted) {
    static const DType TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,
                                  DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_1};
    enum { N_TYPES = sizeof TYPES / sizeof *TYPES };
    for (int i = 0; i < EMULATED(N_TYPES, 3 * N_TYPES); i++) {
        TinyShape shape = i % 2 ? tiny_shape_of_blocks() : tiny_shape();
        Case c = {.precision = (Precision)(i % 3),
                  .kv = (KvType)(i % KV_TYPE_COUNT),
                  .batch = 1 + i % 2,
                  .max_rows = i % 4 == 3 ? 64 : 7};
        shape.dtype = i % 2 ? TYPES[i % N_TYPES] : TYPES[i % 3];
        shape.untied = i % 5 == 0;
        shape.window = i % 3 == 1 ? 6 : 0;
        shape.plain_ffn = shape.biases = shape.layer_norm = shape.learned = i % 4 == 1;
        shape.post_norms = i % 4 == 2;
        shape.qk_norm = i % 4 == 2   ? QK_NORM_PER_HEAD
                        : i % 4 == 3 ? QK_NORM_FULL_WIDTH
                                     : QK_NORM_NONE;
        c.shape = shape;
        check_case(&c);
    }
}

// A plan allocates no memory of the device, and says what opening will take.
Test(model_cost, a_plan_takes_nothing) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Error error = {0};
    ModelOptions options = {.threads = 2, .context = 33};
    Model *plan = model_plan(&tiny->config, &tiny->weights, &options, &error);
    CHECK(plan, "%s", error.message);
    CHECK_INT(device_taken(plan->device), 0);
    Model *m = tiny_model_run(tiny, options);
    ModelMemory planned = model_memory(plan, &options), opened = model_memory(m, &options);
    CHECK(!memcmp(&planned, &opened, sizeof planned), "%g, %g", model_memory_peak(&planned),
          model_memory_peak(&opened));
    CHECK(planned.file > 0 && planned.host > 0, "%g", planned.file);
    ModelOptions longer = {.threads = 2, .context = 66};
    ModelMemory larger = model_memory(plan, &longer);
    CHECK(larger.cache > planned.cache, "%g of %g", larger.cache, planned.cache);
    CHECK(larger.rope == 2 * planned.rope, "%g of %g", larger.rope, planned.rope);
    model_close(m);
    model_close(plan);
    tiny_model_close(tiny);
}

// config_finish: every range on both sides, and what is derived.
#include "tests/test.h"
#include "weights/config.h"

#include <float.h>

// A small Config in which nothing is wrong.
static Config *sound(void) {
    Config *c = malloc(sizeof *c);
    if (!c) abort();
    config_init(c);
    c->dim = 64;
    c->hidden_dim = 96;
    c->n_layers = 2;
    c->n_heads = 8;
    c->n_kv_heads = 4;
    c->vocab_size = 100;
    c->max_seq_len = 128;
    return c;
}

// Sets one int field (by its offset) to a value and says whether config_finish takes it.
static bool takes_int(size_t field, int value, Error *error) {
    Config *c = sound();
    if (field == offsetof(Config, n_heads)) c->head_dim = 8; // no longer dim / n_heads
    *(int *)((char *)c + field) = value;
    if (field == offsetof(Config, n_heads)) c->n_kv_heads = 1;
    *error = (Error){0};
    bool taken = config_finish(c, error);
    free(c);
    return taken;
}

Test(config, int_ranges_hold_on_both_sides) {
    static const struct {
        const char *name;
        size_t field;
        int low, high;
    } FIELDS[] = {
        {"dim", offsetof(Config, dim), 16, LIMIT_DIM}, // two channels per head
        {"hidden_dim", offsetof(Config, hidden_dim), 1, LIMIT_DIM},
        {"n_layers", offsetof(Config, n_layers), 1, LIMIT_LAYERS},
        {"n_heads", offsetof(Config, n_heads), 1, LIMIT_HEADS},
        {"vocab_size", offsetof(Config, vocab_size), 1, LIMIT_VOCAB},
        {"max_seq_len", offsetof(Config, max_seq_len), 1, LIMIT_CONTEXT},
        {"n_heads * head_dim", offsetof(Config, head_dim), 2, LIMIT_DIM / 8},
        {"rope_dim", offsetof(Config, rope_dim), 2, 8},
        {"window", offsetof(Config, layers[1].window), 0, LIMIT_CONTEXT},
        {"n_eos_ids", offsetof(Config, n_eos_ids), 0, LIMIT_EOS_IDS},
    };
    Error error;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        CHECK(takes_int(FIELDS[i].field, FIELDS[i].low, &error), "%s", error.message);
        CHECK(!takes_int(FIELDS[i].field, FIELDS[i].low - 1, &error), "%s", FIELDS[i].name);
        CHECK(takes_int(FIELDS[i].field, FIELDS[i].high, &error), "%s", error.message);
        CHECK(!takes_int(FIELDS[i].field, FIELDS[i].high + 1, &error), "%s", FIELDS[i].name);
        CHECK(error.code == ERROR_FILE && strstr(error.message, FIELDS[i].name), "%s",
              error.message);
        CHECK(!takes_int(FIELDS[i].field, -1, &error), "%s", FIELDS[i].name);
        CHECK(!takes_int(FIELDS[i].field, INT32_MIN, &error), "%s", FIELDS[i].name);
    }
}

static bool takes_float(size_t field, float value, Error *error) {
    Config *c = sound();
    c->rope.scaling = ROPE_LLAMA3; // so that all of its numbers count
    c->rope.factor = 8;
    c->rope.low_freq_factor = 1;
    c->rope.high_freq_factor = 4;
    c->rope.original_max_seq_len = 64;
    *(float *)((char *)c + field) = value;
    *error = (Error){0};
    bool taken = config_finish(c, error);
    free(c);
    return taken;
}

Test(config, floats_are_finite_and_in_range) {
    static const struct {
        const char *name;
        size_t field;
        float low, below, high;
    } FIELDS[] = {
        {"norm_eps", offsetof(Config, norm_eps), 0, -1e-9f, FLT_MAX},
        {"embedding_scale", offsetof(Config, embedding_scale), 1e-9f, 0, 1e9f},
        {"logit_softcap", offsetof(Config, logit_softcap), 0, -1, 1e9f},
        {"score_softcap", offsetof(Config, score_softcap), 0, -1, 1e9f},
        {"residual_scale", offsetof(Config, residual_scale), 1e-9f, 0, 1e9f},
        {"logit_divisor", offsetof(Config, logit_divisor), 1e-9f, 0, 1e9f},
        {"rope query_growth", offsetof(Config, rope.query_growth), 0, -1, 1e6f},
        {"attention_scale", offsetof(Config, attention_scale), 0, -1, 1e9f},
        {"rope theta", offsetof(Config, rope.theta), 1, 0.5f, 1e18f},
        {"rope factor", offsetof(Config, rope.factor), 1e-3f, 0, 1e6f},
        {"rope attention_factor", offsetof(Config, rope.attention_factor), 0, -1, 1e6f},
        // 4 and 1 are the numbers of sound()'s other end.
        {"rope low_freq_factor", offsetof(Config, rope.low_freq_factor), 1e-3f, 0, 0x1.fffffep1f},
        {"rope high_freq_factor", offsetof(Config, rope.high_freq_factor), 0x1.000002p0f, 1, 1e6f},
    };
    Error error;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        CHECK(takes_float(FIELDS[i].field, FIELDS[i].low, &error), "%s", error.message);
        CHECK(takes_float(FIELDS[i].field, FIELDS[i].high, &error), "%s", error.message);
        const float bad[] = {FIELDS[i].below,
                             nextafterf(FIELDS[i].low, -INFINITY),
                             nextafterf(FIELDS[i].high, INFINITY),
                             NAN,
                             INFINITY,
                             -INFINITY};
        for (int b = 0; b < 6; b++) {
            CHECK(!takes_float(FIELDS[i].field, bad[b], &error), "%s %g", FIELDS[i].name,
                  (double)bad[b]);
            CHECK(error.code == ERROR_FILE && strstr(error.message, "got"), "%s", error.message);
        }
    }
}

// ---- what each kind of scaling needs ----

enum { NEEDS_NO = 0, NEEDS_FACTOR = 1, NEEDS_RAMP = 2, NEEDS_YARN = 4, NEEDS_ORIGINAL = 8 };

static const int NEEDS[] = {
    [ROPE_PLAIN] = NEEDS_NO,
    [ROPE_LINEAR] = NEEDS_FACTOR,
    [ROPE_LLAMA3] = NEEDS_FACTOR | NEEDS_RAMP | NEEDS_ORIGINAL,
    [ROPE_YARN] = NEEDS_FACTOR | NEEDS_YARN | NEEDS_ORIGINAL,
    [ROPE_DYNAMIC_NTK] = NEEDS_FACTOR,
    [ROPE_LONGROPE] = NEEDS_ORIGINAL,
};

static bool takes_scaling(RopeScaling scaling, size_t field, float value, Error *error) {
    static const float FACTORS[4] = {1, 1, 2, 2};
    Config *c = sound();
    c->rope = (RopeConfig){.scaling = scaling,
                           .theta = 10000,
                           .sign = 1,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .beta_fast = 32,
                           .beta_slow = 1,
                           .original_max_seq_len = 64,
                           .long_factor = FACTORS,
                           .short_factor = FACTORS};
    char *at = (char *)&c->rope + field;
    if (field == offsetof(RopeConfig, original_max_seq_len))
        *(int *)at = (int)value;
    else
        *(float *)at = value;
    *error = (Error){0};
    bool taken = config_finish(c, error);
    free(c);
    return taken;
}

// The numbers that a scaling does not need may be anything.
Test(config, each_scaling_has_its_numbers_in_range) {
    static const struct {
        const char *name;
        size_t field;
        int need;
        float low, below, high, above;
    } FIELDS[] = {
        {"factor", offsetof(RopeConfig, factor), NEEDS_FACTOR, 1e-3f, 9.9e-4f, 1e6f, 1000001},
        {"low_freq_factor", offsetof(RopeConfig, low_freq_factor), NEEDS_RAMP, 1e-3f, 9.9e-4f, 3.9f,
         1000001},
        {"high_freq_factor", offsetof(RopeConfig, high_freq_factor), NEEDS_RAMP, 1.1f, 1, 1e6f,
         1000001},
        {"beta_fast", offsetof(RopeConfig, beta_fast), NEEDS_YARN, 1e-3f, 9.9e-4f, 1e6f, 1000001},
        {"beta_slow", offsetof(RopeConfig, beta_slow), NEEDS_YARN, 1e-3f, 9.9e-4f, 1e6f, 1000001},
        {"mscale", offsetof(RopeConfig, mscale), NEEDS_YARN, 0, -1e-9f, 1e6f, 1000001},
        {"mscale_all_dim", offsetof(RopeConfig, mscale_all_dim), NEEDS_YARN, 0, -1e-9f, 1e6f,
         1000001},
        {"original_max_seq_len", offsetof(RopeConfig, original_max_seq_len), NEEDS_ORIGINAL, 1, 0,
         LIMIT_CONTEXT, LIMIT_CONTEXT + 1},
    };
    Error error;
    for (RopeScaling scaling = ROPE_PLAIN; scaling <= ROPE_LONGROPE; scaling++)
        for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
            bool needed = NEEDS[scaling] & FIELDS[i].need;
            const float values[] = {FIELDS[i].low, FIELDS[i].high, FIELDS[i].below,
                                    FIELDS[i].above};
            for (int v = 0; v < 4; v++) {
                bool taken = takes_scaling(scaling, FIELDS[i].field, values[v], &error);
                CHECK(taken == (v < 2 || !needed), "scaling %d, %s %g: %s", (int)scaling,
                      FIELDS[i].name, (double)values[v], error.message);
                CHECK(taken || strstr(error.message, FIELDS[i].name), "%s", error.message);
            }
        }
    CHECK(!takes_scaling(99, offsetof(RopeConfig, factor), 8, &error));
    CHECK_STRING(error.message, "rope: scaling 99 is not known");
}

Test(config, starts_with_what_most_models_share) {
    Config *c = malloc(sizeof *c), *none = calloc(1, sizeof *none);
    memset(c, 0xff, sizeof *c);
    config_init(c);
    CHECK(c->norm_eps == 1e-5f && c->gated_ffn && c->embedding_scale == 1 && c->bos_id == -1);
    CHECK(c->rope.theta == 10000 && c->rope_local.theta == 10000);
    CHECK(c->rope.sign == 1 && c->rope_local.sign == 1);
    CHECK(c->residual_scale == 1 && c->logit_divisor == 1);
    c->residual_scale = c->logit_divisor = 0;
    c->norm_eps = c->embedding_scale = c->rope.theta = c->rope_local.theta = 0;
    c->rope.sign = c->rope_local.sign = 0;
    c->gated_ffn = false;
    c->bos_id = 0;
    CHECK(!memcmp(c, none, sizeof *c), "a field that nobody has set");
    free(c);
    free(none);
}

// The width of a head is bounded before it is multiplied.
Test(config, sizes_of_heads_at_their_ends) {
    static const struct {
        int heads, kv_heads, head_dim;
        const char *message; // NULL: accepted
    } ROWS[] = {
        {1, 1, LIMIT_DIM, NULL},
        {1, 1, LIMIT_DIM + 1, "head_dim: got 65537, wanted 1 to 65536"},
        {2, 1, LIMIT_DIM / 2 + 1, "n_heads * head_dim: got 65538, wanted 1 to 65536"},
        {LIMIT_HEADS, 1, 1 << 22, "head_dim: got 4194304, wanted 1 to 65536"},
        {1, 1, 1, NULL}, // with learned positions
        {8, 8, 8, NULL},
        {8, 9, 8, "n_kv_heads: got 9, wanted 1 to 8"},
        {8, 1, 8, NULL},
        {8, 0, 8, "n_kv_heads: got 0, wanted 1 to 8"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        Config *c = sound();
        Error error = {0};
        c->n_heads = ROWS[i].heads;
        c->n_kv_heads = ROWS[i].kv_heads;
        c->head_dim = ROWS[i].head_dim;
        c->rope_dim = 2;
        if (ROWS[i].head_dim < 2) c->position = POSITION_LEARNED;
        CHECK(config_finish(c, &error) == !ROWS[i].message, "%zu: %s", i, error.message);
        if (ROWS[i].message) CHECK_STRING(error.message, ROWS[i].message);
        free(c);
    }
}

Test(config, heads_divide) {
    Config *c = sound();
    Error error = {0};
    c->n_kv_heads = 3;
    CHECK(!config_finish(c, &error));
    CHECK_STRING(error.message, "n_heads: got 8, wanted a multiple of n_kv_heads (3)");
    free(c);
    c = sound();
    c->dim = 65;
    error = (Error){0};
    CHECK(!config_finish(c, &error));
    CHECK_STRING(error.message, "dim: got 65, wanted a multiple of n_heads (8)");
    free(c);
}

Test(config, derived_sizes_follow_head_dim) {
    Config *c = sound();
    c->head_dim = 10; // not dim / n_heads
    CHECK(config_finish(c, NULL));
    CHECK(c->q_dim == 80 && c->kv_dim == 40 && c->rope_dim == 10);
    CHECK_NEAR(c->layers[0].attention_scale, 0.31622777, 1e-7);
    free(c);
    c = sound();
    c->attention_scale = 0.25f;
    c->layers[1].attention_scale = 0.5f;
    CHECK(config_finish(c, NULL));
    CHECK(c->layers[0].attention_scale == 0.25f && c->layers[1].attention_scale == 0.5f);
    free(c);
}

Test(config, learned_positions_need_no_rope) {
    Config *c = sound();
    c->position = POSITION_LEARNED;
    c->head_dim = 9;
    c->rope.theta = 0;
    CHECK(config_finish(c, NULL));
    CHECK_INT(c->rope_dim, 0);
    free(c);
}

Test(config, local_rope_counts_only_where_it_is_used) {
    Config *c = sound();
    c->rope_local.theta = 0;
    CHECK(config_finish(c, NULL));
    c->layers[2].local_rope = true; // there are two
    CHECK(config_finish(c, NULL));
    c->layers[1].local_rope = true;
    CHECK(!config_finish(c, NULL));
    c->layers[0].local_rope = true;
    c->layers[1].local_rope = false;
    CHECK(!config_finish(c, NULL));
    c->rope_local.theta = 1;
    CHECK(config_finish(c, NULL));
    free(c);
}

Test(config, pairs_of_channels_rotate) {
    Config *c = sound();
    Error error = {0};
    c->rope_dim = 4;
    CHECK(config_finish(c, NULL) && c->rope_dim == 4);
    c->rope_dim = 3;
    CHECK(!config_finish(c, &error));
    CHECK_STRING(error.message, "rope_dim: got 3, wanted an even number");
    c->rope_dim = 4;
    c->rope.query_growth = 0.1f;
    c->rope.original_max_seq_len = 64;
    error = (Error){0};
    CHECK(!config_finish(c, &error));
    CHECK_STRING(error.message, "queries that grow with heads that turn in part");
    free(c);
}

// Of the model and of one layer; layers that the model does not have stay as they are.
Test(config, scales_of_layers_are_in_range) {
    static const float VALUES[] = {1e-9f, 1e9f, 0x1.12e0bcp-30f, 0x1.dcd652p29f};
    for (int i = 0; i < 4; i++) {
        Config *c = sound();
        c->layers[1].attention_scale = VALUES[i];
        CHECK(config_finish(c, NULL) == (i < 2), "%a", (double)VALUES[i]);
        CHECK(c->layers[2].attention_scale == 0);
        free(c);
    }
}

Test(config, rope_turns_one_way_or_the_other) {
    Config *c = sound();
    c->rope.sign = -1;
    CHECK(config_finish(c, NULL));
    c->rope.sign = 0;
    CHECK(!config_finish(c, NULL));
    free(c);
}

// The factor that YaRN's formula gives, 0.1 ln(8) + 1, is no factor of its own: 0. `kept` else.
static void check_yarn_factor(float factor, float mscale, float given, bool kept) {
    Config *c = sound();
    Error error = {0};
    c->rope = (RopeConfig){.theta = 1e4f,
                           .sign = c->rope.sign,
                           .scaling = ROPE_YARN,
                           .factor = factor,
                           .beta_fast = 32,
                           .beta_slow = 1,
                           .mscale = mscale,
                           .attention_factor = given,
                           .original_max_seq_len = 64};
    CHECK(config_finish(c, &error), "%s", error.message);
    CHECK_NEAR(c->rope.attention_factor, kept ? (double)given : 0, 0);
    free(c);
}

Test(config, yarns_own_factor_is_recognised) {
    check_yarn_factor(8, 0, 1.20794415f, false);
    check_yarn_factor(8, 0, 1.208f, true);
    check_yarn_factor(8, 1, 1.20794415f, true); // mscale makes another formula
    check_yarn_factor(1, 0, 1, true);           // nothing is stretched
}

Test(config, queries_grow_from_a_context_of_one_token_on) {
    for (int original = 0; original < 2; original++) {
        Config *c = sound();
        Error error = {0};
        c->rope.query_growth = 0.1f;
        c->rope.original_max_seq_len = original;
        CHECK(config_finish(c, &error) == original, "%s", error.message);
        free(c);
    }
}

Test(config, longrope_needs_its_factors) {
    Config *c = sound();
    Error error = {0};
    c->rope.scaling = ROPE_LONGROPE;
    c->rope.original_max_seq_len = 64;
    CHECK(!config_finish(c, &error) && strstr(error.message, "longrope"));
    const float factors[4] = {1, 1, 2, 2};
    c->rope.long_factor = factors;
    CHECK(!config_finish(c, NULL));
    c->rope.long_factor = NULL;
    c->rope.short_factor = factors;
    CHECK(!config_finish(c, NULL));
    c->rope.long_factor = factors;
    CHECK(config_finish(c, NULL));
    free(c);
}

Test(config, ids_outside_the_vocabulary_are_absent) {
    Config *c = sound();
    c->bos_id = 100;
    c->n_eos_ids = 4;
    c->eos_ids[0] = -1, c->eos_ids[1] = 99, c->eos_ids[2] = 100, c->eos_ids[3] = 7;
    CHECK(config_finish(c, NULL));
    CHECK_INT(c->bos_id, -1);
    CHECK_INT(c->n_eos_ids, 2);
    CHECK(c->eos_ids[0] == 99 && c->eos_ids[1] == 7);
    c->eos_ids[0] = 0;
    c->bos_id = 0;
    CHECK(config_finish(c, NULL) && c->bos_id == 0 && c->n_eos_ids == 2 && c->eos_ids[0] == 0);
    c->bos_id = 99;
    CHECK(config_finish(c, NULL) && c->bos_id == 99);
    c->bos_id = -2;
    CHECK(config_finish(c, NULL) && c->bos_id == -1);
    free(c);
}

Test(config, only_dynamic_ntk_goes_beyond_the_models_context) {
    Config c;
    config_init(&c);
    c.max_seq_len = 12;
    for (RopeScaling scaling = ROPE_PLAIN; scaling <= ROPE_LONGROPE; scaling++) {
        c.rope.scaling = scaling;
        CHECK_INT(config_longest_context(&c), scaling == ROPE_DYNAMIC_NTK ? LIMIT_CONTEXT : 12);
    }
    c.rope.scaling = ROPE_DYNAMIC_NTK;
    c.position = POSITION_LEARNED;
    CHECK_INT(config_longest_context(&c), 12);
}

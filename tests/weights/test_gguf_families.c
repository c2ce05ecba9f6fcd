// What a GGUF's architecture implies (NUMERICS 3.1): windows by pattern, a second theta, layers
// that do not rotate, longrope's factors as tensors, a head of its own. Values worked by hand.
#include "tests/support/files/gguf_writer.h"
#include "tests/test.h"

enum { DIM = 8, HEADS = 2, KV_HEADS = 1, HIDDEN = 6, VOCAB = 5 };

static const char *key(const char *architecture, const char *name) {
    return test_text("%s.%s", architecture, name);
}

static void add(GgufFile *file, int layer, const char *name, uint64_t cols, uint64_t rows) {
    if (layer < 0)
        gguf_add_tensor(file, name, DTYPE_F32, cols, rows);
    else
        gguf_add_tensor(file, test_text("blk.%d.%s", layer, name), DTYPE_F32, cols, rows);
}

static void add_layer(GgufFile *file, const char *architecture, int l, uint64_t head_dim) {
    bool olmo2 = !strcmp(architecture, "olmo2"), gemma3 = !strcmp(architecture, "gemma3");
    bool gemma = gemma3 || !strcmp(architecture, "gemma2");
    bool fused = !strcmp(architecture, "phi3"), plain = !strcmp(architecture, "arcee");
    bool exaone4 = !strcmp(architecture, "exaone4"),
         hunyuan = !strcmp(architecture, "hunyuan-dense");
    bool post = olmo2 || exaone4;
    uint64_t q = HEADS * head_dim, kv = KV_HEADS * head_dim;
    if (!post) add(file, l, "attn_norm.weight", DIM, 0);
    if (!post) add(file, l, "ffn_norm.weight", DIM, 0);
    if (post || gemma) {
        add(file, l, "post_attention_norm.weight", DIM, 0);
        add(file, l, "post_ffw_norm.weight", DIM, 0);
    }
    if (post || gemma3 || hunyuan) {
        add(file, l, "attn_q_norm.weight", olmo2 ? q : head_dim, 0);
        add(file, l, "attn_k_norm.weight", olmo2 ? kv : head_dim, 0);
    }
    if (fused) {
        add(file, l, "attn_qkv.weight", DIM, q + 2 * kv);
    } else {
        add(file, l, "attn_q.weight", DIM, q);
        add(file, l, "attn_k.weight", DIM, kv);
        add(file, l, "attn_v.weight", DIM, kv);
        if (!plain) add(file, l, "ffn_gate.weight", DIM, HIDDEN);
    }
    add(file, l, "attn_output.weight", q, DIM);
    add(file, l, "ffn_up.weight", DIM, fused ? 2 * HIDDEN : HIDDEN);
    add(file, l, "ffn_down.weight", HIDDEN, DIM);
}

// GPT-NeoX: every vector has a bias beside it, and q, k and v are one matrix.
static GgufFile *neox(int n_layers, uint64_t head_dim) {
    GgufFile *file = gguf_file_new();
    static const char A[] = "gptneox";
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } PARTS[] = {{"attn_norm", DIM, 0}, {"attn_qkv", DIM, 3 * DIM}, {"attn_output", DIM, DIM},
                 {"ffn_norm", DIM, 0},  {"ffn_up", DIM, HIDDEN},    {"ffn_down", HIDDEN, DIM}};
    gguf_set_text(file, "general.architecture", A);
    gguf_set_u32(file, key(A, "block_count"), (uint32_t)n_layers);
    gguf_set_u32(file, key(A, "context_length"), 64);
    gguf_set_u32(file, key(A, "embedding_length"), DIM);
    gguf_set_u32(file, key(A, "feed_forward_length"), HIDDEN);
    gguf_set_u32(file, key(A, "attention.head_count"), (uint32_t)(DIM / head_dim));
    gguf_set_f32(file, key(A, "attention.layer_norm_epsilon"), 1e-5f);
    gguf_set_u32(file, key(A, "rope.dimension_count"), (uint32_t)head_dim);
    add(file, -1, "token_embd.weight", DIM, VOCAB);
    add(file, -1, "output.weight", DIM, VOCAB);
    add(file, -1, "output_norm.weight", DIM, 0);
    add(file, -1, "output_norm.bias", DIM, 0);
    for (int l = 0; l < n_layers; l++)
        for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
            uint64_t rows = PARTS[i].rows;
            char bias[40];
            snprintf(bias, sizeof bias, "%s.bias", PARTS[i].name);
            add(file, l, bias, rows ? rows : PARTS[i].cols, 0);
            snprintf(bias, sizeof bias, "%s.weight", PARTS[i].name);
            add(file, l, bias, PARTS[i].cols, rows);
        }
    return file;
}

static GgufFile *tiny(const char *architecture, int n_layers, int head_dim) {
    GgufFile *file = gguf_file_new();
    gguf_set_text(file, "general.architecture", architecture);
    gguf_set_u32(file, key(architecture, "block_count"), (uint32_t)n_layers);
    gguf_set_u32(file, key(architecture, "context_length"), 64);
    gguf_set_u32(file, key(architecture, "embedding_length"), DIM);
    gguf_set_u32(file, key(architecture, "feed_forward_length"), HIDDEN);
    gguf_set_u32(file, key(architecture, "attention.head_count"), HEADS);
    gguf_set_u32(file, key(architecture, "attention.head_count_kv"), KV_HEADS);
    gguf_set_u32(file, key(architecture, "attention.key_length"), (uint32_t)head_dim);
    gguf_set_u32(file, key(architecture, "attention.value_length"), (uint32_t)head_dim);
    gguf_set_f32(file, key(architecture, "attention.layer_norm_rms_epsilon"), 1e-6f);
    gguf_set_f32(file, key(architecture, "rope.freq_base"), 1e6f);
    add(file, -1, "token_embd.weight", DIM, VOCAB);
    add(file, -1, "output_norm.weight", DIM, 0);
    if (!strcmp(architecture, "olmo2")) add(file, -1, "output.weight", DIM, VOCAB);
    for (int l = 0; l < n_layers; l++)
        add_layer(file, architecture, l, (uint64_t)head_dim);
    return file;
}

// Opens and frees the file. NULL message: it opens, and its Config is given back.
static Config config_of(GgufFile *file, const char *message) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    bool opened = checkpoint_open_memory(&checkpoint, "t", bytes, size, &error);
    Config config = {0};
    if (opened) config = *checkpoint_config(checkpoint);
    checkpoint_close(checkpoint);
    free(bytes);
    CHECK(opened == !message, "%s", error.message);
    CHECK(opened || strstr(error.message, message), "\"%s\" is not in \"%s\"", message,
          error.message);
    return config;
}

// 'w' for a layer with the window and the local theta, '.' for one without either.
static void check_windows(const Config *c, const char *wanted) {
    CHECK_INT(c->n_layers, strlen(wanted));
    for (int l = 0; l < c->n_layers; l++) {
        CHECK_INT(c->layers[l].window, wanted[l] == 'w' ? 3 : 0);
        CHECK_INT(c->layers[l].local_rope, wanted[l] == 'w');
    }
}

static GgufFile *gemma(int n_layers) {
    GgufFile *file = tiny("gemma3", n_layers, 6);
    gguf_set_u32(file, "gemma3.attention.sliding_window", 3);
    return file;
}

Test(gguf_families, gemma3_implies_what_no_key_says) {
    Config c = config_of(gemma(13), NULL);
    check_windows(&c, "wwwww.wwwww.w");
    CHECK(c.rope.theta == 1e6f && c.rope_local.theta == 1e4f);
    CHECK_NEAR(c.embedding_scale, 2.8284271, 1e-6);            // sqrt(8)
    CHECK_NEAR(c.layers[0].attention_scale, 0.40824829, 1e-7); // 6^-1/2
    CHECK(c.logit_softcap == 0.0f && c.activation == ACTIVATION_GELU_TANH);

    c = config_of(tiny("gemma3", 7, 6), NULL); // no window: every layer is global
    for (int l = 0; l < 7; l++)
        CHECK(!c.layers[l].window && !c.layers[l].local_rope);

    // The largest has 62 layers and scales by the width of a head as it would be without
    // key_length.
    c = config_of(gemma(62), NULL);
    CHECK_NEAR(c.layers[61].attention_scale, 0.5, 1e-7); // (8 / 2)^-1/2
    GgufFile *file = gemma(62);
    gguf_set_f32(file, "gemma3.attention.scale", 0.25f); // the file has the last word
    CHECK(config_of(file, NULL).layers[61].attention_scale == 0.25f);
    file = gemma(62);
    gguf_set_u32(file, "gemma3.attention.head_count", 0);
    config_of(file, "n_heads: got 0");
}

Test(gguf_families, gemma3_keys_say_otherwise) {
    GgufFile *file = gemma(4);
    gguf_set_u32(file, "gemma3.attention.sliding_window_pattern", 2);
    gguf_set_f32(file, "gemma3.rope.freq_base_swa", 5e3f);
    gguf_set_f32(file, "gemma3.rope.scaling.factor", 8.0f); // of the global layers
    Config c = config_of(file, NULL);
    check_windows(&c, "w.w.");
    CHECK(c.rope_local.theta == 5e3f && c.rope_local.scaling == ROPE_PLAIN);
    CHECK(c.rope.scaling == ROPE_LINEAR && c.rope.factor == 8.0f);

    const uint8_t slides[] = {0, 1, 1, 0};
    file = gemma(4);
    gguf_set_array(file, "gemma3.attention.sliding_window_pattern", GGUF_BOOL, slides, 4);
    c = config_of(file, NULL);
    check_windows(&c, ".ww.");
}

Test(gguf_families, patterns_that_say_nothing_are_refused) {
    const uint8_t slides[] = {0, 1, 1, 0};
    GgufFile *file = gemma(4);
    gguf_set_array(file, "gemma3.attention.sliding_window_pattern", GGUF_BOOL, slides, 3);
    config_of(file, "3 elements for 4 layers");
    file = gemma(4);
    gguf_set_array(file, "gemma3.attention.sliding_window_pattern", GGUF_U8, slides, 4);
    config_of(file, "array of u8, wanted bool");
    file = gemma(4);
    gguf_set_u32(file, "gemma3.attention.sliding_window_pattern", 0);
    config_of(file, "wanted at least 1");
    file = gemma(4);
    gguf_set_text(file, "gemma3.attention.sliding_window_pattern", "2");
    config_of(file, "type string, wanted u32");
    file = tiny("llama", 2, 4);
    gguf_set_u32(file, "llama.attention.sliding_window_pattern", 2);
    config_of(file, "\"llama.attention.sliding_window_pattern\": is not supported");
}

Test(gguf_families, olmo2_has_a_head_of_its_own) {
    Config c = config_of(tiny("olmo2", 2, 4), NULL);
    CHECK_INT(c.qk_norm, QK_NORM_FULL_WIDTH);
    GgufFile *file = tiny("olmo2", 2, 4);
    gguf_remove_tensor(file, "output.weight");
    config_of(file, "\"output.weight\" is missing");
}

static GgufFile *olmo3(int n_layers) {
    GgufFile *file = tiny("olmo2", n_layers, 4);
    gguf_set_u32(file, "olmo2.attention.sliding_window", 3);
    gguf_set_text(file, "olmo2.rope.scaling.type", "yarn");
    gguf_set_f32(file, "olmo2.rope.scaling.factor", 8.0f);
    gguf_set_u32(file, "olmo2.rope.scaling.original_context_length", 16);
    return file;
}

Test(gguf_families, olmo2_with_a_window_is_olmo3) {
    Config c = config_of(olmo3(9), NULL);
    check_windows(&c, "www.www.w");
    CHECK(c.rope.scaling == ROPE_YARN && c.rope_local.scaling == ROPE_PLAIN);
    CHECK(c.rope_local.theta == 1e6f, "the theta of the others, without their scaling");
    GgufFile *file = olmo3(4);
    gguf_set_u32(file, "olmo2.attention.sliding_window_pattern", 2);
    c = config_of(file, NULL);
    check_windows(&c, "w.w.");
}

// attn_factor multiplies 0.1 ln(8) + 1 = 1.2079442, yarn_attn_factor takes its place.
Test(gguf_families, yarn_has_two_keys_for_its_factor) {
    GgufFile *file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.attn_factor", 2.0f);
    CHECK_NEAR(config_of(file, NULL).rope.attention_factor, 2.4158883, 1e-6);
    file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.yarn_attn_factor", 1.5f);
    CHECK_NEAR(config_of(file, NULL).rope.attention_factor, 1.5, 0);
    file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.yarn_attn_factor", 1.2079442f);
    CHECK_NEAR(config_of(file, NULL).rope.attention_factor, 0, 0); // the formula
    // Both, which agree but for the last bit: then the whole one, as it stands. ln(1.2) / 10 + 1.
    float whole = 2.0f * nextafterf(1.0182322f, 2);
    file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.factor", 1.2f);
    gguf_set_f32(file, "olmo2.rope.scaling.attn_factor", 2.0f);
    gguf_set_f32(file, "olmo2.rope.scaling.yarn_attn_factor", whole);
    CHECK_NEAR(config_of(file, NULL).rope.attention_factor, (double)whole, 0);
    file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.yarn_attn_factor", -1.5f);
    config_of(file, "rope attention_factor: got -1.5");
    file = olmo3(1);
    gguf_set_f32(file, "olmo2.rope.scaling.yarn_attn_factor", NAN);
    config_of(file, "rope attention_factor: got nan");
}

Test(gguf_families, exaone4_with_windows_rotates_in_those_layers_alone) {
    GgufFile *file = tiny("exaone4", 8, 4);
    gguf_set_u32(file, "exaone4.attention.sliding_window", 3);
    Config c = config_of(file, NULL);
    CHECK_INT(c.qk_norm, QK_NORM_PER_HEAD);
    for (int l = 0; l < 8; l++) {
        CHECK_INT(c.layers[l].window, l % 4 == 3 ? 0 : 3);
        CHECK_INT(c.layers[l].no_rope, l % 4 == 3);
        CHECK_INT(c.layers[l].local_rope, 0);
    }
    c = config_of(tiny("exaone4", 8, 4), NULL);
    for (int l = 0; l < 8; l++)
        CHECK(!c.layers[l].window && !c.layers[l].no_rope, "no window: rope everywhere");
}

// alpha^(d / (d - 2)) with d = 4: alpha squared.
Test(gguf_families, hunyuans_alpha_makes_theta_larger) {
    static const struct {
        float alpha;
        const char *message;
    } WRONG[] = {
        {-3.0f, "got -3"}, {NAN, "rope theta"}, {INFINITY, "rope theta"}, {1e30f, "rope theta"}};
    Config c = config_of(tiny("hunyuan-dense", 2, 4), NULL);
    CHECK(c.qk_norm_after_rope && c.rope.theta == 1e6f && c.rope.scaling == ROPE_PLAIN);
    GgufFile *file = tiny("hunyuan-dense", 2, 4);
    gguf_set_f32(file, "hunyuan-dense.rope.scaling.alpha", 3.0f);
    CHECK_NEAR(config_of(file, NULL).rope.theta, 9e6, 0);
    file = tiny("hunyuan-dense", 2, 4);
    gguf_set_f32(file, "hunyuan-dense.rope.scaling.alpha", 0.0f);
    CHECK_NEAR(config_of(file, NULL).rope.theta, 1e6, 0); // none
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        file = tiny("hunyuan-dense", 2, 4);
        gguf_set_f32(file, "hunyuan-dense.rope.scaling.alpha", WRONG[i].alpha);
        config_of(file, WRONG[i].message);
    }
    file = tiny("hunyuan-dense", 2, 2);
    gguf_set_f32(file, "hunyuan-dense.rope.scaling.alpha", 3.0f);
    config_of(file, "heads of 2");
    file = tiny("llama", 2, 4);
    gguf_set_f32(file, "llama.rope.scaling.alpha", 3.0f);
    config_of(file, "\"llama.rope.scaling.alpha\": is not supported");
}

// Opens a model of the architecture with one more number.
static Config with_number(const char *architecture, const char *name, float value,
                          const char *message) {
    GgufFile *file = tiny(architecture, 2, 4);
    gguf_set_f32(file, key(architecture, name), value);
    return config_of(file, message);
}

Test(gguf_families, granite_scales_four_things) {
    Config c = config_of(tiny("granite", 2, 4), NULL);
    CHECK(c.embedding_scale == 1 && c.residual_scale == 1 && c.logit_divisor == 1);
    CHECK(with_number("granite", "embedding_scale", 12, NULL).embedding_scale == 12);
    CHECK(with_number("granite", "residual_scale", 0.22f, NULL).residual_scale == 0.22f);
    CHECK(with_number("granite", "logit_scale", 8, NULL).logit_divisor == 8);
    CHECK(with_number("granite", "attention.scale", 0.125f, NULL).attention_scale == 0.125f);
    CHECK(with_number("granite", "logit_scale", 0, NULL).logit_divisor == 1, "none");
    with_number("granite", "residual_scale", -1, "got -1");
    with_number("granite", "residual_scale", NAN, "nan");
    with_number("granite", "logit_scale", INFINITY, "logit_divisor: got inf");
    with_number("granite", "embedding_scale", 1e30f, "embedding_scale: got 1e+30");
    with_number("llama", "residual_scale", 0.22f, "is not supported");
    with_number("llama", "logit_scale", 8, "is not supported");
    // The switch of its rope.
    GgufFile *file = tiny("granite", 2, 4);
    gguf_set_bool(file, "granite.rope.scaling.finetuned", false);
    c = config_of(file, NULL);
    CHECK(c.layers[0].no_rope && c.layers[1].no_rope);
}

Test(gguf_families, mistral3_lets_queries_grow) {
    CHECK(with_number("mistral3", "attention.temperature_scale", 0.1f, NULL).rope.query_growth ==
          0.1f);
    Config c = with_number("mistral3", "rope.scaling.yarn_log_multiplier", 1, NULL);
    CHECK(c.rope.mscale == 1 && c.rope.mscale_all_dim == 1);
    with_number("mistral3", "attention.temperature_scale", -0.1f, "got -0.1");
    with_number("mistral3", "attention.temperature_scale", NAN, "nan");
    with_number("mistral3", "attention.temperature_scale", 1e30f, "query_growth: got 1e+30");
    with_number("llama", "attention.temperature_scale", 0.1f, "is not supported");
    GgufFile *file = tiny("mistral3", 2, 4);
    gguf_set_f32(file, "mistral3.attention.temperature_scale", 0.1f);
    gguf_set_u32(file, "mistral3.rope.scaling.original_context_length", 0);
    config_of(file, "original_max_seq_len: got 0");
    file = tiny("mistral3", 2, 4);
    gguf_set_f32(file, "mistral3.attention.temperature_scale", 0.1f);
    gguf_set_u32(file, "mistral3.rope.dimension_count", 2);
    config_of(file, "queries that grow with heads that turn in part");
}

Test(gguf_families, gemma2_implies_windows_and_caps) {
    Config c = config_of(tiny("gemma2", 3, 6), NULL);
    for (int l = 0; l < 3; l++)
        CHECK(c.layers[l].window == (l % 2 ? 0 : 4096) && !c.layers[l].local_rope);
    CHECK(c.score_softcap == 50 && c.logit_softcap == 30 && c.qk_norm == QK_NORM_NONE);
    CHECK_NEAR(c.embedding_scale, 2.8284271, 1e-6);            // sqrt(8)
    CHECK_NEAR(c.layers[0].attention_scale, 0.40824829, 1e-7); // 6^-1/2
    // The 27B model: (8 / 2)^-1/2.
    CHECK_NEAR(config_of(tiny("gemma2", 46, 6), NULL).layers[45].attention_scale, 0.5, 1e-7);
    CHECK(with_number("gemma2", "attn_logit_softcapping", 20, NULL).score_softcap == 20);
    CHECK(with_number("gemma2", "attn_logit_softcapping", 0, NULL).score_softcap == 0);
    CHECK(with_number("gemma2", "final_logit_softcapping", 0, NULL).logit_softcap == 0);
    with_number("gemma2", "attn_logit_softcapping", -1, "score_softcap: got -1");
    with_number("gemma2", "attn_logit_softcapping", NAN, "score_softcap: got nan");
    with_number("gemma2", "attn_logit_softcapping", INFINITY, "score_softcap: got inf");
    with_number("gemma3", "attn_logit_softcapping", 50, "is not supported");
    GgufFile *file = tiny("llama", 2, 4);
    gguf_set_bool(file, "llama.use_parallel_residual", true);
    config_of(file, "is not supported");
}

Test(gguf_families, gpt_neox_adds_both_halves_at_once_or_one_by_one) {
    static const char KEY[] = "gptneox.use_parallel_residual";
    CHECK(config_of(neox(2, 4), NULL).parallel_residual, "its files leave that out");
    for (uint8_t parallel = 0; parallel < 2; parallel++) {
        GgufFile *file = neox(2, 4);
        gguf_set_bool(file, KEY, parallel);
        CHECK_INT(config_of(file, NULL).parallel_residual, parallel);
    }
    GgufFile *file = neox(2, 4);
    gguf_set_u32(file, KEY, 1);
    config_of(file, KEY);
}

// A number of another type, where no other check would refuse the file.
Test(gguf_families, keys_of_one_family_are_of_their_type) {
    static const char *const KEYS[][2] = {{"gemma2", "attn_logit_softcapping"},
                                          {"mistral3", "attention.temperature_scale"},
                                          {"mistral3", "rope.scaling.yarn_log_multiplier"},
                                          {"granite", "embedding_scale"},
                                          {"granite", "residual_scale"},
                                          {"granite", "logit_scale"},
                                          {"granite", "rope.scaling.finetuned"},
                                          {"hunyuan-dense", "rope.scaling.alpha"}};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        GgufFile *file = tiny(KEYS[i][0], 2, 4);
        gguf_set_text(file, key(KEYS[i][0], KEYS[i][1]), "1");
        config_of(file, KEYS[i][1]);
    }
}

Test(gguf_families, afm_has_no_gate) {
    Config c = config_of(tiny("arcee", 2, 4), NULL);
    CHECK(!c.gated_ffn && c.activation == ACTIVATION_RELU2);
    GgufFile *file = tiny("arcee", 2, 4);
    add(file, 1, "ffn_gate.weight", DIM, HIDDEN);
    config_of(file, "blk.1.ffn_gate.weight");
}

Test(gguf_families, every_fourth_layer_of_smollm3_does_not_rotate) {
    Config c = config_of(tiny("smollm3", 9, 4), NULL);
    for (int l = 0; l < 9; l++)
        CHECK_INT(c.layers[l].no_rope, l == 3 || l == 7);
}

// ---- longrope ----

static void add_factors(GgufFile *file, const char *name, uint64_t count, float first) {
    GgufTensor *tensor = gguf_add_tensor(file, name, DTYPE_F32, count, 0);
    for (uint64_t i = 0; i < count; i++) {
        float factor = first + (float)i;
        memcpy(tensor->data + 4 * i, &factor, 4);
    }
}

static GgufFile *phi(uint64_t n_long, uint64_t n_short, float first) {
    GgufFile *file = tiny("phi3", 1, 8);
    gguf_set_u32(file, "phi3.rope.dimension_count", 6);
    gguf_set_u32(file, "phi3.rope.scaling.original_context_length", 16);
    gguf_set_f32(file, "phi3.rope.scaling.attn_factor", 1.25f);
    if (n_long) add_factors(file, "rope_factors_long.weight", n_long, 2.0f);
    if (n_short) add_factors(file, "rope_factors_short.weight", n_short, first);
    return file;
}

Test(gguf_families, phi3_with_factors_has_longrope) {
    Config c = config_of(phi(3, 3, 1.0f), NULL);
    CHECK(c.rope.scaling == ROPE_LONGROPE && c.rope_dim == 6);
    CHECK(c.rope.original_max_seq_len == 16 && c.rope.attention_factor == 1.25f);
    CHECK_INT(config_of(phi(0, 0, 1.0f), NULL).rope.scaling, ROPE_PLAIN);

    GgufFile *file = phi(4, 4, 1.0f); // the whole head, where no key says how much of it rotates
    gguf_remove_key(file, "phi3.rope.dimension_count");
    CHECK_INT(config_of(file, NULL).rope_dim, 8);

    // A factor that is the formula's, sqrt(1 + ln(64 / 16) / ln(16)), is left to the formula.
    file = phi(3, 3, 1.0f);
    gguf_set_f32(file, "phi3.rope.scaling.attn_factor", (float)sqrt(1.5));
    c = config_of(file, NULL);
    CHECK(c.rope.factor == 4.0f && c.rope.attention_factor == 0.0f);
}

// sqrt(1 + ln(1.5) / ln(16)), and 1 where the context did not become longer.
Test(gguf_families, longrope_has_a_factor_by_how_much_longer_the_context_became) {
    RopeConfig rope = {.factor = 1.5f, .original_max_seq_len = 16};
    CHECK_NEAR(gguf_longrope_factor(&rope), 1.0706263, 1e-6);
    rope.factor = 1.0f;
    CHECK(gguf_longrope_factor(&rope) == 1.0f);
    rope.factor = 0.5f;
    CHECK(gguf_longrope_factor(&rope) == 1.0f);
}

Test(gguf_families, windows_are_implied_by_the_name_of_gemma_alone) {
    bool slides[7];
    CHECK(gguf_implied_windows("gemma3", 7, slides).pattern);
    for (int l = 0; l < 7; l++)
        CHECK_INT(slides[l], l != 5);
    CHECK(!gguf_implied_windows("llama", 7, slides).pattern);
    for (int l = 0; l < 7; l++)
        CHECK(slides[l]);
}

Test(gguf_families, factors_that_are_not_right_are_refused) {
    config_of(phi(3, 0, 1.0f), "longrope without its factors");
    config_of(phi(3, 4, 1.0f), "\"rope_factors_short.weight\": wanted 3 elements of F32");
    config_of(phi(3, 3, -1.0f), "\"rope_factors_short.weight\": element 0 is -1");
    config_of(phi(3, 3, NAN), "element 0 is");
    config_of(phi(3, 3, 1.1e9f), "element 0 is 1.1e+09");
    config_of(phi(4, 3, 1.0f), "\"rope_factors_long.weight\": wanted 3 elements of F32");
    config_of(phi(0, 3, 1.0f), "longrope without its factors");
    GgufFile *file = phi(3, 0, 1.0f);
    gguf_add_tensor(file, "rope_factors_short.weight", DTYPE_F16, 3, 0);
    config_of(file, "\"rope_factors_short.weight\": wanted 3 elements of F32");
    file = phi(3, 0, 1.0f);
    gguf_add_tensor(file, "rope_factors_short.weight", DTYPE_F32, 1, 3);
    config_of(file, "\"rope_factors_short.weight\": wanted 3 elements of F32");
    file = phi(3, 3, 1.0f);
    gguf_set_u32(file, "phi3.rope.scaling.attn_factor", 1);
    config_of(file, "attn_factor\": type u32, wanted f32");
    file = phi(3, 3, 1.0f);
    gguf_set_u32(file, "phi3.rope.scaling.original_context_length", 0);
    config_of(file, "original");
    file = phi(3, 3, 1.0f);
    gguf_set_f32(file, "phi3.rope.scaling.factor", 4.0f);
    config_of(file, "beside another rope scaling");
    file = phi(0, 0, 1.0f);
    gguf_set_text(file, "phi3.rope.scaling.type", "longrope");
    config_of(file, "longrope without its factors");
    file = tiny("llama", 1, 4);
    gguf_set_text(file, "llama.rope.scaling.type", "longrope");
    config_of(file, "\"longrope\" is not supported");
}

// Whatever changes the frequencies of an architecture that has no row for it.
Test(gguf_families, frequencies_that_would_be_left_out_are_refused) {
    GgufFile *file = tiny("llama", 1, 4);
    add_factors(file, "rope_factors_long.weight", 2, 2.0f);
    config_of(file, "\"rope_factors_long.weight\" has no use in architecture \"llama\"");
    file = phi(3, 3, 1.0f);
    add_factors(file, "rope_freqs.weight", 3, 2.0f);
    config_of(file, "\"rope_freqs.weight\" has no use in architecture \"phi3\"");
}

Test(gguf_families, gpt2_has_an_epsilon_of_another_name) {
    config_of(tiny("gpt2", 1, 4), "\"gpt2.attention.layer_norm_epsilon\": is missing");
}

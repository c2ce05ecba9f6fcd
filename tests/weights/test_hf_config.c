// config.json in both spellings, for all families: against the reference models' directories where
// they are at hand, and against texts written here after transformers' documentation.
#include "tests/test.h"
#include "weights/hf/config.h"

typedef struct Read {
    Config config;
    HfFlags flags;
    Arena arena;
    Error error;
    bool good;
} Read;

static Read *read_text(const char *text, size_t size) {
    Read *read = calloc(1, sizeof *read);
    config_init(&read->config);
    json_t *root = json_parse(text, size, &JSON_CONFIG_LIMITS, &read->error);
    read->good =
        root && hf_config_read(&read->config, &read->flags, root, &read->arena, &read->error);
    json_decref(root);
    return read;
}

static void drop(Read *read) {
    arena_free(&read->arena);
    free(read);
}

// What a Llama needs, with room for more keys in front.
#define LLAMA(more)                                                                                \
    "{" more "\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,"               \
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":100,"                        \
    "\"max_position_embeddings\":128}"

// ---- the reference models ----

typedef struct Known {
    const char *name, *family;
    int layers, dim, heads, kv_heads, head_dim, hidden, vocab, context;
    bool tied;
    double theta, eps;
    const char *windows; // one digit a layer
} Known;

// From the README of the reference models.
static const Known KNOWN[] = {
    {"gpt2", "gpt2", 3, 60, 5, 5, 12, 240, 263, 80, true, 0, 1e-5, "000"},
    {"llama-untied", "llama", 3, 48, 6, 2, 14, 100, 301, 256, false, 10000, 1e-5, "000"},
    {"llama-tied", "llama", 2, 72, 4, 1, 18, 136, 257, 256, true, 100000, 1e-3, "00"},
    {"llama-rope-llama3", "llama", 3, 64, 4, 1, 24, 172, 320, 256, false, 500, 1e-5, "000"},
    {"mistral-window8", "mistral", 3, 64, 8, 2, 12, 88, 300, 256, false, 10000, 1e-5, "888"},
    {"qwen2", "qwen2", 3, 60, 6, 2, 10, 116, 331, 256, true, 1e6, 1e-6, "000"},
    {"qwen3", "qwen3", 3, 48, 4, 1, 20, 96, 350, 256, true, 1e6, 1e-6, "000"},
    {"gemma3", "gemma3_text", 7, 56, 4, 1, 20, 84, 384, 256, true, 1e6, 1e-6, "8888808"},
    {"olmo2", "olmo2", 3, 60, 6, 2, 10, 92, 290, 256, false, 5e5, 1e-6, "000"},
    {"olmo3", "olmo3", 4, 48, 4, 2, 12, 64, 265, 2048, false, 5e5, 1e-6, "8880"},
    {"exaone4", "exaone4", 4, 40, 4, 2, 14, 64, 211, 256, false, 1e6, 1e-5, "8880"},
    // theta 10000 * 1000^(14 / 12)
    {"hunyuan_v1_dense", "hunyuan_v1_dense", 3, 36, 4, 2, 14, 70, 223, 256, true, 31622776, 1e-5,
     "000"},
    {"ernie4_5", "ernie4_5", 3, 44, 4, 1, 12, 66, 199, 256, true, 5e5, 1e-5, "000"},
    {"arcee", "arcee", 3, 40, 4, 2, 14, 90, 187, 256, false, 10000, 1e-5, "000"},
    {"gemma2", "gemma2", 4, 40, 4, 2, 20, 56, 293, 256, true, 10000, 1e-6, "8080"},
    {"granite", "granite", 3, 40, 4, 2, 10, 72, 263, 256, true, 10000, 1e-5, "000"},
    {"granitemoehybrid-dense", "granitemoehybrid", 3, 40, 4, 2, 10, 72, 209, 256, true, 10000, 1e-5,
     "000"},
    {"gpt_neox", "gpt_neox", 3, 48, 3, 3, 16, 130, 181, 128, false, 10000, 1e-5, "000"},
    {"nanochat", "nanochat", 3, 48, 6, 2, 8, 192, 272, 256, false, 10000, 1e-6, "000"},
    {"smollm3", "smollm3", 4, 64, 4, 1, 16, 108, 310, 256, true, 50000, 1e-6, "0000"},
    {"phi3", "phi3", 2, 64, 4, 1, 16, 120, 280, 256, false, 10000, 1e-5, "00"},
};

// Of those that scripts/make_tiny_models.py makes.
static const Known TINY[] = {
    {"gpt2", "gpt2", 2, 40, 5, 5, 8, 160, 257, 40, true, 0, 1e-5, "00"},
    {"llama", "llama", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"llama-tied", "llama", 2, 36, 3, 1, 40, 44, 257, 128, true, 10000, 1e-5, "00"},
    {"mistral-window", "mistral", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "55"},
    {"qwen2", "qwen2", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"qwen3", "qwen3", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"gemma3", "gemma3_text", 4, 36, 3, 1, 40, 44, 257, 128, true, 1e6, 1e-5, "6606"},
    {"olmo2", "olmo2", 2, 36, 6, 2, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"olmo3", "olmo3", 4, 36, 3, 1, 40, 44, 257, 128, false, 2000, 1e-5, "6660"},
    {"exaone4", "exaone4", 4, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "6660"},
    {"ernie4_5", "ernie4_5", 2, 36, 3, 1, 40, 44, 257, 128, true, 10000, 1e-5, "00"},
    {"arcee", "arcee", 2, 36, 3, 1, 40, 44, 257, 128, false, 2000, 1e-5, "00"},
    {"gemma2", "gemma2", 4, 36, 3, 1, 40, 44, 257, 128, true, 10000, 1e-5, "6060"},
    {"granite", "granite", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"granitemoehybrid", "granitemoehybrid", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5,
     "00"},
    {"ministral3", "ministral3", 2, 36, 3, 1, 40, 44, 257, 128, false, 2000, 1e-5, "00"},
    {"gpt_neox", "gpt_neox", 2, 120, 3, 3, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"nanochat", "nanochat", 2, 36, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
    {"smollm3", "smollm3", 4, 36, 3, 1, 40, 44, 257, 128, true, 10000, 1e-5, "0000"},
    {"phi3", "phi3", 2, 120, 3, 1, 40, 44, 257, 128, false, 10000, 1e-5, "00"},
};

static Read *read_reference(const char *model, const char *file) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", test_reference_model(model), file);
    size_t size;
    char *text = test_read_file(path, &size);
    Read *read = read_text(text, size);
    free(text);
    return read;
}

static void check_known(const Known *k, const Read *read) {
    const Config *c = &read->config;
    CHECK(read->good, "%s: %s", k->name, read->error.message);
    CHECK(c->n_layers == k->layers && c->dim == k->dim && c->hidden_dim == k->hidden, "%s",
          k->name);
    CHECK(c->n_heads == k->heads && c->n_kv_heads == k->kv_heads && c->head_dim == k->head_dim,
          "%s", k->name);
    CHECK(c->vocab_size == k->vocab && c->max_seq_len == k->context, "%s", k->name);
    CHECK(read->flags.tied == k->tied, "%s", k->name);
    if (k->theta > 0) CHECK_NEAR(c->rope.theta, k->theta, 0);
    CHECK_NEAR(c->norm_eps, k->eps, 1e-10);
    CHECK(c->bos_id == -1 && c->n_eos_ids == 0, "%s: ids are null", k->name);
    for (int l = 0; l < k->layers; l++)
        CHECK_INT(c->layers[l].window, k->windows[l] - '0');
}

static void check_spellings(const Known *known) {
    Read *five = read_reference(known->name, "config.json");
    check_known(known, five);
    Read *four = read_reference(known->name, "config.v4.json");
    check_known(known, four);
    CHECK(!memcmp(&four->config, &five->config, sizeof four->config), "%s", known->name);
    drop(four);
    drop(five);
}

// In plain clones: of our own models, which the same directory name stands for.
static bool ours(void) {
    return !test_data_if_any("reference-models");
}

Test(hf_config, both_spellings_of_every_reference_model_say_what_its_readme_says) {
    for (size_t i = 0; !ours() && i < sizeof KNOWN / sizeof *KNOWN; i++)
        check_spellings(&KNOWN[i]);
    for (size_t i = 0; ours() && i < sizeof TINY / sizeof *TINY; i++)
        check_spellings(&TINY[i]);
}

Test(hf_config, what_only_some_families_have) {
    Read *gemma = read_reference("gemma3", "config.v4.json");
    CHECK_NEAR(gemma->config.rope_local.theta, 10000, 0);
    CHECK_NEAR(gemma->config.attention_scale, pow(ours() ? 50 : 24, -0.5), 1e-8);
    CHECK_NEAR(gemma->config.embedding_scale, sqrt(ours() ? 36 : 56), 1e-6);
    int global = ours() ? 2 : 5;
    CHECK(gemma->config.layers[0].local_rope && !gemma->config.layers[global].local_rope);
    CHECK_INT(gemma->config.activation, ACTIVATION_GELU_TANH);
    drop(gemma);
    Read *smollm = read_reference("smollm3", "config.json");
    for (int l = 0; l < 4; l++)
        CHECK_INT(smollm->config.layers[l].no_rope, l == (ours() ? 1 : 3));
    drop(smollm);
    Read *chat = read_reference("nanochat", "config.json");
    CHECK_NEAR(chat->config.logit_softcap, 15, 0);
    CHECK_INT(chat->config.activation, ACTIVATION_RELU2);
    drop(chat);
    Read *llama = read_reference(ours() ? "llama-llama3" : "llama-rope-llama3", "config.v4.json");
    const RopeConfig *rope = &llama->config.rope;
    CHECK(rope->scaling == ROPE_LLAMA3 && rope->factor == (ours() ? 4 : 8) &&
          rope->low_freq_factor == 1 && rope->high_freq_factor == (ours() ? 3 : 4) &&
          rope->original_max_seq_len == (ours() ? 48 : 64));
    drop(llama);
}

// ---- texts written here ----

static Config config_of(const char *text) {
    Read *read = read_text(text, strlen(text));
    Config config = read->config;
    bool good = read->good;
    char message[ERROR_MESSAGE_SIZE];
    memcpy(message, read->error.message, sizeof message);
    drop(read);
    CHECK(good, "%s: %s", text, message);
    return config;
}

Test(hf_config, absent_keys_have_the_defaults_of_their_class) {
    Config c = config_of(LLAMA(""));
    CHECK(c.n_kv_heads == 4 && c.head_dim == 16 && c.rope_dim == 16);
    CHECK(c.bos_id == 1 && c.n_eos_ids == 1 && c.eos_ids[0] == 2);
    CHECK_NEAR(c.norm_eps, 1e-6, 1e-12);
    CHECK_NEAR(c.rope.theta, 10000, 0);
    CHECK_INT(c.activation, ACTIVATION_SILU);
    // gemma-3-4b's text_config leaves nearly everything out.
    c = config_of(
        "{\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForConditionalGeneration\"],"
        "\"eos_token_id\":[1,106],\"text_config\":{\"model_type\":\"gemma3_text\","
        "\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,"
        "\"sliding_window\":1024,\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}");
    CHECK(c.n_heads == 8 && c.n_kv_heads == 4 && c.head_dim == 256 && c.vocab_size == 262208);
    CHECK(c.n_eos_ids == 2 && c.eos_ids[1] == 106);
    CHECK(c.rope.scaling == ROPE_LINEAR && c.rope.factor == 8 && c.rope.theta == 1e6f);
    CHECK(c.rope_local.scaling == ROPE_PLAIN && c.rope_local.theta == 1e4f);
    CHECK(c.layers[4].window == 1024 && c.layers[5].window == 0);
    CHECK_NEAR(c.attention_scale, 0.0625, 0);
    // GPT-2: n_inner null is four times the width.
    c = config_of("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_layer\":2,\"n_head\":3,"
                  "\"n_positions\":9,\"vocab_size\":7,\"n_inner\":null,"
                  "\"scale_attn_by_inverse_layer_idx\":true}");
    CHECK(c.hidden_dim == 48 && c.n_kv_heads == 3 && c.head_dim == 4);
    CHECK_NEAR(c.layers[0].attention_scale, 0.5, 0);
    CHECK_NEAR(c.layers[1].attention_scale, 0.25, 0);
}

// As published, less the keys that say nothing about the numbers.
Test(hf_config, smollm2_and_llama_3_2_as_published) {
    Config c = config_of(
        "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,"
        "\"attention_dropout\":0.0,\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","
        "\"hidden_size\":576,\"initializer_range\":0.041666666666666664,"
        "\"intermediate_size\":1536,\"is_llama_config\":true,\"max_position_embeddings\":8192,"
        "\"mlp_bias\":false,\"model_type\":\"llama\",\"num_attention_heads\":9,"
        "\"num_hidden_layers\":30,\"num_key_value_heads\":3,\"pad_token_id\":2,"
        "\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,\"rope_interleaved\":false,"
        "\"rope_scaling\":null,\"rope_theta\":100000,\"tie_word_embeddings\":true,"
        "\"torch_dtype\":\"bfloat16\",\"transformers.js_config\":{\"kv_cache_dtype\":{\"q4f16\":"
        "\"float16\"}},\"use_cache\":true,\"vocab_size\":49152}");
    CHECK(c.dim == 576 && c.hidden_dim == 1536 && c.n_layers == 30 && c.n_heads == 9);
    CHECK(c.n_kv_heads == 3 && c.head_dim == 64 && c.rope.theta == 100000);
    c = config_of(
        "{\"architectures\":[\"LlamaForCausalLM\"],\"bos_token_id\":128000,\"eos_token_id\":"
        "[128001,128008,128009],\"head_dim\":64,\"hidden_size\":2048,\"intermediate_size\":8192,"
        "\"max_position_embeddings\":131072,\"model_type\":\"llama\",\"num_attention_heads\":32,"
        "\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,"
        "\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
        "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},"
        "\"rope_theta\":500000.0,\"tie_word_embeddings\":true,\"vocab_size\":128256}");
    CHECK(c.n_eos_ids == 3 && c.eos_ids[2] == 128009 && c.bos_id == 128000);
    CHECK(c.rope.scaling == ROPE_LLAMA3 && c.rope.factor == 32 && c.rope.theta == 500000);
    CHECK_INT(c.rope.original_max_seq_len, 8192);
}

#define MISTRAL(more)                                                                              \
    "{" more "\"model_type\":\"mistral\",\"hidden_size\":64,\"intermediate_size\":96,"             \
    "\"num_hidden_layers\":3,\"num_attention_heads\":8,\"vocab_size\":100,"                        \
    "\"max_position_embeddings\":128}"
#define QWEN(more)                                                                                 \
    "{" more "\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":96,"               \
    "\"num_hidden_layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":8,"                 \
    "\"vocab_size\":100,\"max_position_embeddings\":128}"

#define PHI3(more)                                                                                 \
    "{" more "\"model_type\":\"phi3\",\"hidden_size\":64,\"intermediate_size\":96,"                \
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":100,"                        \
    "\"max_position_embeddings\":128}"

Test(hf_config, windows_by_family) {
    CHECK_INT(config_of(MISTRAL("")).layers[2].window, 4096);
    CHECK_INT(config_of(MISTRAL("\"sliding_window\":null,")).layers[2].window, 0);
    CHECK_INT(config_of(MISTRAL("\"sliding_window\":7,")).layers[0].window, 7);
    CHECK_INT(config_of(LLAMA("\"sliding_window\":7,")).layers[0].window, 0);
    CHECK_INT(config_of(QWEN("\"sliding_window\":7,")).layers[2].window, 0);
    Config c = config_of(
        QWEN("\"sliding_window\":7,\"use_sliding_window\":true,\"max_window_layers\":2,"));
    CHECK(!c.layers[0].window && !c.layers[1].window && c.layers[2].window == 7);
    c = config_of(QWEN("\"sliding_window\":7,\"use_sliding_window\":true,\"layer_types\":"
                       "[\"sliding_attention\",\"full_attention\",\"full_attention\"],"));
    CHECK(c.layers[0].window == 7 && !c.layers[1].window && !c.layers[2].window);
}

Test(hf_config, ids_that_end_a_text_come_as_number_list_or_null) {
    Config c = config_of(LLAMA("\"eos_token_id\":9,\"bos_token_id\":null,"));
    CHECK(c.n_eos_ids == 1 && c.eos_ids[0] == 9 && c.bos_id == -1);
    c = config_of(LLAMA("\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"));
    CHECK_INT(c.n_eos_ids, LIMIT_EOS_IDS);
    c = config_of(LLAMA("\"eos_token_id\":[9,8,9,100,-1],"));
    CHECK(c.n_eos_ids == 2 && c.eos_ids[0] == 9 && c.eos_ids[1] == 8);
    CHECK_INT(config_of(LLAMA("\"eos_token_id\":[9,9],")).n_eos_ids, 1);
    CHECK_INT(config_of(LLAMA("\"eos_token_id\":null,")).n_eos_ids, 0);
    CHECK_INT(config_of(LLAMA("\"eos_token_id\":[],")).n_eos_ids, 0);
    CHECK_INT(config_of(LLAMA("\"bos_token_id\":100,")).bos_id, -1); // outside the vocabulary
    CHECK_INT(config_of(LLAMA("\"bos_token_id\":99,")).bos_id, 99);
}

Test(hf_config, rope_of_every_kind_in_both_spellings) {
    Config c = config_of(LLAMA("\"rope_theta\":5,\"rope_scaling\":{\"type\":\"linear\","
                               "\"factor\":2},"));
    CHECK(c.rope.scaling == ROPE_LINEAR && c.rope.factor == 2 && c.rope.theta == 5);
    c = config_of(LLAMA("\"rope_theta\":5,\"rope_parameters\":{\"rope_type\":\"dynamic\","
                        "\"factor\":2,\"rope_theta\":6},"));
    CHECK(c.rope.scaling == ROPE_DYNAMIC_NTK && c.rope.theta == 6); // inside wins
    CHECK_INT(c.rope.original_max_seq_len, 128);
    c = config_of(LLAMA("\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":16,"
                        "\"beta_slow\":2,\"mscale\":0.5,\"mscale_all_dim\":0.25,"
                        "\"attention_factor\":1.5,\"truncate\":false,"
                        "\"original_max_position_embeddings\":32},"));
    CHECK(c.rope.scaling == ROPE_YARN && c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    CHECK(c.rope.mscale == 0.5f && c.rope.mscale_all_dim == 0.25f && c.rope.no_truncate);
    CHECK(c.rope.attention_factor == 1.5f && c.rope.original_max_seq_len == 32);
    c = config_of(PHI3("\"rope_scaling\":null,\"partial_rotary_factor\":0.6,"));
    CHECK(c.rope.scaling == ROPE_PLAIN && c.rope_dim == 10); // floor(9.6), made even
    CHECK_INT(c.rope.exponent_dim, 9);
    c = config_of(PHI3("\"head_dim\":40,\"partial_rotary_factor\":0.7,"));
    CHECK(c.rope_dim == 28 && c.rope.exponent_dim == 0); // and not 40 * 0.7f = 27.999999
    c = config_of(LLAMA("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":null,"
                        "\"original_max_position_embeddings\":32},"));
    CHECK(c.rope.scaling == ROPE_YARN && c.rope.factor == 4); // from the lengths, 128 / 32
}

Test(hf_config, longrope_has_a_factor_for_every_pair) {
    static const char TEXT[] =
        LLAMA("\"head_dim\":4,\"original_max_position_embeddings\":32,\"rope_scaling\":{\"type\":"
              "\"su\",\"long_factor\":[1.5,2],\"short_factor\":[1,1.25]},");
    Read *read = read_text(TEXT, sizeof TEXT - 1);
    const RopeConfig *rope = &read->config.rope;
    CHECK(read->good, "%s", read->error.message);
    CHECK(rope->scaling == ROPE_LONGROPE && rope->factor == 4 && rope->original_max_seq_len == 32);
    CHECK(rope->long_factor[0] == 1.5f && rope->long_factor[1] == 2);
    CHECK(rope->short_factor[0] == 1 && rope->short_factor[1] == 1.25f);
    drop(read);
}

Test(hf_config, generation_defaults_and_more_ends) {
    static const char TEXT[] = "{\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20,\"eos_token_id\":"
                               "[5,2],\"do_sample\":true}";
    Config config = config_of(LLAMA(""));
    GenerationDefaults defaults = {-1, -1, -1, -1, -1};
    Error error = {0};
    json_t *root = json_parse(TEXT, sizeof TEXT - 1, &JSON_CONFIG_LIMITS, &error);
    CHECK(hf_generation_read(&config, &defaults, root, &error), "%s", error.message);
    json_decref(root);
    CHECK(defaults.temperature == 0.6f && defaults.top_p == 0.9f && defaults.top_k == 20);
    CHECK(defaults.min_p == -1 && defaults.repetition_penalty == -1);
    CHECK(config.n_eos_ids == 2 && config.eos_ids[0] == 2 && config.eos_ids[1] == 5);
}

// ---- HOSTILE S20: what is refused, each with the key in the message ----

typedef struct Bad {
    const char *text, *message;
} Bad;

static const Bad BAD[] = {
    {"{}", "neither \"model_type\" nor \"architectures\""},
    {"{\"model_type\":\"mixtral\",\"architectures\":[\"MixtralForCausalLM\"]}",
     "unsupported architecture \"MixtralForCausalLM\" (model_type \"mixtral\")"},
    {"{\"model_type\":\"bert\"}", "unsupported architecture \"bert\""},
    {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]}",
     "unsupported architecture \"LlamaForSequenceClassification\""},
    {"{\"model_type\":7}", "\"model_type\": wanted a string, got an integer"},
    {"{\"model_type\":\"llama\",\"architectures\":[1]}", "\"architectures\": wanted a string"},
    {"{\"model_type\":\"\\u001b[2J\"}", "unsupported architecture \"\\x1b[2J\""},
    {LLAMA("\"quantization_config\":{\"bits\":4},"), "\"quantization_config\" is not supported"},
    {LLAMA("\"mlp_bias\":true,"), "\"mlp_bias\" is not supported"},
    {LLAMA("\"new_trick\":0,"), "\"new_trick\" is no key that limpid knows"},
    {LLAMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"twist\":1},"),
     "rope: \"twist\" is no key that limpid knows"},
    {LLAMA("\"rope_interleaved\":true,"), "\"rope_interleaved\" is not supported"},
    {LLAMA("\"interpolate_factor\":2,"), "\"interpolate_factor\" is not supported"},
    {LLAMA("\"final_logit_softcapping\":30.0,"),
     "\"final_logit_softcapping\" is not supported in LlamaForCausalLM"},
    {LLAMA("\"partial_rotary_factor\":0.5,"),
     "\"partial_rotary_factor\" is not supported in LlamaForCausalLM"},
    {LLAMA("\"rope_parameters\":{\"full_attention\":{\"rope_theta\":5},"
           "\"sliding_attention\":{\"rope_theta\":6}},"),
     "\"sliding_attention\" is not supported in LlamaForCausalLM"},
    {LLAMA("\"head_dim\":0,"), "\"head_dim\": wanted 1 .. 4194304, got 0"},
    {LLAMA("\"head_dim\":-16,"), "\"head_dim\": wanted 1 .. 4194304, got -16"},
    {LLAMA("\"num_key_value_heads\":0,"), "\"num_key_value_heads\": wanted 1"},
    {LLAMA("\"rms_norm_eps\":1e999,"), "invalid JSON"},
    {LLAMA("\"rms_norm_eps\":\"1e-5\","), "\"rms_norm_eps\": wanted a number, got a string"},
    {LLAMA("\"hidden_act\":\"gelu_quick\","), "unknown activation \"gelu_quick\""},
    {LLAMA("\"hidden_size\":64,"), "invalid JSON"}, // twice
    {LLAMA("\"eos_token_id\":\"2\","), "\"eos_token_id\": wanted an integer, got a string"},
    {LLAMA("\"eos_token_id\":[2,null],"), "\"eos_token_id\": wanted an integer, got null"},
    {LLAMA("\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],"), "17 ids (at most 16)"},
    {LLAMA("\"tie_word_embeddings\":1,"), "\"tie_word_embeddings\": wanted true or false"},
    {LLAMA("\"partial_rotary_factor\":0,"), "\"partial_rotary_factor\": wanted 0 .. 1, got 0"},
    {LLAMA("\"partial_rotary_factor\":1.5,"), "\"partial_rotary_factor\": wanted 0 .. 1, got 1.5"},
    {LLAMA("\"rope_scaling\":{\"type\":\"mrope\"},"), "\"rope_type\": unknown kind \"mrope\""},
    {LLAMA("\"rope_scaling\":{\"type\":\"linear\"},"), "rope scaling without \"factor\""},
    {LLAMA("\"rope_scaling\":{\"type\":\"linear\",\"factor\":0},"),
     "\"factor\": 0 is not positive"},
    {LLAMA("\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
           "\"high_freq_factor\":4},"),
     "llama3 rope scaling: wanted 0 < low_freq_factor"},
    {LLAMA("\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
           "\"high_freq_factor\":4,\"original_max_position_embeddings\":-1},"),
     "\"original_max_position_embeddings\": wanted 1"},
    {LLAMA("\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1],\"short_factor\":[1]},"),
     "\"long_factor\": wanted 8 numbers, got 1"},
    {LLAMA("\"head_dim\":2,\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[0],"
           "\"short_factor\":[1]},"),
     "\"long_factor\"[0]: wanted a positive number"},
    {LLAMA("\"head_dim\":2,\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1]},"),
     "\"short_factor\": wanted 1 numbers, got 0"},
    {LLAMA("\"rope_scaling\":7,"), "\"rope_scaling\": wanted an object, got an integer"},
    {MISTRAL("\"sliding_window\":0,"), "\"sliding_window\": wanted null or at least 1, got 0"},
    {QWEN("\"use_sliding_window\":true,\"layer_types\":[\"full_attention\"],"),
     "\"layer_types\": wanted 3 entries, got 1"},
    {QWEN("\"use_sliding_window\":true,\"layer_types\":[\"full_attention\",\"x\",1],"),
     "\"layer_types\"[1]: unknown kind \"x\""},
    {"{\"model_type\":\"llama\",\"hidden_size\":\"64\"}",
     "\"hidden_size\": wanted an integer, got a string"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64.5}", "\"hidden_size\": wanted an integer"},
    {"{\"model_type\":\"llama\"}", "\"hidden_size\" is missing"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,"
     "\"num_hidden_layers\":2147483648}",
     "\"num_hidden_layers\": 2147483648 is out of range"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,"
     "\"num_hidden_layers\":1,\"num_attention_heads\":0}",
     "\"num_attention_heads\": wanted 1 .. 4194304, got 0"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,\"vocab_size\":9,"
     "\"num_hidden_layers\":1025,\"num_attention_heads\":1,\"max_position_embeddings\":9}",
     "\"num_hidden_layers\": 1025 (at most 1024)"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"vocab_size\":9,"
     "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"max_position_embeddings\":9}",
     "\"intermediate_size\" is missing"},
    {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,\"vocab_size\":9,"
     "\"num_hidden_layers\":1,\"num_attention_heads\":3,\"max_position_embeddings\":9}",
     "a width of 64 does not divide into 3 heads"},
};

static void check_refused(const char *text, const char *message) {
    Read *read = read_text(text, strlen(text));
    bool good = read->good;
    Error error = read->error;
    drop(read);
    CHECK(!good, "accepted: %s", text);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, message), "%s\n  not in: %s", message, error.message);
}

Test(hf_config, refuses_with_the_key_and_what_is_wrong_with_it) {
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        check_refused(BAD[i].text, BAD[i].message);
}

#define OF(family, more)                                                                           \
    "{" more "\"model_type\":\"" family "\",\"hidden_size\":64,\"intermediate_size\":96,"          \
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                 \
    "\"vocab_size\":100,\"max_position_embeddings\":128}"

Test(hf_config, a_key_of_another_type_is_named) {
    static const struct {
        const char *family, *key;
    } KEYS[] = {
        {"llama", "head_dim"},
        {"llama", "rms_norm_eps"},
        {"llama", "tie_word_embeddings"},
        {"llama", "attention_bias"},
        {"llama", "hidden_act"},
        {"gpt2", "activation_function"},
        {"gpt2", "layer_norm_epsilon"},
        {"gpt2", "scale_attn_weights"},
        {"gpt2", "scale_attn_by_inverse_layer_idx"},
        {"gemma3_text", "query_pre_attn_scalar"},
        {"gemma3_text", "final_logit_softcapping"},
        {"gemma3_text", "rope_local_base_freq"},
        {"gemma3_text", "sliding_window_pattern"},
        {"gemma3_text", "_sliding_window_pattern"},
        {"llama", "bos_token_id"},
        {"llama", "rope_theta"},
        {"llama", "partial_rotary_factor"},
        {"llama", "original_max_position_embeddings"},
        {"mistral", "sliding_window"},
        {"qwen2", "use_sliding_window"},
        {"qwen2", "layer_types"},
        {"smollm3", "no_rope_layers"},
        {"smollm3", "no_rope_layer_interval"},
        {"gemma2", "attn_logit_softcapping"},
        {"granite", "embedding_multiplier"},
        {"granite", "attention_multiplier"},
        {"granite", "residual_multiplier"},
        {"granite", "logits_scaling"},
        {"granitemoehybrid", "position_embedding_type"},
        {"gpt_neox", "rotary_pct"},
        {"gpt_neox", "rotary_emb_base"},
        {"gpt_neox", "layer_norm_eps"},
        {"gpt_neox", "use_parallel_residual"},
        {"gpt_neox", "attention_bias"},
        {"granitemoehybrid", "layer_types"},
        {"olmo2", "use_qk_norm"},
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        bool gpt2 = !strcmp(KEYS[i].family, "gpt2");
        bool hybrid = !strcmp(KEYS[i].family, "granitemoehybrid");
        const char *text = test_text(
            "{\"%s\":{},\"model_type\":\"%s\",\"%s\":64,\"intermediate_size\":96,"
            "%s"
            "\"%s\":4,\"%s\":4,\"vocab_size\":100,\"%s\":128}",
            KEYS[i].key, KEYS[i].family, gpt2 ? "n_embd" : "hidden_size",
            hybrid ? "\"shared_intermediate_size\":96,\"num_local_experts\":0," : "",
            gpt2 ? "n_layer" : "num_hidden_layers", gpt2 ? "n_head" : "num_attention_heads",
            gpt2 ? "n_positions" : "max_position_embeddings");
        char copy[600], wanted[100];
        snprintf(copy, sizeof copy, "%s", text);
        snprintf(wanted, sizeof wanted, "\"%s\": wanted", KEYS[i].key);
        check_refused(copy, wanted);
    }
}

Test(hf_config, a_number_of_rope_of_another_type_is_named) {
    static const char *const KEYS[] = {
        "type",
        "rope_type",
        "rope_theta",
        "factor",
        "low_freq_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "high_freq_factor",
        "truncate",
        "attention_factor",
        "partial_rotary_factor",
        "original_max_position_embeddings",
        "llama_4_scaling_beta",
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        char text[600], wanted[100];
        snprintf(text, sizeof text, OF("llama", "\"rope_scaling\":{\"%s\":{}},"), KEYS[i]);
        snprintf(wanted, sizeof wanted, "\"%s\": wanted", KEYS[i]);
        check_refused(text, wanted);
    }
    check_refused(OF("gemma3_text", "\"rope_parameters\":{\"full_attention\":1},"),
                  "\"full_attention\": wanted an object");
    check_refused(OF("gemma3_text", "\"rope_parameters\":{\"sliding_attention\":1},"),
                  "\"sliding_attention\": wanted an object");
    check_refused(OF("gemma3_text", "\"rope_parameters\":{\"full_attention\":{},"
                                    "\"sliding_attention\":{\"factor\":\"2\"}},"),
                  "\"factor\": wanted a number");
    check_refused(OF("llama", "\"rope_parameters\":1,"), "\"rope_parameters\": wanted an object");
    check_refused(OF("llama", "\"rope_parameters\":{},\"rope_scaling\":{},"),
                  "\"rope_scaling\" beside \"rope_parameters\"");
}

#define LONGROPE(more)                                                                             \
    OF("phi3",                                                                                     \
       "\"head_dim\":4,\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,2]," more "},")
#define FROM(length)                                                                               \
    OF("llama", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,"                              \
                "\"original_max_position_embeddings\":" length "},")

Test(hf_config, ranges_end_where_they_end) {
    static const Bad EDGES[] = {
        {OF("llama", "\"head_dim\":4194304,"), NULL},
        {OF("llama", "\"head_dim\":4194305,"), "wanted 1 .. 4194304, got 4194305"},
        {OF("llama", "\"head_dim\":1,"), NULL},
        {OF("llama", "\"head_dim\":null,"), NULL},
        {OF("nanochat", "\"final_logit_softcapping\":-0.5,"), "-0.5 is negative"},
        {OF("nanochat", "\"final_logit_softcapping\":0,"), NULL},
        {OF("gemma3_text", "\"query_pre_attn_scalar\":0,"), "0 is not positive"},
        {OF("gemma3_text", "\"query_pre_attn_scalar\":0.5,"), NULL},
        {FROM("0"), "wanted 1 .. 4194304, got 0"}, // transformers would divide by it
        {FROM("1"), NULL},
        {FROM("-1"), "wanted 1 .. 4194304, got -1"},
        {FROM("4194304"), NULL},
        {FROM("4194305"), "wanted 1 .. 4194304, got 4194305"},
        {LONGROPE("\"long_factor\":[1,0.5]"), NULL},
        {LONGROPE("\"long_factor\":[1,0]"), "\"long_factor\"[1]: wanted a positive number"},
        {LONGROPE("\"long_factor\":[1,1e39]"), "\"long_factor\"[1]: wanted a positive number"},
        {LONGROPE("\"long_factor\":[1,\"2\"]"), "\"long_factor\"[1]: wanted a positive number"},
        {LONGROPE("\"long_factor\":{}"), "\"long_factor\": wanted an array"},
        {OF("llama", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                     "\"high_freq_factor\":1.5},"),
         NULL},
        {OF("llama", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,"
                     "\"high_freq_factor\":1.5},"),
         "wanted 0 < low_freq_factor"},
        {OF("phi3", "\"partial_rotary_factor\":1,"), NULL},
        {OF("mistral", "\"sliding_window\":1,"), NULL},
        {OF("gemma3_text", "\"sliding_window_pattern\":1,"), NULL},
        {OF("gemma3_text", "\"sliding_window_pattern\":0,"), "wanted at least 1, got 0"},
        {OF("smollm3", "\"no_rope_layer_interval\":1,"), NULL},
        {OF("smollm3", "\"no_rope_layer_interval\":0,"), "wanted at least 1, got 0"},
        {OF("smollm3", "\"no_rope_layers\":[1,0,1,0],"), NULL},
        {OF("smollm3", "\"no_rope_layers\":[1,0,1],"), "wanted 4 entries, got 3"},
        {OF("smollm3", "\"no_rope_layers\":[1,0,1,true],"), "\"no_rope_layers\"[3]: wanted 0 or 1"},
        {OF("llama", "\"full_attn_mod\":1,\"use_mrope\":false,\"mlp_bias\":null,"), NULL},
        {OF("llama", "\"full_attn_mod\":false,"), "\"full_attn_mod\" is not supported"},
        {OF("llama", "\"mlp_bia\":false,"), "\"mlp_bia\" is no key"},
        {OF("llama", "\"architectures\":[],"), NULL},
        {OF("llama", "\"architectures\":{},"), "\"architectures\": wanted an array"},
        {OF("llama", "\"architectures\":[\"LLaMAForCausalLM\"],"), NULL},
        {OF("llama", "\"mlp_bias\":1,"), "\"mlp_bias\" is not supported"},
        {OF("qwen2", "\"use_sliding_window\":true,\"max_window_layers\":{},"),
         "\"max_window_layers\": wanted an integer"},
        {OF("gemma3", "\"eos_token_id\":{},\"text_config\":{\"hidden_size\":64,"
                      "\"intermediate_size\":96,\"num_hidden_layers\":2},"),
         "\"eos_token_id\": wanted an integer"},
        {OF("gemma3", "\"text_config\":{\"hidden_size\":64,\"odd\":1},"), "\"odd\" is no key"},
        {OF("llama", "\"text_config\":1,"), "\"text_config\": wanted an object"},
        {OF("llama", "\"text_config\":{\"model_type\":1},"), "\"model_type\": wanted"},
        {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,\"vocab_size\":9,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"max_position_embeddings\":4194305}",
         "got 4194305"},
        {OF("llama", "\"text_config\":{},"), NULL}, // of no use to it
        {"{\"architectures\":[\"BertModel\"],\"text_config\":{}}",
         "unsupported architecture \"BertModel\""},
        {"{\"architectures\":[\"BertModel\"]}",
         "unsupported architecture \"BertModel\" (model_type \"\")"},
    };
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++) {
        if (EDGES[i].message)
            check_refused(EDGES[i].text, EDGES[i].message);
        else
            config_of(EDGES[i].text);
    }
}

Test(hf_config, what_a_family_does_by_layer) {
    Config c = config_of(OF("smollm3", "\"no_rope_layers\":[1,0,0,1],\"use_sliding_window\":true,"
                                       "\"sliding_window\":7,"));
    for (int l = 0; l < 4; l++) {
        CHECK_INT(c.layers[l].no_rope, l == 1 || l == 2);
        CHECK_INT(c.layers[l].window, l == 1 || l == 2 ? 7 : 0);
        CHECK(!c.layers[l].local_rope);
    }
    c = config_of(OF("smollm3", "\"no_rope_layer_interval\":2,"));
    for (int l = 0; l < 4; l++)
        CHECK_INT(c.layers[l].no_rope, l % 2 == 1);
    c = config_of(OF("gemma3_text", "\"sliding_window_pattern\":3,\"sliding_window\":5,"));
    for (int l = 0; l < 4; l++)
        CHECK(c.layers[l].window == (l == 2 ? 0 : 5) && c.layers[l].local_rope == (l != 2));
    CHECK_INT(config_of(OF("llama", "\"bos_token_id\":0,\"eos_token_id\":0,")).bos_id, 0);
    CHECK_INT(config_of(OF("llama", "\"bos_token_id\":0,\"eos_token_id\":0,")).n_eos_ids, 1);
    CHECK_INT(config_of(OF("llama", "\"eos_token_id\":99,")).n_eos_ids, 1);
    CHECK_INT(config_of(OF("llama", "\"bos_token_id\":-2,")).bos_id, -1);
    CHECK_INT(config_of(LLAMA("\"num_key_value_heads\":null,")).n_kv_heads, 4);
    CHECK(config_of(OF("nanochat", "\"final_logit_softcapping\":null,")).logit_softcap == 0);
    CHECK(config_of(OF("nanochat", "")).logit_softcap == 15);
    c = config_of("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_layer\":2,\"n_head\":3,"
                  "\"n_positions\":9,\"vocab_size\":7,\"scale_attn_weights\":false,"
                  "\"scale_attn_by_inverse_layer_idx\":true}");
    CHECK(c.attention_scale == 1 && c.layers[0].attention_scale == 1);
    CHECK(c.layers[1].attention_scale == 0.5f);
}

Test(hf_config, biases_and_ties_are_what_the_family_has_unless_it_says_so) {
    static const struct {
        const char *text;
        int biases;
        bool tied;
    } CASES[] = {
        {OF("llama", ""), 0, false},
        {OF("llama", "\"attention_bias\":true,"), 4, false},
        {OF("llama", "\"tie_word_embeddings\":true,"), 0, true},
        {OF("qwen2", ""), 3, false},
        {OF("smollm3", ""), 0, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Read *read = read_text(CASES[i].text, strlen(CASES[i].text));
        HfFlags flags = read->flags;
        bool good = read->good;
        drop(read);
        CHECK(good && flags.attention_biases == CASES[i].biases && flags.tied == CASES[i].tied,
              "%s: %d, %d", CASES[i].text, flags.attention_biases, flags.tied);
    }
}

Test(hf_config, generation_defaults_are_not_negative) {
    static const Bad CASES[] = {
        {"{\"temperature\":0,\"top_k\":0,\"top_p\":null}", NULL},
        {"{\"temperature\":-0.5}", "\"temperature\": -0.5 is negative"},
        {"{\"repetition_penalty\":-1}", "\"repetition_penalty\": -1 is negative"},
        {"{\"min_p\":\"0\"}", "\"min_p\": wanted a number"},
        {"{\"eos_token_id\":1.5}", "\"eos_token_id\": wanted an integer"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Config config = config_of(LLAMA(""));
        GenerationDefaults defaults = {-1, -1, -1, -1, -1};
        Error error = {0};
        json_t *root =
            json_parse(CASES[i].text, strlen(CASES[i].text), &JSON_CONFIG_LIMITS, &error);
        bool good = hf_generation_read(&config, &defaults, root, &error);
        json_decref(root);
        CHECK(good == !CASES[i].message, "%s: %s", CASES[i].text, error.message);
        CHECK(good || strstr(error.message, CASES[i].message), "%s", error.message);
    }
}

Test(hf_config, the_limit_of_layers_passes_and_every_cut_of_a_config_is_refused) {
    static const char MOST[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":1,\"vocab_size\":9,"
        "\"num_hidden_layers\":1024,\"num_attention_heads\":1,\"max_position_embeddings\":9}";
    CHECK_INT(config_of(MOST).n_layers, 1024);
    for (size_t size = 0; size < sizeof MOST - 1; size++) {
        Read *read = read_text(MOST, size);
        bool good = read->good;
        drop(read);
        CHECK(!good, "%zu bytes of %zu", size, sizeof MOST - 1);
    }
}

// ---- class defaults ----

// A value of the configuration class in transformers 5 (configuration_*.py), or of the sizes below
// where the class derives it from them. The vocabulary is larger than every id, 64 heads and a
// width of 4096 make other numbers than any default.
typedef struct ClassDefaults {
    const char *model_type;
    bool tied;
    int biases, kv_heads, head_dim, window, bos, eos, original;
    double eps, theta, theta_local;
    Activation activation;
    double softcap;
} ClassDefaults;

static const ClassDefaults DEFAULTS[] = {
    {"llama", false, 0, 64, 64, 0, 1, 2, 8192, 1e-6, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"mistral", false, 0, 8, 64, 4096, 1, 2, 8192, 1e-6, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"qwen2", false, 3, 32, 64, 4096, -1, -1, 8192, 1e-6, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"qwen3", false, 0, 32, 128, 4096, -1, -1, 8192, 1e-6, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"gemma3_text", true, 0, 4, 256, 4096, 2, 1, 8192, 1e-6, 1e6, 1e4, ACTIVATION_GELU_TANH, 0},
    {"olmo2", false, 0, 64, 64, 0, -1, 50279, 8192, 1e-5, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"ministral3", false, 0, 8, 128, 0, 1, 2, 8192, 1e-5, 1e6, 1e4, ACTIVATION_SILU, 0},
    {"granite", false, 0, 64, 64, 0, 1, 2, 8192, 1e-6, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"gpt_neox", false, 0, 64, 64, 0, 0, 2, 8192, 1e-5, 1e4, 1e4, ACTIVATION_GELU_ERF, 0},
    // The last of 40 layers is global: every second or fourth one is.
    {"gemma2", true, 0, 4, 256, 0, 2, 1, 8192, 1e-6, 1e4, 1e4, ACTIVATION_GELU_TANH, 30},
    {"olmo3", false, 0, 64, 64, 0, -1, 50279, 8192, 1e-5, 5e5, 5e5, ACTIVATION_SILU, 0},
    {"exaone4", false, 0, 32, 64, 0, 0, 2, 8192, 1e-5, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"hunyuan_v1_dense", false, 0, 64, 64, 0, 1, 2, 8192, 1e-5, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"ernie4_5", true, 0, 2, 128, 0, 1, 2, 8192, 1e-5, 5e5, 1e4, ACTIVATION_SILU, 0},
    {"arcee", false, 0, 64, 64, 0, 128000, 128001, 8192, 1e-5, 1e4, 1e4, ACTIVATION_RELU2, 0},
    {"phi3", false, 0, 64, 64, 0, 1, 32000, 4096, 1e-5, 1e4, 1e4, ACTIVATION_SILU, 0},
    {"smollm3", true, 0, 4, 64, 0, 128000, 128001, 8192, 1e-6, 2e6, 1e4, ACTIVATION_SILU, 0},
    {"nanochat", false, 0, 64, 64, 0, 0, 1, 8192, 1e-6, 1e4, 1e4, ACTIVATION_RELU2, 15},
};

static void check_defaults(const ClassDefaults *d, const Read *read) {
    const Config *c = &read->config;
    CHECK(read->good, "%s: %s", d->model_type, read->error.message);
    CHECK(read->flags.tied == d->tied && read->flags.attention_biases == d->biases, "%s",
          d->model_type);
    CHECK(c->n_kv_heads == d->kv_heads && c->head_dim == d->head_dim, "%s: %d, %d", d->model_type,
          c->n_kv_heads, c->head_dim);
    bool quarter = !strcmp(d->model_type, "gpt_neox"); // of a head's channels rotate
    CHECK(c->rope_dim == d->head_dim / (quarter ? 4 : 1) &&
              c->rope.original_max_seq_len == d->original,
          "%s: %d", d->model_type, c->rope.original_max_seq_len);
    CHECK(c->bos_id == d->bos && c->n_eos_ids == (d->eos >= 0), "%s: %d, %d", d->model_type,
          c->bos_id, c->n_eos_ids);
    CHECK(d->eos < 0 || c->eos_ids[0] == d->eos, "%s: %d", d->model_type, c->eos_ids[0]);
    CHECK(c->norm_eps == (float)d->eps && c->rope.theta == (float)d->theta, "%s: %g, %g",
          d->model_type, (double)c->norm_eps, (double)c->rope.theta);
    CHECK(c->rope_local.theta == (float)d->theta_local, "%s", d->model_type);
    CHECK(c->activation == d->activation && c->logit_softcap == (float)d->softcap, "%s",
          d->model_type);
    // The last of 40 layers slides in each family that has a window, but for every fourth one.
    CHECK_INT(c->layers[39].window, d->window);
    CHECK_INT(c->layers[39].local_rope, !strcmp(d->model_type, "gemma3_text"));
}

Test(hf_config, every_family_has_the_defaults_of_its_class_in_transformers) {
    for (size_t i = 0; i < sizeof DEFAULTS / sizeof *DEFAULTS; i++) {
        const char *text =
            test_text("{\"model_type\":\"%s\",\"hidden_size\":4096,\"intermediate_size\":96,"
                      "\"num_hidden_layers\":40,\"num_attention_heads\":64,\"vocab_size\":200000,"
                      "\"max_position_embeddings\":8192,\"use_sliding_window\":true}",
                      DEFAULTS[i].model_type);
        Read *read = read_text(text, strlen(text));
        check_defaults(&DEFAULTS[i], read);
        drop(read);
    }
}

// Its defaults of sizes are read in practice: a text_config may be nearly empty.
Test(hf_config, gemma_3_needs_no_key_but_its_type) {
    Config c = config_of("{\"model_type\":\"gemma3_text\"}");
    CHECK(c.dim == 2304 && c.hidden_dim == 9216 && c.n_layers == 26 && c.n_heads == 8);
    CHECK(c.n_kv_heads == 4 && c.head_dim == 256 && c.vocab_size == 262208);
    CHECK_INT(c.max_seq_len, 131072);
    CHECK_NEAR(c.attention_scale, 0.0625, 0);
    CHECK(c.embedding_scale == 48 && c.logit_softcap == 0); // sqrt(2304)
    for (int l = 0; l < 26; l++)
        CHECK(c.layers[l].window == (l % 6 == 5 ? 0 : 4096) &&
              c.layers[l].local_rope == (l % 6 != 5));
}

#define GPT2_CONFIG(more)                                                                          \
    "{" more "\"model_type\":\"gpt2\",\"n_embd\":12,\"n_layer\":2,\"n_head\":3,"                   \
    "\"n_positions\":9,\"vocab_size\":50257}"

Test(hf_config, gpt2_has_the_defaults_of_its_class_and_no_rope) {
    Config c = config_of(GPT2_CONFIG(""));
    CHECK(c.hidden_dim == 48 && c.n_kv_heads == 3 && c.head_dim == 4 && c.max_seq_len == 9);
    CHECK(c.bos_id == 50256 && c.n_eos_ids == 1 && c.eos_ids[0] == 50256);
    CHECK(c.norm_eps == 1e-5f && c.activation == ACTIVATION_GELU_TANH);
    CHECK(c.rope_dim == 0 && c.rope.theta == 10000 && c.rope_local.theta == 10000); // config_init's
    CHECK(config_of(GPT2_CONFIG("\"layer_norm_epsilon\":0.5,")).norm_eps == 0.5f);
}

Test(hf_config, a_size_that_no_class_has_must_be_given) {
    static const char *const KEYS[] = {"hidden_size",       "intermediate_size",
                                       "num_hidden_layers", "num_attention_heads",
                                       "vocab_size",        "max_position_embeddings"};
    for (size_t left_out = 0; left_out < sizeof KEYS / sizeof *KEYS; left_out++) {
        char text[300] = "{\"model_type\":\"llama\"", wanted[60];
        for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
            size_t used = strlen(text);
            if (i != left_out) snprintf(text + used, sizeof text - used, ",\"%s\":8", KEYS[i]);
        }
        strcat(text, "}");
        snprintf(wanted, sizeof wanted, "\"%s\" is missing", KEYS[left_out]);
        check_refused(text, wanted);
    }
}

Test(hf_config, what_a_dictionary_of_rope_leaves_out) {
    Config c = config_of(LLAMA("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4},"));
    CHECK(c.rope.beta_fast == 32 && c.rope.beta_slow == 1); // arXiv 2309.00071
    CHECK_INT(c.rope.original_max_seq_len, 128);
    CHECK(c.rope.mscale == 0 && c.rope.attention_factor == 0 && !c.rope.no_truncate);
    // Dynamic NTK stretches from the model's own length, whatever else is given.
    c = config_of(LLAMA("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,"
                        "\"original_max_position_embeddings\":32},"));
    CHECK_INT(c.rope.original_max_seq_len, 128);
    c = config_of(OF("smollm3", ""));
    for (int l = 0; l < 4; l++)
        CHECK_INT(c.layers[l].no_rope, l == 3);
    c = config_of(OF("smollm3", "\"no_rope_layers\":[0,1,1,0],"));
    for (int l = 0; l < 4; l++)
        CHECK_INT(c.layers[l].no_rope, l == 0 || l == 3);
}

// ---- families of 2026 ----

Test(hf_config, exaone4_rotates_where_it_has_a_window_or_has_none_at_all) {
    Config c = config_of(OF("exaone4", "\"sliding_window\":7,"));
    for (int l = 0; l < 4; l++)
        CHECK(c.layers[l].window == (l == 3 ? 0 : 7) && c.layers[l].no_rope == (l == 3));
    c = config_of(OF("exaone4", "\"sliding_window\":null,\"sliding_window_pattern\":null,"));
    for (int l = 0; l < 4; l++)
        CHECK(!c.layers[l].window && !c.layers[l].no_rope);
    // A pattern of letters needs the list beside it, in transformers too.
    check_refused(OF("exaone4", "\"sliding_window_pattern\":\"LLLG\","), "sliding_window_pattern");
    c = config_of(OF("exaone4", "\"sliding_window_pattern\":\"LLLG\",\"layer_types\":["
                                "\"full_attention\",\"sliding_attention\",\"full_attention\","
                                "\"full_attention\"],"));
    CHECK(c.layers[1].window == 4096 && c.layers[0].no_rope && !c.layers[1].no_rope);
}

Test(hf_config, olmo3_scales_the_rope_of_its_global_layers_alone) {
    Config c = config_of(OF("olmo3", "\"rope_theta\":300,\"rope_scaling\":{\"rope_type\":\"yarn\","
                                     "\"factor\":4},"));
    CHECK(c.rope.scaling == ROPE_YARN && c.rope_local.scaling == ROPE_PLAIN);
    CHECK(c.rope.theta == 300 && c.rope_local.theta == 300);
    c = config_of(OF("olmo3", "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
                              "\"rope_theta\":300},\"sliding_attention\":{\"rope_theta\":200}},"));
    CHECK(c.rope.theta == 300 && c.rope_local.theta == 200);
}

// theta alpha^(d / (d - 2)) with d = 16.
Test(hf_config, hunyuans_alpha_makes_theta_larger_and_nothing_else) {
    Config c = config_of(OF("hunyuan_v1_dense", "\"rope_scaling\":{\"type\":\"dynamic\","
                                                "\"alpha\":50,\"factor\":3,\"mscale\":2},"));
    CHECK_NEAR(c.rope.theta, 1e4 * pow(50, 16.0 / 14.0), 0.5);
    CHECK(c.rope.scaling == ROPE_PLAIN && c.rope.factor == 0 && c.rope.mscale == 0);
    c = config_of(OF("hunyuan_v1_dense", "\"rope_scaling\":{\"type\":\"linear\",\"alpha\":50,"
                                         "\"factor\":3},"));
    CHECK(c.rope.theta == 1e4f && c.rope.scaling == ROPE_LINEAR);
    static const char *const WRONG[] = {"0", "-1", "1e40", "\"x\"", "true"};
    // The exponent would be 2 / 0; of 1 every power is 1.
    check_refused(OF("hunyuan_v1_dense",
                     "\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1},"),
                  "\"alpha\": 1 with a head_dim of 2");
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        check_refused(test_text(OF("hunyuan_v1_dense",
                                   "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":%s},"),
                                WRONG[i]),
                      "\"alpha\"");
    check_refused(LLAMA("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,\"alpha\":5},"),
                  "\"alpha\" is not supported in LlamaForCausalLM");
}

Test(hf_config, yarns_factor_that_is_the_formula_is_the_formula) {
    Config c = config_of(LLAMA("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":8,"
                               "\"attention_factor\":1.2079441541679836},"));
    Error error = {0};
    CHECK(config_finish(&c, &error) && c.rope.attention_factor == 0, "%s", error.message);
    c = config_of(LLAMA("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":8,"
                        "\"attention_factor\":1.208},"));
    CHECK(config_finish(&c, &error) && c.rope.attention_factor == 1.208f, "%s", error.message);
}

Test(hf_config, ernie_with_biases_is_refused) {
    check_refused(OF("ernie4_5", "\"use_bias\":true,"), "\"use_bias\" is not supported");
    CHECK_INT(config_of(OF("ernie4_5", "\"use_bias\":false,")).n_kv_heads, 2);
}

#define HYBRID(more)                                                                               \
    OF("granitemoehybrid", "\"shared_intermediate_size\":40,\"num_local_experts\":0," more)
#define ATTENTION_LAYERS                                                                           \
    "\"layer_types\":[\"attention\",\"attention\",\"full_attention\",\"attention\"],"

Test(hf_config, granite_scales_four_things) {
    Config c = config_of(OF("granite", "\"embedding_multiplier\":12,\"attention_multiplier\":0.125,"
                                       "\"residual_multiplier\":0.22,\"logits_scaling\":8,"));
    CHECK(c.embedding_scale == 12 && c.attention_scale == 0.125f && c.residual_scale == 0.22f &&
          c.logit_divisor == 8);
    c = config_of(OF("granite", "")); // the class says 1 for all, for the scores too
    CHECK(c.embedding_scale == 1 && c.attention_scale == 1 && c.residual_scale == 1 &&
          c.logit_divisor == 1);
    c = config_of(HYBRID(ATTENTION_LAYERS "\"position_embedding_type\":\"rope\","));
    CHECK(c.hidden_dim == 40 && !c.layers[0].no_rope && !c.layers[3].no_rope);
    c = config_of(HYBRID(ATTENTION_LAYERS));
    CHECK(c.layers[0].no_rope && c.layers[3].no_rope, "rope is what must be asked for");
}

Test(hf_config, gemma_2_caps_scores_and_logits) {
    Config c = config_of(OF("gemma2", ""));
    CHECK(c.score_softcap == 50 && c.logit_softcap == 30 && c.attention_scale == 0.0625f);
    for (int l = 0; l < 4; l++)
        CHECK(c.layers[l].window == (l % 2 ? 0 : 4096) && !c.layers[l].local_rope);
    c = config_of(
        OF("gemma2", "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null,"));
    CHECK(c.score_softcap == 0 && c.logit_softcap == 0);
    CHECK(config_of(OF("gemma2", "")).embedding_scale == 8, "sqrt(64)");
    c = config_of(OF("gemma3_text", "\"final_logit_softcapping\":20,"));
    CHECK(c.score_softcap == 0 && c.logit_softcap == 20 && c.embedding_scale == 8);
}

// Of 30 layers of Qwen2 those from max_window_layers on slide, which is 28 where no key says so.
Test(hf_config, qwen_2_slides_from_the_28th_layer_on) {
    static const char QWEN[] =
        "{\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":100,"
        "\"num_hidden_layers\":30,\"num_attention_heads\":4,\"max_position_embeddings\":128,"
        "\"use_sliding_window\":true,\"sliding_window\":7}";
    Config c = config_of(QWEN);
    for (int l = 0; l < 30; l++)
        CHECK_INT(c.layers[l].window, l < 28 ? 0 : 7);
}

// More layers than limpid holds: their types are not read beyond that, and the number is refused.
Test(hf_config, granite_with_too_many_layers_is_refused) {
    enum { LAYERS = 1025 };
    static const char BEGIN[] =
        "{\"model_type\":\"granitemoehybrid\",\"shared_intermediate_size\":40,"
        "\"num_local_experts\":0,\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":100,"
        "\"num_attention_heads\":4,\"max_position_embeddings\":128,\"num_hidden_layers\":1025,"
        "\"layer_types\":[";
    static char text[sizeof BEGIN + 12 * LAYERS + 2];
    strcpy(text, BEGIN);
    for (int l = 0; l < LAYERS; l++)
        strcat(text, l ? ",\"attention\"" : "\"attention\"");
    strcat(text, "]}");
    Read *read = read_text(text, strlen(text));
    Error error = {0};
    CHECK(!read->good || !config_finish(&read->config, &error), "accepted");
    drop(read);
}

Test(hf_config, ministral_3_lets_queries_grow) {
    static const char ROPE[] =
        "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":16,\"mscale\":1,"
        "\"mscale_all_dim\":1,\"original_max_position_embeddings\":16,"
        "\"llama_4_scaling_beta\":0.1}";
    Config c = config_of(test_text("{%s,\"model_type\":\"ministral3\",\"hidden_size\":64,"
                                   "\"intermediate_size\":96,\"num_hidden_layers\":4,"
                                   "\"num_attention_heads\":8,\"vocab_size\":100,"
                                   "\"max_position_embeddings\":128}",
                                   ROPE));
    CHECK(c.rope.query_growth == 0.1f && c.rope.original_max_seq_len == 16);
    // As published: the language model is inside.
    c = config_of(test_text("{\"model_type\":\"mistral3\",\"architectures\":"
                            "[\"Mistral3ForConditionalGeneration\"],\"vision_config\":{},"
                            "\"text_config\":{%s,\"model_type\":\"ministral3\",\"hidden_size\":64,"
                            "\"intermediate_size\":96,\"num_hidden_layers\":4,"
                            "\"num_attention_heads\":8,\"vocab_size\":100,"
                            "\"max_position_embeddings\":128}}",
                            ROPE));
    CHECK(c.rope.query_growth == 0.1f && c.dim == 64 && c.head_dim == 128);
}

Test(hf_config, gpt_neox_has_keys_of_its_own) {
    Config c = config_of(OF("gpt_neox", "\"layer_norm_eps\":0.5,\"rotary_pct\":0.5,"
                                        "\"rotary_emb_base\":300,"));
    CHECK(c.n_kv_heads == 4 && c.rope_dim == 8 && c.rope.theta == 300 && c.norm_eps == 0.5f);
    c = config_of(OF("gpt_neox", "\"use_parallel_residual\":false,"));
    CHECK(!c.parallel_residual && c.rope_dim == 4);
    c = config_of(OF("gpt_neox", "\"rope_parameters\":{\"partial_rotary_factor\":1.0},"));
    CHECK_INT(c.rope_dim, 16);
}

Test(hf_config, new_keys_have_ranges_and_families) {
    static const Bad EDGES[] = {
        {OF("llama", "\"residual_multiplier\":0.5,"),
         "\"residual_multiplier\" is not supported in LlamaForCausalLM"},
        {OF("llama", "\"residual_multiplier\":1.0,"), NULL},
        {OF("granite", "\"residual_multiplier\":0,"), "0 is not positive"},
        {OF("granite", "\"residual_multiplier\":-0.5,"), "-0.5 is not positive"},
        {OF("granite", "\"residual_multiplier\":NaN,"), "JSON"},
        {OF("granite", "\"embedding_multiplier\":0,"), "0 is not positive"},
        {OF("granite", "\"attention_multiplier\":0,"), "0 is not positive"},
        {OF("granite", "\"attention_multiplier\":-1,"), "-1 is not positive"},
        {OF("granite", "\"logits_scaling\":0,"), "0 is not positive"},
        {OF("granite", "\"logits_scaling\":-8,"), "-8 is not positive"},
        {OF("granite", "\"embedding_multiplier\":-1,"), "-1 is not positive"},
        {OF("granite", "\"attention_multiplier\":1e99,"), "\"attention_multiplier\""},
        {OF("gemma2", "\"attn_logit_softcapping\":-50,"), "-50 is negative"},
        {OF("gemma2", "\"attn_logit_softcapping\":0,"), NULL},
        {OF("gemma3_text", "\"attn_logit_softcapping\":50,"),
         "\"attn_logit_softcapping\" is not supported in Gemma3ForCausalLM"},
        {OF("llama", "\"rope_scaling\":{\"type\":\"default\",\"llama_4_scaling_beta\":0.1},"),
         "\"llama_4_scaling_beta\" is not supported in LlamaForCausalLM"},
        {OF("ministral3", "\"rope_parameters\":{\"llama_4_scaling_beta\":-0.1},"),
         "-0.1 is negative"},
        {OF("ministral3", "\"rope_parameters\":{\"llama_4_scaling_beta\":0},"), NULL},
        {OF("ministral3", "\"rope_parameters\":{\"llama_4_scaling_beta\":0.1,"
                          "\"original_max_position_embeddings\":0},"),
         "\"original_max_position_embeddings\": wanted 1"},
        {OF("phi3", "\"original_max_position_embeddings\":0,"),
         "\"original_max_position_embeddings\": wanted 1"},
        {OF("llama", "\"rotary_pct\":0.25,"),
         "\"rotary_pct\" is not supported in LlamaForCausalLM"},
        {OF("granite", "\"position_embedding_type\":\"nope\","),
         "\"position_embedding_type\" is not supported in GraniteForCausalLM"},
        {OF("granite", "\"position_embedding_type\":null,"), NULL},
        {OF("gpt_neox", "\"attention_bias\":false,"), "\"attention_bias\": false"},
        {OF("gpt_neox", "\"rotary_pct\":0,"), "wanted 0 .. 1, got 0"},
        {OF("gpt_neox", "\"rotary_pct\":1.5,"), "wanted 0 .. 1, got 1.5"},
        {OF("gpt_neox", "\"rotary_pct\":-0.25,"), "wanted 0 .. 1, got -0.25"},
        {OF("gpt_neox", "\"layer_norm_eps\":1e99,"), "\"layer_norm_eps\""},
        {OF("gpt_neox", "\"use_parallel_residual\":1,"), "\"use_parallel_residual\""},
        {HYBRID(ATTENTION_LAYERS), NULL},
        {OF("granitemoehybrid",
            "\"num_local_experts\":0," ATTENTION_LAYERS "\"shared_intermediate_size\":-40,"),
         "\"shared_intermediate_size\": wanted 1 .. 4194304, got -40"},
        {OF("granitemoehybrid",
            "\"num_local_experts\":0," ATTENTION_LAYERS "\"shared_intermediate_size\":0,"),
         "\"shared_intermediate_size\": wanted 1 .. 4194304, got 0"},
        {HYBRID(""), "\"layer_types\"[0]: only attention is supported"},
        {HYBRID("\"layer_types\":[\"attention\",\"mamba\",\"attention\",\"attention\"],"),
         "\"layer_types\"[1]: only attention is supported"},
        {OF("granitemoehybrid", "\"shared_intermediate_size\":40," ATTENTION_LAYERS),
         "\"num_local_experts\" is missing"},
        {OF("granitemoehybrid", "\"num_local_experts\":8,"),
         "\"num_local_experts\" is not supported"},
        {OF("granitemoehybrid",
            "\"shared_intermediate_size\":40,\"num_local_experts\":null," ATTENTION_LAYERS),
         "\"num_local_experts\" is missing"},
        {OF("granitemoehybrid", "\"num_local_experts\":-1,"), "\"num_local_experts\""},
        {HYBRID("\"layer_types\":[\"attention\",\"attention\"],"), "wanted 4 entries, got 2"},
        {HYBRID("\"layer_types\":[\"attention\",\"attention\",\"attention\",\"attention\","
                "\"mamba\"],"),
         "wanted 4 entries, got 5"},
        {HYBRID(ATTENTION_LAYERS "\"position_embedding_type\":\"learned\","),
         "wanted \"rope\" or \"nope\", got \"learned\""},
        {HYBRID(ATTENTION_LAYERS "\"position_embedding_type\":\"nope\","), NULL},
        {OF("granite", "\"normalization_function\":\"rmsnorm\","), NULL},
        {OF("granite", "\"normalization_function\":\"layernorm\","), "\"normalization_function\""},
    };
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++) {
        if (EDGES[i].message)
            check_refused(EDGES[i].text, EDGES[i].message);
        else
            config_of(EDGES[i].text);
    }
}

// The file is read; what is in it is out of range.
static void check_out_of_range(const char *text, const char *message) {
    Config config = config_of(text);
    Error error = {0};
    CHECK(!config_finish(&config, &error), "accepted: %s", text);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, message), "%s\n  not in: %s", message, error.message);
}

Test(hf_config, new_numbers_have_the_ranges_of_a_config) {
    static const Bad EDGES[] = {
        {OF("granite", "\"residual_multiplier\":1e30,"), "residual_scale: got 1e+30"},
        {OF("granite", "\"logits_scaling\":1e30,"), "logit_divisor: got 1e+30"},
        {OF("granite", "\"embedding_multiplier\":1e30,"), "embedding_scale: got 1e+30"},
        {OF("gemma2", "\"attn_logit_softcapping\":1e30,"), "score_softcap: got 1e+30"},
        {OF("ministral3", "\"rope_parameters\":{\"llama_4_scaling_beta\":1e30},"),
         "query_growth: got 1e+30"},
        {OF("gpt_neox", "\"rotary_emb_base\":0,"), "rope theta: got 0"},
        {OF("gpt_neox", "\"rotary_emb_base\":-1e4,"), "rope theta: got -10000"},
        {OF("gpt_neox", "\"rotary_emb_base\":1e30,"), "rope theta: got 1e+30"},
        {OF("gpt_neox", "\"layer_norm_eps\":-1,"), "norm_eps: got -1"},
    };
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++)
        check_out_of_range(EDGES[i].text, EDGES[i].message);
}

// All keys of tencent's 7B model, without numbers that matter.
Test(hf_config, a_published_hunyuan_is_read) {
    Config c = config_of(OF(
        "hunyuan_v1_dense",
        "\"add_classification_head\":false,\"attention_head_dim\":16,\"cla_share_factor\":2,"
        "\"class_num\":0,\"dense_list\":[4096,0],\"head_dim\":16,\"im_end_id\":5,"
        "\"im_newline_id\":11,\"im_start_id\":4,\"mask_init_id\":12,\"mlp_bias\":false,"
        "\"norm_type\":\"rms\",\"org_vocab_size\":128167,\"pad_id\":127961,\"pool_type\":\"last\","
        "\"pretraining_tp\":1,\"sep_token_id\":127962,\"text_end_id\":7,\"text_start_id\":6,"
        "\"use_cla\":false,\"use_qk_norm\":true,\"use_rotary_pos_emb\":true,"));
    CHECK_INT(c.head_dim, 16);
    check_refused(OF("llama", "\"use_qk_norm\":true,"), "\"use_qk_norm\" is not supported");
    check_refused(OF("hunyuan_v1_dense", "\"use_cla\":true,"), "\"use_cla\" is not supported");
    check_refused(OF("hunyuan_v1_dense", "\"norm_type\":\"hf_rms\","), "\"norm_type\"");
}

// Mistral Small 3.1 has the same wrapper around another model.
Test(hf_config, a_wrapper_is_taken_for_the_model_inside) {
    check_refused(
        "{\"model_type\":\"mistral3\",\"architectures\":"
        "[\"Mistral3ForConditionalGeneration\"],\"text_config\":{\"model_type\":\"mistral\"}}",
        "unsupported architecture \"Mistral3ForConditionalGeneration\"");
}

// As Devstral 2, GPT-NeoX-20B, DistilGPT-2, Polyglot and a Granite 4 that transformers saved have
// them.
Test(hf_config, odd_keys_of_published_files_are_read) {
    Config c =
        config_of(OF("ministral3", "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":64,"
                                   "\"mscale\":1.0,\"mscale_all_dim\":0.0,\"rope_theta\":5,"
                                   "\"original_max_position_embeddings\":8},"));
    CHECK(c.rope.mscale == 1 && c.rope.mscale_all_dim == 0 && c.rope.scaling == ROPE_YARN);
    check_refused(OF("ministral3", "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":64,"
                                   "\"mscale_all_dim\":-1},"),
                  "\"mscale_all_dim\": -1 is not positive");
    c = config_of(OF("gpt_neox", "\"hidden_act\":\"gelu_fast\",\"hidden_dropout_prob\":0,"
                                 "\"attention_probs_dropout_prob\":0,\"num_steps\":\"step\","));
    CHECK_INT(c.activation, ACTIVATION_GELU_TANH); // FastGELUActivation
    config_of(OF("llama", "\"_num_labels\":1,\"num_labels\":2,\"tf_legacy_loss\":false,"));
    // No experts, of which each token gets two.
    config_of(
        OF("granitemoehybrid",
           "\"shared_intermediate_size\":96,\"layer_types\":[\"attention\",\"attention\","
           "\"attention\",\"attention\"],\"num_local_experts\":0,\"num_experts_per_tok\":2,"));
    check_refused(OF("llama", "\"num_experts_per_tok\":2,"), "\"num_experts_per_tok\" is not");
    check_refused(OF("granitemoehybrid", ""), "\"shared_intermediate_size\" is missing");
}

// Phi 3's class takes yarn for longrope, and knows no other kind.
Test(hf_config, phi3_stretches_by_longrope_alone) {
    Config c = config_of(OF("phi3", "\"rope_scaling\":{\"type\":\"yarn\","
                                    "\"short_factor\":[1,1,1,1,1,1,1,1],"
                                    "\"long_factor\":[2,2,2,2,2,2,2,2]},"));
    CHECK_INT(c.rope.scaling, ROPE_LONGROPE);
    check_refused(OF("phi3", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"),
                  "Phi3ForCausalLM has longrope alone");
    check_refused(OF("phi3", "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2},"),
                  "Phi3ForCausalLM has longrope alone");
}

// In transformers 5 the wrapper says it, in older files the language model.
Test(hf_config, a_wrapper_may_say_that_the_head_is_tied) {
    static const char *const TIES[][2] = {{"\"tie_word_embeddings\":true,", ""},
                                          {"", "\"tie_word_embeddings\":true,"},
                                          {"\"tie_word_embeddings\":false,", ""}};
    for (int i = 0; i < 3; i++) {
        const char *text =
            test_text("{\"model_type\":\"mistral3\",%s\"architectures\":["
                      "\"Mistral3ForConditionalGeneration\"],"
                      "\"text_config\":{%s\"model_type\":\"ministral3\",\"hidden_size\":64,"
                      "\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":8,"
                      "\"vocab_size\":100,\"max_position_embeddings\":128}}",
                      TIES[i][0], TIES[i][1]);
        Read *read = read_text(text, strlen(text));
        CHECK(read->good && read->flags.tied == (i < 2), "%d: %s", i, read->error.message);
        drop(read);
    }
}

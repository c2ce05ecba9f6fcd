// Families: the same model under the names of Hugging Face and of GGUF gives the same logits; what
// a family must have and must not have.
#include "model/model.h"
#include "tests/support/files/as_gguf.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <unistd.h>

// ---- one model from both containers ----

enum { PROMPT = 24 };

// Logits of every row of a fixed prompt; what the two containers say must come to the same bits.
static float *logits_of(const Checkpoint *checkpoint, int context) {
    const Config *c = checkpoint_config(checkpoint);
    ModelOptions options = {
        .threads = 1, .precision = PRECISION_F32, .context = context, .max_logit_rows = PROMPT};
    Error error = {0};
    bool all[PROMPT];
    int32_t tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++) {
        all[i] = true;
        tokens[i] = (i * i * 7 + 3) % c->vocab_size;
    }
    Model *model = model_open(c, checkpoint_weights(checkpoint), &options, &error);
    CHECK(model, "%s", error.message);
    Batch batch = {.n = PROMPT, .tokens = tokens, .wants_logits = all};
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
    size_t count = (size_t)PROMPT * (size_t)c->vocab_size;
    float *logits = malloc(count * sizeof *logits);
    memcpy(logits, model_logits(model, 0), count * sizeof *logits);
    model_close(model);
    return logits;
}

static bool same_logits(const Checkpoint *a, const Checkpoint *b, int context) {
    size_t count = (size_t)PROMPT * (size_t)checkpoint_config(a)->vocab_size;
    float *x = logits_of(a, context), *y = logits_of(b, context);
    bool same = !memcmp(x, y, count * sizeof *x);
    free(x);
    free(y);
    return same;
}

static Checkpoint *open_directory(const char *directory) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, directory, &error), "%s", error.message);
    return checkpoint;
}

// Writes the file, frees it, opens it; the bytes are the caller's to free.
static Checkpoint *open_gguf(GgufFile *file, uint8_t **bytes) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    size_t size;
    *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    CHECK(checkpoint_open_memory(&checkpoint, "t.gguf", *bytes, size, &error), "%s", error.message);
    return checkpoint;
}

Test(families, a_model_computes_the_same_from_both_containers) {
    static const struct {
        const char *directory, *architecture;
    } MODELS[] = {
        {"llama-untied", "llama"}, {"llama-tied", "llama"},   {"mistral-window8", "llama"},
        {"qwen2", "qwen2"},        {"qwen3", "qwen3"},        {"qwen3-bf16", "qwen3"},
        {"gemma3", "gemma3"},      {"gemma3-bf16", "gemma3"}, {"olmo2", "olmo2"},
        {"smollm3", "smollm3"},    {"phi3", "phi3"},          {"gpt2", "gpt2"}};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        uint8_t *bytes;
        const char *name = MODELS[i].directory;
        const char *path = test_reference_model(name);
        // A GGUF cannot say which layers of ours do not rotate, nor which have a window.
        if (!strcmp(path, "build/tiny-models/smollm3")) continue;
        if (!strncmp(path, "build/tiny-models/gemma3", 24)) continue;
        Checkpoint *hf = open_directory(path);
        Checkpoint *gguf = open_gguf(as_gguf(MODELS[i].architecture, hf), &bytes);
        int learned = checkpoint_config(hf)->max_seq_len; // positions of GPT-2
        CHECK(same_logits(hf, gguf, learned < 64 ? learned : 64), "%s", name);
        CHECK_INT(checkpoint_unused(gguf), 0);
        checkpoint_close(gguf);
        checkpoint_close(hf);
        free(bytes);
    }
}

// ---- Phi 3 with longrope, partial rotary ----

static const float LONG[] = {2, 3, 5, 7, 11, 13}, SHORT[] = {1, 1.5f, 1.25f, 2, 1, 3};

// The reference model phi3 with other positions, in a directory of its own. Both the public one and
// ours have 12 channels of a head that rotate.
static const char *phi3_directory(const char *name, const char *attention_factor) {
    const char *from = test_reference_model("phi3"), *to = test_temporary(name);
    bool ours = !strncmp(from, "build/", 6);
    char path[700], target[700], *here = getcwd(NULL, 0);
    CHECK(!mkdir(to, 0700));
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    snprintf(target, sizeof target, "%s/%s/model.safetensors", here, from);
    CHECK(!symlink(target, path));
    free(here);
    snprintf(path, sizeof path, "%s/config.json", to);
    const char *config =
        test_text("{\"model_type\":\"phi3\",%s,"
                  "\"num_hidden_layers\":2,\"num_key_value_heads\":1,"
                  "\"max_position_embeddings\":256,\"sliding_window\":9,"
                  "\"original_max_position_embeddings\":40,"
                  "\"rope_scaling\":{\"type\":\"longrope\",%s\"long_factor\":[2,3,5,7,11,13],"
                  "\"short_factor\":[1,1.5,1.25,2,1,3]}}",
                  ours ? "\"hidden_size\":120,\"intermediate_size\":44,\"num_attention_heads\":3,"
                         "\"vocab_size\":257,\"partial_rotary_factor\":0.3"
                       : "\"hidden_size\":64,\"intermediate_size\":120,\"num_attention_heads\":4,"
                         "\"vocab_size\":280,\"partial_rotary_factor\":0.75",
                  attention_factor);
    test_write_file(path, config, strlen(config));
    return to;
}

static GgufFile *phi3_gguf(const Checkpoint *from, float attention_factor) {
    GgufFile *file = as_gguf("phi3", from);
    as_gguf_number(file, "phi3", "rope.scaling.original_context_length", 40);
    if (attention_factor > 0)
        as_gguf_float(file, "phi3", "rope.scaling.attn_factor", attention_factor);
    memcpy(gguf_add_tensor(file, "rope_factors_long.weight", DTYPE_F32, 6, 0)->data, LONG,
           sizeof LONG);
    memcpy(gguf_add_tensor(file, "rope_factors_short.weight", DTYPE_F32, 6, 0)->data, SHORT,
           sizeof SHORT);
    return file;
}

Test(families, phi3_with_longrope_is_the_same_from_both_containers) {
    for (int given = 0; given < 2; given++) {
        uint8_t *bytes;
        Checkpoint *hf = open_directory(phi3_directory(given ? "phi3-given" : "phi3-formula",
                                                       given ? "\"attention_factor\":1.25," : ""));
        Checkpoint *gguf = open_gguf(phi3_gguf(hf, given ? 1.25f : 0), &bytes);
        CHECK(same_logits(hf, gguf, 40), "short, %d", given);
        CHECK(same_logits(hf, gguf, 41), "long, %d", given);
        float *a = logits_of(hf, 40), *b = logits_of(hf, 41);
        bool same = !memcmp(a, b, sizeof *a * PROMPT * (size_t)checkpoint_config(hf)->vocab_size);
        free(a);
        free(b);
        CHECK(!same, "a longer context has other factors");
        checkpoint_close(gguf);
        checkpoint_close(hf);
        free(bytes);
    }
}

// ---- what belongs to a family ----

static void open_as(const char *architecture, GgufFile *file, const char *message) {
    // The tiny llama's keys under another architecture.
    for (size_t i = 0, n = file->n_keys; i < n; i++) {
        char name[100];
        if (strncmp(file->keys[i].name, "llama.", 6) != 0) continue;
        snprintf(name, sizeof name, "%s.%s", architecture, file->keys[i].name + 6);
        uint32_t type = file->keys[i].type;
        size_t key_size = file->keys[i].size;
        uint8_t payload[8];
        memcpy(payload, file->keys[i].payload, key_size);
        gguf_set_raw(file, name, type, payload, key_size);
    }
    gguf_set_text(file, "general.architecture", architecture);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    bool opened = checkpoint_open_memory(&checkpoint, "t", bytes, size, &error);
    CHECK(opened == !message, "%s", error.message);
    CHECK(opened || strstr(error.message, message), "%s", error.message);
    checkpoint_close(checkpoint);
    free(bytes);
}

static GgufFile *with_vectors(const char *a, const char *b, const char *c, uint64_t size_a,
                              uint64_t size_b) {
    GgufFile *file = gguf_tiny_llama();
    for (int layer = 0; layer < 2; layer++) {
        char name[100];
        snprintf(name, sizeof name, "blk.%d.%s", layer, a);
        gguf_add_tensor(file, name, DTYPE_F32, size_a, 0);
        snprintf(name, sizeof name, "blk.%d.%s", layer, b);
        gguf_add_tensor(file, name, DTYPE_F32, size_b, 0);
        snprintf(name, sizeof name, "blk.%d.%s", layer, c ? c : "");
        if (c) gguf_add_tensor(file, name, DTYPE_F32, size_b, 0);
    }
    return file;
}

Test(families, each_has_what_it_must_and_nothing_else) {
    open_as("llama", gguf_tiny_llama(), NULL);
    open_as("qwen2", gguf_tiny_llama(), "\"blk.0.attn_q.bias\" is missing");
    open_as("qwen2", with_vectors("attn_q.bias", "attn_k.bias", "attn_v.bias", 4, 2), NULL);
    open_as("qwen3", gguf_tiny_llama(), "\"blk.0.attn_q_norm.weight\" is missing");
    open_as("qwen3", with_vectors("attn_q_norm.weight", "attn_k_norm.weight", NULL, 2, 2), NULL);
    open_as("qwen3", with_vectors("attn_q_norm.weight", "attn_k_norm.weight", NULL, 4, 2),
            "(layers.0.q_norm): wanted (2), got (4)");
    open_as("llama", with_vectors("attn_q_norm.weight", "attn_k_norm.weight", NULL, 2, 2),
            "has no use in architecture \"llama\"");
    open_as("mamba", gguf_tiny_llama(), "unsupported architecture \"mamba\"");
    open_as("mistral", gguf_tiny_llama(), "unsupported architecture \"mistral\"");
}

Test(families, names_are_known_by_who_gives_them) {
    Error error = {0};
    CHECK(family_find(NAMES_HF, "mistral", NULL) && !family_find(NAMES_GGUF, "mistral", NULL));
    CHECK(family_find(NAMES_META, "llama", NULL) && !family_find(NAMES_META, "qwen2", NULL));
    CHECK(!family_find(NAMES_HF, "mamba", &error));
    CHECK_INT(error.code, ERROR_FILE);
    CHECK_STRING(error.message, "unsupported architecture \"mamba\"");
}

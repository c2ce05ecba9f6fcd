#include "tests/support/files/as_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- names ----

typedef struct Part {
    const char *from, *to;
} Part;

static const Part LLAMA_NORMS[] = {
    {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}, {NULL, NULL}};
static const Part POST_NORMS[] = {{"input_layernorm", "attn_norm"},
                                  {"post_attention_layernorm", "post_attention_norm"},
                                  {"pre_feedforward_layernorm", "ffn_norm"},
                                  {"post_feedforward_layernorm", "post_ffw_norm"},
                                  {NULL, NULL}};
static const Part COMMON[] = {
    {"model.layers.", "blk."},           {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},       {"lm_head", "output"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},  {"mlp.gate_up_proj", "ffn_up"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {NULL, NULL}};
static const Part GPT2[] = {{"transformer.", ""},           {"h.", "blk."},
                            {"wte", "token_embd"},          {"wpe", "position_embd"},
                            {"ln_f", "output_norm"},        {"ln_1", "attn_norm"},
                            {"ln_2", "ffn_norm"},           {"attn.c_attn", "attn_qkv"},
                            {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"},
                            {"mlp.c_proj", "ffn_down"},     {NULL, NULL}};

static void replace(char name[100], const Part *parts) {
    for (; parts->from; parts++) {
        char *at = strstr(name, parts->from), rest[100];
        if (!at) continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(parts->from));
        snprintf(at, (size_t)(name + 100 - at), "%s%s", parts->to, rest);
    }
}

static bool is(const char *architecture, const char *name) {
    return !strcmp(architecture, name);
}

static const char *gguf_name(const char *architecture, const char *hf, char out[100]) {
    bool post = is(architecture, "gemma3") || is(architecture, "olmo2");
    snprintf(out, 100, "%s", hf);
    if (is(architecture, "gpt2")) {
        replace(out, GPT2);
        return out;
    }
    replace(out, post ? POST_NORMS : LLAMA_NORMS);
    replace(out, COMMON);
    return out;
}

// ---- tensors ----

// HF's rows of one head, all first halves and then all second ones, in pairs: row 2 i + a of the
// file is row a * half + i.
static void interleave(uint8_t *to, const uint8_t *from, size_t rows, size_t row_bytes,
                       size_t head_dim) {
    size_t half = head_dim / 2;
    for (size_t r = 0; r < rows; r++) {
        size_t head = r / head_dim * head_dim, i = r % head_dim;
        memcpy(to + r * row_bytes, from + (head + i % 2 * half + i / 2) * row_bytes, row_bytes);
    }
}

static float as_float(const TensorPlan *t, size_t i) {
    float value = 0;
    if (t->dtype == DTYPE_F32) memcpy(&value, t->data + 4 * i, 4);
    if (t->dtype == DTYPE_BF16) memcpy((uint8_t *)&value + 2, t->data + 2 * i, 2);
    return value;
}

static void add_vector(GgufFile *file, const char *name, const TensorPlan *t, float more) {
    GgufTensor *added = gguf_add_tensor(file, name, DTYPE_F32, t->shape[0], 0);
    for (size_t i = 0; i < t->shape[0]; i++) {
        float value = as_float(t, i) + more;
        memcpy(added->data + 4 * i, &value, 4);
    }
}

static void add_turned(GgufFile *file, const char *name, const TensorPlan *t) {
    size_t rows = t->shape[1], cols = t->shape[0];
    GgufTensor *added = gguf_add_tensor(file, name, DTYPE_F32, cols, rows);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            memcpy(added->data + 4 * (r * cols + c), t->data + 4 * (c * rows + r), 4);
}

static void add_tensor(GgufFile *file, const char *architecture, const TensorPlan *t,
                       const Config *c) {
    char name[100];
    gguf_name(architecture, t->name, name);
    bool pairs = is(architecture, "llama") || is(architecture, "smollm3");
    if (t->n_dims == 1) {
        add_vector(file, name, t, is(architecture, "gemma3") ? 1.0f : 0.0f);
    } else if (is(architecture, "gpt2") && strstr(t->name, ".h.")) {
        add_turned(file, name, t);
    } else {
        GgufTensor *added = gguf_add_tensor(file, name, t->dtype, t->shape[1], t->shape[0]);
        bool rotates = strstr(name, "attn_q.") || strstr(name, "attn_k.");
        if (pairs && rotates)
            interleave(added->data, t->data, t->shape[0], t->bytes / t->shape[0],
                       (size_t)c->head_dim);
        else
            memcpy(added->data, t->data, t->bytes);
    }
}

// ---- keys ----

void as_gguf_number(GgufFile *file, const char *architecture, const char *key, int value) {
    char name[100];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    gguf_set_u32(file, name, (uint32_t)value);
}

void as_gguf_float(GgufFile *file, const char *architecture, const char *key, float value) {
    char name[100];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    gguf_set_f32(file, name, value);
}

GgufFile *as_gguf(const char *architecture, const Checkpoint *from) {
    GgufFile *file = gguf_file_new();
    const Config *c = checkpoint_config(from);
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(from, &count);
    const struct {
        const char *key;
        int value;
    } numbers[] = {
        {"block_count", c->n_layers},          {"context_length", c->max_seq_len},
        {"embedding_length", c->dim},          {"feed_forward_length", c->hidden_dim},
        {"attention.head_count", c->n_heads},  {"attention.head_count_kv", c->n_kv_heads},
        {"attention.key_length", c->head_dim}, {"attention.value_length", c->head_dim},
        {"rope.dimension_count", c->rope_dim}, {"attention.sliding_window", c->layers[0].window},
    };
    gguf_set_text(file, "general.architecture", architecture);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value) as_gguf_number(file, architecture, numbers[i].key, numbers[i].value);
    as_gguf_float(file, architecture,
                  c->norm == NORM_LAYER ? "attention.layer_norm_epsilon"
                                        : "attention.layer_norm_rms_epsilon",
                  c->norm_eps);
    if (c->rope_dim) as_gguf_float(file, architecture, "rope.freq_base", c->rope.theta);
    if (is(architecture, "gemma3"))
        as_gguf_float(file, architecture, "attention.scale", c->layers[0].attention_scale);
    for (size_t i = 0; i < count; i++)
        add_tensor(file, architecture, &tensors[i], c);
    return file;
}

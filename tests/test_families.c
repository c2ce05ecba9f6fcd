// Families: the same model under the names of Hugging Face and of GGUF gives the same weights; what
// a family must have and must not have.
#include "tests/support/gguf_writer.h"
#include "tests/test.h"
#include "weights/quant.h"

// ---- a reference model, written as a GGUF ----

static const char *gguf_name(const char *hf, char out[100]) {
    static const struct {
        const char *from, *to;
    } PARTS[] = {
        {"model.layers.", "blk."},           {"model.embed_tokens", "token_embd"},
        {"model.norm", "output_norm"},       {"lm_head", "output"},
        {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
        {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
        {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
    };
    snprintf(out, 100, "%s", hf);
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        char *at = strstr(out, PARTS[i].from), rest[100];
        if (!at) continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(PARTS[i].from));
        snprintf(at, (size_t)(out + 100 - at), "%s%s", PARTS[i].to, rest);
    }
    return out;
}

static void set_number(GgufFile *file, const char *architecture, const char *key, int value) {
    char name[100];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    gguf_set_u32(file, name, (uint32_t)value);
}

static GgufFile *as_gguf(const char *architecture, const Checkpoint *from) {
    GgufFile *file = gguf_file_new();
    const Config *c = checkpoint_config(from);
    char name[100];
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(from, &count);
    gguf_set_text(file, "general.architecture", architecture);
    set_number(file, architecture, "block_count", c->n_layers);
    set_number(file, architecture, "context_length", c->max_seq_len);
    set_number(file, architecture, "embedding_length", c->dim);
    set_number(file, architecture, "feed_forward_length", c->hidden_dim);
    set_number(file, architecture, "attention.head_count", c->n_heads);
    set_number(file, architecture, "attention.head_count_kv", c->n_kv_heads);
    set_number(file, architecture, "attention.key_length", c->head_dim);
    set_number(file, architecture, "attention.value_length", c->head_dim);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", architecture);
    gguf_set_f32(file, name, c->norm_eps);
    snprintf(name, sizeof name, "%s.rope.freq_base", architecture);
    gguf_set_f32(file, name, c->rope.theta);
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *t = &tensors[i];
        GgufTensor *added =
            gguf_add_tensor(file, gguf_name(t->name, name), t->dtype, t->shape[t->n_dims - 1],
                            t->n_dims == 2 ? t->shape[0] : 0);
        memcpy(added->data, t->data, t->bytes);
    }
    return file;
}

static void same_matrix(const Matrix *a, const Matrix *b) {
    float row_a[512], row_b[512];
    CHECK(a->rows == b->rows && a->cols == b->cols && a->cols <= 512 && a->dtype == b->dtype);
    for (size_t r = 0; r < a->rows; r++) {
        matrix_row(row_a, a, r);
        matrix_row(row_b, b, r);
        CHECK(!memcmp(row_a, row_b, a->cols * sizeof *row_a));
    }
}

static void same_vector(const float *a, const float *b, int count, bool wanted) {
    CHECK((a != NULL) == wanted && (b != NULL) == wanted);
    CHECK(!a || !memcmp(a, b, (size_t)count * sizeof *a));
}

static void same_model(const Checkpoint *a, const Checkpoint *b, bool biases, bool norms) {
    const Config *c = checkpoint_config(a), *d = checkpoint_config(b);
    CHECK_STRING(d->family, c->family);
    CHECK(c->qk_norm == d->qk_norm && c->qk_norm_after_rope == d->qk_norm_after_rope);
    CHECK(c->rope_dim == d->rope_dim && c->rope.theta == d->rope.theta);
    CHECK(c->layers[0].attention_scale == d->layers[0].attention_scale);
    const Weights *v = checkpoint_weights(a), *w = checkpoint_weights(b);
    same_matrix(&v->token_embedding, &w->token_embedding);
    same_matrix(&v->head, &w->head);
    same_vector(v->final_norm, w->final_norm, c->dim, true);
    for (int l = 0; l < c->n_layers; l++) {
        const LayerWeights *x = &v->layers[l], *y = &w->layers[l];
        same_matrix(&x->wq, &y->wq);
        same_matrix(&x->wk, &y->wk);
        same_matrix(&x->wv, &y->wv);
        same_matrix(&x->wo, &y->wo);
        same_matrix(&x->w_gate, &y->w_gate);
        same_matrix(&x->w_up, &y->w_up);
        same_matrix(&x->w_down, &y->w_down);
        same_vector(x->att_norm, y->att_norm, c->dim, true);
        same_vector(x->ffn_norm, y->ffn_norm, c->dim, true);
        same_vector(x->bq, y->bq, c->q_dim, biases);
        same_vector(x->bk, y->bk, c->kv_dim, biases);
        same_vector(x->bv, y->bv, c->kv_dim, biases);
        same_vector(x->q_norm, y->q_norm, c->head_dim, norms);
        same_vector(x->k_norm, y->k_norm, c->head_dim, norms);
    }
}

Test(families, qwen_has_the_same_weights_in_both_containers) {
    static const struct {
        const char *directory, *architecture;
        bool biases, norms;
    } MODELS[] = {{"reference-models/qwen2", "qwen2", true, false},
                  {"reference-models/qwen3", "qwen3", false, true},
                  {"reference-models/qwen3-bf16", "qwen3", false, true}};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        Checkpoint *hf = NULL, *gguf = NULL;
        Error error = {0};
        CHECK(checkpoint_open(&hf, test_data(MODELS[i].directory), &error), "%s", error.message);
        GgufFile *file = as_gguf(MODELS[i].architecture, hf);
        size_t size;
        uint8_t *bytes = gguf_write(file, &size);
        gguf_file_free(file);
        CHECK(checkpoint_open_memory(&gguf, "qwen.gguf", bytes, size, &error), "%s", error.message);
        same_model(hf, gguf, MODELS[i].biases, MODELS[i].norms);
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

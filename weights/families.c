// The families that limpid runs, and what their tensors are called. A row must be wholly right or
// absent: what is not in the table is refused by name.
#include "weights/families.h"
#include "weights/roles.h"

#include <string.h>

// ---- tensor names: a family puts together the lists that it needs ----

// A decoder with a gated FFN and a norm before each block, as Hugging Face names it.
static const TensorName HF_DECODER[] = {
    {"~embed_tokens.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"lm_head.weight", OPTIONAL, {ROLE_HEAD}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.self_attn.q_proj.weight", REQUIRED, {ROLE_WQ}},
    {"~layers.#.self_attn.k_proj.weight", REQUIRED, {ROLE_WK}},
    {"~layers.#.self_attn.v_proj.weight", REQUIRED, {ROLE_WV}},
    {"~layers.#.self_attn.o_proj.weight", REQUIRED, {ROLE_WO}},
    {"~layers.#.self_attn.rotary_emb.inv_freq", IGNORED, {ROLE_NONE}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"~layers.#.mlp.gate_proj.weight", REQUIRED, {ROLE_W_GATE}},
    {"~layers.#.mlp.up_proj.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.down_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

static const TensorName HF_OPTIONAL_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", OPTIONAL, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", OPTIONAL, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", OPTIONAL, {ROLE_BV}},
    {"~layers.#.self_attn.o_proj.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

static const TensorName HF_QKV_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", REQUIRED, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", REQUIRED, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", REQUIRED, {ROLE_BV}},
    {0},
};

static const TensorName HF_QK_NORMS[] = {
    {"~layers.#.self_attn.q_norm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.k_norm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

// The same decoder in a GGUF. attn_qkv may stand for the three.
static const TensorName GGUF_DECODER[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"output_norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"rope_freqs.weight", OPTIONAL, {ROLE_ROPE_DIVISORS}},
    {"blk.#.attn_norm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"blk.#.attn_qkv.weight", OPTIONAL, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"blk.#.attn_q.weight", REQUIRED, {ROLE_WQ}},
    {"blk.#.attn_k.weight", REQUIRED, {ROLE_WK}},
    {"blk.#.attn_v.weight", REQUIRED, {ROLE_WV}},
    {"blk.#.attn_output.weight", REQUIRED, {ROLE_WO}},
    {"blk.#.attn_rot_embd.weight", IGNORED, {ROLE_NONE}},
    {"blk.#.rope_freqs.weight", IGNORED, {ROLE_NONE}}, // a copy of the one above, in every layer
    {"blk.#.ffn_norm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"blk.#.ffn_gate.weight", REQUIRED, {ROLE_W_GATE}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

static const TensorName GGUF_OPTIONAL_BIASES[] = {
    {"blk.#.attn_qkv.bias", OPTIONAL, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_q.bias", OPTIONAL, {ROLE_BQ}},
    {"blk.#.attn_k.bias", OPTIONAL, {ROLE_BK}},
    {"blk.#.attn_v.bias", OPTIONAL, {ROLE_BV}},
    {"blk.#.attn_output.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

static const TensorName GGUF_QKV_BIASES[] = {
    {"blk.#.attn_qkv.bias", OPTIONAL, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_q.bias", REQUIRED, {ROLE_BQ}},
    {"blk.#.attn_k.bias", REQUIRED, {ROLE_BK}},
    {"blk.#.attn_v.bias", REQUIRED, {ROLE_BV}},
    {0},
};

static const TensorName GGUF_QK_NORMS[] = {
    {"blk.#.attn_q_norm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"blk.#.attn_k_norm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

static const TensorName META_DECODER[] = {
    {"tok_embeddings.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"freqs_cos", IGNORED, {ROLE_NONE}}, // tables of a fixed theta; model/rope.c makes its own
    {"freqs_sin", IGNORED, {ROLE_NONE}},
    {"layers.#.attention_norm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"layers.#.attention.wq.weight", REQUIRED, {ROLE_WQ}},
    {"layers.#.attention.wk.weight", REQUIRED, {ROLE_WK}},
    {"layers.#.attention.wv.weight", REQUIRED, {ROLE_WV}},
    {"layers.#.attention.wo.weight", REQUIRED, {ROLE_WO}},
    {"layers.#.ffn_norm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"layers.#.feed_forward.w1.weight", REQUIRED, {ROLE_W_GATE}},
    {"layers.#.feed_forward.w3.weight", REQUIRED, {ROLE_W_UP}},
    {"layers.#.feed_forward.w2.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// ---- families ----

static const Family FAMILIES[] = {
    {
        .name = "llama", // Llama 2 and 3, SmolLM2, llama2.c; as GGUF also Mistral
        .called = {[NAMES_HF] = "llama", [NAMES_GGUF] = "llama", [NAMES_META] = "llama"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_OPTIONAL_BIASES},
                    [NAMES_META] = {META_DECODER}},
        .interleaved = {[NAMES_GGUF] = true, [NAMES_META] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "mistral",
        .called = {[NAMES_HF] = "mistral"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen2", // and 2.5
        .called = {[NAMES_HF] = "qwen2", [NAMES_GGUF] = "qwen2"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_QKV_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_QKV_BIASES}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen3",
        .called = {[NAMES_HF] = "qwen3", [NAMES_GGUF] = "qwen3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_OPTIONAL_BIASES, HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_OPTIONAL_BIASES, GGUF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .activation = ACTIVATION_SILU,
    },
};

const Family *family_find(Naming naming, const char *name, Error *error) {
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++) {
        const char *called = FAMILIES[i].called[naming];
        if (called && !strcmp(called, name)) return &FAMILIES[i];
    }
    error_set(error, ERROR_FILE, "unsupported architecture \"%.100s\"", name);
    return NULL;
}

void family_defaults(const Family *family, Config *config) {
    strncpy(config->family, family->name, sizeof config->family - 1);
    config->norm = family->norm;
    config->qk_norm = family->qk_norm;
    config->qk_norm_after_rope = family->qk_norm_after_rope;
    config->activation = family->activation;
    config->gated_ffn = !family->plain_ffn;
    config->position = family->position;
}

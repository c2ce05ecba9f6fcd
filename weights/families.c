// The families that limpid runs, and what their tensors are called. A row must be wholly right or
// absent: what is not in the table is refused by name.
//
// The first part has the lists of tensor names, the second one row for each family, which picks its
// lists. roles.c walks them to read a model, out/outgoing.c to write one, tensor_names.c to find
// the name of a module. Which keys a config.json or a GGUF of a family has is not here:
// hf/families.c, gguf/families.c.
//
// In a list, '~' is the family's prefix and '#' the layer's number (roles.h). Columns: the pattern
// of the name; whether a file must have the tensor; the roles that its rows bring, from the top row
// down.
#include "weights/families.h"
#include "weights/roles.h"

#include <string.h>

// ---- tensor names: a family puts together the lists that it needs ----

// What nearly all decoders have, as Hugging Face names it.
//
// A tied model may leave lm_head.weight out. inv_freq is a buffer of RoPE frequencies that old
// versions of transformers saved; it follows from theta.
static const TensorName HF_DECODER[] = {
    {"~embed_tokens.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"lm_head.weight", OPTIONAL, {ROLE_HEAD}},
    {"~layers.#.self_attn.q_proj.weight", REQUIRED, {ROLE_WQ}},
    {"~layers.#.self_attn.k_proj.weight", REQUIRED, {ROLE_WK}},
    {"~layers.#.self_attn.v_proj.weight", REQUIRED, {ROLE_WV}},
    {"~layers.#.self_attn.o_proj.weight", REQUIRED, {ROLE_WO}},
    {"~layers.#.self_attn.rotary_emb.inv_freq", IGNORED, {ROLE_NONE}},
    {0},
};

// The same with q|k|v and gate|up in one matrix each (Phi 3).
static const TensorName HF_FUSED_DECODER[] = {
    {"~embed_tokens.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"lm_head.weight", OPTIONAL, {ROLE_HEAD}},
    {"~layers.#.self_attn.qkv_proj.weight", REQUIRED, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"~layers.#.self_attn.o_proj.weight", REQUIRED, {ROLE_WO}},
    {"~layers.#.self_attn.rotary_emb.inv_freq", IGNORED, {ROLE_NONE}},
    {"~layers.#.mlp.gate_up_proj.weight", REQUIRED, {ROLE_W_GATE, ROLE_W_UP}},
    {"~layers.#.mlp.down_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// down(act(gate) * up): the feed-forward block of Llama, arXiv 2002.05202 (SwiGLU).
static const TensorName HF_GATED_FFN[] = {
    {"~layers.#.mlp.gate_proj.weight", REQUIRED, {ROLE_W_GATE}},
    {"~layers.#.mlp.up_proj.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.down_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// down(act(up)), without a gate (nanochat).
static const TensorName HF_PLAIN_FFN[] = {
    {"~layers.#.mlp.fc1.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.fc2.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// Norms in front of both blocks. The second comes after attention, hence its name.
static const TensorName HF_PRE_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {0},
};

// Norms on the outputs of both blocks (OLMo 2): post_attention_layernorm names the norm after
// attention here, and the norm before the feed-forward block in other families.
static const TensorName HF_POST_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"~layers.#.post_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// Norms without a weight are modules all the same (nanochat).
static const TensorName HF_WEIGHTLESS_NORMS[] = {
    {"~embed_norm.weight", UNSTORED, {ROLE_EMBEDDING_NORM}}, // model.norm, called a first time
    {"~norm.weight", UNSTORED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", UNSTORED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", UNSTORED, {ROLE_FFN_NORM}},
    {"~layers.#.self_attn.q_norm.weight", UNSTORED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.k_norm.weight", UNSTORED, {ROLE_K_NORM}},
    {0},
};

// Norms before and after both blocks (Gemma 3).
static const TensorName HF_FOUR_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"~layers.#.pre_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"~layers.#.post_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// attention_bias of config.json says whether a model has these; hf/checkpoint.c compares.
static const TensorName HF_OPTIONAL_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", OPTIONAL, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", OPTIONAL, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", OPTIONAL, {ROLE_BV}},
    {"~layers.#.self_attn.o_proj.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

// Qwen 2 always has these three, and none on o.
static const TensorName HF_QKV_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", REQUIRED, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", REQUIRED, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", REQUIRED, {ROLE_BV}},
    {0},
};

// One weight for each channel of a head, or of all heads: Family.qk_norm says which.
static const TensorName HF_QK_NORMS[] = {
    {"~layers.#.self_attn.q_norm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.k_norm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

// GPT-2: every linear layer is a Conv1D (roles.c, transpose) with a bias.
static const TensorName HF_GPT2[] = {
    {"~wte.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"~wpe.weight", REQUIRED, {ROLE_POSITION}},
    {"~drop.weight", UNSTORED, {ROLE_EMBEDDING_NORM}}, // where the sum of both comes out
    {"~ln_f.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~ln_f.bias", REQUIRED, {ROLE_FINAL_NORM_BIAS}},
    {"lm_head.weight", OPTIONAL, {ROLE_HEAD}},
    {"~h.#.ln_1.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~h.#.ln_1.bias", REQUIRED, {ROLE_ATT_NORM_BIAS}},
    {"~h.#.attn.c_attn.weight", REQUIRED, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"~h.#.attn.c_attn.bias", REQUIRED, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"~h.#.attn.c_proj.weight", REQUIRED, {ROLE_WO}},
    {"~h.#.attn.c_proj.bias", REQUIRED, {ROLE_BO}},
    {"~h.#.attn.bias", IGNORED, {ROLE_NONE}}, // the causal mask as a table
    {"~h.#.attn.masked_bias", IGNORED, {ROLE_NONE}},
    {"~h.#.ln_2.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"~h.#.ln_2.bias", REQUIRED, {ROLE_FFN_NORM_BIAS}},
    {"~h.#.mlp.c_fc.weight", REQUIRED, {ROLE_W_UP}},
    {"~h.#.mlp.c_fc.bias", REQUIRED, {ROLE_B_UP}},
    {"~h.#.mlp.c_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {"~h.#.mlp.c_proj.bias", REQUIRED, {ROLE_B_DOWN}},
    {0},
};

// Tensors of nearly all decoders in a GGUF. attn_qkv may replace attn_q, attn_k and attn_v.
static const TensorName GGUF_DECODER[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"output_norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"rope_freqs.weight", OPTIONAL, {ROLE_ROPE_DIVISORS}},
    {"blk.#.attn_qkv.weight", ALTERNATIVE, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"blk.#.attn_q.weight", REQUIRED, {ROLE_WQ}},
    {"blk.#.attn_k.weight", REQUIRED, {ROLE_WK}},
    {"blk.#.attn_v.weight", REQUIRED, {ROLE_WV}},
    {"blk.#.attn_output.weight", REQUIRED, {ROLE_WO}},
    {"blk.#.attn_rot_embd.weight", IGNORED, {ROLE_NONE}},
    {"blk.#.rope_freqs.weight", IGNORED, {ROLE_NONE}}, // a copy of the one above, in every layer
    {"blk.#.ffn_gate.weight", REQUIRED, {ROLE_W_GATE}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// The same with gate|up in one matrix, called ffn_up.
static const TensorName GGUF_FUSED_DECODER[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"output_norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"rope_factors_long.weight", IGNORED, {ROLE_NONE}}, // weights/gguf/families.c has read them
    {"rope_factors_short.weight", IGNORED, {ROLE_NONE}},
    {"blk.#.attn_qkv.weight", OPTIONAL, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"blk.#.attn_q.weight", REQUIRED, {ROLE_WQ}},
    {"blk.#.attn_k.weight", REQUIRED, {ROLE_WK}},
    {"blk.#.attn_v.weight", REQUIRED, {ROLE_WV}},
    {"blk.#.attn_output.weight", REQUIRED, {ROLE_WO}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_GATE, ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// In a GGUF ffn_norm is the norm before the feed-forward block in every architecture.
static const TensorName GGUF_PRE_NORMS[] = {
    {"blk.#.attn_norm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"blk.#.ffn_norm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {0},
};

// Norms on the outputs of the blocks: alone in OLMo 2, beside GGUF_PRE_NORMS in Gemma 3.
static const TensorName GGUF_POST_NORMS[] = {
    {"blk.#.post_attention_norm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"blk.#.post_ffw_norm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// GPT-2; the converter to GGUF has transposed its matrices.
static const TensorName GGUF_GPT2[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"position_embd.weight", REQUIRED, {ROLE_POSITION}},
    {"output_norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"output_norm.bias", REQUIRED, {ROLE_FINAL_NORM_BIAS}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"blk.#.attn_norm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"blk.#.attn_norm.bias", REQUIRED, {ROLE_ATT_NORM_BIAS}},
    {"blk.#.attn_qkv.weight", REQUIRED, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"blk.#.attn_qkv.bias", REQUIRED, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_output.weight", REQUIRED, {ROLE_WO}},
    {"blk.#.attn_output.bias", REQUIRED, {ROLE_BO}},
    {"blk.#.ffn_norm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"blk.#.ffn_norm.bias", REQUIRED, {ROLE_FFN_NORM_BIAS}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_up.bias", REQUIRED, {ROLE_B_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {"blk.#.ffn_down.bias", REQUIRED, {ROLE_B_DOWN}},
    {0},
};

// A GGUF has no key for biases: a tensor that is there is used.
static const TensorName GGUF_OPTIONAL_BIASES[] = {
    {"blk.#.attn_qkv.bias", ALTERNATIVE, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_q.bias", OPTIONAL, {ROLE_BQ}},
    {"blk.#.attn_k.bias", OPTIONAL, {ROLE_BK}},
    {"blk.#.attn_v.bias", OPTIONAL, {ROLE_BV}},
    {"blk.#.attn_output.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

static const TensorName GGUF_QKV_BIASES[] = {
    {"blk.#.attn_qkv.bias", ALTERNATIVE, {ROLE_BQ, ROLE_BK, ROLE_BV}},
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

// nanochat: an architecture name of limpid's own, described in docs/gguf-nanochat.md.
static const TensorName GGUF_NANOCHAT[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"output.weight", OPTIONAL, {ROLE_HEAD}},
    {"blk.#.attn_q.weight", REQUIRED, {ROLE_WQ}},
    {"blk.#.attn_k.weight", REQUIRED, {ROLE_WK}},
    {"blk.#.attn_v.weight", REQUIRED, {ROLE_WV}},
    {"blk.#.attn_output.weight", REQUIRED, {ROLE_WO}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// llama2.c/llama2c.c gives its tensors these names; no file holds them. w1 is the gate, w3 up, w2
// down.
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

// Field by field in roles.h. A field that a row leaves out is false, 0 or the first of its enum:
// norms as stored, rows in half-split order, no QK norm, gated FFN, RoPE.
static const Family FAMILIES[] = {
    {
        .name = "llama", // Llama 2 and 3, SmolLM2, llama2.c; as GGUF also Mistral
        .called = {[NAMES_HF] = "llama", [NAMES_GGUF] = "llama", [NAMES_META] = "llama"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PRE_NORMS, GGUF_OPTIONAL_BIASES},
                    [NAMES_META] = {META_DECODER}},
        .interleaved = {[NAMES_GGUF] = true, [NAMES_META] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "mistral",
        .called = {[NAMES_HF] = "mistral"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen2", // and 2.5
        .called = {[NAMES_HF] = "qwen2", [NAMES_GGUF] = "qwen2"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_QKV_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PRE_NORMS, GGUF_QKV_BIASES}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen3",
        .called = {[NAMES_HF] = "qwen3", [NAMES_GGUF] = "qwen3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PRE_NORMS, GGUF_OPTIONAL_BIASES,
                                    GGUF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "gemma3", // text
        .called = {[NAMES_HF] = "gemma3_text", [NAMES_GGUF] = "gemma3"},
        // Multimodal files have the language model inside; the last is how transformers 5 saves it.
        .prefixes = {[NAMES_HF] = {"model.", "language_model.model.", "model.language_model."}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_FOUR_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PRE_NORMS, GGUF_POST_NORMS,
                                    GGUF_OPTIONAL_BIASES, GGUF_QK_NORMS}},
        .norms_stored_minus_one = {[NAMES_HF] = true},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .activation = ACTIVATION_GELU_TANH,
    },
    {
        .name = "olmo2",
        .called = {[NAMES_HF] = "olmo2", [NAMES_GGUF] = "olmo2"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_POST_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_POST_NORMS, GGUF_OPTIONAL_BIASES,
                                    GGUF_QK_NORMS}},
        .own_head = {[NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_FULL_WIDTH,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "smollm3",
        .called = {[NAMES_HF] = "smollm3", [NAMES_GGUF] = "smollm3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PRE_NORMS, GGUF_OPTIONAL_BIASES}},
        .interleaved = {[NAMES_GGUF] = true}, // in the layers without RoPE, too
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "phi3", // and 3.5
        .called = {[NAMES_HF] = "phi3", [NAMES_GGUF] = "phi3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_FUSED_DECODER, HF_PRE_NORMS},
                    [NAMES_GGUF] = {GGUF_FUSED_DECODER, GGUF_PRE_NORMS}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "gpt2",
        .called = {[NAMES_HF] = "gpt2", [NAMES_GGUF] = "gpt2"},
        .prefixes = {[NAMES_HF] = {"transformer.", ""}},
        .tensors = {[NAMES_HF] = {HF_GPT2}, [NAMES_GGUF] = {GGUF_GPT2}},
        .transposed = {[NAMES_HF] = true},
        .norm = NORM_LAYER,
        .activation = ACTIVATION_GELU_TANH,
        .plain_ffn = true,
        .position = POSITION_LEARNED,
    },
    {
        .name = "nanochat", // of October 2025; what came later has tensors that are not here
        .called = {[NAMES_HF] = "nanochat", [NAMES_GGUF] = "nanochat"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PLAIN_FFN, HF_OPTIONAL_BIASES,
                                  HF_WEIGHTLESS_NORMS},
                    [NAMES_GGUF] = {GGUF_NANOCHAT, GGUF_OPTIONAL_BIASES}},
        .ones = {ROLE_EMBEDDING_NORM, ROLE_FINAL_NORM, ROLE_ATT_NORM, ROLE_FFN_NORM, ROLE_Q_NORM,
                 ROLE_K_NORM},
        .complete = true,
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .qk_norm_after_rope = true,
        .rope_backwards = true,
        .activation = ACTIVATION_RELU2,
        .plain_ffn = true,
    },
};

// A linear search: once for each model that is opened.
const Family *family_find(Naming naming, const char *name, Error *error) {
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++) {
        const char *called = FAMILIES[i].called[naming];
        if (called && !strcmp(called, name)) return &FAMILIES[i];
    }
    error_set(error, ERROR_FILE, "unsupported architecture \"%.100s\"", name);
    return NULL;
}

bool family_needs_head(const Family *family, Naming naming) {
    return family->own_head[naming];
}

// config is zeroed by config_init, so the copied name ends with NUL.
void family_defaults(const Family *family, Config *config) {
    strncpy(config->family, family->name, sizeof config->family - 1);
    config->norm = family->norm;
    config->qk_norm = family->qk_norm;
    config->qk_norm_after_rope = family->qk_norm_after_rope;
    config->activation = family->activation;
    config->gated_ffn = !family->plain_ffn;
    config->position = family->position;
    if (family->rope_backwards) config->rope.sign = -1.0f;
}

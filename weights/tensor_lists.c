// The lists of tensor names, of which a family puts together those that it needs (families.c).
//
// '~' is the family's prefix and '#' the layer's number (roles.h). Columns: the pattern of the
// name; whether a file must have the tensor; the roles that its rows bring, from the top row down.
#include "weights/roles.h"

// ---- Hugging Face ----

// What nearly all decoders have, as Hugging Face names it.
//
// A tied model may leave lm_head.weight out. inv_freq is a buffer of RoPE frequencies that old
// versions of transformers saved; it follows from theta.
const TensorName HF_DECODER[] = {
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
const TensorName HF_FUSED_DECODER[] = {
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
const TensorName HF_GATED_FFN[] = {
    {"~layers.#.mlp.gate_proj.weight", REQUIRED, {ROLE_W_GATE}},
    {"~layers.#.mlp.up_proj.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.down_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// down(act(up)), without a gate (nanochat).
const TensorName HF_PLAIN_FFN[] = {
    {"~layers.#.mlp.fc1.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.fc2.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// The same under the names of a gated one (AFM).
const TensorName HF_UNGATED_FFN[] = {
    {"~layers.#.mlp.up_proj.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.down_proj.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// A block for all tokens, though there are no experts beside it (Granite 4 without experts).
const TensorName HF_SHARED_FFN[] = {
    {"~layers.#.shared_mlp.input_linear.weight", REQUIRED, {ROLE_W_GATE, ROLE_W_UP}},
    {"~layers.#.shared_mlp.output_linear.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// Norms in front of both blocks. The second comes after attention, hence its name.
const TensorName HF_PRE_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {0},
};

// Norms on the outputs of both blocks (OLMo 2): post_attention_layernorm names the norm after
// attention here, and the norm before the feed-forward block in other families.
const TensorName HF_POST_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"~layers.#.post_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// Norms without a weight are modules all the same (nanochat).
const TensorName HF_WEIGHTLESS_NORMS[] = {
    {"~embed_norm.weight", UNSTORED, {ROLE_EMBEDDING_NORM}}, // model.norm, called a first time
    {"~norm.weight", UNSTORED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", UNSTORED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", UNSTORED, {ROLE_FFN_NORM}},
    {"~layers.#.self_attn.q_norm.weight", UNSTORED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.k_norm.weight", UNSTORED, {ROLE_K_NORM}},
    {0},
};

// Norms before and after both blocks (Gemma 3).
const TensorName HF_FOUR_NORMS[] = {
    {"~norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"~layers.#.pre_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"~layers.#.post_feedforward_layernorm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// attention_bias of config.json says whether a model has these; hf/checkpoint.c compares.
const TensorName HF_OPTIONAL_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", OPTIONAL, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", OPTIONAL, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", OPTIONAL, {ROLE_BV}},
    {"~layers.#.self_attn.o_proj.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

// Qwen 2 always has these three, and none on o.
const TensorName HF_QKV_BIASES[] = {
    {"~layers.#.self_attn.q_proj.bias", REQUIRED, {ROLE_BQ}},
    {"~layers.#.self_attn.k_proj.bias", REQUIRED, {ROLE_BK}},
    {"~layers.#.self_attn.v_proj.bias", REQUIRED, {ROLE_BV}},
    {0},
};

// One weight for each channel of a head, or of all heads: Family.qk_norm says which.
const TensorName HF_QK_NORMS[] = {
    {"~layers.#.self_attn.q_norm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.k_norm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

// The same under other names (Hunyuan).
const TensorName HF_LAYERNORMS_OF_QK[] = {
    {"~layers.#.self_attn.query_layernorm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"~layers.#.self_attn.key_layernorm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

// GPT-NeoX: every linear layer has a bias. q, k and v of a head stand together (roles.h, by_heads).
const TensorName HF_GPT_NEOX[] = {
    {"~embed_in.weight", REQUIRED, {ROLE_EMBEDDING}},
    {"~final_layer_norm.weight", REQUIRED, {ROLE_FINAL_NORM}},
    {"~final_layer_norm.bias", REQUIRED, {ROLE_FINAL_NORM_BIAS}},
    {"lm_head.weight", UNSTORED, {ROLE_HEAD}}, // what the head is called elsewhere, in traces too
    {"embed_out.weight", OPTIONAL, {ROLE_HEAD}},
    {"~layers.#.input_layernorm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"~layers.#.input_layernorm.bias", REQUIRED, {ROLE_ATT_NORM_BIAS}},
    {"~layers.#.attention.query_key_value.weight", REQUIRED, {ROLE_WQ, ROLE_WK, ROLE_WV}},
    {"~layers.#.attention.query_key_value.bias", REQUIRED, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"~layers.#.attention.dense.weight", REQUIRED, {ROLE_WO}},
    {"~layers.#.attention.dense.bias", REQUIRED, {ROLE_BO}},
    {"~layers.#.attention.rotary_emb.inv_freq", IGNORED, {ROLE_NONE}},
    {"~layers.#.attention.bias", IGNORED, {ROLE_NONE}}, // the causal mask as a table
    {"~layers.#.attention.masked_bias", IGNORED, {ROLE_NONE}},
    {"~layers.#.post_attention_layernorm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {"~layers.#.post_attention_layernorm.bias", REQUIRED, {ROLE_FFN_NORM_BIAS}},
    {"~layers.#.mlp.dense_h_to_4h.weight", REQUIRED, {ROLE_W_UP}},
    {"~layers.#.mlp.dense_h_to_4h.bias", REQUIRED, {ROLE_B_UP}},
    {"~layers.#.mlp.dense_4h_to_h.weight", REQUIRED, {ROLE_W_DOWN}},
    {"~layers.#.mlp.dense_4h_to_h.bias", REQUIRED, {ROLE_B_DOWN}},
    {0},
};

// GPT-2: every linear layer is a Conv1D (roles.c, transpose) with a bias.
const TensorName HF_GPT2[] = {
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

// ---- GGUF ----

// Tensors of nearly all decoders in a GGUF. attn_qkv may replace attn_q, attn_k and attn_v.
const TensorName GGUF_DECODER[] = {
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
    {0},
};

const TensorName GGUF_GATED_FFN[] = {
    {"blk.#.ffn_gate.weight", REQUIRED, {ROLE_W_GATE}},
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

const TensorName GGUF_PLAIN_FFN[] = {
    {"blk.#.ffn_up.weight", REQUIRED, {ROLE_W_UP}},
    {"blk.#.ffn_down.weight", REQUIRED, {ROLE_W_DOWN}},
    {0},
};

// The same with gate|up in one matrix, called ffn_up.
const TensorName GGUF_FUSED_DECODER[] = {
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
const TensorName GGUF_PRE_NORMS[] = {
    {"blk.#.attn_norm.weight", REQUIRED, {ROLE_ATT_NORM}},
    {"blk.#.ffn_norm.weight", REQUIRED, {ROLE_FFN_NORM}},
    {0},
};

// Norms on the outputs of the blocks: alone in OLMo 2, beside GGUF_PRE_NORMS in Gemma 3.
const TensorName GGUF_POST_NORMS[] = {
    {"blk.#.post_attention_norm.weight", REQUIRED, {ROLE_ATT_POST_NORM}},
    {"blk.#.post_ffw_norm.weight", REQUIRED, {ROLE_FFN_POST_NORM}},
    {0},
};

// GPT-2 and GPT-NeoX; the converter to GGUF has transposed the matrices of the one and put the rows
// of q, k and v of the other one after another.
const TensorName GGUF_BIASED_DECODER[] = {
    {"token_embd.weight", REQUIRED, {ROLE_EMBEDDING}},
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

const TensorName GGUF_POSITIONS[] = {
    {"position_embd.weight", REQUIRED, {ROLE_POSITION}},
    {0},
};

// A GGUF has no key for biases: a tensor that is there is used.
const TensorName GGUF_OPTIONAL_BIASES[] = {
    {"blk.#.attn_qkv.bias", ALTERNATIVE, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_q.bias", OPTIONAL, {ROLE_BQ}},
    {"blk.#.attn_k.bias", OPTIONAL, {ROLE_BK}},
    {"blk.#.attn_v.bias", OPTIONAL, {ROLE_BV}},
    {"blk.#.attn_output.bias", OPTIONAL, {ROLE_BO}},
    {0},
};

const TensorName GGUF_QKV_BIASES[] = {
    {"blk.#.attn_qkv.bias", ALTERNATIVE, {ROLE_BQ, ROLE_BK, ROLE_BV}},
    {"blk.#.attn_q.bias", REQUIRED, {ROLE_BQ}},
    {"blk.#.attn_k.bias", REQUIRED, {ROLE_BK}},
    {"blk.#.attn_v.bias", REQUIRED, {ROLE_BV}},
    {0},
};

const TensorName GGUF_QK_NORMS[] = {
    {"blk.#.attn_q_norm.weight", REQUIRED, {ROLE_Q_NORM}},
    {"blk.#.attn_k_norm.weight", REQUIRED, {ROLE_K_NORM}},
    {0},
};

// nanochat: an architecture name of limpid's own, described in docs/gguf-nanochat.md.
const TensorName GGUF_NANOCHAT[] = {
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

// ---- llama2.c ----

// llama2.c/llama2c.c gives its tensors these names; no file holds them. w1 is the gate, w3 up, w2
// down.
const TensorName META_DECODER[] = {
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

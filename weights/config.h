// Config: every hyper-parameter of a model, the same for all containers.
//
// model/ reads nothing else. No field says which family a model belongs to but `family`, and that
// one is for people: what a family does differently is an enum, a number or a per-layer entry.
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum NormKind {
    NORM_RMS,   // x / rms(x) * w
    NORM_LAYER, // (x - mean) / sqrt(var + eps) * w + b
} NormKind;

typedef enum QkNorm {
    QK_NORM_NONE,
    QK_NORM_PER_HEAD,   // over head_dim of each head
    QK_NORM_FULL_WIDTH, // over q_dim and kv_dim, before the split into heads (OLMo 2)
} QkNorm;

typedef enum Activation {
    ACTIVATION_SILU,      // x / (1 + e^-x)
    ACTIVATION_GELU_TANH, // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    ACTIVATION_GELU_ERF,  // 0.5 x (1 + erf(x / sqrt 2))
    ACTIVATION_RELU2,     // max(0, x)^2
} Activation;

typedef enum PositionKind {
    POSITION_ROPE,
    POSITION_LEARNED, // a row of position_embedding added to the token's (GPT-2)
} PositionKind;

typedef enum RopeScaling {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_DYNAMIC_NTK,
    ROPE_LONGROPE,
} RopeScaling;

// One set of rotary frequencies; model/rope.c has the formulas and names the sources.
typedef struct RopeConfig {
    RopeScaling scaling;
    float theta;
    int exponent_dim;                        // what exponents of theta are divided by; 0: rope_dim
    float sign;                              // +1; nanochat rotates the other way, -1
    float factor;                            // linear, llama3, yarn, ntk, longrope (0: not given)
    float low_freq_factor, high_freq_factor; // llama3
    float beta_fast, beta_slow;              // yarn
    float mscale, mscale_all_dim;            // yarn; 0: not given
    float attention_factor;                  // yarn, longrope; 0: from the formula
    bool no_truncate;                        // yarn: correction range not rounded
    int original_max_seq_len;                // llama3, yarn, longrope
    float query_growth;    // Ministral 3: queries times 1 + this ln(1 + floor(position / original))
    const float *divisors; // (rope_dim / 2) frequencies are divided by these, or NULL: GGUF's
                           // rope_freqs, llama3 scaling as factors; borrowed
    const float *long_factor;  // (rope_dim / 2) longrope; borrowed from the checkpoint
    const float *short_factor; // (rope_dim / 2)
} RopeConfig;

typedef struct LayerConfig {
    int window;            // keys a query sees, itself included; 0: all before it
    bool no_rope;          // SmolLM3: this layer does not rotate
    bool local_rope;       // Gemma 3: rope_local instead of rope
    float attention_scale; // scores are multiplied by this; set by config_finish where it is 0
} LayerConfig;

typedef struct Config {
    char family[32]; // "llama", "qwen3": for people and for the chat template
    char name[128];  // general.name of a GGUF, escaped; may be empty

    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, vocab_size, max_seq_len;
    int q_dim, kv_dim; // n_heads * head_dim, n_kv_heads * head_dim; by config_finish
    int rope_dim;      // channels of a head that rotate; head_dim unless partial

    NormKind norm;
    float norm_eps;
    QkNorm qk_norm;
    bool qk_norm_after_rope;
    Activation activation;
    bool gated_ffn; // down(act(gate) * up), else down(act(up))
    PositionKind position;
    bool parallel_residual; // x + attention(x') + ffn(x''), both from the same x (GPT-NeoX)
    float embedding_scale;  // 1, or sqrt(dim) in float32 for Gemma
    float attention_scale;  // 0: head_dim^-1/2
    float score_softcap;    // of the scores of attention (Gemma 2); 0: none
    float residual_scale;   // of what a block adds to the residual stream (Granite); 1: as it is
    float logit_divisor;    // of the logits, before their cap (Granite); 1: none
    float logit_softcap;    // 0: none
    RopeConfig rope, rope_local;
    LayerConfig layers[LIMIT_LAYERS];

    int bos_id;                 // -1: none
    int eos_ids[LIMIT_EOS_IDS]; // generation stops at any of them
    int n_eos_ids;
    bool window_dropped; // the container cannot say whether the model has a window (Mistral GGUF)
} Config;

// A Config with nothing set but what is the same for nearly all: signs, scales, -1 ids.
void config_init(Config *config);

// Checks every field against its range and against the others, and computes the derived ones.
// False with exit code 3 and a message that names the field, its value and the accepted range.
bool config_finish(Config *config, Error *error);

// The longest context that may be requested: the model's own, or any length where RoPE scales with
// the context (dynamic NTK).
int config_longest_context(const Config *config);

// Whether the logits are not what the head gives: divided, or bent towards a cap.
static inline bool config_changes_logits(const Config *config) {
    return config->logit_softcap != 0.0f || config->logit_divisor != 1.0f;
}

// Llama 3's rope scaling has two forms: four numbers in config.json, and a tensor of divisors
// (rope_freqs) in a GGUF, one for each pair of channels, computed from those numbers.
// out[rope_dim / 2] from a RopeConfig of ROPE_LLAMA3.
void rope_llama3_divisors(float *out, const RopeConfig *rope, int rope_dim);

// The other way: where rope->divisors are those of a plain RopeConfig with four numbers as models
// have them, it becomes ROPE_LLAMA3 with these numbers, so that one model has the same frequencies
// from both containers. Else it stays as it is. `theta` and the divisors are given.
void rope_recognise_llama3(RopeConfig *rope, int rope_dim);

// Adds all that the mathematics depends on to the lanes of a hash (base/hash.h).
void config_hash(uint64_t lanes[8], const Config *config);

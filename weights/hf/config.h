// hf_config: config.json and generation_config.json of a Hugging Face directory -> Config.
//
// Both spellings are read: transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
// A key that is absent has the default of the model's class in transformers, which differs from
// family to family: the table is in hf/families.c. A key that would change the result and that
// limpid does not know how to follow is refused by name, never passed over.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "weights/checkpoint.h"

// What config.json says beyond Config.
typedef struct HfFlags {
    bool tied;            // tie_word_embeddings
    int attention_biases; // of every layer: 4 (q, k, v, o), 3 (Qwen 2) or 0
} HfFlags;

// How a family decides which layers have a window.
typedef enum HfWindow {
    HF_WINDOW_NONE,
    HF_WINDOW_ALL,       // sliding_window on every layer (Mistral, Phi 3)
    HF_WINDOW_SWITCHED,  // none unless use_sliding_window (Qwen)
    HF_WINDOW_ROPE_LESS, // the same; layers without rope where there is no layer_types (SmolLM3)
    HF_WINDOW_PATTERN,   // every n-th layer is global, the others local (Gemma 3, OLMo 3)
} HfWindow;

// Class defaults of one model_type; 0 where the key must be given.
typedef struct HfFamily {
    const char *model_type;         // "llama"
    const char *architecture;       // "LlamaForCausalLM"
    const char *other_architecture; // that says the same; NULL: none
    const char *wrapper;            // model_type of multimodal models, which have it as text_config
    bool gpt2_keys;                 // n_embd, n_layer ... for hidden_size, num_hidden_layers ...
    bool neox_keys; // use_parallel_residual; biases everywhere, no key for heads of keys
    bool hybrid;    // position_embedding_type; layers of other kinds and experts are refused
    const char *hidden_key; // NULL: "intermediate_size"
    bool tied;
    int dim, hidden_dim, n_layers, n_heads, vocab_size, max_seq_len;
    int n_kv_heads; // 0: n_heads
    int head_dim;   // 0: dim / n_heads
    float norm_eps, theta, theta_local;
    bool local_plain;                        // windowed layers rotate by theta, without a scaling
    bool rope_alpha;                         // "dynamic" with "alpha" is a larger theta
    bool qk_norm_key;                        // use_qk_norm says what the class always has
    const char *eps_key;                     // NULL: "rms_norm_eps"
    const char *activation_key, *activation; // NULL: "hidden_act"
    float query_scalar;                      // query_pre_attn_scalar; 0: scores by head_dim
    float score_softcap;   // attn_logit_softcapping where it is absent; 0: has no such key
    bool multipliers;      // embedding_, attention_, residual_multiplier and logits_scaling, else 1
    bool capped;           // has final_logit_softcapping,
    float softcap;         // which is this where it is absent
    bool scaled_embedding; // times sqrt(dim)
    bool partial_rotary;   // has partial_rotary_factor
    const char *partial_key, *theta_key; // beside the dictionary; NULL: the same, rope_theta
    float partial_factor;                // where it is absent; 0: 1
    bool query_growth;                   // has llama_4_scaling_beta
    int attention_biases;                // where attention_bias is absent
    HfWindow window_rule;
    int window;           // where sliding_window is absent; 0: none
    int pattern;          // the n of HF_WINDOW_PATTERN where no key gives it
    bool window_turns;    // in a model with windows, layers without one do not rotate
    int original_context; // where original_max_position_embeddings is absent; 0: max_seq_len
    int bos_id, eos_id;
} HfFamily;

static inline bool hf_family_has_local_rope(const HfFamily *family) {
    return family->theta_local > 0 || family->local_plain;
}

// In families.c. The row for a parsed config.json, and in *text the object that holds the
// hyper-parameters (root, or its text_config). NULL: exit code 3, the message names the
// architecture.
const HfFamily *hf_family_find(const json_t *root, const json_t **text, Error *error);

// The row of a model_type that families.c knows.
const HfFamily *hf_family_of(const char *model_type);

// Fills the numbers, positions and ids of `config`, over config_init and family_defaults; derived
// fields are config_finish's. Lists of factors are taken from `arena`.
bool hf_config_read(Config *config, HfFlags *flags, const json_t *root, Arena *arena, Error *error);

// In keys.c. Refuses a key of config.json (of a dictionary of rope parameters) that is not
// known, and a value that limpid does not support; exit code 3, the message names the key.
bool hf_keys_check(const json_t *object, Error *error);
bool hf_rope_keys_check(const json_t *object, Error *error);

// Rope and windows of every layer: the part of hf_config_read in positions.c. `config` already
// holds the sizes.
bool hf_positions_read(Config *config, const HfFamily *family, const json_t *text, Arena *arena,
                       Error *error);

// generation_config.json: sampling defaults, and more ids that end a text.
bool hf_generation_read(Config *config, GenerationDefaults *defaults, const json_t *root,
                        Error *error);

// The families that limpid runs, one row each: what their files call them, which lists of tensors
// they have (tensor_lists.c), how those are stored, and what is done with them. A row must be
// wholly right or absent: what is not in the table is refused by name.
//
// roles.c walks the lists to read a model, out/outgoing.c to write one, tensor_names.c to find
// the name of a module. Which keys a config.json or a GGUF of a family has is not here:
// hf/families.c, gguf/families.c.
#include "weights/families.h"
#include "weights/roles.h"

#include <string.h>

// Field by field in roles.h. A field that a row leaves out is false, 0 or the first of its enum:
// norms as stored, rows in half-split order, no QK norm, gated FFN, RoPE.
static const Family FAMILIES[] = {
    {
        .name = "llama", // Llama 2 and 3, SmolLM2, llama2.c; as GGUF also Mistral
        .called = {[NAMES_HF] = "llama", [NAMES_GGUF] = "llama", [NAMES_META] = "llama"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES},
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
        .name = "ministral3",
        .called = {[NAMES_HF] = "ministral3", [NAMES_GGUF] = "mistral3"},
        // Published files have an image encoder beside it.
        .prefixes = {[NAMES_HF] = {"model.", "language_model.model.", "model.language_model."}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS}},
        .interleaved = {[NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "granite", // 3, and in a GGUF 4 without experts
        .called = {[NAMES_HF] = "granite", [NAMES_GGUF] = "granite"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES}},
        .interleaved = {[NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "granitemoehybrid", // 4 without experts and without Mamba layers
        .called = {[NAMES_HF] = "granitemoehybrid"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_SHARED_FFN, HF_OPTIONAL_BIASES}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen2", // and 2.5
        .called = {[NAMES_HF] = "qwen2", [NAMES_GGUF] = "qwen2"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_QKV_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS, GGUF_QKV_BIASES}},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "qwen3",
        .called = {[NAMES_HF] = "qwen3", [NAMES_GGUF] = "qwen3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES, GGUF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "gemma2",
        .called = {[NAMES_HF] = "gemma2", [NAMES_GGUF] = "gemma2"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_FOUR_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS, GGUF_POST_NORMS,
                                    GGUF_OPTIONAL_BIASES}},
        .norms_stored_minus_one = {[NAMES_HF] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_GELU_TANH,
    },
    {
        .name = "gemma3", // text
        .called = {[NAMES_HF] = "gemma3_text", [NAMES_GGUF] = "gemma3"},
        // Multimodal files have the language model inside; the last is how transformers 5 saves it.
        .prefixes = {[NAMES_HF] = {"model.", "language_model.model.", "model.language_model."}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_FOUR_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS, GGUF_POST_NORMS,
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
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_POST_NORMS,
                                    GGUF_OPTIONAL_BIASES, GGUF_QK_NORMS}},
        .own_head = {[NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_FULL_WIDTH,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "olmo3", // a GGUF of it says olmo2
        .called = {[NAMES_HF] = "olmo3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_POST_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_FULL_WIDTH,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "exaone4",
        .called = {[NAMES_HF] = "exaone4", [NAMES_GGUF] = "exaone4"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_POST_NORMS, HF_GATED_FFN, HF_QK_NORMS},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_POST_NORMS, GGUF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "hunyuan", // dense, of 0.5 to 7B
        .called = {[NAMES_HF] = "hunyuan_v1_dense", [NAMES_GGUF] = "hunyuan-dense"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES,
                                  HF_LAYERNORMS_OF_QK},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES, GGUF_QK_NORMS}},
        .norm = NORM_RMS,
        .qk_norm = QK_NORM_PER_HEAD,
        .qk_norm_after_rope = true,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "ernie4_5", // dense, of 0.3B
        .called = {[NAMES_HF] = "ernie4_5", [NAMES_GGUF] = "ernie4_5"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS}},
        .interleaved = {[NAMES_HF] = true, [NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "arcee", // AFM
        .called = {[NAMES_HF] = "arcee", [NAMES_GGUF] = "arcee"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_UNGATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_PLAIN_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES}},
        .interleaved = {[NAMES_GGUF] = true},
        .norm = NORM_RMS,
        .activation = ACTIVATION_RELU2,
        .plain_ffn = true,
    },
    {
        .name = "smollm3",
        .called = {[NAMES_HF] = "smollm3", [NAMES_GGUF] = "smollm3"},
        .prefixes = {[NAMES_HF] = {"model.", ""}},
        .tensors = {[NAMES_HF] = {HF_DECODER, HF_PRE_NORMS, HF_GATED_FFN, HF_OPTIONAL_BIASES},
                    [NAMES_GGUF] = {GGUF_DECODER, GGUF_GATED_FFN, GGUF_PRE_NORMS,
                                    GGUF_OPTIONAL_BIASES}},
        .interleaved = {[NAMES_GGUF] = true}, // in the layers without RoPE, too
        .norm = NORM_RMS,
        .activation = ACTIVATION_SILU,
    },
    {
        .name = "phi3", // 3.5 and 4-mini
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
        .tensors = {[NAMES_HF] = {HF_GPT2}, [NAMES_GGUF] = {GGUF_BIASED_DECODER, GGUF_POSITIONS}},
        .transposed = {[NAMES_HF] = true},
        .norm = NORM_LAYER,
        .activation = ACTIVATION_GELU_TANH,
        .plain_ffn = true,
        .position = POSITION_LEARNED,
    },
    {
        .name = "gpt_neox", // Pythia
        .called = {[NAMES_HF] = "gpt_neox", [NAMES_GGUF] = "gptneox"},
        .prefixes = {[NAMES_HF] = {"gpt_neox.", ""}},
        .tensors = {[NAMES_HF] = {HF_GPT_NEOX}, [NAMES_GGUF] = {GGUF_BIASED_DECODER}},
        .by_heads = {[NAMES_HF] = true},
        .norm = NORM_LAYER,
        .activation = ACTIVATION_GELU_ERF,
        .plain_ffn = true,
        .parallel_residual = true,
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
    config->parallel_residual = family->parallel_residual;
    if (family->rope_backwards) config->rope.sign = -1.0f;
}

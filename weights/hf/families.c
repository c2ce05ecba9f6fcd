// The class defaults of every family, one row each, and the choice of the row. The other tables of
// families are about tensors (families.c); this one is about keys of config.json.
//
// Defaults are those of the configuration classes of transformers (configuration_*.py of each
// model). A published config.json leaves out keys that equal them, so they are part of the format.
// Columns in hf/config.h; a size of 0 must be given. The sizes of Gemma 3's row matter: text_config
// of multimodal files leaves most of them out.
#include "weights/hf/config.h"

#include <string.h>
#include <strings.h>

static const HfFamily FAMILIES[] = {
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .gpt2_keys = true,
     .tied = true,
     .norm_eps = 1e-5f,
     .eps_key = "layer_norm_epsilon",
     .activation_key = "activation_function",
     .activation = "gelu_new",
     .bos_id = 50256,
     .eos_id = 50256},
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation = "silu",
     .bos_id = 1,
     .eos_id = 2},
    // An absent sliding_window is 4096 in this class, null is none.
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .n_kv_heads = 8,
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation = "silu",
     .window_rule = HF_WINDOW_ALL,
     .window = 4096,
     .bos_id = 1,
     .eos_id = 2},
    // Its class scales the rope and the queries by default; all its files say how.
    {.model_type = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .wrapper = "mistral3",
     .other_architecture = "Mistral3ForConditionalGeneration",
     .n_kv_heads = 8,
     .head_dim = 128,
     .norm_eps = 1e-5f,
     .theta = 1e6f,
     .query_growth = true,
     .activation = "silu",
     .window_rule = HF_WINDOW_ALL,
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .multipliers = true,
     .activation = "silu",
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .hidden_key = "shared_intermediate_size",
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .multipliers = true,
     .hybrid = true,
     .activation = "silu",
     .bos_id = 1,
     .eos_id = 2},
    // The class has biases on q, k and v, and no key for them.
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .attention_biases = 3,
     .n_kv_heads = 32,
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation = "silu",
     .window_rule = HF_WINDOW_SWITCHED,
     .window = 4096,
     .bos_id = -1,
     .eos_id = -1},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .n_kv_heads = 32,
     .head_dim = 128,
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation = "silu",
     .window_rule = HF_WINDOW_SWITCHED,
     .window = 4096,
     .bos_id = -1,
     .eos_id = -1},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .tied = true,
     .n_kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .query_scalar = 256,
     .capped = true,
     .softcap = 30,
     .score_softcap = 50,
     .scaled_embedding = true,
     .window_rule = HF_WINDOW_PATTERN,
     .window = 4096,
     .pattern = 2,
     .bos_id = 2,
     .eos_id = 1},
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .wrapper = "gemma3",
     .other_architecture = "Gemma3ForConditionalGeneration",
     .tied = true,
     .dim = 2304,
     .hidden_dim = 9216,
     .n_layers = 26,
     .n_heads = 8,
     .vocab_size = 262208,
     .max_seq_len = 131072,
     .n_kv_heads = 4,
     .head_dim = 256,
     .norm_eps = 1e-6f,
     .theta = 1e6f,
     .theta_local = 1e4f,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .query_scalar = 256,
     .capped = true,
     .scaled_embedding = true,
     .window_rule = HF_WINDOW_PATTERN,
     .window = 4096,
     .pattern = 6,
     .bos_id = 2,
     .eos_id = 1},
    {.model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .norm_eps = 1e-5f,
     .theta = 1e4f,
     .activation = "silu",
     .bos_id = -1,
     .eos_id = 50279},
    // Its windowed layers have the same theta and no scaling.
    {.model_type = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .norm_eps = 1e-5f,
     .theta = 5e5f,
     .local_plain = true,
     .activation = "silu",
     .window_rule = HF_WINDOW_PATTERN,
     .window = 4096,
     .pattern = 4,
     .bos_id = -1,
     .eos_id = 50279},
    {.model_type = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .n_kv_heads = 32,
     .norm_eps = 1e-5f,
     .theta = 1e4f,
     .activation = "silu",
     .window_rule = HF_WINDOW_PATTERN,
     .window = 4096,
     .pattern = 4,
     .window_turns = true,
     .bos_id = 0,
     .eos_id = 2},
    {.model_type = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .norm_eps = 1e-5f,
     .theta = 1e4f,
     .rope_alpha = true,
     .qk_norm_key = true,
     .activation = "silu",
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "ernie4_5",
     .architecture = "Ernie4_5ForCausalLM",
     .other_architecture = "Ernie4_5_ForCausalLM",
     .tied = true,
     .n_kv_heads = 2,
     .head_dim = 128,
     .norm_eps = 1e-5f,
     .theta = 5e5f,
     .activation = "silu",
     .bos_id = 1,
     .eos_id = 2},
    {.model_type = "arcee",
     .architecture = "ArceeForCausalLM",
     .norm_eps = 1e-5f,
     .theta = 1e4f,
     .activation = "relu2",
     .bos_id = 128000,
     .eos_id = 128001},
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .norm_eps = 1e-5f,
     .theta = 1e4f,
     .activation = "silu",
     .window_rule = HF_WINDOW_ALL,
     // From transformers' Phi3Config.
     .original_context = 4096,
     .partial_rotary = true,
     .bos_id = 1,
     .eos_id = 32000},
    {.model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .tied = true,
     .n_kv_heads = 4,
     .norm_eps = 1e-6f,
     .theta = 2e6f,
     .activation = "silu",
     .window_rule = HF_WINDOW_ROPE_LESS,
     .bos_id = 128000,
     .eos_id = 128001},
    {.model_type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .neox_keys = true,
     .norm_eps = 1e-5f,
     .eps_key = "layer_norm_eps",
     .theta = 1e4f,
     .theta_key = "rotary_emb_base",
     .partial_rotary = true,
     .partial_key = "rotary_pct",
     .partial_factor = 0.25f,
     .activation = "gelu",
     .bos_id = 0,
     .eos_id = 2},
    {.model_type = "nanochat",
     .architecture = "NanoChatForCausalLM",
     .norm_eps = 1e-6f,
     .theta = 1e4f,
     .activation = "relu2",
     .capped = true,
     .softcap = 15,
     .bos_id = 0,
     .eos_id = 1},
};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

// ---- which family ----

// The first entry of "architectures", or NULL.
static bool first_architecture(const json_t *root, const char **name, Error *error) {
    const json_t *list = NULL;
    if (!json_read_array(root, "architectures", &list, error)) return false;
    const json_t *first = json_array_get(list, 0);
    if (first && !json_is_string(first))
        return error_set(error, ERROR_FILE, "\"architectures\": wanted a string, got %s",
                         json_kind(first));
    *name = json_string_value(first);
    return true;
}

// Old checkpoints spell it LLaMAForCausalLM.
// True for a config.json without "architectures", where model_type alone decides. A different head,
// such as LlamaForSequenceClassification, fits no row.
static bool architecture_fits(const HfFamily *family, const char *architecture) {
    return !architecture || !strcasecmp(architecture, family->architecture) ||
           (family->other_architecture && !strcmp(architecture, family->other_architecture));
}

// The row by model_type; by the architecture where there is no model_type.
const HfFamily *hf_family_find(const json_t *root, const json_t **text, Error *error) {
    const char *model_type = NULL, *architecture = NULL;
    const json_t *nested = NULL;
    if (!json_read_string(root, "model_type", &model_type, error) ||
        !first_architecture(root, &architecture, error) ||
        !json_read_object(root, "text_config", &nested, error))
        return NULL;
    if (!model_type && !architecture) {
        error_set(error, ERROR_FILE, "neither \"model_type\" nor \"architectures\" is given");
        return NULL;
    }
    // Multimodal models: the language model's config is nested, the image encoder's is not read.
    const char *inner = NULL;
    if (!json_read_string(nested, "model_type", &inner, error)) return NULL;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const HfFamily *family = &FAMILIES[i];
        bool inside = nested && model_type && family->wrapper &&
                      !strcmp(model_type, family->wrapper) &&
                      (!inner || !strcmp(inner, family->model_type));
        if (model_type && !inside && strcmp(model_type, family->model_type) != 0) continue;
        if (!architecture_fits(family, architecture)) continue;
        *text = inside ? nested : root;
        return family;
    }
    if (!architecture)
        error_set(error, ERROR_FILE, "unsupported architecture \"%s\"", model_type);
    else
        error_set(error, ERROR_FILE, "unsupported architecture \"%s\" (model_type \"%s\")",
                  architecture, model_type ? model_type : "");
    return NULL;
}

// For a family that hf_family_find or weights/families.c has accepted, so it is there; the last row
// otherwise.
const HfFamily *hf_family_of(const char *model_type) {
    size_t i = 0;
    while (i + 1 < N_FAMILIES && strcmp(FAMILIES[i].model_type, model_type) != 0)
        i++;
    return &FAMILIES[i];
}

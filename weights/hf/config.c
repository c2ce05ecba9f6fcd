// The hyper-parameters and special ids of config.json. Class defaults are in families.c beside this
// file, RoPE and windows in positions.c; the tensors of a family are in weights/families.c.
//
// hf_config_read has keys.c check every key first, so none that matters is passed over. A value
// that is absent has the default of the family's class, which hf_family_find has chosen; 0 in its
// row means that the key must be given.
#include "weights/hf/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// ---- numbers ----

typedef struct SizeField {
    const char *key, *gpt2_key; // NULL: the family has no such key
    size_t offset;
    bool derived; // absent or null: follows from the others
} SizeField;

// Columns: the key of most families; GPT-2's; the field; whether the value may be left out.
static const SizeField SIZES[] = {
    {"hidden_size", "n_embd", offsetof(Config, dim), false},
    {"intermediate_size", "n_inner", offsetof(Config, hidden_dim), true},
    {"num_hidden_layers", "n_layer", offsetof(Config, n_layers), false},
    {"num_attention_heads", "n_head", offsetof(Config, n_heads), false},
    {"num_key_value_heads", NULL, offsetof(Config, n_kv_heads), true},
    {"head_dim", NULL, offsetof(Config, head_dim), true},
    {"vocab_size", "vocab_size", offsetof(Config, vocab_size), false},
    {"max_position_embeddings", "n_positions", offsetof(Config, max_seq_len), false},
};

// In a range in which what follows may divide and multiply; config_finish knows the tighter limits.
//
// *size holds the class default on entry. 2^22 (LIMIT_VOCAB) keeps every product of two sizes below
// 64 bits.
static bool read_size(int *size, const json_t *text, const char *key, bool derived, Error *error) {
    if (!json_read_int(text, key, size, error)) return false;
    const json_t *value = json_object_get(text, key);
    bool given = value && !json_is_null(value);
    if (!given && *size == 0)
        return derived || error_set(error, ERROR_FILE, "\"%s\" is missing", key);
    if (*size > 0 && *size <= LIMIT_VOCAB) return true;
    return error_set(error, ERROR_FILE, "\"%s\": wanted 1 .. %d, got %d", key, LIMIT_VOCAB, *size);
}

// GPT-2's n_inner is 4 n_embd where it is null. The other classes have no such rule, so a missing
// intermediate_size is an error.
static bool derive_sizes(Config *config, const HfFamily *family, Error *error) {
    if (!config->hidden_dim && !family->gpt2_keys)
        return error_set(error, ERROR_FILE, "\"%s\" is missing",
                         family->hidden_key ? family->hidden_key : "intermediate_size");
    if (!config->hidden_dim) config->hidden_dim = 4 * config->dim;
    if (!config->n_kv_heads) config->n_kv_heads = config->n_heads;
    if (config->head_dim) return true;
    if (config->dim % config->n_heads)
        return error_set(error, ERROR_FILE,
                         "no \"head_dim\", and a width of %d does not divide into %d heads",
                         config->dim, config->n_heads);
    config->head_dim = config->dim / config->n_heads;
    return true;
}

static bool read_sizes(Config *config, const HfFamily *family, const json_t *text, Error *error) {
    config->dim = family->dim;
    config->hidden_dim = family->hidden_dim;
    config->n_layers = family->n_layers;
    config->n_heads = family->n_heads;
    config->vocab_size = family->vocab_size;
    config->max_seq_len = family->max_seq_len;
    // null means: derived from the other sizes; an absent key means the class default.
    config->n_kv_heads = json_object_get(text, "num_key_value_heads") ? 0 : family->n_kv_heads;
    config->head_dim = json_object_get(text, "head_dim") ? 0 : family->head_dim;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const char *key = family->gpt2_keys ? SIZES[i].gpt2_key : SIZES[i].key;
        bool hidden = SIZES[i].offset == offsetof(Config, hidden_dim);
        if (hidden && family->hidden_key) key = family->hidden_key;
        if (family->neox_keys && SIZES[i].offset == offsetof(Config, n_kv_heads)) continue;
        int *size = (int *)((char *)config + SIZES[i].offset);
        if (key && !read_size(size, text, key, SIZES[i].derived, error)) return false;
    }
    return derive_sizes(config, family, error);
}

// transformers' names (ACT2FN in activations.py). "gelu_new", "gelu_pytorch_tanh" and "gelu_fast"
// are the same function.
static bool read_activation(Config *config, const HfFamily *family, const json_t *text,
                            Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } NAMES[] = {
        {"silu", ACTIVATION_SILU},           {"swish", ACTIVATION_SILU},
        {"gelu_new", ACTIVATION_GELU_TANH},  {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"gelu_fast", ACTIVATION_GELU_TANH}, {"gelu", ACTIVATION_GELU_ERF},
        {"relu2", ACTIVATION_RELU2},
    };
    const char *name = family->activation;
    const char *key = family->activation_key ? family->activation_key : "hidden_act";
    if (!json_read_string(text, key, &name, error)) return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(name, NAMES[i].name) != 0) continue;
        config->activation = NAMES[i].activation;
        return true;
    }
    return error_set(error, ERROR_FILE, "\"%s\": unknown activation \"%s\"", key, name);
}

// Granite's four: of the embedding, of the scores (instead of head_dim^-1/2), of what blocks add,
// and what the logits are divided by. Absent they are 1, the one of the scores too.
static bool read_multipliers(Config *config, const HfFamily *family, const json_t *text,
                             Error *error) {
    const struct {
        const char *key;
        float *field;
    } FIELDS[] = {{"embedding_multiplier", &config->embedding_scale},
                  {"attention_multiplier", &config->attention_scale},
                  {"residual_multiplier", &config->residual_scale},
                  {"logits_scaling", &config->logit_divisor}};
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        float value = 1;
        if (!json_read_float(text, FIELDS[i].key, &value, error)) return false;
        if (!family->multipliers && value != 1)
            return error_set(error, ERROR_FILE, "\"%s\" is not supported in %s", FIELDS[i].key,
                             family->architecture);
        if (!(value > 0))
            return error_set(error, ERROR_FILE, "\"%s\": %g is not positive", FIELDS[i].key,
                             (double)value);
        if (family->multipliers) *FIELDS[i].field = value;
    }
    return true;
}

// A cap: null is none, absent the class default, which is 0 in classes without the key.
static bool read_cap(float *cap, const HfFamily *family, bool has, const json_t *text,
                     const char *key, Error *error) {
    if (!json_read_float(text, key, cap, error)) return false;
    if (json_is_null(json_object_get(text, key))) *cap = 0;
    if (*cap != 0 && !has) // transformers would pass it over
        return error_set(error, ERROR_FILE, "\"%s\" is not supported in %s", key,
                         family->architecture);
    return *cap >= 0 || error_set(error, ERROR_FILE, "\"%s\": %g is negative", key, (double)*cap);
}

// The scale of the scores, where it is not head_dim^-1/2, and the caps.
//
//     scale_attn_weights false              scores are not scaled            GPT-2
//     scale_attn_by_inverse_layer_idx true  and divided by the layer + 1     GPT-2
//     query_pre_attn_scalar s               s^-1/2 instead of head_dim^-1/2  Gemma
//     final_logit_softcapping c             c tanh(logits / c)               Gemma, nanochat
//     attn_logit_softcapping c              c tanh(scores / c)               Gemma 2
static bool read_scales(Config *config, const HfFamily *family, const json_t *text, Error *error) {
    bool scaled = true, by_layer = false;
    float query_scalar = family->query_scalar;
    config->logit_softcap = family->softcap;
    config->score_softcap = family->score_softcap;
    if (!json_read_bool(text, "scale_attn_weights", &scaled, error) ||
        !json_read_bool(text, "scale_attn_by_inverse_layer_idx", &by_layer, error) ||
        !json_read_float(text, "query_pre_attn_scalar", &query_scalar, error) ||
        !read_cap(&config->logit_softcap, family, family->capped, text, "final_logit_softcapping",
                  error) ||
        !read_cap(&config->score_softcap, family, family->score_softcap > 0, text,
                  "attn_logit_softcapping", error) ||
        !read_multipliers(config, family, text, error))
        return false;
    if (family->query_scalar > 0) {
        if (!(query_scalar > 0))
            return error_set(error, ERROR_FILE, "\"query_pre_attn_scalar\": %g is not positive",
                             (double)query_scalar);
        config->attention_scale = (float)(1 / sqrt((double)query_scalar));
    }
    // sqrt(dim) in float32. transformers rounds it to the type that the model is held in; limpid
    // computes in float32, and so does its reference.
    if (family->scaled_embedding) config->embedding_scale = sqrtf((float)config->dim);
    if (!family->gpt2_keys) return true;
    if (!scaled) config->attention_scale = 1;
    double scale = scaled ? 1 / sqrt(config->head_dim) : 1;
    for (int l = 0; by_layer && l < config->n_layers && l < LIMIT_LAYERS; l++)
        config->layers[l].attention_scale = (float)(scale / (l + 1));
    return true;
}

// Keys of one family that would pass unread in another, where they may mean something.
static bool refuse_foreign_keys(const HfFamily *family, const json_t *text, Error *error) {
    const struct {
        const char *key;
        bool has;
    } KEYS[] = {
        {"layer_norm_eps", family->neox_keys},       {"rotary_pct", family->neox_keys},
        {"rotary_emb_base", family->neox_keys},      {"use_parallel_residual", family->neox_keys},
        {"position_embedding_type", family->hybrid}, {"shared_intermediate_size", family->hybrid},
    };
    bool qk_norm = false;
    if (!json_read_bool(text, "use_qk_norm", &qk_norm, error)) return false;
    if (qk_norm && !family->qk_norm_key)
        return error_set(error, ERROR_FILE, "\"use_qk_norm\" is not supported");
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const json_t *value = json_object_get(text, KEYS[i].key);
        if (value && !json_is_null(value) && !KEYS[i].has)
            return error_set(error, ERROR_FILE, "\"%s\" is not supported in %s", KEYS[i].key,
                             family->architecture);
    }
    return true;
}

// What only some classes have beside numbers: GPT-NeoX's order of its blocks, whose biases are
// always there, and Granite 4's kinds of layers, of which limpid has attention.
static bool read_form(Config *config, const HfFamily *family, const json_t *text, Error *error) {
    bool biases = true;
    const char *positions = "nope";
    const json_t *types = NULL;
    if (family->neox_keys) {
        if (!json_read_bool(text, "use_parallel_residual", &config->parallel_residual, error) ||
            !json_read_bool(text, "attention_bias", &biases, error))
            return false;
        return biases || error_set(error, ERROR_FILE, "\"attention_bias\": false is not supported");
    }
    if (!family->hybrid) return true;
    if (!json_read_string(text, "position_embedding_type", &positions, error) ||
        !json_read_array(text, "layer_types", &types, error))
        return false;
    if (!json_is_integer(json_object_get(text, "num_local_experts"))) // the class has 8
        return error_set(error, ERROR_FILE, "\"num_local_experts\" is missing");
    if (strcmp(positions, "rope") != 0 && strcmp(positions, "nope") != 0)
        return error_set(error, ERROR_FILE,
                         "\"position_embedding_type\": wanted \"rope\" or \"nope\", got \"%s\"",
                         positions);
    if (types && json_array_size(types) != (size_t)config->n_layers)
        return error_set(error, ERROR_FILE, "\"layer_types\": wanted %d entries, got %zu",
                         config->n_layers, json_array_size(types));
    for (int l = 0; l < config->n_layers && l < LIMIT_LAYERS; l++) {
        const char *type = json_string_value(json_array_get(types, (size_t)l));
        if (!type || (strcmp(type, "attention") != 0 && strcmp(type, "full_attention") != 0))
            return error_set(error, ERROR_FILE, "\"layer_types\"[%d]: only attention is supported",
                             l);
        config->layers[l].no_rope = strcmp(positions, "rope") != 0;
    }
    return true;
}

// ---- special ids ----

// An id outside the vocabulary, which some files use for "none", can never come up.
static void add_eos(Config *config, json_int_t id) {
    if (id < 0 || id >= config->vocab_size || config->n_eos_ids == LIMIT_EOS_IDS) return;
    for (int i = 0; i < config->n_eos_ids; i++)
        if (config->eos_ids[i] == id) return;
    config->eos_ids[config->n_eos_ids++] = (int)id;
}

// A number, a list of numbers, or null; in both files.
static bool read_eos(Config *config, const json_t *object, Error *error) {
    const json_t *value = json_object_get(object, "eos_token_id");
    size_t count = json_is_array(value) ? json_array_size(value) : value ? 1 : 0;
    if (count > LIMIT_EOS_IDS)
        return error_set(error, ERROR_FILE, "\"eos_token_id\": %zu ids (at most %d)", count,
                         LIMIT_EOS_IDS);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_null(id) && !json_is_array(value)) return true;
        if (!json_is_integer(id))
            return error_set(error, ERROR_FILE, "\"eos_token_id\": wanted an integer, got %s",
                             json_kind(id));
        add_eos(config, json_integer_value(id));
    }
    return true;
}

// An absent id has the class default, a null one is none. Multimodal files may have the ids outside
// of text_config: both objects are read.
static bool read_ids(Config *config, const HfFamily *family, const json_t *root, const json_t *text,
                     Error *error) {
    bool null_bos = json_is_null(json_object_get(text, "bos_token_id"));
    config->bos_id = null_bos ? -1 : family->bos_id;
    if (!json_read_int(text, "bos_token_id", &config->bos_id, error)) return false;
    if (config->bos_id < 0 || config->bos_id >= config->vocab_size) config->bos_id = -1;
    config->n_eos_ids = 0;
    if (!json_object_get(text, "eos_token_id") && !json_object_get(root, "eos_token_id"))
        add_eos(config, family->eos_id);
    return read_eos(config, text, error) && (text == root || read_eos(config, root, error));
}

// ---- both files ----

// Sizes before the rest: positions are read per layer, and ids are compared with the vocabulary.
bool hf_config_read(Config *config, HfFlags *flags, const json_t *root, Arena *arena,
                    Error *error) {
    const json_t *text = NULL;
    const HfFamily *family = hf_family_find(root, &text, error);
    if (!family) return false;
    config->norm_eps = family->norm_eps;
    bool bias = false;
    *flags = (HfFlags){.tied = family->tied};
    const char *eps_key = family->eps_key ? family->eps_key : "rms_norm_eps";
    bool good =
        hf_keys_check(root, error) && hf_keys_check(text, error) &&
        read_sizes(config, family, text, error) &&
        json_read_float(text, eps_key, &config->norm_eps, error) &&
        json_read_bool(root, "tie_word_embeddings", &flags->tied, error) &&
        json_read_bool(text, "tie_word_embeddings", &flags->tied, error) &&
        json_read_bool(text, "attention_bias", &bias, error) &&
        read_activation(config, family, text, error) && read_scales(config, family, text, error) &&
        refuse_foreign_keys(family, text, error) && read_form(config, family, text, error) &&
        read_ids(config, family, root, text, error) &&
        hf_positions_read(config, family, text, arena, error);
    // attention_bias puts a bias on q, k, v and o.
    flags->attention_biases = bias && !family->neox_keys ? 4 : family->attention_biases;
    return good;
}

// An absent key stays -1, "not given"; a negative number in the file is refused, since it would
// read as absent.
bool hf_generation_read(Config *config, GenerationDefaults *defaults, const json_t *root,
                        Error *error) {
    static const struct {
        const char *key;
        size_t offset;
    } FIELDS[] = {
        {"temperature", offsetof(GenerationDefaults, temperature)},
        {"top_p", offsetof(GenerationDefaults, top_p)},
        {"top_k", offsetof(GenerationDefaults, top_k)},
        {"min_p", offsetof(GenerationDefaults, min_p)},
        {"repetition_penalty", offsetof(GenerationDefaults, repetition_penalty)},
    };
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        float *field = (float *)((char *)defaults + FIELDS[i].offset);
        if (!json_read_float(root, FIELDS[i].key, field, error)) return false;
        if (*field < 0 && json_object_get(root, FIELDS[i].key) &&
            !json_is_null(json_object_get(root, FIELDS[i].key)))
            return error_set(error, ERROR_FILE, "\"%s\": %g is negative", FIELDS[i].key,
                             (double)*field);
    }
    if (defaults->top_k > LIMIT_VOCAB) defaults->top_k = LIMIT_VOCAB; // all tokens
    return read_eos(config, root, error);
}

// config.json and generation_config.json of a model that is written for transformers: the other
// direction of weights/hf/config.c and positions.c, with the same rows of weights/hf/families.c.
//
// Reading what is written here gives the same Config, in limpid and in transformers. What the class
// of the family has no key for is refused (cannot). Keys are spelt as transformers 4 has them,
// which version 5 reads as well. Numbers are the shortest decimals that give the same float32.
#include "weights/out/outgoing.h"

#include "weights/container.h"
#include "weights/hf/config.h"
#include "weights/quant.h"
#include "weights/roles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// An object that is being written, a member a line.
typedef struct Members {
    Buffer *json;
    bool comma;
} Members;

// Begins a member: comma, line, name.
static void key(Members *m, const char *name) {
    buffer_print(m->json, "%s\n  \"%s\": ", m->comma ? "," : "", name);
    m->comma = true;
}

static void put_int(Members *m, const char *name, int value) {
    key(m, name);
    buffer_print(m->json, "%d", value);
}

static void put_bool(Members *m, const char *name, bool value) {
    key(m, name);
    buffer_print(m->json, value ? "true" : "false");
}

static void put_null(Members *m, const char *name) {
    key(m, name);
    buffer_print(m->json, "null");
}

static void put_text(Members *m, const char *name, const char *text) {
    key(m, name);
    buffer_quote(m->json, text, strlen(text));
}

// The shortest decimal that is this float32 again; with a point, so that it is a float to Python.
static void number(Buffer *json, float value) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    buffer_print(json, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_float(Members *m, const char *name, float value) {
    key(m, name);
    number(m->json, value);
}

static void put_floats(Members *m, const char *name, const float *values, int count) {
    key(m, name);
    for (int i = 0; i < count; i++) {
        buffer_print(m->json, i ? ", " : "[");
        number(m->json, values[i]);
    }
    buffer_print(m->json, "]");
}

// Ids that are absent are null, not left out: an absent key would mean the class default.
static void put_id(Members *m, const char *name, int id) {
    if (id >= 0)
        put_int(m, name, id);
    else
        put_null(m, name);
}

// One id as a number, several as a list, none as null.
static void put_ids(Members *m, const char *name, const int *ids, int count) {
    if (count <= 1) {
        put_id(m, name, count ? ids[0] : -1);
        return;
    }
    key(m, name);
    for (int i = 0; i < count; i++)
        buffer_print(m->json, "%s%d", i ? ", " : "[", ids[i]);
    buffer_print(m->json, "]");
}

// ---- config.json ----

typedef struct Writing {
    Members m;
    const Config *config;
    const HfFamily *family;
    Error *error;
} Writing;

// False, with exit code 3.
static bool cannot(const Writing *w, const char *what) {
    return error_set(w->error, ERROR_FILE, "%s has no key for %s", w->family->architecture, what);
}

// All sizes are written, also those that equal a default.
static void put_sizes(Writing *w) {
    const Config *c = w->config;
    bool gpt2 = w->family->gpt2_keys;
    put_int(&w->m, gpt2 ? "n_embd" : "hidden_size", c->dim);
    const char *hidden = w->family->hidden_key ? w->family->hidden_key : "intermediate_size";
    put_int(&w->m, gpt2 ? "n_inner" : hidden, c->hidden_dim);
    put_int(&w->m, gpt2 ? "n_layer" : "num_hidden_layers", c->n_layers);
    put_int(&w->m, gpt2 ? "n_head" : "num_attention_heads", c->n_heads);
    put_int(&w->m, gpt2 ? "n_positions" : "max_position_embeddings", c->max_seq_len);
    put_int(&w->m, "vocab_size", c->vocab_size);
    put_float(&w->m, w->family->eps_key ? w->family->eps_key : "rms_norm_eps", c->norm_eps);
    if (gpt2 || w->family->neox_keys) return;
    put_int(&w->m, "num_key_value_heads", c->n_kv_heads);
    put_int(&w->m, "head_dim", c->head_dim);
}

// "gelu_new" and "gelu_pytorch_tanh" are one function; GPT-2 calls it by the older name.
static bool put_activation(Writing *w) {
    static const char *const NAMES[] = {[ACTIVATION_SILU] = "silu",
                                        [ACTIVATION_GELU_TANH] = "gelu_pytorch_tanh",
                                        [ACTIVATION_GELU_ERF] = "gelu",
                                        [ACTIVATION_RELU2] = "relu2"};
    const char *name = NAMES[w->config->activation];
    if (w->family->gpt2_keys && w->config->activation == ACTIVATION_GELU_TANH) name = "gelu_new";
    put_text(&w->m, w->family->activation_key ? w->family->activation_key : "hidden_act", name);
    return true;
}

// query_pre_attn_scalar is the scale to the power of -2: the nearest number that gives it back.
//
// Tried in this order: the integer, which is what makers write, then the neighbours in float32.
static float query_scalar(float scale) {
    float scalar = (float)(1.0 / ((double)scale * (double)scale));
    float near[] = {roundf(scalar), scalar, nextafterf(scalar, INFINITY), nextafterf(scalar, 0)};
    for (int i = 0; i < 4; i++)
        if ((float)(1 / sqrt((double)near[i])) == scale) return near[i];
    return scalar;
}

// transformers 5 takes no float here.
static void put_scalar(Members *m, const char *name, float value) {
    if (value == roundf(value) && value < 1e6f)
        put_int(m, name, (int)value);
    else
        put_float(m, name, value);
}

static bool put_multipliers(Writing *w) {
    const Config *c = w->config;
    float embedding = w->family->scaled_embedding ? sqrtf((float)c->dim) : 1.0f;
    if (w->family->multipliers) {
        put_float(&w->m, "embedding_multiplier", c->embedding_scale);
        put_float(&w->m, "residual_multiplier", c->residual_scale);
        put_float(&w->m, "logits_scaling", c->logit_divisor);
        return true;
    }
    if (c->embedding_scale != embedding) return cannot(w, "the scale of its embedding");
    if (c->residual_scale != 1.0f) return cannot(w, "the scale of what its blocks add");
    return c->logit_divisor == 1.0f || cannot(w, "the divisor of its logits");
}

// null is none; an absent key would be the class default.
static bool put_cap(Writing *w, bool has, const char *name, float cap) {
    if (!has) return cap == 0 || cannot(w, name);
    if (cap > 0)
        put_float(&w->m, name, cap);
    else
        put_null(&w->m, name);
    return true;
}

// A scale of its own per layer exists for GPT-2 only, and only as scale / (layer + 1).
static bool put_scales(Writing *w) {
    const Config *c = w->config;
    float scale = c->layers[0].attention_scale, usual = (float)(1 / sqrt((double)c->head_dim));
    bool by_layer = c->n_layers > 1 && w->family->gpt2_keys;
    for (int l = 0; l < c->n_layers; l++) {
        float here = c->layers[l].attention_scale;
        by_layer &= here == (float)((double)scale / (l + 1));
        if (here != scale && !by_layer)
            return cannot(w, "scores that are scaled differently in every layer");
    }
    if (by_layer) put_bool(&w->m, "scale_attn_by_inverse_layer_idx", true);
    if (w->family->multipliers)
        put_float(&w->m, "attention_multiplier", scale);
    else if (w->family->query_scalar > 0)
        put_scalar(&w->m, "query_pre_attn_scalar", query_scalar(scale));
    else if (w->family->gpt2_keys && scale == 1.0f && usual != 1.0f)
        put_bool(&w->m, "scale_attn_weights", false);
    else if (scale != usual)
        return cannot(w, "the scale of its scores");
    return put_multipliers(w) &&
           put_cap(w, w->family->capped, "final_logit_softcapping", c->logit_softcap) &&
           put_cap(w, w->family->score_softcap > 0, "attn_logit_softcapping", c->score_softcap);
}

// ---- rope ----

// Phi 3's class of transformers 4 takes these three members and no other. The factor is that of the
// lengths without a key.
static bool is_plain_longrope(const Config *c, const RopeConfig *rope) {
    return rope->scaling == ROPE_LONGROPE && rope->attention_factor == 0.0f &&
           rope->query_growth == 0.0f &&
           rope->factor == (float)c->max_seq_len / (float)rope->original_max_seq_len;
}

// The members of rope_scaling.
static void put_rope_members(Members *m, const Config *c, const RopeConfig *rope) {
    static const char *const NAMES[] = {
        [ROPE_PLAIN] = "default", [ROPE_LINEAR] = "linear",       [ROPE_LLAMA3] = "llama3",
        [ROPE_YARN] = "yarn",     [ROPE_DYNAMIC_NTK] = "dynamic", [ROPE_LONGROPE] = "longrope"};
    bool originally =
        rope->scaling == ROPE_LLAMA3 || rope->scaling == ROPE_YARN || rope->query_growth > 0;
    bool plain_longrope = is_plain_longrope(c, rope);
    if (rope->query_growth > 0) put_float(m, "llama_4_scaling_beta", rope->query_growth);
    put_text(m, plain_longrope ? "type" : "rope_type", NAMES[rope->scaling]);
    if (rope->scaling == ROPE_LONGROPE) {
        put_floats(m, "short_factor", rope->short_factor, c->rope_dim / 2);
        put_floats(m, "long_factor", rope->long_factor, c->rope_dim / 2);
    }
    if (rope->factor > 0 && !plain_longrope) put_float(m, "factor", rope->factor);
    if (originally) put_int(m, "original_max_position_embeddings", rope->original_max_seq_len);
    if (rope->scaling == ROPE_LLAMA3) {
        put_float(m, "low_freq_factor", rope->low_freq_factor);
        put_float(m, "high_freq_factor", rope->high_freq_factor);
    }
    if (rope->attention_factor > 0) put_float(m, "attention_factor", rope->attention_factor);
    if (rope->scaling != ROPE_YARN) return;
    if (rope->beta_fast > 0) put_float(m, "beta_fast", rope->beta_fast);
    if (rope->beta_slow > 0) put_float(m, "beta_slow", rope->beta_slow);
    if (rope->mscale > 0) put_float(m, "mscale", rope->mscale);
    if (rope->mscale_all_dim > 0) put_float(m, "mscale_all_dim", rope->mscale_all_dim);
    if (rope->no_truncate) put_bool(m, "truncate", false);
}

// The shortest decimal that gives the number of channels again.
//
// transformers computes int(head_dim * factor), so the decimal has to come out at or above
// `rotating`.
static bool put_rope_dim(Writing *w) {
    const Config *c = w->config;
    int rotating = c->rope.exponent_dim ? c->rope.exponent_dim : c->rope_dim;
    char text[32];
    if (rotating == c->head_dim && w->family->partial_factor == 0) return true;
    if (!w->family->partial_rotary) return cannot(w, "heads that turn in part");
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)rotating / c->head_dim);
        if ((int)(c->head_dim * strtod(text, NULL)) == rotating) break;
    }
    key(&w->m, w->family->partial_key ? w->family->partial_key : "partial_rotary_factor");
    buffer_print(w->m.json, "%s", text);
    return true;
}

// llama3 needs its four numbers: divisors that rope_recognise_llama3 did not recognise have no key.
static bool put_rope(Writing *w) {
    const Config *c = w->config;
    const RopeConfig *rope = &c->rope;
    if (c->position != POSITION_ROPE) return true;
    if (rope->divisors) return cannot(w, "the divisors of rope_freqs.weight");
    if (rope->query_growth != 0 && !w->family->query_growth) return cannot(w, "queries that grow");
    if (!strcmp(w->family->model_type, "phi3") && rope->scaling != ROPE_PLAIN &&
        rope->scaling != ROPE_LONGROPE)
        return cannot(w, "a scaling of the rope other than longrope");
    put_float(&w->m, w->family->theta_key ? w->family->theta_key : "rope_theta", rope->theta);
    if (!put_rope_dim(w)) return false;
    if (rope->scaling == ROPE_LONGROPE)
        put_int(&w->m, "original_max_position_embeddings", rope->original_max_seq_len);
    key(&w->m, "rope_scaling");
    if (rope->scaling == ROPE_PLAIN && rope->query_growth == 0) {
        buffer_print(w->m.json, "null");
    } else {
        Members inner = {.json = w->m.json};
        buffer_print(w->m.json, "{");
        put_rope_members(&inner, c, rope);
        buffer_print(w->m.json, "\n  }");
    }
    if (!hf_family_has_local_rope(w->family)) return true;
    if (c->rope_local.scaling != ROPE_PLAIN)
        return cannot(w, "a scaling of the rope in layers with a window");
    if (w->family->local_plain)
        return c->rope_local.theta == rope->theta || cannot(w, "two thetas");
    put_float(&w->m, "rope_local_base_freq", c->rope_local.theta);
    return true;
}

// ---- layers ----

static void put_layer_types(Writing *w, bool any) {
    const Config *c = w->config;
    key(&w->m, "layer_types");
    for (int l = 0; l < c->n_layers; l++)
        buffer_print(w->m.json, "%s\"%s_attention\"", l ? ", " : "[",
                     any && c->layers[l].window ? "sliding" : "full");
    buffer_print(w->m.json, "]");
}

// `all`: every layer has the window, which is all that Mistral's and Phi 3's classes can say.
static bool put_windows(Writing *w) {
    const Config *c = w->config;
    bool all = true, switched = w->family->window_rule == HF_WINDOW_SWITCHED ||
                                w->family->window_rule == HF_WINDOW_ROPE_LESS;
    int window = 0;
    for (int l = 0; l < c->n_layers; l++) {
        int here = c->layers[l].window;
        if (here && window && here != window) return cannot(w, "windows of several sizes");
        if (here) window = here;
        all &= here > 0;
        if (c->layers[l].local_rope != (here > 0 && hf_family_has_local_rope(w->family)))
            return cannot(w, "which of its layers have a theta of their own");
    }
    if (w->family->window_rule == HF_WINDOW_NONE) return !window || cannot(w, "a window");
    if (window && !all && w->family->window_rule == HF_WINDOW_ALL)
        return cannot(w, "windows in some of its layers");
    if (switched) put_bool(&w->m, "use_sliding_window", window > 0);
    put_id(&w->m, "sliding_window", window ? window : -1);
    if (w->family->window_rule != HF_WINDOW_ALL) put_layer_types(w, window > 0);
    return true;
}

// Granite 4 has all the forms of its layers in keys.
static bool put_hybrid(Writing *w) {
    const Config *c = w->config;
    put_int(&w->m, "num_local_experts", 0);
    put_int(&w->m, "num_experts_per_tok", 0);
    put_int(&w->m, "mamba_n_heads", 1); // transformers checks it, although there is no such layer
    put_text(&w->m, "position_embedding_type", c->layers[0].no_rope ? "nope" : "rope");
    key(&w->m, "layer_types");
    for (int l = 0; l < c->n_layers; l++) {
        buffer_print(w->m.json, "%s\"attention\"", l ? ", " : "[");
        if (c->layers[l].no_rope != c->layers[0].no_rope)
            return cannot(w, "which of its layers do not rotate");
    }
    buffer_print(w->m.json, "]");
    return true;
}

static bool put_rope_less_layers(Writing *w) {
    const Config *c = w->config;
    if (w->family->hybrid) return put_hybrid(w);
    bool smollm3 = !strcmp(w->family->model_type, "smollm3");
    bool windows = false;
    for (int l = 0; l < c->n_layers; l++)
        windows |= c->layers[l].window > 0;
    for (int l = 0; l < c->n_layers && !smollm3; l++)
        if (c->layers[l].no_rope != (w->family->window_turns && windows && !c->layers[l].window))
            return cannot(w, "which of its layers do not rotate");
    if (!smollm3) return true;
    key(&w->m, "no_rope_layers"); // 1 where rope is used
    for (int l = 0; l < c->n_layers; l++)
        buffer_print(w->m.json, "%s%d", l ? ", " : "[", !c->layers[l].no_rope);
    buffer_print(w->m.json, "]");
    return true;
}

// ---- the whole ----

// transformers knows all biases of attention or none; Qwen 2 has its three without a key.
//
// The number of biases has to be the same in every layer.
static bool put_biases(Writing *w, const Outgoing *out) {
    const LayerWeights *layers = out->from->weights.layers;
    if (w->family->neox_keys)
        put_bool(&w->m, "use_parallel_residual", w->config->parallel_residual);
    if (w->family->gpt2_keys || w->family->neox_keys) return true;
    for (int l = 0; l < w->config->n_layers; l++) {
        const LayerWeights *a = &layers[l];
        int here = (a->bq != NULL) + (a->bk != NULL) + (a->bv != NULL) + (a->bo != NULL);
        int wanted = w->family->attention_biases ? w->family->attention_biases
                     : layers[0].bq              ? 4
                                                 : 0;
        if (here != wanted) return cannot(w, "biases on some of its attention matrices");
    }
    if (!w->family->attention_biases) put_bool(&w->m, "attention_bias", layers[0].bq != NULL);
    return true;
}

static const char *torch_name(DType dtype) {
    return dtype == DTYPE_F16 ? "float16" : dtype == DTYPE_BF16 ? "bfloat16" : "float32";
}

// An error leaves an incomplete text in `json`; the caller throws it away.
bool hf_config_write(Buffer *json, const Outgoing *out, Error *error) {
    const Checkpoint *from = out->from;
    const Config *c = &from->config;
    Writing w = {.m = {.json = json}, .config = c, .error = error};
    w.family = hf_family_of(out->family->called[NAMES_HF]);
    bool tied = from->weights.head.data == from->weights.token_embedding.data;
    buffer_print(json, "{");
    key(&w.m, "architectures");
    buffer_print(json, "[\"%s\"]", w.family->architecture);
    put_text(&w.m, "model_type", w.family->model_type);
    put_text(&w.m, "torch_dtype", torch_name(out->dtype));
    put_sizes(&w);
    put_bool(&w.m, "tie_word_embeddings", tied);
    put_id(&w.m, "bos_token_id", c->bos_id);
    put_ids(&w.m, "eos_token_id", c->eos_ids, c->n_eos_ids);
    put_id(&w.m, "pad_token_id", from->vocabulary.pad_id);
    for (int i = 0; i < ABOUT_KEYS; i++) {
        if (!from->about[i].length) continue;
        key(&w.m, ABOUT_NAMES[i]);
        buffer_quote(json, from->about[i].text, from->about[i].length);
    }
    bool good = put_activation(&w) && put_scales(&w) && put_rope(&w) && put_windows(&w) &&
                put_rope_less_layers(&w) && put_biases(&w, out);
    buffer_print(json, "\n}\n");
    return good;
}

// Only what the model's own file gave; an absent number is left to transformers' defaults.
void hf_generation_write(Buffer *json, const Checkpoint *from) {
    const GenerationDefaults *g = &from->generation;
    const struct {
        const char *name;
        float value;
    } numbers[] = {{"temperature", g->temperature},
                   {"top_p", g->top_p},
                   {"min_p", g->min_p},
                   {"repetition_penalty", g->repetition_penalty}};
    Members m = {.json = json};
    buffer_print(json, "{");
    put_id(&m, "bos_token_id", from->config.bos_id);
    put_ids(&m, "eos_token_id", from->config.eos_ids, from->config.n_eos_ids);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value >= 0) put_float(&m, numbers[i].name, numbers[i].value);
    if (g->top_k >= 0) put_int(&m, "top_k", (int)g->top_k);
    buffer_print(json, "\n}\n");
}

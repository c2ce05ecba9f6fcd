// Keys -> Config. What a file leaves out has the defaults of the format; what it says and limpid
// does not do is refused, since leaving it out would give wrong text.
//
// Keys begin with the architecture, "llama.block_count"; in the code it is left out (gguf.h). The
// order of gguf_read_config is that of the dependencies: sizes, then rope, which needs the context,
// then what the architecture implies, then the size of the vocabulary, which is that of a tensor.
#include "weights/gguf/gguf.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// Keys that change the mathematics in ways that no family of the table has. A zero says nothing.
//
// (Mixtures of experts; ALiBi; clamped q, k, v; scales, a cap on scores and parallel residuals
// where the architecture does not have them.)
static bool refuse_unsupported(const Gguf *g, Error *error) {
    const GgufScales has = gguf_scales(g->architecture);
    const struct {
        const char *key;
        bool read;
    } KEYS[] = {
        {".expert_count", false},
        {".attention.max_alibi_bias", false},
        {".attention.clamp_kqv", false},
        {".logit_scale", has.granite},
        {".residual_scale", has.granite},
        {".embedding_scale", has.granite},
        {".attn_logit_softcapping", has.score_cap > 0.0f},
        {".use_parallel_residual", has.parallel},
        {".attention.temperature_scale", has.query_growth},
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const GgufValue *value = KEYS[i].read ? NULL : gguf_find(g, KEYS[i].key);
        // All bits of a number: 0 as an integer and 0.0 have none set. A string or an array says
        // something.
        uint64_t bits = 0;
        if (!value) continue;
        size_t size = gguf_type_size(value->type);
        if (size) memcpy(&bits, value->bytes, size);
        if (bits || !size) return gguf_fail(g, KEYS[i].key, error, "is not supported");
    }
    bool causal = true;
    if (!gguf_bool(g, ".attention.causal", &causal, error)) return false;
    return causal || gguf_fail(g, ".attention.causal", error, "is false: not a language model");
}

// Names that older converters (ollama's) gave to numbers of the rope and of Ministral's queries.
// With them alone the model would run with other numbers.
static bool refuse_old_names(const Gguf *g, Error *error) {
    static const struct {
        const char *old, *now;
        bool of_yarn;
    } KEYS[] = {
        {".rope.global.freq_base", ".rope.freq_base", false},
        {".rope.local.freq_base", ".rope.freq_base_swa", false},
        {".rope.scaling_beta", ".attention.temperature_scale", false},
        {".rope.scaling.mscale_all_dim", ".rope.scaling.yarn_log_multiplier", true},
        {".rope.scaling.beta_fast", ".rope.scaling.yarn_beta_fast", true},
        {".rope.scaling.beta_slow", ".rope.scaling.yarn_beta_slow", true},
        {".rope.scaling.extrapolation_factor", ".rope.scaling.yarn_ext_factor", true},
    };
    TextSpan type = {0};
    if (!gguf_text(g, ".rope.scaling.type", false, &type, error)) return false;
    bool yarn = type.length == 4 && !memcmp(type.text, "yarn", 4);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if ((yarn || !KEYS[i].of_yarn) && gguf_find(g, KEYS[i].old) && !gguf_find(g, KEYS[i].now))
            return gguf_fail(g, KEYS[i].old, error,
                             "is an older name of %s%s: convert the original again",
                             g->architecture, KEYS[i].now);
    return true;
}

// The number of layers first: the per-layer arrays are compared with it.
static bool read_sizes(const Gguf *g, Config *c, Error *error) {
    uint32_t context = 0;
    int value_length = 0;
    if (!gguf_int(g, ".block_count", true, &c->n_layers, error)) return false;
    if (c->n_layers < 1 || c->n_layers > LIMIT_LAYERS)
        return gguf_fail(g, ".block_count", error, "got %d, wanted 1 to %d", c->n_layers,
                         LIMIT_LAYERS);
    if (!gguf_int(g, ".embedding_length", true, &c->dim, error) ||
        !gguf_u32(g, ".context_length", true, &context, error) ||
        !gguf_per_layer(g, ".feed_forward_length", true, c->n_layers, &c->hidden_dim, error) ||
        !gguf_per_layer(g, ".attention.head_count", true, c->n_layers, &c->n_heads, error))
        return false;
    c->n_kv_heads = c->n_heads;
    // Models that claim a longer context than limpid allows are cut to it, not refused.
    c->max_seq_len = context < LIMIT_CONTEXT ? (int)context : LIMIT_CONTEXT;
    if (!gguf_per_layer(g, ".attention.head_count_kv", false, c->n_layers, &c->n_kv_heads, error) ||
        !gguf_int(g, ".attention.key_length", false, &c->head_dim, error))
        return false;
    if (gguf_find(g, ".attention.key_length") && !c->head_dim)
        return gguf_fail(g, ".attention.key_length", error, "got 0");
    if (!c->head_dim && c->n_heads > 0 && c->dim % c->n_heads == 0)
        c->head_dim = c->dim / c->n_heads;
    // limpid has one head_dim for keys and values.
    value_length = c->head_dim;
    if (!gguf_int(g, ".attention.value_length", false, &value_length, error)) return false;
    return value_length == c->head_dim ||
           gguf_fail(g, ".attention.value_length", error, "got %d, wanted key_length (%d)",
                     value_length, c->head_dim);
}

// 32 and 1 are the paper's beta_fast and beta_slow (arXiv 2309.00071), which most files leave out.
// attn_factor multiplies the formula's factor of cos and sin; yarn_attn_factor is the factor, as
// config.json has it. Where the two agree but for rounding, the second is exact.
static bool read_yarn(const Gguf *g, RopeConfig *rope, Error *error) {
    float factor = 1.0f, extrapolation = 1.0f, whole = 0.0f;
    rope->scaling = ROPE_YARN;
    rope->beta_fast = 32.0f;
    rope->beta_slow = 1.0f;
    if (!gguf_f32(g, ".rope.scaling.attn_factor", false, &factor, error) ||
        !gguf_f32(g, ".rope.scaling.yarn_attn_factor", false, &whole, error) ||
        !gguf_f32(g, ".rope.scaling.yarn_ext_factor", false, &extrapolation, error) ||
        !gguf_f32(g, ".rope.scaling.yarn_beta_fast", false, &rope->beta_fast, error) ||
        !gguf_f32(g, ".rope.scaling.yarn_beta_slow", false, &rope->beta_slow, error))
        return false;
    if (extrapolation != 1.0f)
        return gguf_fail(g, ".rope.scaling.yarn_ext_factor", error, "got %g, wanted 1",
                         (double)extrapolation);
    // RopeConfig holds the product; 0 is the formula.
    float formula = rope->factor > 1.0f ? 0.1f * logf(rope->factor) + 1.0f : 1.0f;
    bool agree = fabsf(factor * formula - whole) <= 1e-6f * whole;
    rope->attention_factor = factor != 1.0f && !agree ? factor * formula : whole;
    return true;
}

// Absent: dimension_count is the head, freq_base 10000, the original context the model's own, the
// type linear. scale_linear is the older name of the factor; the newer overrules it.
static bool read_rope(const Gguf *g, Config *c, Error *error) {
    RopeConfig *rope = &c->rope;
    TextSpan type = {"linear", 6};
    rope->original_max_seq_len = c->max_seq_len;
    if (!gguf_int(g, ".rope.dimension_count", false, &c->rope_dim, error) ||
        !gguf_f32(g, ".rope.freq_base", false, &rope->theta, error) ||
        !gguf_text(g, ".rope.scaling.type", false, &type, error) ||
        !gguf_f32(g, ".rope.scale_linear", false, &rope->factor, error) ||
        !gguf_f32(g, ".rope.scaling.factor", false, &rope->factor, error) ||
        !gguf_int(g, ".rope.scaling.original_context_length", false, &rope->original_max_seq_len,
                  error))
        return false;
    if (gguf_find(g, ".rope.dimension_count") && !c->rope_dim)
        return gguf_fail(g, ".rope.dimension_count", error, "got 0");
    if (span_equals(type, "none")) return true;
    if (span_equals(type, "yarn")) return read_yarn(g, rope, error);
    if (span_equals(type, "longrope")) return true; // its factors are tensors: families.c
    if (!span_equals(type, "linear"))
        return gguf_fail(g, ".rope.scaling.type", error, "\"%.*s\" is not supported",
                         (int)(type.length < 100 ? type.length : 100), type.text);
    if (rope->factor != 0.0f) rope->scaling = ROPE_LINEAR; // without a factor: as it is
    return true;
}

// One row of the embedding per token. A vocabulary in the file must be of that size.
//
// The key vocab_size is optional, so it is not read.
static bool read_vocab_size(const Gguf *g, Config *c, Error *error) {
    const Checkpoint *checkpoint = g->checkpoint;
    int64_t embedding = names_find(&checkpoint->names, "token_embd.weight");
    size_t n_tokens = checkpoint->vocabulary.n_tokens;
    if (embedding < 0)
        return error_set(error, ERROR_FILE, "tensor \"token_embd.weight\" is missing");
    uint64_t rows = checkpoint->tensors[embedding].shape[0];
    if (n_tokens && n_tokens != rows)
        return error_set(error, ERROR_FILE,
                         "vocabulary of %zu tokens, but token_embd.weight has %llu rows", n_tokens,
                         (unsigned long long)rows);
    if (rows > LIMIT_VOCAB)
        return error_set(error, ERROR_FILE, "token_embd.weight has %llu rows, at most %d are read",
                         (unsigned long long)rows, LIMIT_VOCAB);
    c->vocab_size = (int)rows;
    return true;
}

// Each id once; -1, which is "none", is left out.
static void add_eos(Config *c, int id) {
    for (int i = 0; i < c->n_eos_ids; i++)
        if (c->eos_ids[i] == id) return;
    if (id >= 0 && c->n_eos_ids < LIMIT_EOS_IDS) c->eos_ids[c->n_eos_ids++] = id;
}

// Mistral's GGUFs say "llama" and mostly carry no window, which its first version had.
static bool sounds_like_mistral(TextSpan name) {
    for (size_t i = 0; i + 7 <= name.length; i++)
        if (!strncasecmp(name.text + i, "mistral", 7)) return true;
    return false;
}

// Texts for people; they are shown escaped and change nothing.
static bool read_about(const Gguf *g, Error *error) {
    char key[64];
    for (int i = 0; i < ABOUT_KEYS; i++) {
        snprintf(key, sizeof key, "general.%s", ABOUT_NAMES[i]);
        if (!gguf_text(g, key, false, &g->checkpoint->about[i], error)) return false;
    }
    return true;
}

const GgufSampling GGUF_SAMPLING[GGUF_SAMPLING_KEYS] = {
    {"general.sampling.temp", offsetof(GenerationDefaults, temperature)},
    {"general.sampling.top_k", offsetof(GenerationDefaults, top_k)},
    {"general.sampling.top_p", offsetof(GenerationDefaults, top_p)},
    {"general.sampling.min_p", offsetof(GenerationDefaults, min_p)},
    {"general.sampling.penalty_repeat", offsetof(GenerationDefaults, repetition_penalty)},
};

// What is of another type or no number to sample by is as if it were not there.
static void read_generation(const Gguf *g) {
    for (int i = 0; i < GGUF_SAMPLING_KEYS; i++) {
        const GgufValue *value = gguf_find(g, GGUF_SAMPLING[i].key);
        float number = -1.0f;
        if (value && value->type == GGUF_F32) number = load_f32(value->bytes);
        if (value && value->type == GGUF_I32) number = (float)(int32_t)load_u32(value->bytes);
        if (value && value->type == GGUF_U32) number = (float)load_u32(value->bytes);
        if (number >= 0.0f && isfinite(number))
            memcpy((char *)&g->checkpoint->generation + GGUF_SAMPLING[i].offset, &number,
                   sizeof number);
    }
    GenerationDefaults *d = &g->checkpoint->generation;
    if (d->top_k > LIMIT_VOCAB) d->top_k = LIMIT_VOCAB; // all tokens
    if (d->top_p > 1.0f) d->top_p = -1.0f;
    if (d->min_p > 1.0f) d->min_p = -1.0f;
}

// eot and eom end a turn or a message. A GGUF often names only one end in eos_token_id, so
// generation stops at each of the three.
bool gguf_read_config(const Gguf *g, Error *error) {
    Checkpoint *checkpoint = g->checkpoint;
    Config *c = &checkpoint->config;
    const Vocabulary *v = &checkpoint->vocabulary;
    TextSpan name = {0};
    family_defaults(checkpoint->family, c);
    c->logit_softcap = gguf_scales(g->architecture).logit_cap;
    const char *eps = c->norm == NORM_LAYER ? ".attention.layer_norm_epsilon"
                                            : ".attention.layer_norm_rms_epsilon";
    if (!refuse_unsupported(g, error) || !refuse_old_names(g, error) || !read_sizes(g, c, error) ||
        !gguf_f32(g, eps, true, &c->norm_eps, error) ||
        !gguf_f32(g, ".attention.scale", false, &c->attention_scale, error) ||
        !gguf_f32(g, ".final_logit_softcapping", false, &c->logit_softcap, error) ||
        !read_rope(g, c, error) || !gguf_read_family(g, error) || !read_vocab_size(g, c, error) ||
        !gguf_text(g, "general.name", false, &name, error) || !read_about(g, error))
        return false;
    read_generation(g);
    g->checkpoint->name = name;
    if (name.text) escape_bytes(c->name, sizeof c->name, name.text, name.length);
    c->window_dropped = !c->layers[0].window && sounds_like_mistral(name);
    c->bos_id = v->bos_id;
    add_eos(c, v->eos_id);
    add_eos(c, v->eot_id);
    add_eos(c, v->eom_id);
    return true;
}

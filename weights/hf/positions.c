// Rotary parameters and windows out of config.json, in both spellings.
//
//   transformers 4                                transformers 5
//   rope_theta: 1e4                               rope_parameters: {rope_type: "llama3",
//   rope_scaling: {type: "llama3", factor: 8}                       rope_theta: 1e4, factor: 8}
//   Gemma 3:                                      Gemma 3:
//   rope_theta, rope_scaling: global layers       rope_parameters: {full_attention: {..},
//   rope_local_base_freq: windowed layers                           sliding_attention: {..}}
//
// Formulas and sources of the scalings are in model/rope.c; here only their numbers are found.
// Windows: each family has its own rule for which layers slide (HfWindow in hf/config.h).
#include "weights/hf/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// ---- rope ----

// "rope_type" goes before the older "type" where both are there.
static bool read_rope_type(RopeConfig *rope, const json_t *dict, Error *error) {
    static const struct {
        const char *name;
        RopeScaling scaling;
    } NAMES[] = {
        {"default", ROPE_PLAIN}, {"linear", ROPE_LINEAR},       {"llama3", ROPE_LLAMA3},
        {"yarn", ROPE_YARN},     {"dynamic", ROPE_DYNAMIC_NTK}, {"longrope", ROPE_LONGROPE},
        {"su", ROPE_LONGROPE}, // its name in early Phi 3
    };
    const char *name = "default";
    if (!json_read_string(dict, "type", &name, error) ||
        !json_read_string(dict, "rope_type", &name, error))
        return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(name, NAMES[i].name) != 0) continue;
        rope->scaling = NAMES[i].scaling;
        return true;
    }
    return error_set(error, ERROR_FILE, "\"rope_type\": unknown kind \"%s\"", name);
}

// Phi 3's class has longrope alone, and takes yarn, which an older version wrote, for it.
static bool check_rope_type(RopeConfig *rope, const HfFamily *family, const json_t *dict,
                            Error *error) {
    if (strcmp(family->model_type, "phi3") != 0) return true;
    if (rope->scaling == ROPE_YARN && json_object_get(dict, "long_factor"))
        rope->scaling = ROPE_LONGROPE;
    return rope->scaling == ROPE_PLAIN || rope->scaling == ROPE_LONGROPE ||
           error_set(error, ERROR_FILE, "\"rope_type\": %s has longrope alone",
                     family->architecture);
}

static const char ORIGINAL[] = "original_max_position_embeddings";

static bool check_original(int length, Error *error) {
    return (length >= 1 && length <= LIMIT_CONTEXT) ||
           error_set(error, ERROR_FILE, "\"%s\": wanted 1 .. %d, got %d", ORIGINAL, LIMIT_CONTEXT,
                     length);
}

// What the scaling stretches from. Absent or null leaves the field; 0 is no other word for that.
static bool read_original(RopeConfig *rope, const json_t *object, Error *error) {
    const json_t *value = json_object_get(object, ORIGINAL);
    return !value || json_is_null(value) ||
           (json_read_int(object, ORIGINAL, &rope->original_max_seq_len, error) &&
            check_original(rope->original_max_seq_len, error));
}

// A number that is absent or null leaves its field as it is: 0, "not given", or the family's theta.
// One that is given has to be positive; an mscale of 0 is none, as in transformers.
static bool read_rope_numbers(RopeConfig *rope, const json_t *dict, Error *error) {
    static const struct {
        const char *key;
        size_t offset;
    } FIELDS[] = {
        {"rope_theta", offsetof(RopeConfig, theta)},
        {"factor", offsetof(RopeConfig, factor)},
        {"low_freq_factor", offsetof(RopeConfig, low_freq_factor)},
        {"high_freq_factor", offsetof(RopeConfig, high_freq_factor)},
        {"beta_fast", offsetof(RopeConfig, beta_fast)},
        {"beta_slow", offsetof(RopeConfig, beta_slow)},
        {"mscale", offsetof(RopeConfig, mscale)},
        {"mscale_all_dim", offsetof(RopeConfig, mscale_all_dim)},
        {"attention_factor", offsetof(RopeConfig, attention_factor)},
    };
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        float *field = (float *)((char *)rope + FIELDS[i].offset);
        const json_t *value = json_object_get(dict, FIELDS[i].key);
        if (!value || json_is_null(value)) continue;
        if (!json_read_float(dict, FIELDS[i].key, field, error)) return false;
        bool may_be_off = !strncmp(FIELDS[i].key, "mscale", 6);
        if (!(*field > 0) && !(may_be_off && *field == 0))
            return error_set(error, ERROR_FILE, "\"%s\": %g is not positive", FIELDS[i].key,
                             (double)*field);
    }
    bool truncate = true;
    if (!json_read_bool(dict, "truncate", &truncate, error)) return false;
    rope->no_truncate = !truncate;
    return read_original(rope, dict, error);
}

// Ministral 3; 0 is none, as in transformers.
static bool read_growth(RopeConfig *rope, const HfFamily *family, const json_t *dict,
                        Error *error) {
    static const char KEY[] = "llama_4_scaling_beta";
    if (!json_read_float(dict, KEY, &rope->query_growth, error)) return false;
    if (rope->query_growth != 0 && !family->query_growth)
        return error_set(error, ERROR_FILE, "\"%s\" is not supported in %s", KEY,
                         family->architecture);
    return rope->query_growth >= 0 ||
           error_set(error, ERROR_FILE, "\"%s\": %g is negative", KEY, (double)rope->query_growth);
}

// Hunyuan: theta for a longer context, once and for all. With d = head_dim
//
//   theta' = theta alpha^(d / (d - 2))
//
// Its class looks at nothing else in the dictionary.
static bool read_alpha(RopeConfig *rope, const HfFamily *family, int head_dim, const json_t *dict,
                       Error *error) {
    float alpha = 0;
    const json_t *value = json_object_get(dict, "alpha");
    if (!value || json_is_null(value)) return true;
    if (!family->rope_alpha)
        return error_set(error, ERROR_FILE, "\"alpha\" is not supported in %s",
                         family->architecture);
    if (!json_read_float(dict, "alpha", &alpha, error)) return false;
    if (!(alpha > 0) || head_dim <= 2)
        return error_set(error, ERROR_FILE,
                         "\"alpha\": %g with a head_dim of %d, wanted a positive number and more "
                         "than 2",
                         (double)alpha, head_dim);
    if (rope->scaling != ROPE_DYNAMIC_NTK) return true;
    double theta = (double)rope->theta * pow((double)alpha, head_dim / (head_dim - 2.0));
    *rope = (RopeConfig){.theta = (float)theta, .sign = rope->sign};
    return true;
}

// One number for each pair of channels, all positive.
static bool read_factors(const float **out, const json_t *dict, const char *key, int rope_dim,
                         Arena *arena, Error *error) {
    const json_t *list = NULL;
    if (!json_read_array(dict, key, &list, error)) return false;
    size_t count = (size_t)rope_dim / 2;
    if (json_array_size(list) != count)
        return error_set(error, ERROR_FILE, "\"%s\": wanted %zu numbers, got %zu", key, count,
                         json_array_size(list));
    float *factors = arena_alloc(arena, count, sizeof *factors, error);
    if (!factors) return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        factors[i] = (float)json_number_value(value);
        if (!json_is_number(value) || !(factors[i] > 0) || !isfinite(factors[i]))
            return error_set(error, ERROR_FILE, "\"%s\"[%zu]: wanted a positive number", key, i);
    }
    *out = factors;
    return true;
}

// Required values of each kind of scaling, checked after all places that may hold them were read.
//
// Defaults: the original context is the family's or the model's own; beta_fast and beta_slow are
// YaRN's 32 and 1; longrope and YaRN take how many times longer the context became as their factor.
static bool check_rope(RopeConfig *rope, const Config *config, const HfFamily *family,
                       Error *error) {
    if (!rope->original_max_seq_len)
        rope->original_max_seq_len =
            family->original_context ? family->original_context : config->max_seq_len;
    if (!check_original(rope->original_max_seq_len, error)) return false;
    if (rope->beta_fast == 0) rope->beta_fast = 32;
    if (rope->beta_slow == 0) rope->beta_slow = 1;
    // Dynamic NTK stretches from max_position_embeddings, whatever the dictionary says.
    if (rope->scaling == ROPE_DYNAMIC_NTK) rope->original_max_seq_len = config->max_seq_len;
    bool from_lengths = rope->scaling == ROPE_LONGROPE || rope->scaling == ROPE_YARN;
    if (from_lengths && rope->factor == 0)
        rope->factor = (float)config->max_seq_len / (float)rope->original_max_seq_len;
    if (rope->scaling != ROPE_PLAIN && rope->factor == 0)
        return error_set(error, ERROR_FILE, "rope scaling without \"factor\"");
    if (rope->scaling == ROPE_LLAMA3 &&
        !(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor))
        return error_set(error, ERROR_FILE,
                         "llama3 rope scaling: wanted 0 < low_freq_factor < high_freq_factor, "
                         "got %g and %g",
                         (double)rope->low_freq_factor, (double)rope->high_freq_factor);
    return true;
}

// `top` is the whole config: what it says beside the dictionary (rope_theta of transformers 4,
// Phi 3's original length) is overruled by the dictionary in the first case, overrules in the
// other.
static bool read_rope(RopeConfig *rope, Config *config, const HfFamily *family, const json_t *top,
                      const json_t *dict, Arena *arena, Error *error) {
    if (dict && (!hf_rope_keys_check(dict, error) || !read_rope_type(rope, dict, error) ||
                 !check_rope_type(rope, family, dict, error) ||
                 !read_rope_numbers(rope, dict, error) || !read_growth(rope, family, dict, error) ||
                 !read_alpha(rope, family, config->head_dim, dict, error)))
        return false;
    if (!read_original(rope, top, error) || !check_rope(rope, config, family, error)) return false;
    if (rope->scaling != ROPE_LONGROPE) return true;
    return read_factors(&rope->long_factor, dict, "long_factor", config->rope_dim, arena, error) &&
           read_factors(&rope->short_factor, dict, "short_factor", config->rope_dim, arena, error);
}

// The first floor(head_dim * factor) channels rotate; an odd number rounds up, but not in the
// exponents of theta. The factor is taken as a double: 40 * 0.7f would be 27.
//
// partial_rotary_factor (rotary_pct beside the dictionary of GPT-NeoX): in the dictionary
// (transformers 5) it overrules the top level.
static bool read_rope_dim(Config *config, const HfFamily *family, const json_t *top,
                          const json_t *dict, Error *error) {
    static const char KEY[] = "partial_rotary_factor";
    const char *top_key = family->partial_key ? family->partial_key : KEY;
    float usual = family->partial_factor > 0 ? family->partial_factor : 1, rounded = usual;
    if (!json_read_float(top, top_key, &rounded, error) ||
        (dict && !json_read_float(dict, KEY, &rounded, error)))
        return false;
    if (!(rounded > 0) || rounded > 1)
        return error_set(error, ERROR_FILE, "\"%s\": wanted 0 .. 1, got %g", KEY, (double)rounded);
    if (rounded < 1 && !family->partial_rotary) // transformers rotates the whole head there
        return error_set(error, ERROR_FILE, "\"%s\" is not supported in %s", KEY,
                         family->architecture);
    const json_t *given = json_object_get(dict, KEY);
    if (!json_is_number(given)) given = json_object_get(top, top_key);
    double factor = json_is_number(given) ? json_number_value(given) : (double)usual;
    int rotating = (int)(config->head_dim * factor);
    config->rope_dim = rotating + rotating % 2;
    if (rotating % 2) config->rope.exponent_dim = rotating;
    return true;
}

// Reads both sets: `full` is the dictionary of all layers, or of those without a window; `local`
// that of the windowed layers (Gemma 3, OLMo 3).
static bool read_ropes(Config *config, const HfFamily *family, const json_t *text, Arena *arena,
                       Error *error) {
    const json_t *full = NULL, *local = NULL, *both = NULL, *scaling = NULL;
    config->rope.theta = family->theta;
    if (family->theta_local > 0) config->rope_local.theta = family->theta_local;
    if (!json_read_object(text, "rope_scaling", &scaling, error) ||
        !json_read_object(text, "rope_parameters", &both, error) ||
        (both && (!json_read_object(both, "full_attention", &full, error) ||
                  !json_read_object(both, "sliding_attention", &local, error))))
        return false;
    if (both && scaling)
        return error_set(error, ERROR_FILE, "\"rope_scaling\" beside \"rope_parameters\"");
    if (scaling) full = scaling;
    if (both && !full) full = both;
    if (local && !hf_family_has_local_rope(family))
        return error_set(error, ERROR_FILE, "\"sliding_attention\" is not supported in %s",
                         family->architecture);
    // Only the top-level keys are read here: rope_theta, rope_local_base_freq.
    const char *theta = family->theta_key ? family->theta_key : "rope_theta";
    if (!json_read_float(text, theta, &config->rope.theta, error) ||
        !json_read_float(text, "rope_local_base_freq", &config->rope_local.theta, error) ||
        !read_rope_dim(config, family, text, full, error) ||
        !read_rope(&config->rope, config, family, text, full, arena, error))
        return false;
    if (family->local_plain) config->rope_local.theta = config->rope.theta;
    return !hf_family_has_local_rope(family) ||
           read_rope(&config->rope_local, config, family, text, local, arena, error);
}

// ---- windows and layers without rope ----

// *window is 0 where there is none: null, or absent without a class default.
static bool read_window(int *window, const HfFamily *family, const json_t *text, Error *error) {
    const json_t *value = json_object_get(text, "sliding_window");
    *window = value ? 0 : family->window;
    if (!value || json_is_null(value)) return true;
    if (!json_read_int(text, "sliding_window", window, error)) return false;
    return *window > 0 ||
           error_set(error, ERROR_FILE, "\"sliding_window\": wanted null or at least 1, got %d",
                     *window);
}

// Which layers slide, by the list layer_types.
static bool read_layer_types(bool *slides, const json_t *types, int n_layers, Error *error) {
    if (json_array_size(types) != (size_t)n_layers)
        return error_set(error, ERROR_FILE, "\"layer_types\": wanted %d entries, got %zu", n_layers,
                         json_array_size(types));
    for (int l = 0; l < n_layers; l++) {
        const json_t *value = json_array_get(types, (size_t)l);
        const char *type = json_is_string(value) ? json_string_value(value) : json_kind(value);
        slides[l] = !strcmp(type, "sliding_attention");
        if (!slides[l] && strcmp(type, "full_attention") != 0)
            return error_set(error, ERROR_FILE, "\"layer_types\"[%d]: unknown kind \"%s\"", l,
                             type);
    }
    return true;
}

// Which layers slide where there is no list: of Gemma 3 and others every n-th is global, Qwen's
// first max_window_layers are, and SmolLM3's that have rope.
static bool derive_layer_types(bool *slides, const HfFamily *family, const json_t *text,
                               const Config *config, Error *error) {
    int pattern = family->pattern ? family->pattern : 1, first = 28;
    if (!json_read_int(text, "_sliding_window_pattern", &pattern, error) ||
        !json_read_int(text, "sliding_window_pattern", &pattern, error) ||
        !json_read_int(text, "max_window_layers", &first, error))
        return false;
    if (pattern < 1)
        return error_set(error, ERROR_FILE, "\"sliding_window_pattern\": wanted at least 1, got %d",
                         pattern);
    for (int l = 0; l < config->n_layers; l++) {
        switch (family->window_rule) {
        case HF_WINDOW_NONE: slides[l] = false; break;
        case HF_WINDOW_ALL: slides[l] = true; break;
        case HF_WINDOW_SWITCHED: slides[l] = l >= first; break;
        case HF_WINDOW_ROPE_LESS: slides[l] = config->layers[l].no_rope; break;
        case HF_WINDOW_PATTERN: slides[l] = (l + 1) % pattern != 0; break;
        }
    }
    return true;
}

// Fills window and local_rope of every layer. layer_types goes before the family's rule.
static bool read_windows(Config *config, const HfFamily *family, const json_t *text, Error *error) {
    bool slides[LIMIT_LAYERS] = {false}, switched_on = false;
    int window = 0;
    const json_t *types = NULL;
    if (family->window_rule == HF_WINDOW_NONE) return true;
    if (!read_window(&window, family, text, error) ||
        !json_read_bool(text, "use_sliding_window", &switched_on, error) ||
        !json_read_array(text, "layer_types", &types, error))
        return false;
    bool optional =
        family->window_rule == HF_WINDOW_SWITCHED || family->window_rule == HF_WINDOW_ROPE_LESS;
    // Qwen and SmolLM3 give a sliding_window even where none is used.
    if (optional && !switched_on) return true;
    if (types ? !read_layer_types(slides, types, config->n_layers, error)
              : !derive_layer_types(slides, family, text, config, error))
        return false;
    for (int l = 0; l < config->n_layers; l++) {
        config->layers[l].window = slides[l] ? window : 0;
        config->layers[l].local_rope = slides[l] && hf_family_has_local_rope(family);
        if (family->window_turns) config->layers[l].no_rope = window && !slides[l];
    }
    return true;
}

// SmolLM3. no_rope_layers[l] is 1 where rope IS used; absent: every interval-th layer has none.
static bool read_rope_less_layers(Config *config, const json_t *text, Error *error) {
    const json_t *list = NULL;
    int interval = 4;
    if (!json_read_array(text, "no_rope_layers", &list, error) ||
        !json_read_int(text, "no_rope_layer_interval", &interval, error))
        return false;
    if (interval < 1)
        return error_set(error, ERROR_FILE, "\"no_rope_layer_interval\": wanted at least 1, got %d",
                         interval);
    if (list && json_array_size(list) != (size_t)config->n_layers)
        return error_set(error, ERROR_FILE, "\"no_rope_layers\": wanted %d entries, got %zu",
                         config->n_layers, json_array_size(list));
    for (int l = 0; l < config->n_layers; l++) {
        const json_t *value = json_array_get(list, (size_t)l);
        if (list && !json_is_integer(value))
            return error_set(error, ERROR_FILE, "\"no_rope_layers\"[%d]: wanted 0 or 1", l);
        config->layers[l].no_rope = list ? !json_integer_value(value) : (l + 1) % interval == 0;
    }
    return true;
}

// Layers without rope first: SmolLM3's windows are those layers.
bool hf_positions_read(Config *config, const HfFamily *family, const json_t *text, Arena *arena,
                       Error *error) {
    if (config->n_layers > LIMIT_LAYERS)
        return error_set(error, ERROR_FILE, "\"num_hidden_layers\": %d (at most %d)",
                         config->n_layers, LIMIT_LAYERS);
    if (family->theta > 0 && !read_ropes(config, family, text, arena, error)) return false;
    if (!strcmp(family->model_type, "smollm3") && !read_rope_less_layers(config, text, error))
        return false;
    return read_windows(config, family, text, error);
}

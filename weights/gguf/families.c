// What a GGUF leaves to the architecture's name: what is implied where no key says it, and keys
// that only some architectures have. One row each; an architecture without a row implies nothing.
//
// The table exists because llama.cpp keeps these facts in the code of each architecture and not in
// the file. The writer (keys.c) reads the same table, so that what limpid leaves out is what it
// implies.
#include "weights/gguf/gguf.h"
#include "weights/quant.h"

#include <math.h>
#include <string.h>

typedef struct Implied {
    const char *architecture;
    int pattern;           // every n-th layer is global, the others have the window; 0: all have
    bool local_theta;      // windowed layers have a theta of their own, 10000 where no key gives it
    bool local_plain;      // windowed layers have the theta of the others and no scaling
    bool window_turns;     // in a model with windows, layers without one do not rotate
    bool alpha;            // a key may say that theta is larger
    int window;            // where no key gives it; 0: none
    bool scaled_embedding; // times sqrt(dim)
    GgufScales scales;
    bool longrope;          // may come with rope_factors_long and _short
    int rope_less_interval; // every n-th layer does not rotate
    int narrow_layers;      // with so many layers scores are scaled by (dim / n_heads)^-1/2
} Implied;

// Gemma 3 of 62 layers and Gemma 2 of 46 are the 27B models, the only ones whose scores are not
// scaled by head_dim^-1/2.
static const Implied TABLE[] = {
    {.architecture = "gemma2",
     .pattern = 2,
     .window = 4096,
     .scaled_embedding = true,
     .narrow_layers = 46,
     .scales = {.score_cap = 50.0f, .logit_cap = 30.0f}},
    {.architecture = "gemma3",
     .pattern = 6,
     .local_theta = true,
     .scaled_embedding = true,
     .narrow_layers = 62},
    {.architecture = "olmo2", .pattern = 4, .local_plain = true}, // OLMo 3 has windows
    {.architecture = "exaone4", .pattern = 4, .window_turns = true},
    {.architecture = "gptneox", .scales = {.parallel = true}},
    {.architecture = "granite", .scales = {.granite = true, .rope_switch = true}},
    {.architecture = "hunyuan-dense", .alpha = true},
    {.architecture = "mistral3", .scales = {.query_growth = true}},
    {.architecture = "phi3", .longrope = true},
    {.architecture = "smollm3", .rope_less_interval = 4},
    {0},
};

// The last row, all zeros, for an architecture that is not in the table.
static const Implied *implied_by(const char *architecture) {
    const Implied *row = TABLE;
    while (row->architecture && strcmp(row->architecture, architecture) != 0)
        row++;
    return row;
}

// ---- windows ----

static const char PATTERN_KEY[] = ".attention.sliding_window_pattern";

// A number n: every n-th layer is global. Or one bool per layer: true where it has the window.
static bool read_pattern(const Gguf *g, const Config *c, int n, bool *slides, Error *error) {
    const GgufValue *value = gguf_find(g, PATTERN_KEY);
    if (value && value->type == GGUF_ARRAY) {
        if (!gguf_array(g, PATTERN_KEY, GGUF_BOOL, &value, error)) return false;
        if (value->count != (uint64_t)c->n_layers)
            return gguf_fail(g, PATTERN_KEY, error, "%llu elements for %d layers",
                             (unsigned long long)value->count, c->n_layers);
        for (int l = 0; l < c->n_layers; l++)
            slides[l] = value->bytes[l] != 0;
        return true;
    }
    if (!gguf_int(g, PATTERN_KEY, false, &n, error)) return false;
    if (n < 1) return gguf_fail(g, PATTERN_KEY, error, "got 0, wanted at least 1");
    for (int l = 0; l < c->n_layers; l++)
        slides[l] = (l + 1) % n != 0;
    return true;
}

static bool has_local_rope(const Implied *implied) {
    return implied->local_theta || implied->local_plain;
}

// Fills window and local_rope of every layer. slides[l]: layer l has the window; true for all
// layers where the architecture has no pattern.
static bool read_windows(const Gguf *g, Config *c, const Implied *implied, Error *error) {
    bool slides[LIMIT_LAYERS];
    int window = implied->window;
    if (!gguf_int(g, ".attention.sliding_window", false, &window, error)) return false;
    if (!implied->pattern && gguf_find(g, PATTERN_KEY))
        return gguf_fail(g, PATTERN_KEY, error, "is not supported");
    memset(slides, true, sizeof slides);
    if (implied->pattern && !read_pattern(g, c, implied->pattern, slides, error)) return false;
    for (int l = 0; l < c->n_layers; l++) {
        c->layers[l].window = slides[l] ? window : 0;
        c->layers[l].local_rope = has_local_rope(implied) && window && slides[l];
    }
    if (implied->local_plain) c->rope_local.theta = c->rope.theta;
    return gguf_f32(g, ".rope.freq_base_swa", false, &c->rope_local.theta, error);
}

// ---- longrope ----

// One divisor for each pair of channels, all positive. *out stays NULL where the file has none.
static bool read_factors(const Gguf *g, const char *name, const float **out, Error *error) {
    Checkpoint *checkpoint = g->checkpoint;
    const Config *c = &checkpoint->config;
    int64_t item = names_find(&checkpoint->names, name);
    size_t count = (size_t)(c->rope_dim ? c->rope_dim : c->head_dim) / 2;
    if (item < 0) return true;
    const TensorPlan *tensor = &checkpoint->tensors[item];
    if (tensor->n_dims != 1 || tensor->shape[0] != count || tensor->dtype != DTYPE_F32)
        return error_set(error, ERROR_FILE, "tensor \"%s\": wanted %zu elements of F32", name,
                         count);
    float *factors = arena_alloc(&checkpoint->arena, count, sizeof *factors, error);
    if (!factors) return false;
    dequantise(factors, DTYPE_F32, tensor->data, count);
    for (size_t i = 0; i < count; i++)
        if (!(factors[i] >= 1e-6f && factors[i] <= 1e9f))
            return error_set(error, ERROR_FILE, "tensor \"%s\": element %zu is %g", name, i,
                             (double)factors[i]);
    *out = factors;
    return true;
}

// The two tensors say that a model has longrope; the key that names the kind is mostly left out.
// Phi 3's two lists of divisors (arXiv 2402.13753): model/rope.c takes one by the length of the
// context.
static bool read_longrope(const Gguf *g, Config *c, const Implied *implied, Error *error) {
    RopeConfig *rope = &c->rope;
    TextSpan type = {0};
    if (!gguf_text(g, ".rope.scaling.type", false, &type, error)) return false;
    bool named = span_equals(type, "longrope");
    if (!implied->longrope)
        return !named || gguf_fail(g, ".rope.scaling.type", error, "\"longrope\" is not supported");
    if (!read_factors(g, "rope_factors_long.weight", &rope->long_factor, error) ||
        !read_factors(g, "rope_factors_short.weight", &rope->short_factor, error))
        return false;
    if (!named && !rope->long_factor && !rope->short_factor) return true;
    if (rope->scaling != ROPE_PLAIN)
        return error_set(error, ERROR_FILE, "longrope factors beside another rope scaling");
    rope->scaling = ROPE_LONGROPE; // config_finish asks for both lists
    if (!gguf_f32(g, ".rope.scaling.attn_factor", false, &rope->attention_factor, error))
        return false;
    // The formula's value, rounded, is the formula: the same bits as from a config.json.
    RopeConfig formula = *rope;
    if (rope->original_max_seq_len < 1) return true; // config_finish will refuse it
    // transformers' factor where config.json gives none: how much longer the context became.
    formula.factor = (float)c->max_seq_len / (float)rope->original_max_seq_len;
    if (rope->attention_factor != gguf_longrope_factor(&formula)) return true;
    rope->factor = formula.factor;
    rope->attention_factor = 0.0f;
    return true;
}

// sqrt(1 + ln(factor) / ln(original context)): as model/rope.c, longrope_magnitude.
float gguf_longrope_factor(const RopeConfig *rope) {
    double factor = (double)rope->factor;
    if (factor <= 1.0) return 1.0f;
    return (float)sqrt(1.0 + log(factor) / log(rope->original_max_seq_len));
}

// Hunyuan, in files that keep what config.json says: theta alpha^(d / (d - 2)), d = head_dim.
static bool read_alpha(const Gguf *g, Config *c, const Implied *implied, Error *error) {
    static const char KEY[] = ".rope.scaling.alpha";
    float alpha = 0.0f;
    if (!gguf_f32(g, KEY, false, &alpha, error)) return false;
    if (alpha == 0.0f) return true; // not given, as llama.cpp has it
    if (!implied->alpha) return gguf_fail(g, KEY, error, "is not supported");
    if (alpha < 0.0f || c->head_dim <= 2)
        return gguf_fail(g, KEY, error, "got %g with heads of %d, wanted 0 or more", (double)alpha,
                         c->head_dim);
    c->rope.theta =
        (float)((double)c->rope.theta * pow((double)alpha, c->head_dim / (c->head_dim - 2.0)));
    return true;
}

// ---- scales ----

GgufScales gguf_scales(const char *architecture) {
    return implied_by(architecture)->scales;
}

// 0 says nothing, as in llama.cpp.
static bool read_positive(const Gguf *g, const char *key, float *value, Error *error) {
    float given = 0.0f;
    if (!gguf_f32(g, key, false, &given, error)) return false;
    if (given != 0.0f) *value = given;
    return *value >= 0.0f || gguf_fail(g, key, error, "got %g, wanted 0 or more", (double)*value);
}

// config_finish refuses NaN. A switch of GPT-NeoX is a bool, one of Granite, too.
static bool read_scales(const Gguf *g, Config *c, const GgufScales *has, Error *error) {
    bool rope = true;
    RopeConfig *r = &c->rope;
    if (has->granite && (!read_positive(g, ".embedding_scale", &c->embedding_scale, error) ||
                         !read_positive(g, ".residual_scale", &c->residual_scale, error) ||
                         !read_positive(g, ".logit_scale", &c->logit_divisor, error)))
        return false;
    if (has->rope_switch && !gguf_bool(g, ".rope.scaling.finetuned", &rope, error)) return false;
    for (int l = 0; !rope && l < c->n_layers; l++)
        c->layers[l].no_rope = true;
    if (has->parallel && !gguf_bool(g, ".use_parallel_residual", &c->parallel_residual, error))
        return false;
    c->score_softcap = has->score_cap;
    if (has->score_cap > 0.0f &&
        !gguf_f32(g, ".attn_logit_softcapping", false, &c->score_softcap, error))
        return false;
    if (!has->query_growth) return true;
    // mscale is 1 in these files: the quotient with mscale_all_dim is the factor of cos and sin.
    if (!read_positive(g, ".attention.temperature_scale", &r->query_growth, error) ||
        !read_positive(g, ".rope.scaling.yarn_log_multiplier", &r->mscale_all_dim, error))
        return false;
    if (r->mscale_all_dim > 0.0f) r->mscale = 1.0f;
    return true;
}

// ---- what is implied ----

// The windows of `c` are known.
void gguf_implied(const char *architecture, Config *c) {
    const Implied *implied = implied_by(architecture);
    bool windows = false;
    for (int l = 0; l < c->n_layers; l++)
        windows |= c->layers[l].window > 0;
    for (int l = 0; implied->window_turns && l < c->n_layers; l++)
        c->layers[l].no_rope = windows && !c->layers[l].window;
    if (implied->scaled_embedding) c->embedding_scale = sqrtf((float)c->dim);
    for (int l = 0; implied->rope_less_interval && l < c->n_layers; l++)
        c->layers[l].no_rope = (l + 1) % implied->rope_less_interval == 0;
}

GgufWindows gguf_implied_windows(const char *architecture, int n_layers, bool *slides) {
    const Implied *implied = implied_by(architecture);
    for (int l = 0; l < n_layers; l++)
        slides[l] = !implied->pattern || (l + 1) % implied->pattern != 0;
    return (GgufWindows){implied->window, implied->pattern != 0, has_local_rope(implied),
                         implied->local_theta};
}

// A scale that the file gives overrules the implied one.
bool gguf_read_family(const Gguf *g, Error *error) {
    Config *c = &g->checkpoint->config;
    const Implied *implied = implied_by(g->architecture);
    if (!read_alpha(g, c, implied, error) || !read_windows(g, c, implied, error) ||
        !read_longrope(g, c, implied, error))
        return false;
    gguf_implied(g->architecture, c);
    if (!read_scales(g, c, &implied->scales, error)) return false;
    if (implied->narrow_layers == c->n_layers && c->attention_scale == 0.0f && c->n_heads > 0)
        c->attention_scale = (float)(1.0 / sqrt((double)c->dim / c->n_heads));
    return true;
}

// Range checks on hyper-parameters and the numbers derived from them, for all containers.
//
// A reader fills Config with what its file says; config_finish decides, for every container,
// whether those numbers make a model. After it, model/ and the backends divide, multiply and
// allocate by them without checking them again. The second part of the file converts Llama 3's rope
// scaling between its two forms, the last one tells configurations apart.
#include "weights/config.h"

#include "base/hash.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// What most models share, so that a reader sets only what its format says: 1e-5 and 10000 are
// Llama's epsilon and RoPE's original theta (arXiv 2104.09864).
void config_init(Config *config) {
    *config = (Config){
        .norm_eps = 1e-5f,
        .gated_ffn = true,
        .embedding_scale = 1.0f,
        .residual_scale = 1.0f,
        .logit_divisor = 1.0f,
        .rope = {.theta = 10000.0f, .sign = 1.0f},
        .rope_local = {.theta = 10000.0f, .sign = 1.0f},
        .bos_id = -1,
    };
}

// int_in and float_in: false with the field's name, its value and the range in the message.
static bool int_in(const char *name, long long got, long long low, long long high, Error *error) {
    if (got >= low && got <= high) return true;
    return error_set(error, ERROR_FILE, "%s: got %lld, wanted %lld to %lld", name, got, low, high);
}

// NaN is in no range.
static bool float_in(const char *name, float got, float low, float high, Error *error) {
    if (got >= low && got <= high) return true;
    return error_set(error, ERROR_FILE, "%s: got %g, wanted %g to %g", name, (double)got,
                     (double)low, (double)high);
}

// In this order, since the later checks divide by what the earlier ones have bounded.
static bool check_sizes(Config *c, Error *error) {
    if (!int_in("dim", c->dim, 1, LIMIT_DIM, error) ||
        !int_in("hidden_dim", c->hidden_dim, 1, LIMIT_DIM, error) ||
        !int_in("n_layers", c->n_layers, 1, LIMIT_LAYERS, error) ||
        !int_in("n_heads", c->n_heads, 1, LIMIT_HEADS, error) ||
        !int_in("n_kv_heads", c->n_kv_heads, 1, c->n_heads, error) ||
        !int_in("vocab_size", c->vocab_size, 1, LIMIT_VOCAB, error) ||
        !int_in("max_seq_len", c->max_seq_len, 1, LIMIT_CONTEXT, error))
        return false;
    if (c->n_heads % c->n_kv_heads)
        return error_set(error, ERROR_FILE, "n_heads: got %d, wanted a multiple of n_kv_heads (%d)",
                         c->n_heads, c->n_kv_heads);
    // Only where the container gives none: heads of Qwen3 and Gemma 3 are not dim / n_heads wide.
    if (!c->head_dim) {
        if (c->dim % c->n_heads)
            return error_set(error, ERROR_FILE, "dim: got %d, wanted a multiple of n_heads (%d)",
                             c->dim, c->n_heads);
        c->head_dim = c->dim / c->n_heads;
    }
    if (!int_in("head_dim", c->head_dim, 1, LIMIT_DIM, error)) return false;
    // Both factors are bounded, so the products fit an int.
    c->q_dim = c->n_heads * c->head_dim;
    c->kv_dim = c->n_kv_heads * c->head_dim;
    return int_in("n_heads * head_dim", c->q_dim, 1, LIMIT_DIM, error);
}

// Each kind of scaling needs some of the fields; the others are ignored. The bounds are far beyond
// those of any model and keep what model/rope.c computes finite.
static bool check_scaling(const RopeConfig *r, Error *error) {
    switch (r->scaling) {
    case ROPE_PLAIN: return true;
    case ROPE_LINEAR:
    case ROPE_DYNAMIC_NTK: return float_in("rope factor", r->factor, 1e-3f, 1e6f, error);
    case ROPE_LLAMA3:
        return float_in("rope factor", r->factor, 1e-3f, 1e6f, error) &&
               float_in("rope low_freq_factor", r->low_freq_factor, 1e-3f, 1e6f, error) &&
               float_in("rope high_freq_factor", r->high_freq_factor,
                        nextafterf(r->low_freq_factor, INFINITY), 1e6f, error) &&
               int_in("rope original_max_seq_len", r->original_max_seq_len, 1, LIMIT_CONTEXT,
                      error);
    case ROPE_YARN:
        return float_in("rope factor", r->factor, 1e-3f, 1e6f, error) &&
               float_in("rope beta_fast", r->beta_fast, 1e-3f, 1e6f, error) &&
               float_in("rope beta_slow", r->beta_slow, 1e-3f, 1e6f, error) &&
               float_in("rope mscale", r->mscale, 0.0f, 1e6f, error) &&
               float_in("rope mscale_all_dim", r->mscale_all_dim, 0.0f, 1e6f, error) &&
               int_in("rope original_max_seq_len", r->original_max_seq_len, 1, LIMIT_CONTEXT,
                      error);
    case ROPE_LONGROPE:
        if (!r->long_factor || !r->short_factor)
            return error_set(error, ERROR_FILE, "rope: longrope without its factors");
        return int_in("rope original_max_seq_len", r->original_max_seq_len, 1, LIMIT_CONTEXT,
                      error);
    }
    return error_set(error, ERROR_FILE, "rope: scaling %d is not known", (int)r->scaling);
}

// theta at least 1, so that frequencies do not grow with the pair; attention_factor 0 means that
// the formula of the scaling gives it.
static bool check_rope(const RopeConfig *r, Error *error) {
    if (r->sign != 1.0f && r->sign != -1.0f)
        return error_set(error, ERROR_FILE, "rope sign: got %g, wanted 1 or -1", (double)r->sign);
    return float_in("rope theta", r->theta, 1.0f, 1e18f, error) &&
           float_in("rope attention_factor", r->attention_factor, 0.0f, 1e6f, error) &&
           float_in("rope query_growth", r->query_growth, 0.0f, 1e6f, error) &&
           (r->query_growth == 0.0f || int_in("rope original_max_seq_len", r->original_max_seq_len,
                                              1, LIMIT_CONTEXT, error)) &&
           check_scaling(r, error);
}

// A file may give the number that YaRN's formula would: then it is the formula, so that one model
// has the same bits from a container that says it and from one that does not.
static void recognise_yarn_factor(RopeConfig *r) {
    bool scaled = r->scaling == ROPE_YARN && r->factor > 1.0f && !(r->mscale > 0.0f);
    double formula = scaled ? 0.1 * log((double)r->factor) + 1.0 : 0.0;
    if (scaled && fabs((double)r->attention_factor - formula) < 1e-6) r->attention_factor = 0.0f;
}

// The local set is checked only where some layer uses it: other files leave it at its default.
static bool check_rotation(Config *c, Error *error) {
    if (c->position != POSITION_ROPE) {
        c->rope_dim = 0;
        return true;
    }
    if (!c->rope_dim) c->rope_dim = c->head_dim;
    if (!int_in("rope_dim", c->rope_dim, 2, c->head_dim, error)) return false;
    if (c->rope_dim % 2)
        return error_set(error, ERROR_FILE, "rope_dim: got %d, wanted an even number", c->rope_dim);
    if (c->rope.query_growth != 0.0f && c->rope_dim != c->head_dim)
        return error_set(error, ERROR_FILE, "queries that grow with heads that turn in part");
    recognise_yarn_factor(&c->rope);
    bool local = false;
    for (int l = 0; l < c->n_layers; l++)
        local |= c->layers[l].local_rope;
    return check_rope(&c->rope, error) && (!local || check_rope(&c->rope_local, error));
}

// The model's scale of scores, whose default is head_dim^-1/2 (arXiv 1706.03762, section 3.2.1).
// The square root is taken in double, then rounded once.
static float usual_scale(const Config *c) {
    return c->attention_scale != 0.0f ? c->attention_scale
                                      : (float)(1.0 / sqrt((double)c->head_dim));
}

// A layer without a scale of its own gets the model's.
static bool check_layers(Config *c, Error *error) {
    float scale = usual_scale(c);
    for (int l = 0; l < c->n_layers; l++) {
        LayerConfig *layer = &c->layers[l];
        if (layer->attention_scale == 0.0f) layer->attention_scale = scale;
        if (!int_in("window", layer->window, 0, LIMIT_CONTEXT, error) ||
            !float_in("attention_scale", layer->attention_scale, 1e-9f, 1e9f, error))
            return false;
    }
    return true;
}

// An id outside the vocabulary means "none"; files say so with 2^32 - 1.
static void drop_absent_ids(Config *c) {
    int kept = 0;
    if (c->bos_id < 0 || c->bos_id >= c->vocab_size) c->bos_id = -1;
    for (int i = 0; i < c->n_eos_ids; i++)
        if (c->eos_ids[i] >= 0 && c->eos_ids[i] < c->vocab_size) c->eos_ids[kept++] = c->eos_ids[i];
    c->n_eos_ids = kept;
}

// The smallest accepted scales are above 0, since 0 means "not given" in these fields.
bool config_finish(Config *c, Error *error) {
    if (!check_sizes(c, error) || !int_in("n_eos_ids", c->n_eos_ids, 0, LIMIT_EOS_IDS, error) ||
        !float_in("norm_eps", c->norm_eps, 0.0f, FLT_MAX, error) ||
        !float_in("embedding_scale", c->embedding_scale, 1e-9f, 1e9f, error) ||
        !float_in("attention_scale", c->attention_scale, 0.0f, 1e9f, error) ||
        !float_in("logit_softcap", c->logit_softcap, 0.0f, 1e9f, error) ||
        !float_in("score_softcap", c->score_softcap, 0.0f, 1e9f, error) ||
        !float_in("residual_scale", c->residual_scale, 1e-9f, 1e9f, error) ||
        !float_in("logit_divisor", c->logit_divisor, 1e-9f, 1e9f, error) ||
        !check_rotation(c, error) || !check_layers(c, error))
        return false;
    drop_absent_ids(c);
    return true;
}

// Dynamic NTK computes theta from the requested context, so it has no end of its own.
int config_longest_context(const Config *c) {
    bool stretches = c->position == POSITION_ROPE && c->rope.scaling == ROPE_DYNAMIC_NTK;
    return stretches ? LIMIT_CONTEXT : c->max_seq_len;
}

// ---- Llama 3's rope scaling as divisors ----

static const double PI = 3.14159265358979323846;

// What llama3 scaling divides the frequency f by: model/rope.c, llama3_frequency.
static double divisor_of(double f, const RopeConfig *rope) {
    // Pairs of a wavelength below original / high are left as they are, above original / low
    // divided by the whole factor; in between the divisor changes smoothly.
    double low = (double)rope->low_freq_factor, high = (double)rope->high_freq_factor;
    double original = rope->original_max_seq_len, wavelength = 2.0 * PI / f;
    if (wavelength < original / high) return 1.0;
    if (wavelength > original / low) return (double)rope->factor;
    double smooth = (original / wavelength - low) / (high - low);
    return 1.0 / ((1.0 - smooth) / (double)rope->factor + smooth);
}

// llama.cpp's converter writes the same numbers as rope_freqs.weight.
void rope_llama3_divisors(float *out, const RopeConfig *rope, int rope_dim) {
    for (int i = 0; i < rope_dim / 2; i++)
        out[i] = (float)divisor_of(pow((double)rope->theta, -2.0 * i / rope_dim), rope);
}

// llama.cpp's converter computes them in float32, hence the tolerance; a wrong guess is off by far
// more in the pairs on the ramp.
static bool divisors_match(const RopeConfig *guess, const float *divisors, int rope_dim) {
    for (int i = 0; i < rope_dim / 2; i++) {
        double f = pow((double)guess->theta, -2.0 * i / rope_dim);
        double wanted = divisor_of(f, guess);
        if (!(fabs((double)divisors[i] - wanted) <= 1e-5 * wanted)) return false;
    }
    return true;
}

// A GGUF has only the divisors, not the four numbers. Llama 3.1 and 3.2 have low_freq_factor 1 and
// high_freq_factor 4; the factor can be read off the last divisor, so only the original context is
// searched for, among powers of two.
void rope_recognise_llama3(RopeConfig *rope, int rope_dim) {
    if (!rope->divisors || rope->scaling != ROPE_PLAIN || rope_dim < 4) return;
    RopeConfig guess = *rope;
    guess.divisors = NULL;
    guess.scaling = ROPE_LLAMA3;
    guess.low_freq_factor = 1.0f;
    guess.high_freq_factor = 4.0f;
    guess.factor = roundf(
        rope->divisors[rope_dim / 2 - 1]); // the lowest frequency is divided by the whole factor
    if (!(guess.factor > 1.0f)) return;
    for (int original = 16; original <= 1 << 20; original *= 2) {
        guess.original_max_seq_len = original;
        if (!divisors_match(&guess, rope->divisors, rope_dim)) continue;
        *rope = guess;
        return;
    }
}

// ---- a hash ----

// What a scaling leaves out is 0. Lists of factors count too.
static void hash_rope(uint64_t lanes[8], const RopeConfig *r, int rope_dim) {
    const float *const lists[] = {r->divisors, r->long_factor, r->short_factor};
    char text[300];
    int length =
        snprintf(text, sizeof text, "%d %.9g %d %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %d %d",
                 r->scaling, (double)r->theta, r->exponent_dim, (double)r->sign, (double)r->factor,
                 (double)r->low_freq_factor, (double)r->high_freq_factor, (double)r->beta_fast,
                 (double)r->beta_slow, (double)r->mscale, (double)r->mscale_all_dim,
                 (double)r->attention_factor, r->no_truncate, r->original_max_seq_len);
    fnv1a_lanes(lanes, text, (size_t)length);
    for (int i = 0; i < 3; i++)
        if (lists[i]) fnv1a_lanes(lanes, lists[i], (size_t)rope_dim / 2 * sizeof(float));
}

// As text, since a struct has padding.
void config_hash(uint64_t lanes[8], const Config *c) {
    char text[500];
    int length = snprintf(
        text, sizeof text, "%s %d %d %d %d %d %d %d %d %d %.9g %d %d %.9g %.9g %.9g", c->family,
        c->dim, c->hidden_dim, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim, c->vocab_size,
        c->max_seq_len, c->rope_dim, (double)c->norm_eps, c->activation, c->position,
        (double)c->embedding_scale, (double)c->attention_scale, (double)c->logit_softcap);
    fnv1a_lanes(lanes, text, (size_t)length);
    length = snprintf(text, sizeof text, "%.9g %.9g %.9g %d %.9g", (double)c->score_softcap,
                      (double)c->residual_scale, (double)c->logit_divisor, c->parallel_residual,
                      (double)c->rope.query_growth);
    fnv1a_lanes(lanes, text, (size_t)length);
    hash_rope(lanes, &c->rope, c->rope_dim);
    hash_rope(lanes, &c->rope_local, c->rope_dim);
    for (int l = 0; l < c->n_layers; l++) {
        const LayerConfig *layer = &c->layers[l];
        length = snprintf(text, sizeof text, "%d %d %d ", layer->window, layer->no_rope,
                          layer->local_rope);
        fnv1a_lanes(lanes, text, (size_t)length);
        // Only where a layer has its own: digests of other models stay what they were.
        if (layer->attention_scale != usual_scale(c))
            fnv1a_lanes(lanes, &layer->attention_scale, sizeof layer->attention_scale);
    }
}

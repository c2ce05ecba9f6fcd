// Frequencies of rotary positions. Every scaling lowers the frequencies of a model that was trained
// on short texts, so that the angles of far positions lie in the range that it was trained on:
//
//   plain     f_i = theta^(-2 i / rope_dim), i = 0 .. rope_dim / 2 - 1        arXiv 2104.09864
//             (an odd number of channels is rounded up, but not in the exponent)
//   linear    f / factor for all pairs                                         arXiv 2306.15595
//   NTK       a larger theta for a longer context: low frequencies change most
//   llama3    low frequencies / factor, high ones as they are, a ramp over wavelengths between
//   YaRN      as llama3 with a ramp over pair numbers, and larger cos and sin  arXiv 2309.00071
//   longrope  a divisor per pair, one list for short contexts and one for long arXiv 2402.13753
//
// Formulas as in transformers' modeling_rope_utils. All in double, rounded to float32 once.
#include "model/internal.h"

#include <math.h>
#include <stdlib.h>

static const double PI = 3.14159265358979323846;

// Llama 3.1. A wavelength 2 pi / f is the number of positions that a pair needs for a full turn.
// Pairs that turn more than `high` times within the original context keep their frequency, those
// that turn less than `low` times are slowed by `factor`, and s falls from 1 to 0 between:
//
//   wavelength     < original / high       between                 > original / low
//   frequency        f              (1 - s) f / factor + s f            f / factor
static double llama3_frequency(double f, const RopeConfig *rope) {
    double low = (double)rope->low_freq_factor, high = (double)rope->high_freq_factor;
    double original = rope->original_max_seq_len, wavelength = 2.0 * PI / f;
    if (wavelength < original / high) return f;
    if (wavelength > original / low) return f / (double)rope->factor;
    double smooth = (original / wavelength - low) / (high - low);
    return (1.0 - smooth) * f / (double)rope->factor + smooth * f;
}

// The pair whose angle grows by 2 pi `rotations` times over the original context. Solved for i:
// rotations = f_i original / (2 pi) with f_i = theta^(-2 i / rope_dim). Not an integer.
static double yarn_pair(double rotations, const RopeConfig *rope, int rope_dim) {
    return rope_dim * log(rope->original_max_seq_len / (rotations * 2.0 * PI)) /
           (2.0 * log((double)rope->theta));
}

// Pairs below `low` turn more than beta_fast times and keep their frequency; pairs above `high`
// turn less than beta_slow times and are divided by `factor`; between them the two are mixed by a
// linear ramp over the pair number. 32 and 1 are the paper's values, for files that give none.
static void yarn_frequencies(double *f, const RopeConfig *rope, int rope_dim) {
    double low = yarn_pair(rope->beta_fast > 0.0f ? (double)rope->beta_fast : 32.0, rope, rope_dim);
    double high = yarn_pair(rope->beta_slow > 0.0f ? (double)rope->beta_slow : 1.0, rope, rope_dim);
    if (!rope->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, rope_dim - 1.0);
    if (low == high) high += 0.001; // no division by 0
    for (int i = 0; i < rope_dim / 2; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0.0), 1.0);
        f[i] = ramp * f[i] / (double)rope->factor + (1.0 - ramp) * f[i];
    }
}

// The paper's 0.1 ln(factor) + 1: cos and sin are multiplied by it, so scores by its square, the
// inverse temperature that the paper found best. `m` is mscale, as in DeepSeek's configs.
static double yarn_mscale(double factor, double m) {
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

static double yarn_magnitude(const RopeConfig *rope) {
    double factor = (double)rope->factor;
    if (rope->attention_factor > 0.0f) return (double)rope->attention_factor;
    if (rope->mscale > 0.0f && rope->mscale_all_dim > 0.0f)
        return yarn_mscale(factor, (double)rope->mscale) /
               yarn_mscale(factor, (double)rope->mscale_all_dim);
    return yarn_mscale(factor, 1.0);
}

// sqrt(1 + ln(factor) / ln(original)), unless the file gives the number itself.
static double longrope_magnitude(const RopeConfig *rope) {
    double factor = (double)rope->factor;
    if (rope->attention_factor > 0.0f) return (double)rope->attention_factor;
    if (factor <= 1.0) return 1.0;
    return sqrt(1.0 + log(factor) / log(rope->original_max_seq_len));
}

// Dynamic NTK: theta for a context of L positions, of a model that was trained for M < L.
//
//   theta' = theta (factor L / M - (factor - 1))^(d / (d - 2))        d = rope_dim
//
// transformers takes the length of the text so far for L; here it is the context of the run, fixed
// once, since keys in the cache have been rotated already.
static double ntk_theta(const RopeConfig *rope, int rope_dim, int max_seq_len) {
    double theta = (double)rope->theta, factor = (double)rope->factor;
    double original = rope->original_max_seq_len;
    if (max_seq_len <= original || rope_dim <= 2) return theta;
    double stretch = factor * max_seq_len / original - (factor - 1.0);
    return theta * pow(stretch, rope_dim / (rope_dim - 2.0));
}

double rope_magnitude(const RopeConfig *rope) {
    if (rope->scaling == ROPE_YARN) return yarn_magnitude(rope);
    return rope->scaling == ROPE_LONGROPE ? longrope_magnitude(rope) : 1.0;
}

void rope_frequencies(double *out, double *magnitude, const RopeConfig *rope, int rope_dim,
                      int max_seq_len) {
    bool ntk = rope->scaling == ROPE_DYNAMIC_NTK;
    double theta = ntk ? ntk_theta(rope, rope_dim, max_seq_len) : (double)rope->theta;
    // One list for all positions of a run, chosen by its context.
    const float *longrope =
        max_seq_len > rope->original_max_seq_len ? rope->long_factor : rope->short_factor;
    int exponent_dim = rope->exponent_dim ? rope->exponent_dim : rope_dim;
    for (int i = 0; i < rope_dim / 2; i++) {
        double f = pow(theta, -2.0 * i / exponent_dim);
        if (rope->scaling == ROPE_LINEAR) f /= (double)rope->factor;
        if (rope->scaling == ROPE_LLAMA3) f = llama3_frequency(f, rope);
        if (rope->scaling == ROPE_LONGROPE && longrope) f /= (double)longrope[i];
        if (rope->divisors) f /= (double)rope->divisors[i];
        out[i] = f;
    }
    if (rope->scaling == ROPE_YARN) yarn_frequencies(out, rope, rope_dim);
    *magnitude = rope_magnitude(rope);
}

bool rope_tables(float *cos_out, float *sin_out, const RopeConfig *rope, int rope_dim,
                 int max_seq_len) {
    size_t half = (size_t)rope_dim / 2;
    double magnitude = 1.0, *frequencies = malloc((half + 1) * sizeof *frequencies);
    if (!frequencies) return false;
    rope_frequencies(frequencies, &magnitude, rope, rope_dim, max_seq_len);
    // The angle in double: a float32 product is off by some 1e-3 radians at position 30,000.
    for (size_t t = 0; t < (size_t)max_seq_len; t++) {
        for (size_t i = 0; i < half; i++) {
            double angle = (double)t * frequencies[i];
            cos_out[t * half + i] = (float)(magnitude * cos(angle));
            sin_out[t * half + i] = (float)(magnitude * sin(angle) * (double)rope->sign);
        }
    }
    free(frequencies);
    return true;
}

// Ministral 3 (as Llama 4 before it): longer texts need queries that are larger.
//
//   q' = (1 + beta ln(1 + floor(t / original))) q      at position t, after the rotation
//
// The factor is in the table that queries are rotated with; keys are rotated with the plain one.
void rope_grow(float *cos_table, float *sin_table, const RopeConfig *rope, int rope_dim,
               int max_seq_len) {
    size_t half = (size_t)rope_dim / 2;
    for (int t = 0; t < max_seq_len; t++) {
        double blocks = floor((double)t / rope->original_max_seq_len);
        float factor = (float)(1.0 + (double)rope->query_growth * log(1.0 + blocks));
        for (size_t i = (size_t)t * half; i < (size_t)(t + 1) * half; i++) {
            cos_table[i] *= factor;
            sin_table[i] *= factor;
        }
    }
}

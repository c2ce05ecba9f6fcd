#include "weights/rope_divisors.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

// How much slower than plain the pair with frequency f turns: model/rope.c, llama3_frequency.
static double divisor_of(double f, const RopeConfig *rope) {
    double low = (double)rope->low_freq_factor, high = (double)rope->high_freq_factor;
    double original = rope->original_max_seq_len, wavelength = 2.0 * PI / f;
    if (wavelength < original / high) return 1.0;
    if (wavelength > original / low) return (double)rope->factor;
    double smooth = (original / wavelength - low) / (high - low);
    return 1.0 / ((1.0 - smooth) / (double)rope->factor + smooth);
}

void rope_llama3_divisors(float *out, const RopeConfig *rope, int rope_dim) {
    for (int i = 0; i < rope_dim / 2; i++)
        out[i] = (float)divisor_of(pow((double)rope->theta, -2.0 * i / rope_dim), rope);
}

// llama.cpp's converter computes them in float32, hence the tolerance; a wrong guess is off by far
// more in the pairs on the ramp.
static bool fits(const RopeConfig *guess, const float *divisors, int rope_dim) {
    for (int i = 0; i < rope_dim / 2; i++) {
        double f = pow((double)guess->theta, -2.0 * i / rope_dim);
        double wanted = divisor_of(f, guess);
        if (!(fabs((double)divisors[i] - wanted) <= 1e-5 * wanted)) return false;
    }
    return true;
}

void rope_recognise_llama3(RopeConfig *rope, int rope_dim) {
    if (!rope->divisors || rope->scaling != ROPE_PLAIN || rope_dim < 4) return;
    RopeConfig guess = *rope;
    guess.divisors = NULL;
    guess.scaling = ROPE_LLAMA3;
    guess.low_freq_factor = 1.0f;
    guess.high_freq_factor = 4.0f;
    guess.factor = roundf(rope->divisors[rope_dim / 2 - 1]); // the slowest pair has it whole
    if (!(guess.factor > 1.0f)) return;
    for (int original = 16; original <= 1 << 20; original *= 2) {
        guess.original_max_seq_len = original;
        if (!fits(&guess, rope->divisors, rope_dim)) continue;
        *rope = guess;
        return;
    }
}

// The scale and the offset of one group.
//
// With its integers q fixed, the best scale and offset are those of a weighted regression of x on
// q, in closed form; with scale and offset fixed, the best q is the nearest. So: for each of some
// dozens of starting ranges round, regress, and keep the best; then round and regress again with
// the best, as k-means does, until nothing is gained.
//
// Sums are kept of the remainder r = x - scale q - offset and not of x, since the error is a small
// difference of large sums otherwise. They run in eight lanes, in this order on every machine.
#include "weights/rounding/rounding.h"

#include <math.h>
#include <string.h>

enum { LANES = 8, ROUNDS = 4 };

// Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even, for |x| < 2^22.
static float nearest(float x) {
    return (x + 12582912.0f) - 12582912.0f;
}

// NaN becomes `low`.
static float between(float x, float low, float high) {
    x = x > low ? x : low;
    return x < high ? x : high;
}

static float inverse(float scale) {
    return scale != 0.0f ? 1.0f / scale : 0.0f;
}

static float total(const float *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
           ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

Sums group_sums(const Group *g, const Levels *levels, float scale, float offset) {
    float low = (float)levels->low, high = (float)levels->high, id = inverse(scale);
    float sw[LANES] = {0}, sq[LANES] = {0}, sqq[LANES] = {0}; // of w, w q, w q q
    float sr[LANES] = {0}, srq[LANES] = {0}, srr[LANES] = {0};
    for (int i = 0; i < g->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float x = g->x[i + l] - offset, w = g->w[i + l];
            float q = nearest(between(x * id, low, high)), r = x - scale * q;
            sw[l] += w;
            sq[l] += w * q;
            sqq[l] += w * q * q;
            sr[l] += w * r;
            srq[l] += w * r * q;
            srr[l] += w * r * r;
        }
    return (Sums){total(sw), total(sq), total(sqq), total(sr), total(srq), total(srr)};
}

void group_round(uint8_t *q, const Group *g, const Levels *levels, float scale, float offset) {
    float low = (float)levels->low, high = (float)levels->high, id = inverse(scale);
    for (int i = 0; i < g->n; i++)
        q[i] = (uint8_t)(nearest(between((g->x[i] - offset) * id, low, high)) - low);
}

// The offset moves by f, whatever that costs; the scale by what is best then.
static Fit move_scale(const Sums *s, Fit at, float f) {
    float rq = s->rq - f * s->q, rr = s->rr - 2 * f * s->r + f * f * s->w;
    float e = s->qq > 0 ? rq / s->qq : 0;
    return (Fit){at.scale + e, at.offset + f, rr - e * rq};
}

// Rounds at `at` and regresses: what the error is with these integers and the best of scales.
static Fit regress(const Group *g, const Levels *levels, Fit at) {
    Sums s = group_sums(g, levels, at.scale, at.offset);
    if (levels->offset == NO_OFFSET) return move_scale(&s, at, 0);
    float determinant = s.w * s.qq - s.q * s.q;
    if (!(determinant > 1e-6f * s.w * s.qq)) return move_scale(&s, at, s.w > 0 ? s.r / s.w : 0);
    float e = (s.w * s.rq - s.q * s.r) / determinant, f = (s.qq * s.r - s.q * s.rq) / determinant;
    if (levels->offset == OFFSET_BELOW_0 && at.offset + f > 0)
        return move_scale(&s, at, -at.offset);
    return (Fit){at.scale + e, at.offset + f, s.rr - e * s.rq - f * s.r};
}

// `least` becomes the regression at a scale and an offset, if that is better.
static bool try(Fit *least, const Group *g, const Levels *levels, float scale, float offset) {
    Fit fit = regress(g, levels, (Fit){scale, offset, 0});
    if (levels->offset == OFFSET_BELOW_0 && fit.offset > 0) return false;
    if (!(fit.error < least->error) || !isfinite(fit.scale)) return false;
    *least = fit;
    return true;
}

// Scales that put the value of the largest magnitude between low - 2.5 and low + 1.5: a larger
// range spares that value, a smaller one serves the others. Where the levels are not symmetric
// there are two sides that it may be put on.
static void try_ranges(Fit *least, const Group *g, const Levels *levels) {
    float peak = 0, low = (float)levels->low;
    for (int i = 0; i < g->n; i++)
        if (fabsf(g->x[i]) > fabsf(peak)) peak = g->x[i];
    try(least, g, levels, peak / low, 0);
    for (float t = low - 2.5f; t <= low + 1.5f; t += 0.125f) {
        try(least, g, levels, peak / t, 0);
        if (levels->high != -levels->low) try(least, g, levels, -peak / t, 0);
    }
}

// Ranges with either end moved in steps of a quarter of a level: outwards by one, inwards by four.
static void try_ends(Fit *least, const Group *g, const Levels *levels) {
    float min = g->x[0], max = g->x[0], top = (float)levels->high;
    for (int i = 1; i < g->n; i++) {
        if (g->x[i] < min) min = g->x[i];
        if (g->x[i] > max) max = g->x[i];
    }
    if (levels->offset == OFFSET_BELOW_0 && min > 0) min = 0;
    float step = (max - min) / top / 4;
    try(least, g, levels, (max - min) / top, min);
    for (int low = -1; low <= 4; low++)
        for (int high = -1; high <= 4; high++) {
            float from = min + (float)low * step, to = max - (float)high * step;
            if (levels->offset == OFFSET_BELOW_0 && from > 0) from = 0;
            try(least, g, levels, (to - from) / top, from);
        }
}

Fit group_fit(const Group *g, const Levels *levels) {
    Fit least = {0, 0, INFINITY};
    if (levels->offset == NO_OFFSET)
        try_ranges(&least, g, levels);
    else
        try_ends(&least, g, levels);
    for (int i = 0; i < ROUNDS && try(&least, g, levels, least.scale, least.offset); i++)
        continue;
    // Every error is beyond float32: no scale holds these numbers, which the caller finds.
    if (isinf(least.error)) least.scale = INFINITY;
    return least;
}

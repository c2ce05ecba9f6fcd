// K-quants: 256 elements in groups, whose scales are small integers times a half that the
// superblock has once; types with offsets have the same for those.
//
//   1. each group by itself: the scale and the offset that suit it best (fit.c)
//   2. d and dmin, so that the largest of these are the largest integer
//   3. sc and mn of each group: of the integers nearby the pair with the least error, now that the
//      scale is d sc and the offset -dmin mn
//   4. with all integers fixed, d and dmin by regression over the superblock; again from 3
//
// The halves are rounded before step 3, so that everything after it knows what will be stored. The
// best of all rounds is kept.
#include "weights/rounding/rounding.h"

#include <math.h>

enum { ROUNDS = 3 };

typedef struct Shape {
    int group; // elements; 0: no K-quant
    Levels levels;
    int scale_low, scale_high, offset_high;
} Shape;

static const Shape SHAPES[DTYPE_COUNT] = {
    [DTYPE_Q2_K] = {16, {0, 3, OFFSET_BELOW_0}, 0, 15, 15},
    [DTYPE_Q3_K] = {16, {-4, 3, NO_OFFSET}, -32, 31, 0},
    [DTYPE_Q4_K] = {32, {0, 15, OFFSET_BELOW_0}, 0, 63, 63},
    [DTYPE_Q5_K] = {32, {0, 31, OFFSET_BELOW_0}, 0, 63, 63},
    [DTYPE_Q6_K] = {16, {-32, 31, NO_OFFSET}, -128, 127, 0},
};

// A superblock on the way.
typedef struct Search {
    const Shape *shape;
    const float *x, *w; // (256)
    int n_groups;
    float d, dmin; // as halves have them
    int sc[16], mn[16];
    Sums sums[16]; // of each group, at these
} Search;

static Group group_at(const Search *s, int g) {
    int n = s->shape->group;
    return (Group){s->x + g * n, s->w + g * n, n};
}

// NaN becomes `low`.
static int whole(float x, int low, int high) {
    if (!(x > (float)low)) return low;
    return x < (float)high ? (int)lrintf(x) : high;
}

static float through_half(float x) {
    return half_to_float(float_to_half(x));
}

static float ratio(float a, float b) {
    return b != 0.0f ? a / b : 0.0f;
}

// Of sc - 1, sc, sc + 1 and the same of mn, the pair with the least error.
static void choose_pair(Search *s, int g, int sc, int mn) {
    const Shape *k = s->shape;
    Group group = group_at(s, g);
    int spread = k->offset_high ? 1 : 0;
    s->sums[g].rr = INFINITY;
    s->sc[g] = sc, s->mn[g] = mn;
    for (int a = sc - 1; a <= sc + 1; a++)
        for (int b = mn - spread; b <= mn + spread; b++) {
            if (a < k->scale_low || a > k->scale_high || b < 0 || b > k->offset_high) continue;
            Sums sums = group_sums(&group, &k->levels, s->d * (float)a, -(s->dmin * (float)b));
            if (!(sums.rr < s->sums[g].rr)) continue;
            s->sums[g] = sums;
            s->sc[g] = a, s->mn[g] = b;
        }
}

// Minimises the error of the superblock over d and dmin, all integers fixed: the normal equations
// of r ~ e (sc q) - f mn. False: they do not determine it.
static bool regress(Search *s) {
    double aa = 0, ab = 0, bb = 0, ra = 0, rb = 0;
    for (int g = 0; g < s->n_groups; g++) {
        const Sums *u = &s->sums[g];
        double sc = s->sc[g], mn = -s->mn[g];
        aa += sc * sc * (double)u->qq;
        ab += sc * mn * (double)u->q;
        bb += mn * mn * (double)u->w;
        ra += sc * (double)u->rq;
        rb += mn * (double)u->r;
    }
    double determinant = aa * bb - ab * ab;
    bool two = bb > 0 && determinant > 1e-9 * aa * bb;
    if (!(aa > 0)) return false;
    s->d += (float)(two ? (bb * ra - ab * rb) / determinant : ra / aa);
    if (two) s->dmin += (float)((aa * rb - ab * ra) / determinant);
    return isfinite(s->d) && isfinite(s->dmin) && s->dmin >= 0;
}

// Steps 1 and 2. `fits` (n_groups).
static void begin(Search *s, Fit *fits) {
    const Shape *k = s->shape;
    float peak = 0, deepest = 0;
    for (int g = 0; g < s->n_groups; g++) {
        Group group = group_at(s, g);
        fits[g] = group_fit(&group, &k->levels);
        if (fabsf(fits[g].scale) > fabsf(peak)) peak = fits[g].scale;
        if (-fits[g].offset > deepest) deepest = -fits[g].offset;
    }
    // Signed scales have one negative integer more than positive ones.
    s->d = peak / (float)(k->scale_low ? k->scale_low : k->scale_high);
    s->dmin = k->offset_high ? deepest / (float)k->offset_high : 0;
}

static void finish(Superblock *out, const Search *s) {
    out->d = float_to_half(s->d);
    out->dmin = float_to_half(s->dmin);
    for (int g = 0; g < s->n_groups; g++) {
        Group group = group_at(s, g);
        out->sc[g] = s->sc[g], out->mn[g] = s->mn[g];
        group_round(out->q + g * s->shape->group, &group, &s->shape->levels, s->d * (float)s->sc[g],
                    -(s->dmin * (float)s->mn[g]));
    }
}

bool superblock_search(Superblock *out, DType dtype, const float *x, const float *w) {
    Search s = {.shape = &SHAPES[dtype], .x = x, .w = w};
    if (!s.shape->group) return false;
    s.n_groups = 256 / s.shape->group;
    Fit fits[16];
    float least = INFINITY;
    begin(&s, fits);
    *out = (Superblock){0};
    for (int round = 0; round < ROUNDS; round++) {
        float error = 0;
        s.d = through_half(s.d);
        s.dmin = through_half(s.dmin);
        for (int g = 0; g < s.n_groups; g++) {
            const Shape *k = s.shape;
            choose_pair(&s, g, whole(ratio(fits[g].scale, s.d), k->scale_low, k->scale_high),
                        whole(ratio(-fits[g].offset, s.dmin), 0, k->offset_high));
            error += s.sums[g].rr;
        }
        // Numbers without an error, infinite ones, keep the first round: their halves tell.
        if (error < least || !round) {
            least = error;
            finish(out, &s);
        }
        if (!regress(&s)) break;
    }
    return true;
}

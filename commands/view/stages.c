// Which stages the page has, in how many bytes, and what is said of each.
//
//   f32   the numbers of the trace
//   sum   no bytes: the float32 sum of two stages that are exact, checked here bit by bit
//   i8    a picture: of each row the largest size m; then for each value x an integer q, a multiple
//         of some step, with x = sign(q) m (q / 127)^2 about
//
// The stream is large and is the sum of what the layers add, so half of it costs nothing. Small
// values stay visible beside the few large ones through the square root.
#include "commands/view/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- --layers ----

// "3", "4-8", "0-2,5": sets `chosen` (layers).
static bool parse_layers(bool *chosen, int layers, const char *text, Error *error) {
    for (const char *at = text;; at++) {
        char word[24];
        size_t length = strcspn(at, ",");
        int64_t first = -1, last = -1;
        bool good = length > 0 && length < sizeof word;
        if (good) memcpy(word, at, length), word[length] = '\0';
        char *dash = good ? strchr(word, '-') : NULL;
        if (dash) *dash++ = '\0';
        good = good && parse_integer(&first, word) && parse_integer(&last, dash ? dash : word) &&
               first >= 0 && first <= last && last < layers;
        if (!good)
            return error_set(error, ERROR_USAGE,
                             "--layers: got \"%.60s\", wanted layers 0 .. %d such as 3 or 0-2,5",
                             text, layers - 1);
        for (int64_t l = first; l <= last; l++)
            chosen[l] = true;
        at += length;
        if (!*at) return true;
    }
}

bool view_choose_layers(View *v, Error *error) {
    v->exact = calloc((size_t)v->layers + 1, sizeof *v->exact);
    if (!v->exact) return error_set(error, ERROR_MEMORY, "no memory for %d layers", v->layers);
    if (v->options->layers) return parse_layers(v->exact, v->layers, v->options->layers, error);
    for (int l = 0; l < v->layers; l++)
        v->exact[l] = v->trace || l == v->open_layer;
    return true;
}

// ---- which coding ----

// What attention takes: the last of these stages that the layer has.
static bool is_last_of(const View *v, const ViewStage *s, StageId a, StageId b, StageId c) {
    if (s->stage != a && s->stage != b && s->stage != c) return false;
    for (const ViewStage *later = s + 1; later < v->stages + v->n_stages; later++)
        if (later->layer == s->layer &&
            (later->stage == a || later->stage == b || later->stage == c))
            return false;
    return true;
}

// Heads that the run changes are no sums of values, from which the page computes the others.
static bool is_changed_heads(const View *v, const ViewStage *s) {
    return s->stage == STAGE_ATT_HEADS && !v->trace &&
           interventions_change(v->session->interventions, STAGE_ATT_HEADS, s->layer);
}

// What the page needs of every layer: what attention reads, what is added to the stream, the
// neurons, the stream.
static bool is_shown(const View *v, const ViewStage *s) {
    if (is_last_of(v, s, STAGE_Q, STAGE_Q_NORM, STAGE_Q_ROTATED)) return true;
    if (is_last_of(v, s, STAGE_K, STAGE_K_NORM, STAGE_K_ROTATED)) return true;
    switch (s->stage) {
    case STAGE_V:
    case STAGE_ATT_OUT:
    case STAGE_ATT_RESIDUAL:
    case STAGE_FFN_ACTIVATED:
    case STAGE_FFN_OUT:
    case STAGE_LAYER_OUT: return true;
    default: return false;
    }
}

// Whether the stage has the bits of a + b.
static bool is_sum(const ViewStage *s, const ViewStage *a, const ViewStage *b, size_t n) {
    if (a->coding == CODING_NONE || b->coding == CODING_NONE) return false;
    if (a->width != s->width || b->width != s->width) return false;
    for (size_t i = 0; i < n * s->width; i++) {
        float sum = a->values[i] + b->values[i];
        if (memcmp(&sum, &s->values[i], sizeof sum)) return false;
    }
    return true;
}

// Sets `of` and `exact` where the stage is the stream after a branch. After the FFN it is a sum
// only where both are exact: else the errors of the pictures would add up from layer to layer.
static bool find_sum(const View *v, ViewStage *s) {
    const ViewStage *a = NULL, *b = NULL;
    if (s->stage == STAGE_ATT_RESIDUAL) {
        a = s->layer ? view_stage(v, STAGE_LAYER_OUT, s->layer - 1)
                     : view_stage(v, STAGE_EMBEDDING, -1);
        b = view_stage(v, STAGE_ATT_OUT, s->layer);
    } else if (s->stage == STAGE_LAYER_OUT) {
        a = view_stage(v, STAGE_ATT_RESIDUAL, s->layer);
        b = view_stage(v, STAGE_FFN_OUT, s->layer);
    }
    if (!a || !b || !is_sum(s, a, b, v->n)) return false;
    s->exact = a->exact && b->exact;
    s->of[0] = (size_t)(a - v->stages);
    s->of[1] = (size_t)(b - v->stages);
    return true;
}

// Up to VIEW_ALL_EXACT tokens what is added to the stream, and what is added up by attention.
static bool is_exact_if_short(StageId id) {
    return id == STAGE_V || id == STAGE_ATT_OUT || id == STAGE_FFN_OUT ||
           id == STAGE_ATT_RESIDUAL || id == STAGE_LAYER_OUT;
}

// In the order of computation, so that what a sum is of is decided before.
static StageCoding choose(const View *v, ViewStage *s) {
    bool outside = s->layer < 0 || s->layer >= v->layers;
    bool all = outside || v->exact[s->layer] || is_changed_heads(v, s);
    if (v->trace && !all && v->options->layers) return CODING_NONE;
    if (!v->trace && !all && !is_shown(v, s)) return CODING_NONE;
    s->exact = v->trace || all || (v->n <= VIEW_ALL_EXACT && is_exact_if_short(s->stage));
    bool wanted = s->exact;
    if (find_sum(v, s) && (s->exact || (!wanted && s->stage == STAGE_ATT_RESIDUAL)))
        return CODING_SUM;
    s->exact = wanted;
    return wanted ? CODING_F32 : CODING_I8;
}

// ---- statistics ----

// Keeps the largest by size, of equals the first; infinities are larger than any number.
static void take_extreme(ViewStage *s, size_t row, size_t column, float value) {
    size_t at = s->n_extremes;
    while (at > 0 && fabsf(value) > fabsf(s->extremes[at - 1].value))
        at--;
    if (at == VIEW_EXTREMES) return;
    if (s->n_extremes < VIEW_EXTREMES) s->n_extremes++;
    memmove(&s->extremes[at + 1], &s->extremes[at], (s->n_extremes - 1 - at) * sizeof *s->extremes);
    s->extremes[at] = (Extreme){row, column, value};
}

static void measure(ViewStage *s, size_t n) {
    double squares = 0;
    size_t finite = 0;
    s->low = INFINITY, s->high = -INFINITY;
    for (size_t i = 0; i < n * s->width; i++) {
        float x = s->values[i];
        if (isnan(x)) {
            s->nans++;
            continue;
        }
        take_extreme(s, i / s->width, i % s->width, x);
        if (isinf(x)) {
            s->infinities++;
            continue;
        }
        s->low = fminf(s->low, x);
        s->high = fmaxf(s->high, x);
        squares += (double)x * (double)x;
        finite++;
    }
    s->rms = finite ? (float)sqrt(squares / (double)finite) : NAN;
    if (!finite) s->low = s->high = NAN;
}

// ---- blocks ----

// Fewer levels take fewer bits: 63 sizes for a short text, 31 for a long one, 21 of its many
// neurons.
static float step_of(const ViewStage *s, size_t n) {
    if (n <= VIEW_ALL_EXACT) return 3;
    return s->stage == STAGE_FFN_ACTIVATED ? 9 : 6;
}

static float largest_of(const float *row, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(row[i]));
    return largest;
}

static void put_picture(Buffer *out, const ViewStage *s, size_t n) {
    float step = step_of(s, n), levels = floorf(127 / step);
    for (size_t t = 0; t < n; t++) {
        // So that the highest level, which is below 127, has the largest size.
        float largest = largest_of(s->values + t * s->width, s->width), share = levels * step / 127;
        buffer_f32(out, largest / (share * share));
    }
    for (size_t i = 0; i < n * s->width && !out->failed; i++) {
        float x = s->values[i], largest;
        memcpy(&largest, out->bytes + s->offset + i / s->width * sizeof largest, sizeof largest);
        float q = largest > 0 ? step * rintf(127 * sqrtf(fabsf(x) / largest) / step) : 0;
        int8_t rounded = (int8_t)copysignf(q, x);
        buffer_put(out, &rounded, 1);
    }
}

// Appends the numbers of one stage, to a multiple of 4 bytes.
static void put_stage(Buffer *out, ViewStage *s, const char *block, size_t n) {
    s->offset = out->size;
    snprintf(s->block, sizeof s->block, "%s", block);
    if (s->coding == CODING_F32) buffer_put(out, s->values, n * s->width * sizeof *s->values);
    if (s->coding == CODING_I8) put_picture(out, s, n);
    buffer_zeros(out, (4 - out->size % 4) % 4);
}

// The stages of a layer, or those outside.
static bool put_layer(View *v, int layer, Page *page, Error *error) {
    Buffer out = {0};
    char name[12] = "S";
    if (layer >= 0) snprintf(name, sizeof name, "L%d", layer);
    for (size_t i = 0; i < v->n_stages; i++) {
        ViewStage *s = &v->stages[i];
        bool inside = s->layer >= 0 && s->layer < v->layers;
        if (s->coding != CODING_NONE && (inside ? s->layer == layer : layer < 0))
            put_stage(&out, s, name, v->n);
    }
    bool good = !out.failed || error_set(error, ERROR_MEMORY, "no memory for the block %s", name);
    if (good && out.size) good = page_block(page, name, out.bytes, out.size, 4, error);
    buffer_free(&out);
    return good;
}

bool view_stage_blocks(View *v, Page *page, Error *error) {
    for (size_t i = 0; i < v->n_stages; i++) {
        v->stages[i].coding = choose(v, &v->stages[i]);
        if (v->stages[i].coding != CODING_NONE) measure(&v->stages[i], v->n);
    }
    bool good = true;
    for (int l = 0; good && l < v->layers; l++)
        good = put_layer(v, l, page, error);
    return good && put_layer(v, -1, page, error);
}

// Compares pairs of tensors element by element. pair.c finds the pairs.
//
//   compare    same shape? floating-point? -> measure: largest value, largest error, cosine
//              -> allowed = budget of that name and largest value -> judge: elements beyond it
//
// Two passes over the data, since what is allowed depends on the largest value. Tensors are read in
// chunks, so that a file of any size takes a constant amount of memory.
#include "commands/trace/trace_diff.h"

#include "weights/quant.h"

#include <math.h>
#include <string.h>

// Elements: 2 KiB of floats for both sides, on the stack.
enum { CHUNK = 256 };

typedef struct Chunk {
    float a[CHUNK], b[CHUNK];
} Chunk;

// Elements begin .. begin + n - 1 of both as float32; returns n, less than CHUNK at the end. F16
// and BF16 become float32 exactly.
static size_t read_chunk(Chunk *chunk, const TensorDiff *t, uint64_t begin, uint64_t count) {
    size_t n = count - begin < CHUNK ? (size_t)(count - begin) : CHUNK;
    dequantise(chunk->a, t->a->plan.dtype,
               t->a->plan.data + begin * dtype_row_bytes(t->a->plan.dtype, 1), n);
    dequantise(chunk->b, t->b->plan.dtype,
               t->b->plan.data + begin * dtype_row_bytes(t->b->plan.dtype, 1), n);
    return n;
}

// Not float64: its values would be rounded before they are compared.
static bool comparable(const TensorPlan *plan) {
    return dtype_is_float(plan->dtype);
}

static bool same_shape(const TensorPlan *a, const TensorPlan *b) {
    return a->n_dims == b->n_dims && !memcmp(a->shape, b->shape, a->n_dims * sizeof *a->shape);
}

// Values may be equal and the bits not: 0 and -0, or a number of 16 bits and the same one of 32.
static bool same_bits(const TensorPlan *a, const TensorPlan *b) {
    return a->dtype == b->dtype && a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

// Largest value, largest error and cosine, over all finite elements.
static void measure(TensorDiff *t, uint64_t count) {
    Chunk chunk;
    double aa = 0, bb = 0, ab = 0;
    // Sums of squares and products for cosine = ab / sqrt(aa bb).
    for (uint64_t begin = 0; begin < count; begin += CHUNK) {
        size_t n = read_chunk(&chunk, t, begin, count);
        for (size_t i = 0; i < n; i++) {
            double a = (double)chunk.a[i], b = (double)chunk.b[i], error = fabs(a - b);
            if (!isfinite(error)) continue;
            aa += a * a;
            bb += b * b;
            ab += a * b;
            t->largest = fmax(t->largest, fmax(fabs(a), fabs(b)));
            t->error = fmax(t->error, error);
        }
    }
    t->cosine = aa > 0 && bb > 0 ? fmin(ab / sqrt(aa) / sqrt(bb), 1) : aa == bb;
}

uint64_t trace_position(const TensorPlan *plan, uint64_t element) {
    if (plan->n_dims < 2) return element;
    // (T, width): the row. (heads, T, T): the second index, the query.
    uint64_t row = element / plan->shape[plan->n_dims - 1];
    return plan->n_dims > 2 ? row % plan->shape[plan->n_dims - 2] : row;
}

// Does this element come before the first found so far? One that is not finite comes before one
// that is over the budget, then the earlier position counts.
static bool comes_first(const TensorDiff *t, uint64_t element, bool finite) {
    if (!t->n_over) return true;
    if (finite != (t->verdict == VERDICT_OVER)) return !finite;
    return trace_position(&t->a->plan, element) < trace_position(&t->a->plan, t->first);
}

// Counts the elements beyond the budget and keeps the first of them. NaN is beyond any: error is
// NaN then, and no comparison with it is true.
static void judge(TensorDiff *t, uint64_t count) {
    Chunk chunk;
    for (uint64_t begin = 0; begin < count; begin += CHUNK) {
        size_t n = read_chunk(&chunk, t, begin, count);
        for (size_t i = 0; i < n; i++) {
            double error = fabs((double)chunk.a[i] - (double)chunk.b[i]);
            bool finite = isfinite(error);
            if (finite && error <= t->allowed) continue;
            bool first = comes_first(t, begin + i, finite);
            t->n_over++;
            if (!first) continue;
            t->verdict = finite ? VERDICT_OVER : VERDICT_NONFINITE;
            t->first = begin + i;
            t->in_a = chunk.a[i];
            t->in_b = chunk.b[i];
        }
    }
}

static void compare(TensorDiff *t, const Budget *budget) {
    t->verdict = VERDICT_SHAPE;
    if (!same_shape(&t->a->plan, &t->b->plan)) return;
    t->verdict = VERDICT_TYPE;
    if (!comparable(&t->a->plan) || !comparable(&t->b->plan)) return;
    t->verdict = VERDICT_WITHIN;
    t->same_bits = same_bits(&t->a->plan, &t->b->plan);
    uint64_t count = plan_elements(&t->a->plan);
    measure(t, count);
    t->allowed = budget_allows(budget, t->a->plan.name, t->largest);
    judge(t, count);
}

double budget_share(const TensorDiff *t) {
    return t->allowed > 0 ? t->error / t->allowed : 0;
}

// In the order of computation, so that the first tensor over its budget is the one where the runs
// part; those after it compute with different inputs.
bool trace_diff_run(TraceDiff *d, const Budget *budget,
                    void (*progress)(void *context, double share), void *context, Error *error) {
    for (size_t i = 0; i < d->count; i++) {
        TensorDiff *t = &d->tensors[i];
        compare(t, budget);
        d->n_compared += t->verdict != VERDICT_TYPE;
        if (t->verdict == VERDICT_WITHIN) {
            if (!d->nearest || budget_share(t) > budget_share(d->nearest)) d->nearest = t;
        } else if (t->verdict != VERDICT_TYPE) {
            d->n_over++;
            if (!d->first) d->first = t;
        }
        if (progress) progress(context, (double)(i + 1) / (double)d->count);
    }
    const Mapping *cut = mapping_damaged(&d->a.mapping)   ? &d->a.mapping
                         : mapping_damaged(&d->b.mapping) ? &d->b.mapping
                                                          : NULL;
    return !cut ||
           error_set(error, ERROR_IO, "%s: the file was cut short while it was read", cut->path);
}

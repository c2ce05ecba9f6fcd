// Two traces in the core of the page: what `diff` says of every pair of tensors, whether their bits
// are the same, and which view shows the first number beyond the tolerance.
#include "commands/view/view.h"

// The stage of a tensor; NULL: the page has none.
static const ViewStage *stage_of(const View *v, const SafetensorsTensor *tensor) {
    uint32_t number = v->shown[tensor - v->trace->tensors];
    return number ? &v->stages[number - 1] : NULL;
}

// The layer whose weights on the page are this tensor, (heads, n, n); -1: it is something else.
static int layer_of_weights(const View *v, const TensorPlan *p) {
    int layer = trace_layer(p->name);
    bool square = p->n_dims == 3 && p->shape[0] == (uint64_t)v->heads && p->shape[1] == v->n &&
                  p->shape[2] == v->n && ends_with(p->name, "attn_weights");
    return square && v->attended && layer < v->layers && layer >= 0 && v->attended[layer] ? layer
                                                                                          : -1;
}

// The id of the view that shows the tensor; NULL: none does.
static const char *view_of(const View *v, const SafetensorsTensor *tensor) {
    const ViewStage *stage = stage_of(v, tensor);
    if (stage) return stage->coding != CODING_NONE ? "tensor" : NULL;
    if (tensor == v->of_logits && v->logits) return "sampler";
    return layer_of_weights(v, &tensor->plan) >= 0 ? "head" : NULL;
}

// Where the first number beyond the tolerance is.
static void put_first(JsonWriter *w, const View *v, const TensorDiff *t) {
    const TensorPlan *p = &t->a->plan;
    uint64_t width = p->n_dims ? p->shape[p->n_dims - 1] : 1;
    writer_integer(w, "row", (int64_t)trace_position(p, t->first));
    writer_integer(w, "column", (int64_t)(p->n_dims < 2 ? 0 : t->first % width));
    if (layer_of_weights(v, p) >= 0) writer_integer(w, "head", (int64_t)(t->first / width / width));
    writer_float(w, "a", t->in_a);
    writer_float(w, "b", t->in_b);
}

static void put_entry(JsonWriter *w, const View *v, const TensorDiff *t) {
    static const char *const VERDICTS[] = {"within", "over", "not finite", "other shape",
                                           "not compared"};
    const ViewStage *stage = stage_of(v, t->a);
    int layer = trace_layer(t->a->plan.name);
    writer_begin(w, NULL, '{');
    view_put_text(w, "id", stage ? stage->id : t->a->plan.name);
    writer_integer(w, "layer", layer < v->layers ? layer : -1);
    writer_string(w, "view", view_of(v, t->a));
    writer_string(w, "verdict", VERDICTS[t->verdict]);
    if (t->verdict <= VERDICT_NONFINITE) {
        writer_bool(w, "sameBits", t->same_bits);
        writer_float(w, "maxAbs", (float)t->error);
        writer_float(w, "maxRel", t->largest > 0 ? (float)(t->error / t->largest) : 0);
        writer_float(w, "cosine", (float)t->cosine);
        writer_float(w, "allowed", (float)t->allowed);
    }
    if (t->verdict == VERDICT_OVER || t->verdict == VERDICT_NONFINITE) put_first(w, v, t);
    writer_end(w, '}');
}

void view_put_diff(JsonWriter *w, const View *v) {
    const TraceDiff *d = v->diff;
    const char *paths[] = {d->a.mapping.path, d->b.mapping.path};
    const ViewStage *first = d->first ? stage_of(v, d->first->a) : NULL;
    writer_begin(w, "diff", '{');
    for (int i = 0; i < 2; i++) {
        writer_begin(w, i ? "b" : "a", '{');
        view_put_text(w, "name", view_file_name(paths[i]));
        writer_end(w, '}');
    }
    view_put_text(w, "first", first ? first->id : d->first ? d->first->a->plan.name : NULL);
    writer_integer(w, "onlyA", (int64_t)d->n_only_a);
    writer_integer(w, "onlyB", (int64_t)d->n_only_b);
    writer_begin(w, "entries", '[');
    for (size_t i = 0; i < d->count; i++)
        put_entry(w, v, &d->tensors[i]);
    writer_end(w, ']');
    writer_end(w, '}');
}

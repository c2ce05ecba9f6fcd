// The report of diff: a table, then one sentence that answers the question; or one JSON object.
//
//   no difference     the N_NEAREST tensors that come closest to their budget
//   a difference      N_BEFORE tensors before the first that is over, up to N_SHOWN in all
//   --all             every tensor
//
// Names and paths come from files and arguments: all are escaped.
#include "commands/trace/trace_diff.h"

#include "base/text.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// FIGURES: columns of a row behind the name. Names of 37 columns make lines of 80, and those of all
// modules but post_attention_layernorm and the like fit them.
enum {
    MOST_NAME = 48,
    LEAST_NAME = 20,
    FIGURES = 43,
    NAME_SIZE = 200,
    N_NEAREST = 5,
    N_BEFORE = 2,
    N_SHOWN = 12,
    N_UNPAIRED = 4
};

// Part of the JSON output.
static const char *const VERDICTS[] = {
    [VERDICT_WITHIN] = "within",        [VERDICT_OVER] = "over",
    [VERDICT_NONFINITE] = "not finite", [VERDICT_SHAPE] = "other shape",
    [VERDICT_TYPE] = "not compared",
};

// The escaped name, in `out`.
static const char *name_of(char out[NAME_SIZE], const SafetensorsTensor *tensor) {
    const char *name = tensor->plan.name;
    return escape_bytes(out, NAME_SIZE, name, strlen(name));
}

// "(576, 576)", in `out`. Four dimensions of 20 digits fit.
static const char *shape_text(char out[100], const TensorPlan *plan) {
    size_t used = (size_t)snprintf(out, 100, "(");
    for (uint32_t i = 0; i < plan->n_dims; i++)
        used +=
            (size_t)snprintf(out + used, 100 - used, "%s%" PRIu64, i ? ", " : "", plan->shape[i]);
    snprintf(out + used, 100 - used, ")");
    return out;
}

// The share of the budget: "12 %", from ten times on "37 x".
static const char *share_text(char out[32], const TensorDiff *t) {
    double share = budget_share(t);
    if (t->allowed <= 0)
        snprintf(out, 32, t->error > 0 ? "any" : "0 %%");
    else if (share < 0.1)
        snprintf(out, 32, "%.1f %%", 100 * share);
    else if (share < 10)
        snprintf(out, 32, "%.0f %%", 100 * share);
    else
        snprintf(out, 32, share < 99999 ? "%.0f x" : "%.0e x", share);
    return out;
}

// ---- the table ----

// The error as a share of the tensor's largest value: what a budget is measured in.
static double relative(const TensorDiff *t) {
    return t->largest > 0 ? t->error / t->largest : 0;
}

// The columns of names, by the window.
static int name_width(void) {
    int width = output_window(COLOR_NEVER).columns - FIGURES;
    return width > MOST_NAME ? MOST_NAME : width < LEAST_NAME ? LEAST_NAME : width;
}

// One line of the table: name, error, relative error, cosine, share of the budget; or why there are
// none.
static void print_row(const TensorDiff *t) {
    char escaped[NAME_SIZE], share[32], a[100], b[100];
    const char *name = name_of(escaped, t->a);
    int length = (int)strlen(name), width = name_width();
    bool cut = length > width; // a name's end says more than its beginning
    output_print("%s%-*s", cut ? "..." : "", width - (cut ? 3 : 0),
                 cut ? name + length - width + 3 : name);
    if (t->verdict == VERDICT_SHAPE)
        output_print("  %s and %s\n", shape_text(a, &t->a->plan), shape_text(b, &t->b->plan));
    else if (t->verdict == VERDICT_TYPE)
        output_print("  %s and %s, not compared\n", t->a->type->name, t->b->type->name);
    else if (t->verdict == VERDICT_NONFINITE)
        output_print(" %8.2e %8.2e %11.8f   %s\n", t->error, relative(t), t->cosine,
                     VERDICTS[t->verdict]);
    else
        output_print(" %8.2e %8.2e %11.8f %7s%s\n", t->error, relative(t), t->cosine,
                     share_text(share, t), t->verdict == VERDICT_OVER ? " over" : "");
}

static void print_head(void) {
    output_print("%-*s %8s %8s %11s %7s\n", name_width(), "tensor", "error", "relative", "cosine",
                 "budget");
}

// Inserts t into the nearest, which are sorted in falling order; the last one drops out.
static void insert(const TensorDiff *nearest[N_NEAREST], const TensorDiff *t) {
    for (int i = 0; i < N_NEAREST; i++) {
        if (nearest[i] && budget_share(nearest[i]) >= budget_share(t)) continue;
        const TensorDiff *out = nearest[i];
        nearest[i] = t;
        if (!out) return;
        t = out;
    }
}

// The tensors closest to their budget.
static void print_nearest(const TraceDiff *d) {
    const TensorDiff *nearest[N_NEAREST] = {NULL};
    for (size_t i = 0; i < d->count; i++)
        if (d->tensors[i].verdict == VERDICT_WITHIN) insert(nearest, &d->tensors[i]);
    for (int i = 0; i < N_NEAREST && nearest[i]; i++)
        print_row(nearest[i]);
    if (d->n_compared > N_NEAREST)
        output_print("... the %d of %zu tensors closest to the budget (--all lists every one)\n",
                     N_NEAREST, d->n_compared);
}

// From a few tensors before the first that is over.
static void print_around(const TraceDiff *d) {
    size_t first = (size_t)(d->first - d->tensors), begin = first > N_BEFORE ? first - N_BEFORE : 0;
    size_t end = d->count - begin > N_SHOWN ? begin + N_SHOWN : d->count;
    if (begin) output_print("... %zu earlier tensors are within the budget\n", begin);
    for (size_t i = begin; i < end; i++)
        print_row(&d->tensors[i]);
    if (end < d->count) output_print("... and %zu more (--all lists every one)\n", d->count - end);
}

// Names that are in one file only; with all = false the first N_UNPAIRED of them.
static void print_unpaired(const SafetensorsTensor *const *tensors, size_t count, const char *path,
                           bool all) {
    char escaped[NAME_SIZE];
    if (!count) return;
    output_print("only in %s: %zu\n", escape_bytes(escaped, sizeof escaped, path, strlen(path)),
                 count);
    for (size_t i = 0; i < count && (all || i < N_UNPAIRED); i++)
        output_print("    %s\n", name_of(escaped, tensors[i]));
    if (!all && count > N_UNPAIRED) output_print("    ... and %zu more\n", count - N_UNPAIRED);
}

// ---- the sentence ----

// Where the first such element is: position and token, then head and key of attention weights, or
// the element of the row.
static void print_place(const TraceDiff *d, const TensorDiff *t) {
    uint64_t position = trace_position(&t->a->plan, t->first);
    uint32_t rank = t->a->plan.n_dims;
    output_print("at position %" PRIu64, position);
    if (d->ids_a && position < d->ids_a->plan.shape[0])
        output_print(" (token %" PRId64 ")", trace_token(d->ids_a, position));
    if (rank < 2) return;
    uint64_t width = t->a->plan.shape[rank - 1];
    if (rank == 3)
        output_print(", head %" PRIu64 ", key %" PRIu64, t->first / width / t->a->plan.shape[1],
                     t->first % width);
    else
        output_print(", element %" PRIu64, t->first % width);
}

// "The first that differs is NAME (layer L), at position P (token T), element E: a in A, b in B;
// ..."
static void print_first(const DiffReport *r) {
    const TraceDiff *d = r->diff;
    const TensorDiff *t = d->first;
    char name[NAME_SIZE], a[100], b[100], layer[32] = "";
    int number = trace_layer(t->a->plan.name);
    if (number >= 0) snprintf(layer, sizeof layer, " (layer %d)", number);
    output_print("The first that differs is %s%s, ", name_of(name, t->a), layer);
    if (t->verdict == VERDICT_SHAPE) {
        output_print("%s in A and %s in B", shape_text(a, &t->a->plan), shape_text(b, &t->b->plan));
    } else {
        print_place(d, t);
        output_print(": %.9g in A, %.9g in B", (double)t->in_a, (double)t->in_b);
    }
    if (t->verdict == VERDICT_NONFINITE) output_print(", not a finite number");
    output_print("; %zu of %zu tensor%s %s over the budget %s.\n", d->n_over, d->n_compared,
                 d->n_compared == 1 ? "" : "s", d->n_over == 1 ? "is" : "are", r->budget->name);
}

// The last lines of the report.
static void print_answer(const DiffReport *r) {
    const TraceDiff *d = r->diff;
    char name[NAME_SIZE], share[32];
    if (!d->n_compared) {
        output_print("Nothing could be compared: %s.\n",
                     d->count ? "no tensor is floating-point in both files"
                              : "no name is in both files");
    } else if (d->first) {
        print_first(r);
    } else {
        const TensorDiff *t = d->nearest;
        if (d->n_compared == 1)
            output_print("The one tensor is");
        else
            output_print("All %zu tensors are", d->n_compared);
        output_print(" within the budget %s; %s uses most, %s of it.\n", r->budget->name,
                     name_of(name, t->a), share_text(share, t));
    }
    if (d->n_compared && d->n_compared < d->count)
        output_print("Not compared, since not floating-point in both files: %zu%s.\n",
                     d->count - d->n_compared, r->all ? "" : " (--all lists them)");
}

void diff_report_print(const DiffReport *r) {
    const TraceDiff *d = r->diff;
    if (d->count) print_head();
    for (size_t i = 0; r->all && i < d->count; i++)
        print_row(&d->tensors[i]);
    if (!r->all && d->first)
        print_around(d);
    else if (!r->all)
        print_nearest(d);
    print_unpaired(d->only_a, d->n_only_a, r->path_a, r->all);
    print_unpaired(d->only_b, d->n_only_b, r->path_b, r->all);
    print_answer(r);
}

// `gaps` tell whether the texts part over nearly equal logits, which rounding can decide.
void diff_report_tokens(const DiffReport *r, uint64_t position, bool json) {
    const SafetensorsTensor *ids[2] = {r->diff->ids_a, r->diff->ids_b};
    uint64_t n[2] = {ids[0]->plan.shape[0], ids[1]->plan.shape[0]};
    double gaps[2];
    bool known = trace_token_gaps(r->diff, position, gaps);
    if (json) {
        JsonWriter w = {0};
        writer_begin(&w, NULL, '{');
        writer_bool(&w, "same", false);
        writer_integer(&w, "compared", 0);
        writer_integer(&w, "tokens_differ_at", (int64_t)position);
        if (known) {
            writer_number(&w, "gap_a", gaps[0]);
            writer_number(&w, "gap_b", gaps[1]);
        }
        writer_end(&w, '}');
        writer_line(&w);
        return;
    }
    output_print("The traces have different tokens: A has %" PRIu64 ", B %" PRIu64, n[0], n[1]);
    if (position < n[0] && position < n[1])
        output_print("; at position %" PRIu64 " %" PRId64 " and %" PRId64, position,
                     trace_token(ids[0], position), trace_token(ids[1], position));
    output_print(".\n");
    if (known)
        output_print("A's logits prefer its token by %.3g, B's logits prefer its own by %.3g."
                     "\n",
                     gaps[0], gaps[1]);
}

// ---- JSON ----

// Numbers of a comparison only where there was one; the place only where there is a difference.
static void json_tensor(JsonWriter *w, const char *key, const TensorDiff *t) {
    uint32_t rank = t->a->plan.n_dims;
    writer_begin(w, key, '{');
    writer_string(w, "name", t->a->plan.name);
    writer_string(w, "verdict", VERDICTS[t->verdict]);
    if (t->verdict <= VERDICT_NONFINITE) {
        writer_number(w, "error", t->error);
        writer_number(w, "relative", relative(t));
        writer_number(w, "largest", t->largest);
        writer_number(w, "cosine", t->cosine);
        writer_number(w, "allowed", t->allowed);
    }
    if (t->verdict == VERDICT_OVER || t->verdict == VERDICT_NONFINITE) {
        uint64_t width = rank ? t->a->plan.shape[rank - 1] : 1;
        writer_integer(w, "layer", trace_layer(t->a->plan.name));
        writer_integer(w, "position", (int64_t)trace_position(&t->a->plan, t->first));
        writer_integer(w, "element", (int64_t)(rank < 2 ? 0 : t->first % width));
        writer_number(w, "a", (double)t->in_a);
        writer_number(w, "b", (double)t->in_b);
        writer_integer(w, "elements_over", (int64_t)t->n_over);
    }
    writer_end(w, '}');
}

static void json_names(JsonWriter *w, const char *key, const SafetensorsTensor *const *tensors,
                       size_t count) {
    writer_begin(w, key, '[');
    for (size_t i = 0; i < count; i++)
        writer_string(w, NULL, tensors[i]->plan.name);
    writer_end(w, ']');
}

void diff_report_json(const DiffReport *r) {
    const TraceDiff *d = r->diff;
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_bool(&w, "same", d->n_compared && !d->n_over);
    writer_string(&w, "budget", r->budget->name);
    writer_integer(&w, "compared", (int64_t)d->n_compared);
    writer_integer(&w, "over", (int64_t)d->n_over);
    if (d->first)
        json_tensor(&w, "first", d->first);
    else
        writer_string(&w, "first", NULL);
    json_names(&w, "only_a", d->only_a, d->n_only_a);
    json_names(&w, "only_b", d->only_b, d->n_only_b);
    writer_begin(&w, "tensors", '[');
    for (size_t i = 0; i < d->count; i++)
        json_tensor(&w, NULL, &d->tensors[i]);
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

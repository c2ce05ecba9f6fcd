// Prints an Attribution: the parts that add up to a logit, the largest first; all of them as CSV
// and JSON in the order of computation.
#include "commands/lens/attribution.h"

#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const KINDS[] = {[PART_EMBEDDING] = "embedding",
                                    [PART_HEAD] = "head",
                                    [PART_ATTENTION_BIAS] = "attention_bias",
                                    [PART_FFN] = "ffn",
                                    [PART_NORM_BIAS] = "norm_bias"};

// By size; equal ones in the order of computation.
static int by_size(const void *a, const void *b) {
    const Part *x = *(const Part *const *)a, *y = *(const Part *const *)b;
    double p = fabs(x->logit), q = fabs(y->logit);
    if (p != q) return p > q ? -1 : 1;
    return x < y ? -1 : 1;
}

// "" where a part belongs to no layer or head.
static const char *number(char text[16], int value) {
    snprintf(text, 16, "%d", value);
    return value < 0 ? "" : text;
}

static bool print_sentence(const Attribution *a, Error *error) {
    int32_t token = a->token;
    char **labels = token_labels(a->session, &(IdList){.ids = &token, .count = 1}, error);
    if (!labels) return false;
    output_print("logit of %s (%d) at position %zu: %.4f, the sum of the parts %.4f; probability "
                 "%.4f\n",
                 labels[0], token, a->position, a->logit, a->sum, a->probability);
    const Config *c = a->session->config;
    bool divided = c->logit_divisor != 1.0f, capped = c->logit_softcap != 0.0f;
    if (a->capped != a->logit)
        output_print("after the %s%s%s: %.4f\n", divided ? "divisor" : "",
                     divided && capped ? " and the " : "", capped ? "soft cap" : "", a->capped);
    free(labels);
    return true;
}

bool attribution_print(const Attribution *a, size_t most, Error *error) {
    const Part **sorted = malloc(a->n_parts * sizeof *sorted);
    if (!sorted) return error_set(error, ERROR_MEMORY, "no memory for %zu parts", a->n_parts);
    for (size_t i = 0; i < a->n_parts; i++)
        sorted[i] = &a->parts[i];
    qsort(sorted, a->n_parts, sizeof *sorted, by_size);
    bool good = print_sentence(a, error);
    if (good) output_print("\npart            layer  head    logit\n");
    double rest = a->sum;
    size_t shown = most < a->n_parts ? most : a->n_parts;
    for (size_t i = 0; good && i < shown; i++) {
        char layer[16], head[16];
        output_print("%-14s  %5s  %4s  %+7.3f\n", KINDS[sorted[i]->kind],
                     number(layer, sorted[i]->layer), number(head, sorted[i]->head),
                     sorted[i]->logit);
        rest -= sorted[i]->logit;
    }
    if (good && shown < a->n_parts)
        output_print("%zu smaller parts together      %+7.3f\n", a->n_parts - shown, rest);
    free(sorted);
    return good;
}

void attribution_print_csv(const Attribution *a) {
    output_print("part,layer,head,logit\n");
    for (size_t i = 0; i < a->n_parts && output_good(); i++) {
        char layer[16], head[16];
        const Part *p = &a->parts[i];
        output_print("%s,%s,%s,%.9g\n", KINDS[p->kind], number(layer, p->layer),
                     number(head, p->head), p->logit);
    }
}

void attribution_print_json(const Attribution *a) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "position", (int64_t)a->position);
    writer_integer(&w, "token", a->token);
    writer_number(&w, "logit", a->logit);
    writer_number(&w, "sum", a->sum);
    writer_number(&w, "capped_logit", a->capped);
    writer_number(&w, "probability", a->probability);
    writer_begin(&w, "parts", '[');
    for (size_t i = 0; i < a->n_parts && output_good(); i++) {
        const Part *p = &a->parts[i];
        writer_begin(&w, NULL, '{');
        writer_string(&w, "part", KINDS[p->kind]);
        if (p->layer >= 0) writer_integer(&w, "layer", p->layer);
        if (p->head >= 0) writer_integer(&w, "head", p->head);
        writer_number(&w, "logit", p->logit);
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

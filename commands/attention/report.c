// Prints attention matrices: as a picture in the terminal, as SVG and PNG files, as CSV, as JSON,
// and as a table of statistics per head. Hidden keys are NaN in all matrices: empty cells in
// pictures, left out in CSV, null in JSON.
#include "commands/attention/attention.h"

#include "commands/shared/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- pictures ----

// The colour scale: weights from 0 to the largest; scores from the smallest to the largest.
// Comparisons with NaN are false, so hidden keys do not count.
static void find_range(const AttentionReport *r, Picture *p) {
    p->low = r->weights ? 0.0f : INFINITY;
    p->high = r->weights ? 0.0f : -INFINITY;
    for (size_t m = 0; m < r->n_matrices; m++)
        for (size_t i = 0; i < r->n * r->n; i++) {
            float value = r->matrices[m].values[i];
            if (value < p->low) p->low = value;
            if (value > p->high) p->high = value;
        }
}

// The panels are the caller's to free; NULL with exit code 5.
static Panel *make_picture(const AttentionReport *r, Picture *p, Error *error) {
    Panel *panels = malloc(r->n_matrices * sizeof *panels);
    if (!panels) {
        error_set(error, ERROR_MEMORY, "no memory for a picture of %zu heads", r->n_matrices);
        return NULL;
    }
    for (size_t m = 0; m < r->n_matrices; m++)
        panels[m] = (Panel){r->matrices[m].title, r->matrices[m].values};
    *p = (Picture){.title = r->title,
                   .panels = panels,
                   .n_panels = r->n_matrices,
                   .rows = r->n,
                   .cols = r->n,
                   .row_labels = r->labels,
                   .col_labels = r->labels};
    find_range(r, p);
    return panels;
}

bool attention_print_picture(const AttentionReport *r, Error *error) {
    Picture picture;
    Terminal window = output_window(r->options->color);
    Panel *panels = make_picture(r, &picture, error);
    bool good = panels && picture_print(&picture, &window, error);
    free(panels);
    return good;
}

bool attention_write_files(const AttentionReport *r, Error *error) {
    Picture picture;
    Panel *panels = make_picture(r, &picture, error);
    bool good = panels && picture_files_write(r->files, &picture, error);
    free(panels);
    return good;
}

// ---- numbers ----

// Layers: "3", "all" or "0-3". A head: "5", or "mean", "rollout".
static const char *layer_name(char text[16], const HeadMatrix *m) {
    if (m->layer == ALL_LAYERS && !m->joined) return "all";
    snprintf(text, 16, m->joined ? "0-%d" : "%d", m->joined ? m->joined - 1 : m->layer);
    return text;
}

static const char *head_name(char text[16], int number) {
    if (number == ROLLOUT) return "rollout";
    if (number == MEAN_OF_HEADS) return "mean";
    snprintf(text, 16, "%d", number);
    return text;
}

void attention_print_csv(const AttentionReport *r) {
    char layer[16], head[16];
    output_print("layer,head,query,key,value\n");
    for (size_t m = 0; m < r->n_matrices; m++) {
        const HeadMatrix *matrix = &r->matrices[m];
        const char *in = layer_name(layer, matrix);
        const char *of = head_name(head, matrix->head);
        for (size_t q = 0; q < r->n && output_good(); q++)
            for (size_t k = 0; k <= q; k++) {
                float value = matrix->values[q * r->n + k];
                if (isnan(value)) continue;
                output_print("%s,%s,%zu,%zu,%.9g\n", in, of, q, k, (double)value);
            }
    }
}

static void put_place(JsonWriter *w, const HeadMatrix *matrix) {
    char text[16];
    if (matrix->layer == ALL_LAYERS)
        writer_string(w, "layer", layer_name(text, matrix));
    else
        writer_integer(w, "layer", matrix->layer);
    if (matrix->head < 0)
        writer_string(w, "head", head_name(text, matrix->head));
    else
        writer_integer(w, "head", matrix->head);
}

void attention_print_json(const AttentionReport *r) {
    static const char *const STAGES[] = {"raw", "scaled", "weights"};
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_ids(&w, "ids", r->ids, r->n);
    writer_string(&w, "stage", STAGES[r->options->stage]);
    writer_begin(&w, "heads", '[');
    for (size_t m = 0; m < r->n_matrices; m++) {
        writer_begin(&w, NULL, '{');
        put_place(&w, &r->matrices[m]);
        writer_begin(&w, "values", '[');
        for (size_t q = 0; q < r->n; q++) // null: hidden by the window
            writer_floats(&w, NULL, r->matrices[m].values + q * r->n, q + 1);
        writer_end(&w, ']');
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

// ---- entropy ----

// Averages over the queries of a head.
typedef struct Statistics {
    const HeadMatrix *matrix;
    double entropy; // bits: -sum w log2 w
    double share; // of log2(visible keys), the entropy of equal weights; queries of 2 keys or more
    double largest;  // weight
    double distance; // positions between query and key: sum w (q - k)
    double first;    // weight of token 0, queries after it that see it; NaN where none does
} Statistics;

RowStatistics attention_row_statistics(const float *row, size_t query) {
    RowStatistics s = {.first = NAN};
    size_t visible = 0;
    for (size_t k = 0; k <= query; k++) {
        if (isnan(row[k])) continue;
        double weight = (double)row[k];
        visible++;
        if (weight > 0) s.entropy -= weight * log2(weight);
        if (weight > s.largest) s.largest = weight;
        s.distance += weight * (double)(query - k);
    }
    s.share = visible > 1 ? s.entropy / log2((double)visible) : NAN;
    if (!isnan(row[0])) s.first = (double)row[0];
    return s;
}

static Statistics attention_statistics(const HeadMatrix *matrix, size_t n) {
    Statistics s = {.matrix = matrix};
    size_t several = 0, see_first = 0;
    for (size_t q = 0; q < n; q++) {
        RowStatistics row = attention_row_statistics(matrix->values + q * n, q);
        s.entropy += row.entropy / (double)n;
        s.largest += row.largest / (double)n;
        s.distance += row.distance / (double)n;
        if (!isnan(row.share)) s.share += row.share, several++;
        if (q && !isnan(row.first)) s.first += row.first, see_first++;
    }
    s.share = several ? s.share / (double)several : NAN;
    s.first = see_first ? s.first / (double)see_first : NAN;
    return s;
}

static int by_entropy(const void *a, const void *b) {
    const Statistics *x = a, *y = b;
    if (x->entropy != y->entropy) return x->entropy < y->entropy ? -1 : 1;
    return x->matrix < y->matrix ? -1 : 1;
}

// A mean over queries of which there may be none.
static const char *mean_text(char text[24], const char *format, double mean, const char *none) {
    snprintf(text, 24, format, mean);
    return isnan(mean) ? none : text;
}

static void print_statistics(const Statistics *s, const char *format, const char *of_mean,
                             const char *none) {
    char layer[16], head[16], share[24], first[24];
    output_print(format, layer_name(layer, s->matrix), head_name(head, s->matrix->head), s->entropy,
                 mean_text(share, of_mean, s->share, none), s->largest, s->distance,
                 mean_text(first, of_mean, s->first, none));
}

static void print_json_statistics(const Statistics *all, size_t count) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        writer_begin(&w, NULL, '{');
        put_place(&w, all[i].matrix);
        writer_number(&w, "entropy_bits", all[i].entropy);
        writer_number(&w, "share_of_maximum", all[i].share);
        writer_number(&w, "largest_weight", all[i].largest);
        writer_number(&w, "mean_distance", all[i].distance);
        writer_number(&w, "first_token", all[i].first);
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_line(&w);
}

bool attention_print_entropy(const AttentionReport *r, Error *error) {
    Statistics *all = malloc(r->n_matrices * sizeof *all);
    if (!all) return error_set(error, ERROR_MEMORY, "no memory for %zu heads", r->n_matrices);
    for (size_t m = 0; m < r->n_matrices; m++)
        all[m] = attention_statistics(&r->matrices[m], r->n);
    if (r->options->json) {
        print_json_statistics(all, r->n_matrices);
    } else if (r->options->csv) {
        output_print("layer,head,entropy_bits,share_of_maximum,largest_weight,mean_distance,"
                     "first_token\n");
        for (size_t m = 0; m < r->n_matrices; m++)
            print_statistics(&all[m], "%s,%s,%.6g,%s,%.6g,%.6g,%s\n", "%.6g", "nan");
    } else {
        qsort(all, r->n_matrices, sizeof *all, by_entropy);
        output_print("layer head entropy, bits  of maximum  largest weight  mean distance  "
                     "first token\n");
        for (size_t m = 0; m < r->n_matrices; m++)
            print_statistics(&all[m], "%5s %4s %13.3f  %10s  %14.3f  %13.2f  %11s\n", "%.3f", "-");
    }
    free(all);
    return true;
}

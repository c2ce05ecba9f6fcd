// Prints a LensCapture: the grid "where it decides" as a picture, the half-layers at one position
// as a table with the texts of tokens, CSV and JSON.
#include "commands/lens/lens.h"

#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <stdlib.h>

// ---- the grid ----

typedef struct Grid {
    Picture picture;
    Panel panel;
    float *values; // (count, depths) probability of the token that wins
    char **labels; // of all tokens of the prompt
} Grid;

static void grid_free(Grid *g) {
    free(g->values);
    free(g->labels);
}

// A row for each position, a column for each half-layer. False: exit code 5; free it all the same.
static bool make_grid(Grid *g, const LensCapture *c, Error *error) {
    size_t depths = (size_t)lens_depths(c), cells = c->count * depths;
    g->labels = token_labels(c->session, c->tokens, error);
    if (!g->labels) return false;
    g->values = malloc(cells * sizeof *g->values);
    if (!g->values)
        return error_set(error, ERROR_MEMORY, "no memory for a picture of %zu cells", cells);
    for (size_t i = 0; i < cells; i++)
        g->values[i] = c->cells[i].probability;
    g->panel = (Panel){.values = g->values};
    g->picture = (Picture){.title = "probability of the token that wins in the end, by half-layer",
                           .panels = &g->panel,
                           .n_panels = 1,
                           .rows = c->count,
                           .cols = depths,
                           .row_labels = (const char *const *)g->labels + c->first,
                           .high = 1};
    return true;
}

bool lens_write_files(const LensCapture *c, const PictureFiles *files, Error *error) {
    Grid grid = {0};
    bool good = make_grid(&grid, c, error) && picture_files_write(files, &grid.picture, error);
    grid_free(&grid);
    return good;
}

// ---- the table of one position ----

// The column that the likeliest tokens begin at; the columns that a label has in any window.
enum { LIKELIEST = 44, LEAST_LABEL = 8 };

// The texts of the likeliest tokens at every depth of a position (depths, top), one block that the
// caller frees.
static char **top_labels(const LensCapture *c, size_t position, Error *error) {
    size_t count = (size_t)lens_depths(c) * (size_t)c->top;
    int32_t *ids = malloc(count * sizeof *ids);
    if (!ids) {
        error_set(error, ERROR_MEMORY, "no memory for %zu tokens", count);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = lens_top(c, position, 0)[i].id;
    char **labels = token_labels(c->session, &(IdList){.ids = ids, .count = count}, error);
    free(ids);
    return labels;
}

// The likeliest tokens of a row whose first LIKELIEST columns are full. Those that do not fit the
// window are on lines below.
static void put_likeliest(Buffer *out, const LensToken *tokens, char *const *labels, int count,
                          int columns) {
    enum { PROBABILITY = 6 }; // " 0.77,"; of the last token 5
    int column = LIKELIEST, most = columns - LIKELIEST - PROBABILITY;
    if (most < LEAST_LABEL) most = LEAST_LABEL;
    for (int k = 0; k < count; k++) {
        Buffer label = {0};
        int width = picture_put_text(&label, labels[k], most) + PROBABILITY - (k + 1 == count);
        bool below = k && column + width > columns;
        if (below) buffer_print(out, "\n%*s", LIKELIEST - 1, "");
        column = (below ? LIKELIEST : column) + width + 1;
        buffer_put(out, " ", 1);
        buffer_put(out, label.bytes, label.size);
        buffer_print(out, " %.2f%s", (double)tokens[k].probability, k + 1 < count ? "," : "");
        out->failed |= label.failed;
        buffer_free(&label);
    }
    buffer_put(out, "\n", 1);
}

static bool print_row(const LensCapture *c, size_t position, int depth, char *const *labels,
                      int columns, Error *error) {
    const LensCell *cell = lens_cell(c, position, depth);
    Buffer line = {0};
    buffer_print(&line, "%5d %-9s %6d %6.4f %7.2f %5.2f", depth / 2, lens_half(depth), cell->rank,
                 (double)cell->probability, (double)cell->entropy, (double)cell->kl);
    put_likeliest(&line, lens_top(c, position, depth), labels, c->top, columns);
    bool good = !line.failed || error_set(error, ERROR_MEMORY, "no memory for a line of the table");
    if (good) output_bytes(line.bytes, line.size);
    buffer_free(&line);
    return good;
}

static bool print_table(const LensCapture *c, size_t position, int columns, Error *error) {
    char **labels = top_labels(c, position, error);
    if (!labels) return false;
    int depths = lens_depths(c), top = c->top;
    output_print("\nposition %zu: the next token is %s (%d); entropy and KL in bits\n", position,
                 labels[(depths - 1) * top], c->winners[position - c->first]);
    output_print("layer half        rank  prob. entropy    KL likeliest\n");
    bool good = true;
    for (int d = 0; d < depths && good; d++)
        good = print_row(c, position, d, labels + d * top, columns, error);
    free(labels);
    return good;
}

bool lens_print(const LensCapture *c, size_t position, Error *error) {
    Grid grid = {0};
    Terminal window = output_window(c->session->options->color);
    bool good = c->count == 1 ||
                (make_grid(&grid, c, error) && picture_print(&grid.picture, &window, error));
    grid_free(&grid);
    return good && print_table(c, position, window.columns, error);
}

// ---- numbers ----

void lens_print_csv(const LensCapture *c) {
    output_print("layer,half,position,rank,id,logit,probability\n");
    for (int d = 0; d < lens_depths(c); d++)
        for (size_t p = c->first; p < c->first + c->count && output_good(); p++)
            for (int k = 0; k < c->top; k++) {
                const LensToken *t = &lens_top(c, p, d)[k];
                output_print("%d,%s,%zu,%d,%d,%.9g,%.9g\n", d / 2, lens_half(d), p, k + 1, t->id,
                             (double)t->logit, (double)t->probability);
            }
}

static void put_cell(JsonWriter *w, const LensCapture *c, size_t position, int depth) {
    const LensCell *cell = lens_cell(c, position, depth);
    writer_begin(w, NULL, '{');
    writer_integer(w, "position", (int64_t)position);
    writer_integer(w, "layer", depth / 2);
    writer_string(w, "half", lens_half(depth));
    writer_integer(w, "rank_of_winner", cell->rank);
    writer_number(w, "probability_of_winner", (double)cell->probability);
    writer_number(w, "entropy_bits", (double)cell->entropy);
    writer_number(w, "kl_bits", (double)cell->kl);
    writer_begin(w, "top", '[');
    for (int k = 0; k < c->top; k++) {
        const LensToken *t = &lens_top(c, position, depth)[k];
        writer_begin(w, NULL, '{');
        writer_integer(w, "id", t->id);
        writer_number(w, "logit", (double)t->logit);
        writer_number(w, "probability", (double)t->probability);
        writer_end(w, '}');
    }
    writer_end(w, ']');
    writer_end(w, '}');
}

void lens_print_json(const LensCapture *c) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_ids(&w, "ids", c->tokens->ids, c->tokens->count);
    writer_integer(&w, "first_position", (int64_t)c->first);
    writer_ids(&w, "winners", c->winners, c->count);
    writer_begin(&w, "cells", '[');
    for (size_t p = c->first; p < c->first + c->count && output_good(); p++)
        for (int d = 0; d < lens_depths(c); d++)
            put_cell(&w, c, p, d);
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

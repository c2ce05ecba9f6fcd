// mask: which keys an attention pattern shows, as a picture and as numbers. No model is needed.
#include "commands/commands.h"
#include "commands/shared/drawing.h"
#include "commands/shared/output.h"
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Mask {
    const Options *options;
    KeyPattern pattern;
    int n;                 // positions
    float *cells;          // (n, n) owned: 1, or NaN where the key is hidden
    uint64_t connections;  // cells that are 1
    uint64_t fewest, most; // of them in a row
    const char *title;
} Mask;

static void fill(Mask *m) {
    m->fewest = UINT64_MAX;
    for (int p = 0; p < m->n; p++) {
        uint64_t keys = 0;
        for (int t = 0; t < m->n; t++) {
            bool shown = m->options->bidirectional ? pattern_shows(&m->pattern, p, t)
                                                   : key_visible(&m->pattern, p, t);
            m->cells[(size_t)p * (size_t)m->n + (size_t)t] = shown ? 1 : NAN;
            keys += shown;
        }
        m->connections += keys;
        if (keys < m->fewest) m->fewest = keys;
        if (keys > m->most) m->most = keys;
    }
}

// Of all cells, those of later keys included.
static double sparsity(const Mask *m) {
    return 1 - (double)m->connections / ((double)m->n * m->n);
}

// ---- outputs ----

static void print_csv(const Mask *m) {
    output_print("query,key\n");
    for (int p = 0; p < m->n && output_good(); p++)
        for (int t = 0; t < m->n; t++)
            if (!isnan(m->cells[(size_t)p * (size_t)m->n + (size_t)t]))
                output_print("%d,%d\n", p, t);
}

static void print_json(const Mask *m) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "pattern", m->options->pattern);
    writer_bool(&w, "bidirectional", m->options->bidirectional);
    writer_integer(&w, "positions", m->n);
    writer_integer(&w, "connections", (int64_t)m->connections);
    writer_number(&w, "sparsity", sparsity(m));
    writer_number(&w, "keys_per_query", (double)m->connections / m->n);
    writer_integer(&w, "fewest_keys", (int64_t)m->fewest);
    writer_integer(&w, "most_keys", (int64_t)m->most);
    writer_end(&w, '}');
    writer_line(&w);
}

static void print_counts(const Mask *m) {
    output_print("%d positions: %" PRIu64 " connections of %" PRIu64 ", %.4f %% sparse; keys of a "
                 "query: %.4g, from %" PRIu64 " to %" PRIu64 "\n",
                 m->n, m->connections, (uint64_t)m->n * (uint64_t)m->n, 100 * sparsity(m),
                 (double)m->connections / m->n, m->fewest, m->most);
}

static bool print_mask(const Mask *m, const PictureFiles *files, Error *error) {
    const Options *o = m->options;
    Panel panel = {.values = m->cells};
    Picture picture = {.title = m->title,
                       .panels = &panel,
                       .n_panels = 1,
                       .rows = (size_t)m->n,
                       .cols = (size_t)m->n,
                       .high = 1,
                       .two_valued = true};
    Terminal window = output_window(o->color);
    bool files_wanted = picture_files_wanted(files);
    if (files_wanted && !picture_files_write(files, &picture, error)) return false;
    if (o->csv)
        print_csv(m);
    else if (o->json)
        print_json(m);
    else if (!files_wanted && !picture_print(&picture, &window, error))
        return false;
    if (!o->csv && !o->json) print_counts(m);
    return true;
}

// ---- the command ----

static bool check_options(Mask *m, const Options *o, Error *error) {
    if (!o->pattern)
        return error_set(error, ERROR_USAGE,
                         "mask wants a pattern, such as local:8+global:2 (see mask --help)");
    if (o->csv && o->json) return error_set(error, ERROR_USAGE, "--csv and --json: one of them");
    return attention_pattern_parse(&m->pattern, o->pattern, error);
}

bool mask_command(const Options *o, Error *error) {
    char title[120];
    Mask m = {.options = o, .n = (int)o->mask_seq, .title = title};
    PictureFiles files = {0};
    bool good = check_options(&m, o, error) && picture_files_open(&files, o, error);
    if (good) {
        snprintf(title, sizeof title, "%.80s%s", o->pattern,
                 o->bidirectional ? ", bidirectional" : "");
        m.cells = malloc((size_t)m.n * (size_t)m.n * sizeof *m.cells);
        if (!m.cells)
            good = error_set(error, ERROR_MEMORY, "no memory for %d x %d cells", m.n, m.n);
    }
    if (good) fill(&m);
    good = good && print_mask(&m, &files, error);
    free(m.cells);
    picture_files_free(&files);
    return good;
}

// The tables of bench --attention: text with a heading for each, one flat CSV, JSON.
#include "commands/bench/bench.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <math.h>
#include <string.h>

// A number of AttentionRow: its key in CSV and JSON, and for people its title, width, decimals
// (-1: two significant digits) and factor.
typedef struct Column {
    const char *key, *title;
    size_t offset;
    int width, decimals;
    double factor;
} Column;

#define AT(field) offsetof(AttentionRow, field)
static const Column COLUMNS[] = {
    {"heads", "heads", AT(heads), 9, 0, 1},
    {"kv_heads", "KV heads", AT(kv_heads), 9, 0, 1},
    {"batch", "batch", AT(batch), 6, 0, 1},
    {"positions", "positions", AT(positions), 10, 0, 1},
    {"parameters", "parameters", AT(parameters), 11, 0, 1},
    {"score_bytes", "scores MB", AT(score_bytes), 10, 2, 1e-6},
    {"other_ms", "other ms", AT(other_ms), 11, 3, 1},
    {"ms", "ms", AT(ms), 11, 3, 1},
    {"speed_up", "speed-up", AT(speed_up), 9, 2, 1},
    {"difference", "difference", AT(difference), 11, -1, 1},
};
enum { N_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS };

static double cell(const AttentionRow *row, const Column *column) {
    return *(const double *)((const char *)row + column->offset);
}

// ---- text ----

// The first cell of a line.
static const char *kind_name(const AttentionRow *row) {
    if (strcmp(row->table, "kinds") != 0) return "";
    if (row->kv_heads == row->heads) return "MHA";
    return row->kv_heads == 1 ? "MQA" : "GQA";
}

static void print_heading(const AttentionReport *r, const AttentionRow *row) {
    if (!strcmp(row->table, "kinds"))
        output_print("\nheads that share keys and values: a pass of %.0f x %.0f positions through "
                     "wq wk wv, cache, attention, wo\n",
                     row->batch, row->positions);
    else if (!strcmp(row->table, "heads"))
        output_print("\nthe same %d channels in fewer or more heads\n", ATTENTION_DIM);
    else if (!strcmp(row->table, "online"))
        output_print("\nonline softmax (ms) and all scores stored (other ms): attention alone, the "
                     "last %d queries of a context\n",
                     r->queries);
    else
        output_print("\ntokens one after another: with the cache (ms), and all so far again for "
                     "each (other ms)\n");
    output_print("%-4s", "");
    for (int c = 0; c < N_COLUMNS; c++)
        if (!isnan(cell(row, &COLUMNS[c])))
            output_print(" %*s", COLUMNS[c].width, COLUMNS[c].title);
    output_print("\n");
}

static void print_row(const AttentionRow *row) {
    output_print("%-4s", kind_name(row));
    for (int c = 0; c < N_COLUMNS; c++) {
        const Column *column = &COLUMNS[c];
        double value = cell(row, column) * column->factor;
        if (isnan(value)) continue;
        if (column->decimals < 0)
            output_print(" %*.2g", column->width, value);
        else
            output_print(" %*.*f", column->width, column->decimals, value);
    }
    output_print("\n");
}

static void print_text(const AttentionReport *r) {
    output_print("attention with random weights, %d channels; %s; cache %s\n"
                 "medians of %d runs, interleaved, after %d to warm up\n",
                 ATTENTION_DIM, r->device, kv_name(r->kv), r->runs, r->warm_up);
    for (int i = 0; i < r->n_rows; i++) {
        const AttentionRow *row = &r->rows[i];
        if (!i || strcmp(row->table, row[-1].table) != 0) print_heading(r, row);
        print_row(row);
    }
}

// ---- for scripts ----

static void print_csv(const AttentionReport *r) {
    output_print("table");
    for (int c = 0; c < N_COLUMNS; c++)
        output_print(",%s", COLUMNS[c].key);
    output_print("\n");
    for (int i = 0; i < r->n_rows; i++) {
        output_print("%s", r->rows[i].table);
        for (int c = 0; c < N_COLUMNS; c++) {
            double value = cell(&r->rows[i], &COLUMNS[c]);
            if (isnan(value))
                output_print(",");
            else
                output_print(",%.9g", value);
        }
        output_print("\n");
    }
}

// docs/scripting.md describes the keys.
static void print_json(const AttentionReport *r) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "device", r->device);
    writer_string(&w, "precision", precision_name((Precision)r->options->precision));
    writer_string(&w, "kv", kv_name(r->kv));
    writer_integer(&w, "dim", ATTENTION_DIM);
    writer_integer(&w, "runs", r->runs);
    writer_integer(&w, "warm_up", r->warm_up);
    writer_begin(&w, "rows", '[');
    for (int i = 0; i < r->n_rows; i++) {
        writer_begin(&w, NULL, '{');
        writer_string(&w, "table", r->rows[i].table);
        for (int c = 0; c < N_COLUMNS; c++)
            writer_number(&w, COLUMNS[c].key, cell(&r->rows[i], &COLUMNS[c]));
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

void attention_print(const AttentionReport *r) {
    if (r->options->json)
        print_json(r);
    else if (r->options->csv)
        print_csv(r);
    else
        print_text(r);
}

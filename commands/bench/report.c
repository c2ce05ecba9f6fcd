// One table of columns serves the text, JSON, CSV and Markdown. A column is one number of BenchRow;
// what is not known is "-" in tables, empty in CSV and null in JSON.
#include "commands/bench/bench.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// key: in CSV and JSON. title, width, decimals: in tables for people. offset: of a double in
// BenchRow.
typedef struct Column {
    const char *key, *title;
    size_t offset;
    int width, decimals;
    double factor; // in tables for people: shares as per cent, bytes as MB
    bool of_gpu;   // these leave it out where no row has it
} Column;

#define AT(field) offsetof(BenchRow, field)
// Shares: "% read" of the speed of reading a buffer of the model's size, "% memory" of one that no
// cache holds, "% peak" of arithmetic in registers, "% products" of the GPU vendor's library.
static const Column COLUMNS[] = {
    {"threads", "threads", AT(threads), 7, 0, 1, false},
    {"length", "tokens", AT(length), 6, 0, 1, false},
    {"depth", "depth", AT(depth), 6, 0, 1, false},
    {"batch", "batch", AT(batch), 5, 0, 1, false},
    {"tokens_per_second", "tokens/s", AT(tokens_per_second), 9, 1, 1, false},
    {"tokens_per_second_min", "least", AT(least), 9, 1, 1, false},
    {"tokens_per_second_max", "most", AT(most), 9, 1, 1, false},
    {"seconds", "seconds", AT(seconds), 8, 4, 1, false},
    {"bytes_per_token", "MB/token", AT(bytes_per_token), 8, 2, 1e-6, false},
    {"gb_per_second", "GB/s", AT(gb_per_second), 7, 2, 1, false},
    {"share_of_read", "% read", AT(share_of_read), 6, 1, 100, false},
    {"share_of_memory", "% memory", AT(share_of_memory), 8, 1, 100, false},
    {"gflop_per_second", "GFLOP/s", AT(gflop_per_second), 8, 1, 1, false},
    {"share_of_peak", "% peak", AT(share_of_peak), 6, 1, 100, false},
    {"share_of_products", "% products", AT(share_of_products), 10, 1, 100, true},
    {"idle_us", "idle us", AT(idle_us), 7, 1, 1, true},
};
enum { N_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS };

static double cell(const BenchRow *row, const Column *column) {
    return *(const double *)((const char *)row + column->offset);
}

// CSV and JSON always have all columns, so that scripts find them.
static bool column_shown(const BenchReport *r, const Column *column) {
    bool any = !column->of_gpu;
    for (int i = 0; i < r->n_rows; i++)
        any |= isfinite(cell(&r->rows[i], column));
    return any;
}

static const char *kind(const BenchRow *row) {
    return row->prefill ? "prefill" : "decode";
}

// A number, or a dash where it is not known.
static void print_cell(const BenchRow *row, const Column *c, int width) {
    double value = cell(row, c) * c->factor;
    if (isfinite(value))
        output_print("%*.*f", width, c->decimals, value);
    else
        output_print("%*s", width, "-");
}

static void print_rows(const BenchReport *r) {
    output_print("%-8s", "");
    for (int c = 0; c < N_COLUMNS; c++)
        if (column_shown(r, &COLUMNS[c])) output_print(" %*s", COLUMNS[c].width, COLUMNS[c].title);
    output_print("\n");
    for (int i = 0; i < r->n_rows; i++) {
        output_print("%-8s", kind(&r->rows[i]));
        for (int c = 0; c < N_COLUMNS; c++) {
            if (!column_shown(r, &COLUMNS[c])) continue;
            output_print(" ");
            print_cell(&r->rows[i], &COLUMNS[c], COLUMNS[c].width);
        }
        output_print("\n");
    }
}

// "int8 x 2": two products of bytes for each weight.
static const char *peak_text(char *to, size_t size, Arithmetic peak) {
    if (peak.products > 1)
        snprintf(to, size, "%s x %d", peak_name(peak.kind), peak.products);
    else
        snprintf(to, size, "%s", peak_name(peak.kind));
    return to;
}

static const BenchRow *first_row(const BenchReport *r, bool prefill) {
    for (int i = 0; i < r->n_rows; i++)
        if (r->rows[i].prefill == prefill) return &r->rows[i];
    return NULL;
}

// One line for each number of threads, then what instructions the first rows are made of.
static void print_limits(const BenchReport *r) {
    for (int i = 0; i < r->n_limits; i++) {
        const LimitFigures *f = &r->limits[i].figures;
        output_print("limits with %d thread%s: read %.1f GB/s (buffer of the model's size), memory "
                     "%.1f GB/s; giga-operations/s:",
                     r->limits[i].threads, r->limits[i].threads == 1 ? "" : "s",
                     f->model_read / 1e9, f->memory_read / 1e9);
        for (int kind = 0; kind < PEAK_COUNT; kind++)
            if (f->peaks[kind] > 0)
                output_print(" %s %.*f", peak_name((PeakKind)kind), f->peaks[kind] < 1e10 ? 2 : 0,
                             f->peaks[kind] / 1e9);
        output_print("\n");
    }
    if (!r->n_limits) return;
    output_print("%% peak: of the instructions that multiply the weights");
    for (int prefill = 1; prefill >= 0; prefill--) {
        char text[32];
        const BenchRow *row = first_row(r, prefill);
        if (row) output_print(", %s %s", kind(row), peak_text(text, sizeof text, row->peak));
    }
    output_print("\n");
}

static void print_text(const BenchReport *r) {
    char path[256];
    const char *name = checkpoint_path(r->session->checkpoint);
    output_print("%s\n%s%s; weights %.1f MB, loaded in %.2f s, memory %.1f MB\n\n",
                 escape_bytes(path, sizeof path, name, strlen(name)), r->device, build_remark(),
                 (double)r->weight_bytes / 1e6, r->load_seconds, (double)r->peak_memory / 1e6);
    if (r->session->options->pattern)
        output_print("attention pattern %s\n\n", r->session->options->pattern);
    print_rows(r);
    output_print("\n");
    print_limits(r);
}

static void print_csv(const BenchReport *r) {
    output_print("kind");
    for (int c = 0; c < N_COLUMNS; c++)
        output_print(",%s", COLUMNS[c].key);
    output_print("\n");
    for (int i = 0; i < r->n_rows; i++) {
        output_print("%s", kind(&r->rows[i]));
        for (int c = 0; c < N_COLUMNS; c++) {
            double value = cell(&r->rows[i], &COLUMNS[c]);
            if (isfinite(value))
                output_print(",%.9g", value);
            else
                output_print(",");
        }
        output_print("\n");
    }
}

static void print_markdown(const BenchReport *r) {
    output_print("| |");
    for (int c = 0; c < N_COLUMNS; c++)
        if (column_shown(r, &COLUMNS[c])) output_print(" %s |", COLUMNS[c].title);
    output_print("\n| --- |");
    for (int c = 0; c < N_COLUMNS; c++)
        if (column_shown(r, &COLUMNS[c])) output_print(" ---: |");
    output_print("\n");
    for (int i = 0; i < r->n_rows; i++) {
        output_print("| %s |", kind(&r->rows[i]));
        for (int c = 0; c < N_COLUMNS; c++) {
            if (!column_shown(r, &COLUMNS[c])) continue;
            output_print(" ");
            print_cell(&r->rows[i], &COLUMNS[c], 0);
            output_print(" |");
        }
        output_print("\n");
    }
    output_print("\n");
    print_limits(r);
}

static void write_row(JsonWriter *w, const char *key, const BenchRow *row) {
    writer_begin(w, key, '{');
    char text[32];
    writer_string(w, "kind", kind(row));
    writer_string(w, "peak", peak_text(text, sizeof text, row->peak));
    for (int c = 0; c < N_COLUMNS; c++)
        writer_number(w, COLUMNS[c].key, cell(row, &COLUMNS[c]));
    writer_end(w, '}');
}

// "prefill" and "decode": the first row of each, so that a script has one name for one figure.
static void write_first(JsonWriter *w, const BenchReport *r, bool prefill) {
    const BenchRow *row = first_row(r, prefill);
    if (row) write_row(w, kind(row), row);
}

static void write_limits(JsonWriter *w, const BenchReport *r) {
    writer_begin(w, "limits", '[');
    for (int i = 0; i < r->n_limits; i++) {
        const LimitFigures *f = &r->limits[i].figures;
        writer_begin(w, NULL, '{');
        writer_integer(w, "threads", r->limits[i].threads);
        writer_number(w, "model_read_gb_per_second", f->model_read / 1e9);
        writer_number(w, "memory_read_gb_per_second", f->memory_read / 1e9);
        writer_number(w, "fp32_gflop_per_second", f->peaks[PEAK_FLOAT32] / 1e9);
        writer_number(w, "fp64_gflop_per_second", f->peaks[PEAK_FLOAT64] / 1e9);
        writer_number(w, "int16_gop_per_second", f->peaks[PEAK_INT16] / 1e9);
        writer_number(w, "int8_gop_per_second", f->peaks[PEAK_INT8] / 1e9);
        writer_number(w, "int8_tiles_gop_per_second", f->peaks[PEAK_INT8_TILES] / 1e9);
        writer_number(w, "bf16_gflop_per_second", f->peaks[PEAK_BF16] / 1e9);
        writer_end(w, '}');
    }
    writer_end(w, ']');
}

// docs/scripting.md describes the keys.
static void print_json(const BenchReport *r) {
    const Session *s = r->session;
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "file", checkpoint_path(s->checkpoint));
    writer_string(&w, "container", checkpoint_container_name(s->checkpoint));
    writer_integer(&w, "file_bytes", (int64_t)checkpoint_file_bytes(s->checkpoint));
    writer_string(&w, "family", s->config->family);
    writer_string(&w, "device", r->device);
    writer_string(&w, "precision", precision_name((Precision)s->options->precision));
    writer_string(&w, "kv", kv_name((KvType)s->options->kv));
    writer_string(&w, "pattern", s->options->pattern);
    writer_integer(&w, "weight_bytes", (int64_t)r->weight_bytes);
    writer_number(&w, "load_seconds", r->load_seconds);
    writer_integer(&w, "repetitions", s->options->repetitions);
    writer_bool(&w, "all_logits", s->options->all_logits);
    write_first(&w, r, true);
    write_first(&w, r, false);
    writer_begin(&w, "rows", '[');
    for (int i = 0; i < r->n_rows; i++)
        write_row(&w, NULL, &r->rows[i]);
    writer_end(&w, ']');
    write_limits(&w, r);
    writer_integer(&w, "peak_memory_bytes", (int64_t)r->peak_memory);
    writer_end(&w, '}');
    writer_line(&w);
}

void bench_print(const BenchReport *r) {
    const Options *o = r->session->options;
    if (o->json)
        print_json(r);
    else if (o->csv)
        print_csv(r);
    else if (o->markdown)
        print_markdown(r);
    else
        print_text(r);
}

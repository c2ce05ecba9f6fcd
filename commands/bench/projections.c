// bench --projections: one matrix of each type times 1, 2, 4 .. rows of input, without a model: how
// much of a prompt's arithmetic a small batch reaches.
//
// The matrix is a gate of a model of 0.6 billion parameters, and stays in the last-level cache. A
// run takes every type, precision and number of rows once, and the limits between them; the figures
// are the fastest of the runs. With one thread, time is the processor time of the thread, so that
// other programs disturb little.
#include "base/hash.h"
#include "commands/bench/bench.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"
#include "weights/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 3072,
    COLS = 1024,
    MADE_ROWS = 16, // different ones; they are repeated
    USUAL_RUNS = 10,
    MOST_LINES = 2 * N_OPTION_DTYPES,
};
static const double SAMPLE_SECONDS = 2e-3; // at least

typedef struct Line {
    DType dtype;
    Precision precision;
    Device *device; // borrowed
    DeviceMatrix *matrix;
    size_t stored_bytes;
    double read;                      // bytes/s of a buffer of as many bytes
    double seconds[OPTIONS_MAX_LIST]; // of one product, for each number of rows
} Line;

typedef struct Run {
    const Options *options;
    IntegerList batches; // rows of input
    int most_rows;
    Device *devices[2]; // one for each precision
    float *x[2], *out[2];
    double peaks[PEAK_COUNT];
    Line lines[MOST_LINES];
    int n_lines;
} Run;

// ---- the matrices ----

// (ROWS, COLS) in the type; NULL: no memory.
static uint8_t *make_weights(DType dtype) {
    size_t row = dtype_row_bytes(dtype, COLS);
    uint8_t *bytes = malloc(ROWS * row);
    float *numbers = malloc(COLS * sizeof *numbers);
    uint64_t state = 1;
    if (!numbers) {
        free(bytes);
        return NULL;
    }
    for (size_t r = 0; bytes && r < ROWS; r++) {
        if (r >= MADE_ROWS) {
            memcpy(bytes + r * row, bytes + r % MADE_ROWS * row, row);
            continue;
        }
        for (int i = 0; i < COLS; i++)
            numbers[i] = ((float)(splitmix64(&state) >> 40) * 0x1p-23f - 1) / 32;
        quantise_searched(bytes + r * row, dtype, numbers, NULL, COLS);
    }
    free(numbers);
    return bytes;
}

static bool add_line(Run *r, int device, Precision precision, DType dtype, Error *error) {
    uint8_t *bytes = make_weights(dtype);
    if (!bytes) return error_set(error, ERROR_MEMORY, "out of memory for a matrix");
    const Matrix matrix = {.dtype = dtype, .rows = ROWS, .cols = COLS, .data = bytes};
    r->lines[r->n_lines++] = (Line){.dtype = dtype,
                                    .precision = precision,
                                    .device = r->devices[device],
                                    .matrix = device_matrix(r->devices[device], &matrix),
                                    .stored_bytes = ROWS * dtype_row_bytes(dtype, COLS)};
    free(bytes);
    return true;
}

static bool device_state(Device *device, Error *error) {
    if (!device) return error_set(error, ERROR_MEMORY, "out of memory");
    const Error *failure = device_error(device);
    return !failure->code || error_copy(error, failure);
}

// All types with one precision.
static bool open_precision(Run *r, int device, Precision precision, Error *error) {
    const Options *o = r->options;
    Device *d = r->devices[device] = device_open(o->threads.values[0], precision);
    if (!device_state(d, error)) return false;
    for (int i = 0; i < N_OPTION_DTYPES; i++)
        if (!option_given(o, OPTION_COST_TYPE) || o->type == i)
            if (!add_line(r, device, precision, OPTION_DTYPES[i], error)) return false;
    device_reserve(d, r->most_rows);
    size_t count = (size_t)r->most_rows * COLS;
    r->x[device] = device_alloc(d, count * sizeof(float));
    r->out[device] = device_alloc(d, (size_t)r->most_rows * ROWS * sizeof(float));
    float *numbers = malloc(count * sizeof *numbers);
    if (!numbers) return error_set(error, ERROR_MEMORY, "out of memory for %zu numbers", count);
    uint64_t state = 2;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(splitmix64(&state) >> 40) * 0x1p-23f - 1;
    if (r->x[device]) device_upload(d, r->x[device], numbers, count * sizeof *numbers);
    free(numbers);
    return device_state(d, error);
}

// ---- measuring ----

// One product of n rows: the mean of as many as fill a sample.
static double time_product(const Run *r, const Line *line, int n) {
    int device = line->device == r->devices[1];
    bool alone = device_info(line->device)->threads == 1;
    double started = alone ? thread_seconds_now() : seconds_now(), passed = 0;
    int count = 0;
    while (passed < SAMPLE_SECONDS) {
        device_begin(line->device, &(PassShape){.n = n});
        const Projection projection = {r->out[device], line->matrix, NULL};
        project(line->device, r->x[device], n, &projection, 1);
        device_end(line->device);
        device_sync(line->device);
        passed = (alone ? thread_seconds_now() : seconds_now()) - started;
        count++;
    }
    return passed / count;
}

// The limits of a line are measured between its products.
static bool run_once(Run *r, Error *error) {
    for (int i = 0; i < r->n_lines; i++) {
        Line *line = &r->lines[i];
        if (!r->options->no_limits)
            line->read = fmax(line->read, device_read_rate(line->device, line->stored_bytes));
        for (int k = 0; k < r->batches.count; k++)
            line->seconds[k] = fmin(line->seconds[k], time_product(r, line, r->batches.values[k]));
        if (!device_state(line->device, error)) return false;
    }
    for (int kind = 0; kind < PEAK_COUNT && !r->options->no_limits; kind++)
        r->peaks[kind] = fmax(r->peaks[kind], device_peak_rate(r->devices[0], (PeakKind)kind));
    return true;
}

static bool measure(Run *r, Error *error) {
    int runs =
        option_given(r->options, OPTION_REPETITIONS) ? (int)r->options->repetitions : USUAL_RUNS;
    for (int i = 0; i < r->n_lines; i++)
        for (int k = 0; k < r->batches.count; k++)
            r->lines[i].seconds[k] = INFINITY;
    Progress progress;
    bool good = true;
    progress_begin(&progress, "bench", r->options->quiet);
    for (int i = 0; good && i < runs; i++) {
        good = run_once(r, error);
        progress_update(&progress, (i + 1.0) / runs);
    }
    progress_end(&progress);
    return good;
}

// ---- figures ----

static double operations(int n) {
    return 2.0 * n * ROWS * COLS;
}

// The largest Gop/s of any number of rows: a prompt's.
static double most_gops(const Run *r, const Line *line) {
    double most = 0;
    for (int k = 0; k < r->batches.count; k++)
        most = fmax(most, operations(r->batches.values[k]) / line->seconds[k] / 1e9);
    return most;
}

// What n rows would take if nothing but reading the weights, or multiplying at a prompt's rate,
// took time.
static double least_seconds(const Run *r, const Line *line, int n) {
    double multiplying = operations(n) / (most_gops(r, line) * 1e9);
    return line->read > 0 ? fmax(multiplying, (double)line->stored_bytes / line->read)
                          : multiplying;
}

static double peak_gops(const Run *r, const Line *line, int n) {
    Arithmetic a = project_arithmetic(line->device, line->matrix, n);
    return r->peaks[a.kind] / a.products / 1e9;
}

// ---- printing ----

// A limit, or a dash where it was not measured.
static void print_limit(int width, int decimals, double value) {
    if (value > 0)
        output_print(" %*.*f", width, decimals, value);
    else
        output_print(" %*s", width, "-");
}

static void print_text(const Run *r) {
    output_print(
        "a matrix of %d x %d times rows of input; %s%s\n"
        "giga-operations/s, and %% of what reading the weights (a buffer of their size) and "
        "the rate of\nthe most rows allow\n\n%-5s %-9s %9s %10s",
        ROWS, COLS, device_info(r->devices[0])->description, build_remark(), "type", "precision",
        "read GB/s", "peak Gop/s");
    for (int k = 0; k < r->batches.count; k++)
        output_print(" %9d row%s", r->batches.values[k], r->batches.values[k] == 1 ? " " : "s");
    output_print("\n");
    for (int i = 0; i < r->n_lines; i++) {
        const Line *line = &r->lines[i];
        output_print("%-5s %-9s", dtype_info(line->dtype)->name, precision_name(line->precision));
        print_limit(9, 1, line->read / 1e9);
        print_limit(10, 0, peak_gops(r, line, r->most_rows));
        for (int k = 0; k < r->batches.count; k++) {
            int n = r->batches.values[k];
            output_print(" %7.1f %4.0f %%", operations(n) / line->seconds[k] / 1e9,
                         100 * least_seconds(r, line, n) / line->seconds[k]);
        }
        output_print("\n");
    }
}

// A figure of a line and a number of rows, for scripts.
typedef struct Figures {
    const char *key;
    double value;
} Figures;
enum { N_FIGURES = 6 };

static void figures_of(Figures *to, const Run *r, const Line *line, int k) {
    int n = r->batches.values[k];
    double seconds = line->seconds[k], gops = operations(n) / seconds / 1e9;
    double gb = (double)line->stored_bytes / seconds / 1e9;
    const Figures figures[N_FIGURES] = {
        {"seconds", seconds},
        {"gop_per_second", gops},
        {"gb_per_second", gb},
        {"share_of_read", gb * 1e9 / line->read},
        {"share_of_peak", gops / peak_gops(r, line, n)},
        {"share_of_most_rows", least_seconds(r, line, n) / seconds},
    };
    memcpy(to, figures, sizeof figures);
}

static void print_csv(const Run *r) {
    Figures figures[N_FIGURES];
    output_print("type,precision,rows,seconds,gop_per_second,gb_per_second,share_of_read,"
                 "share_of_peak,share_of_most_rows\n");
    for (int i = 0; i < r->n_lines; i++)
        for (int k = 0; k < r->batches.count; k++) {
            figures_of(figures, r, &r->lines[i], k);
            output_print("%s,%s,%d", dtype_info(r->lines[i].dtype)->name,
                         precision_name(r->lines[i].precision), r->batches.values[k]);
            for (int f = 0; f < N_FIGURES; f++)
                if (isfinite(figures[f].value))
                    output_print(",%.9g", figures[f].value);
                else
                    output_print(",");
            output_print("\n");
        }
}

static void print_json(const Run *r) {
    JsonWriter w = {0};
    Figures figures[N_FIGURES];
    writer_begin(&w, NULL, '{');
    writer_string(&w, "device", device_info(r->devices[0])->description);
    writer_integer(&w, "matrix_rows", ROWS);
    writer_integer(&w, "matrix_cols", COLS);
    writer_begin(&w, "rows", '[');
    for (int i = 0; i < r->n_lines; i++)
        for (int k = 0; k < r->batches.count; k++) {
            figures_of(figures, r, &r->lines[i], k);
            writer_begin(&w, NULL, '{');
            writer_string(&w, "type", dtype_info(r->lines[i].dtype)->name);
            writer_string(&w, "precision", precision_name(r->lines[i].precision));
            writer_integer(&w, "rows", r->batches.values[k]);
            for (int f = 0; f < N_FIGURES; f++)
                writer_number(&w, figures[f].key, figures[f].value);
            writer_end(&w, '}');
        }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

// ---- the command ----

static bool check_options(const Options *o, Error *error) {
    static const struct {
        OptionId id;
        const char *name;
    } OTHERS[] = {
        {OPTION_PROMPT_LENGTHS, "pp"},   {OPTION_DEPTHS, "depth"},     {OPTION_GEN, "gen"},
        {OPTION_ONLY, "only"},           {OPTION_PATTERN, "pattern"},  {OPTION_KV, "kv"},
        {OPTION_TOKENIZER, "tokenizer"}, {OPTION_MARKDOWN, "markdown"}};
    if (strcmp(o->model, "builtin") != 0)
        return error_set(error, ERROR_USAGE,
                         "bench --projections has random weights of its own: leave the model out");
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (option_given(o, OTHERS[i].id))
            return error_set(error, ERROR_USAGE, "--%s is not of bench --projections",
                             OTHERS[i].name);
    return o->threads.count == 1 ||
           error_set(error, ERROR_USAGE, "bench --projections takes one number of threads");
}

static bool open_devices(Run *r, Error *error) {
    static const Precision BOTH[] = {PRECISION_A16, PRECISION_A8};
    const Options *o = r->options;
    if (option_given(o, OPTION_PRECISION))
        return open_precision(r, 0, (Precision)o->precision, error);
    return open_precision(r, 0, BOTH[0], error) && open_precision(r, 1, BOTH[1], error);
}

bool bench_projections(const Options *o, Error *error) {
    static const IntegerList BATCHES = {{1, 2, 4, 8, 16, 512}, 6};
    Run *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, ERROR_MEMORY, "out of memory");
    r->options = o;
    r->batches = option_given(o, OPTION_BATCHES) ? o->batches : BATCHES;
    for (int i = 0; i < r->batches.count; i++)
        if (r->batches.values[i] > r->most_rows) r->most_rows = r->batches.values[i];
    bool good = check_options(o, error) && open_devices(r, error) && measure(r, error);
    if (good && o->json)
        print_json(r);
    else if (good && o->csv)
        print_csv(r);
    else if (good)
        print_text(r);
    for (int i = 0; i < 2; i++)
        device_close(r->devices[i]);
    free(r);
    return good;
}

// bench: tokens per second, and how far that is from what the machine can do.
//
// Prompts are a fixed pseudo-random sequence of ids, so that the cache can be kept between
// repetitions: position p always holds the same token. Decoding is greedy. Measurements are
// interleaved: each repetition samples the limits and then every row. The figures are medians.
//
//   options -> session -> context of the longest row -> for each number of threads: open a model
//     -> add its rows -> warm up -> repetitions (limits, then every row) -> figures, close it
//   -> print all rows
//
// A row is a combination of prompt length or decoding, depth, batch and threads. Here: what is run
// and timed. bench/cost.c counts bytes and operations, bench/limits.c samples the machine,
// bench/report.c prints. --attention, --projections and --no-cache go their own ways:
// bench/attention.c, bench/projections.c, bench/no_cache.c.
#include "commands/bench/bench.h"
#include "base/transport/transport.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "kernels/limits.h"
#include "kernels/precision.h"
#include "model/decoder.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One sample of a row lasts at least so long: a small model is run several times.
static const double SAMPLE_SECONDS = 0.2;
enum { WARM_UP_TOKENS = 16 };

typedef struct Bench {
    Options options; // with what depends on the model filled in
    Session session;
    BenchReport *report;
    int first_row;                           // of this number of threads
    double (*samples)[BENCH_MAX_SAMPLES];    // (BENCH_MAX_ROWS) seconds of one run
    double (*idle)[BENCH_MAX_SAMPLES];       // (BENCH_MAX_ROWS) of these the GPU waited
    int32_t *tokens, *positions, *sequences; // of the largest batch
    bool *wants;
    Progress progress;
} Bench;

// ---- running ----

// A token id from the position alone, by a mixing function in the manner of splitmix64.
int32_t bench_token(const Session *s, int position) {
    uint64_t z = (uint64_t)position * 0x9e3779b97f4a7c15u + 0x853c49e6748fea9bu;
    z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9u;
    return (int32_t)((z ^ (z >> 29)) % (uint64_t)s->config->vocab_size);
}

// One pass of `count` tokens per sequence from position `start` on, with the logits of each
// sequence's last token, or of all tokens.
static bool pass(Bench *b, int batch, int start, int count, bool all_logits, Error *error) {
    int n = 0;
    for (int q = 0; q < batch; q++)
        for (int i = 0; i < count; i++, n++) {
            b->tokens[n] = bench_token(&b->session, start + i);
            b->positions[n] = start + i;
            b->sequences[n] = q;
            b->wants[n] = all_logits || i + 1 == count;
        }
    Batch all = {n, b->tokens, b->positions, b->sequences, b->wants, false};
    return session_forward(&b->session, &all, error);
}

// Brings the first `batch` sequences to `depth` tokens.
static bool set_depth(Bench *b, int batch, int depth, Error *error) {
    KvCache *cache = &b->session.model->cache;
    int length = kv_cache_go_back(cache, 0, depth);
    if (length < depth && !pass(b, 1, length, depth - length, false, error)) return false;
    for (int q = 1; q < batch; q++)
        kv_cache_copy(cache, q, 0);
    return true;
}

// `length` tokens of each sequence, greedy; the first passes take the tokens at `depth`. The
// prompt's logits are not needed: decoding starts from a given token.
static bool decode(Bench *b, int batch, int depth, int length, Error *error) {
    for (int q = 0; q < batch; q++)
        b->tokens[q] = bench_token(&b->session, depth);
    Decoder d = {0};
    DecoderOptions options = {
        .max_tokens = (size_t)length, .first = b->tokens, .n_sequences = batch};
    bool good = decoder_begin(&d, b->session.model, &options, error);
    for (int i = 0; good && i < length; i++)
        good = decoder_next(&d, error) >= 0;
    decoder_end(&d);
    return session_result(&b->session, good, error);
}

typedef struct Run {
    bool watch;
    double seconds; // by the host's clock
    double idle;    // of these, in which the GPU waited for the host, where it was watched
} Run;

// One run of a row: bring the cache to its depth (not timed), then prefill or decode (timed).
static bool run_row(Bench *b, const BenchRow *row, int length, Run *run, Error *error) {
    int batch = (int)row->batch, depth = (int)row->depth;
    Device *device = b->session.model->device;
    if (!set_depth(b, batch, depth, error)) return false;
    (void)device_idle_seconds(device, run->watch);
    double started = seconds_now();
    bool all = b->options.all_logits;
    bool good = row->prefill ? pass(b, batch, depth, length, all, error)
                             : decode(b, batch, depth, length, error);
    run->seconds = seconds_now() - started;
    run->idle = device_idle_seconds(device, false);
    return good;
}

// A host that is the device itself has no tokens ahead.
static bool has_gpu(const Bench *b) {
    return device_info(b->session.model->device)->pipeline_depth > 0;
}

// The mean of as many runs as fill the sample; then, where there is a GPU, one that is watched.
static bool sample_row(Bench *b, int index, int repetition, Error *error) {
    const BenchRow *row = &b->report->rows[index];
    double total = 0;
    int runs = 0;
    Run run = {0};
    for (; total < SAMPLE_SECONDS; total += run.seconds, runs++)
        if (!run_row(b, row, (int)row->length, &run, error)) return false;
    b->samples[index][repetition] = total / runs;
    b->idle[index][repetition] = 0;
    if (row->prefill || !has_gpu(b)) return true;
    run.watch = true;
    if (!run_row(b, row, (int)row->length, &run, error)) return false;
    b->idle[index][repetition] = run.idle;
    return true;
}

// Runs every row once, decoding at most WARM_UP_TOKENS: memory is touched, caches and clocks
// settle, and a GPU records its graphs before anything is timed.
static bool warm_up(Bench *b, Error *error) {
    const BenchReport *r = b->report;
    Run run = {0};
    for (int i = b->first_row; i < r->n_rows; i++) {
        const BenchRow *row = &r->rows[i];
        bool all = row->prefill || row->length < WARM_UP_TOKENS;
        if (!run_row(b, row, all ? (int)row->length : WARM_UP_TOKENS, &run, error)) return false;
    }
    return true;
}

// `done` and `share`: what of the progress bar is full already, and what is this call's part.
static bool run_repetitions(Bench *b, Limits *limits, double done, double share, Error *error) {
    BenchReport *r = b->report;
    int repetitions = (int)b->session.options->repetitions;
    for (int n = 0; n < repetitions; n++) {
        if (!b->options.no_limits) limits_round(limits);
        for (int i = b->first_row; i < r->n_rows; i++)
            if (!sample_row(b, i, n, error)) return false;
        progress_update(&b->progress, done + share * (n + 1) / repetitions);
    }
    return true;
}

// ---- figures ----

// From the samples to the figures of a row. Sorting the samples makes the first the fastest.
// Figures that do not apply stay NaN: of decoding for a prefill, and the other way round.
static void finish_row(const Bench *b, int index, const LimitFigures *limits) {
    BenchRow *row = &b->report->rows[index];
    double *seconds = b->samples[index];
    const Session *s = &b->session;
    BenchOperations operations = bench_operations(s, row);
    double tokens = row->length * row->batch;
    row->seconds = median_of(seconds, (int)s->options->repetitions); // sorts them
    row->tokens_per_second = tokens / row->seconds;
    row->most = tokens / seconds[0];
    row->least = tokens / seconds[s->options->repetitions - 1];
    row->gflop_per_second = operations.all / row->seconds / 1e9;
    row->share_of_peak = bench_peak_seconds(&operations, limits) / row->seconds;
    row->peak = operations.most;
    row->bytes_per_token = row->gb_per_second = row->share_of_read = row->share_of_memory = NAN;
    row->share_of_products = row->idle_us = NAN;
    if (row->prefill) {
        double products = s->options->no_limits ? 0 : bench_product_seconds(s, row);
        if (products > 0) row->share_of_products = products / row->seconds;
        return;
    }
    if (has_gpu(b))
        row->idle_us = median_of(b->idle[index], (int)s->options->repetitions) / row->length * 1e6;
    row->bytes_per_token = bench_decode_bytes(s, row);
    row->gb_per_second = row->bytes_per_token * row->tokens_per_second / 1e9;
    row->share_of_read = row->gb_per_second * 1e9 / limits->model_read;
    // Bandwidth is the limit of decoding: each weight is read once per pass, for a few operations.
    // Weights that a cache holds do not come from memory.
    if (limits->model_read < 1.1 * limits->memory_read)
        row->share_of_memory = row->gb_per_second * 1e9 / limits->memory_read;
}

// ---- rows ----

static bool add_row(BenchReport *r, BenchRow row, Error *error) {
    if (r->n_rows == BENCH_MAX_ROWS)
        return error_set(error, ERROR_USAGE, "more than %d combinations", BENCH_MAX_ROWS);
    r->rows[r->n_rows++] = row;
    return true;
}

// All combinations for one number of threads: for each depth and batch, the prompt lengths, then
// decoding. False: exit code 2, more than BENCH_MAX_ROWS.
static bool add_rows(BenchReport *r, const Options *o, int threads, Error *error) {
    for (int d = 0; d < o->depths.count; d++)
        for (int q = 0; q < o->batches.count; q++) {
            BenchRow row = {.threads = threads,
                            .depth = o->depths.values[d],
                            .batch = o->batches.values[q],
                            .prefill = true};
            for (int p = 0; o->only != BENCH_DECODE && p < o->prompt_lengths.count; p++) {
                row.length = o->prompt_lengths.values[p];
                if (!add_row(r, row, error)) return false;
            }
            row.prefill = false;
            row.length = (double)o->gen;
            if (o->only != BENCH_PREFILL && !add_row(r, row, error)) return false;
        }
    return true;
}

static int largest(const IntegerList *list) {
    int most = 0;
    for (int i = 0; i < list->count; i++)
        if (list->values[i] > most) most = list->values[i];
    return most;
}

// Positions that the longest row needs; 0 with exit code 2 where the model has fewer.
static int needed_context(const Session *s, Error *error) {
    const Options *o = s->options;
    int64_t length = 0;
    if (o->only != BENCH_DECODE) length = largest(&o->prompt_lengths);
    if (o->only != BENCH_PREFILL && o->gen > length) length = o->gen;
    int64_t needed = largest(&o->depths) + length;
    if (needed <= s->config->max_seq_len) return (int)needed;
    error_set(error, ERROR_USAGE,
              "%" PRId64 " positions are needed (depth and length), the model's context is %d; "
              "give smaller --prompt-length, --gen or --depth",
              needed, s->config->max_seq_len);
    return 0;
}

static int most_logits(const Options *o) {
    int64_t batch = largest(&o->batches);
    int64_t most = o->all_logits ? batch * largest(&o->prompt_lengths) : batch;
    return most < INT_MAX ? (int)most : INT_MAX;
}

// The largest batch is a prompt for all sequences, or the pass that fills the cache to a depth.
static bool allocate(Bench *b, Error *error) {
    const Options *o = b->session.options;
    size_t rows = (size_t)largest(&o->prompt_lengths) * (size_t)largest(&o->batches);
    size_t deepest = (size_t)largest(&o->depths) + 1;
    if (rows < deepest) rows = deepest;
    b->tokens = calloc(rows, sizeof *b->tokens);
    b->positions = calloc(rows, sizeof *b->positions);
    b->sequences = calloc(rows, sizeof *b->sequences);
    b->wants = calloc(rows, sizeof *b->wants);
    b->samples = calloc(BENCH_MAX_ROWS, sizeof *b->samples);
    b->idle = calloc(BENCH_MAX_ROWS, sizeof *b->idle);
    if (b->tokens && b->positions && b->sequences && b->wants && b->samples && b->idle) return true;
    return error_set(error, ERROR_MEMORY, "out of memory for the rows of the benchmark");
}

// Everything with one number of threads: a model of its own.
static bool bench_threads(Bench *b, int index, int context, Error *error) {
    Session *s = &b->session;
    const Options *o = s->options;
    BenchReport *r = b->report;
    SessionModel wanted = {.context = context,
                           .threads = o->threads.values[index],
                           .n_sequences = largest(&o->batches),
                           .max_logit_rows = most_logits(o)};
    double started = seconds_now();
    if (!session_open_model(s, &wanted, error)) return false;
    if (!index) r->load_seconds = seconds_now() - started;
    if (!index) r->weight_bytes = bench_weight_bytes(s);
    int threads = device_info(s->model->device)->threads;
    snprintf(r->device, sizeof r->device, "%s", device_info(s->model->device)->description);
    b->first_row = r->n_rows;
    Limits limits = limits_begin(s->model->device, r->weight_bytes);
    bool good = add_rows(r, o, threads, error) && warm_up(b, error);
    if (!index) r->peak_memory = peak_memory_bytes(); // before the limits take their buffer
    double share = 1.0 / o->threads.count;
    good = good && run_repetitions(b, &limits, index * share, share, error);
    LimitFigures figures = limits_figures(&limits);
    if (good && !o->no_limits) r->limits[r->n_limits++] = (BenchLimits){threads, figures};
    for (int i = b->first_row; good && i < r->n_rows; i++)
        finish_row(b, i, &figures);
    const Error *failure = device_error(s->model->device); // of what the limits asked for
    if (good && failure->code) good = error_copy(error, failure);
    session_close_model(s);
    return good;
}

// The default prompt is no longer than the model's context.
static void fit_defaults(Bench *b) {
    int context = b->session.config->max_seq_len;
    IntegerList *lengths = &b->options.prompt_lengths;
    if (!option_given(&b->options, OPTION_PROMPT_LENGTHS) && lengths->values[0] > context)
        lengths->values[0] = context;
    if (!option_given(&b->options, OPTION_GEN) && b->options.gen > context)
        b->options.gen = context;
}

static bool check_options(const Options *o, Error *error) {
    if (o->json + o->csv + o->markdown > 1)
        return error_set(error, ERROR_USAGE, "one of --json, --csv and --markdown");
    if (o->attention && o->no_cache)
        return error_set(error, ERROR_USAGE, "--attention has rows without the cache itself");
    if (o->projections && (o->attention || o->no_cache))
        return error_set(error, ERROR_USAGE, "--projections is a table of its own");
    if (!o->projections && option_given(o, OPTION_COST_TYPE))
        return error_set(error, ERROR_USAGE, "--type is of bench --projections");
    bool rows = !o->projections && !o->attention && !o->no_cache;
    if (rows && o->only == BENCH_DECODE && option_given(o, OPTION_PROMPT_LENGTHS))
        return error_set(error, ERROR_USAGE, "--only decode has no rows of --pp");
    if (rows && o->only == BENCH_PREFILL && option_given(o, OPTION_GEN))
        return error_set(error, ERROR_USAGE, "--only prefill has no rows of --gen");
    if (o->all_logits && (!rows || o->only == BENCH_DECODE))
        return error_set(error, ERROR_USAGE, "--all-logits needs rows of --pp");
    return true;
}

bool bench_command(const Options *options, Error *error) {
    if (!check_options(options, error)) return false;
    if (options->attention) return bench_attention(options, error);
    if (options->projections) return bench_projections(options, error);
    if (options->no_cache) return bench_no_cache(options, error);
    Bench *b = calloc(1, sizeof *b); // with its options and session too large for the stack
    BenchReport *report = calloc(1, sizeof *report);
    if (!b || !report) {
        free(b);
        free(report);
        return error_set(error, ERROR_MEMORY, "out of memory");
    }
    b->options = *options;
    // Limits are those of one process, which has a part of the weights.
    if (transport_count() > 1) b->options.no_limits = true;
    b->report = report;
    report->session = &b->session;
    int context = 0;
    bool good = session_open(&b->session, &b->options, error);
    if (good) fit_defaults(b);
    good = good && (context = needed_context(&b->session, error)) && allocate(b, error);
    progress_begin(&b->progress, "bench", options->quiet);
    for (int i = 0; good && i < options->threads.count; i++)
        good = bench_threads(b, i, context, error);
    progress_end(&b->progress);
    if (good) bench_print(report);
    free(b->tokens);
    free(b->positions);
    free(b->sequences);
    free(b->wants);
    free(b->samples);
    free(b->idle);
    free(report);
    session_close(&b->session);
    free(b);
    return good;
}

// bench --no-cache: n tokens one after another, with the cache and with all tokens so far run again
// for each, beside what cost --savings predicts. The tokens are given, so both ways do the same
// work; whether their logits have the same bits is found in the first run, which is not timed.
#include "base/hash.h"
#include "commands/bench/bench.h"
#include "commands/shared/output.h"
#include "model/cost.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_LENGTH = 100, MOST_LENGTHS = 6 };

typedef struct Length {
    int n;
    double samples[2][BENCH_MAX_SAMPLES]; // seconds: with the cache, without
    double seconds[2];                    // medians
    bool same_bits;                       // of all logits
    CacheSavings predicted;
} Length;

typedef struct Run {
    Options options; // with what depends on the model filled in
    Session session;
    Length *lengths;
    int count;
    int32_t *tokens; // of the longest
    Progress progress;
} Run;

// Takes n tokens; *hash, unless NULL, becomes that of all logits.
static bool take_tokens(Run *r, int n, bool cached, uint64_t *hash, Error *error) {
    KvCache *cache = &r->session.model->cache;
    size_t row = (size_t)r->session.config->vocab_size * sizeof(float);
    kv_cache_reset(cache, 0);
    for (int t = 0; t < n; t++) {
        int first = cached ? t : 0;
        if (!cached) kv_cache_reset(cache, 0);
        Batch batch = {.n = t + 1 - first, .tokens = r->tokens + first};
        if (!session_forward(&r->session, &batch, error)) return false;
        if (hash) *hash = fnv1a(*hash, model_logits(r->session.model, 0), row);
    }
    return true;
}

static bool warm_up(Run *r, Error *error) {
    for (int i = 0; i < r->count; i++) {
        uint64_t hashes[2] = {FNV_START, FNV_START};
        for (int way = 0; way < 2; way++)
            if (!take_tokens(r, r->lengths[i].n, !way, &hashes[way], error)) return false;
        r->lengths[i].same_bits = hashes[0] == hashes[1];
    }
    return true;
}

static bool measure(Run *r, Error *error) {
    int repetitions = (int)r->options.repetitions;
    for (int k = 0; k < repetitions; k++) {
        for (int i = 0; i < r->count; i++)
            for (int way = 0; way < 2; way++) {
                double started = seconds_now();
                if (!take_tokens(r, r->lengths[i].n, !way, NULL, error)) return false;
                r->lengths[i].samples[way][k] = seconds_now() - started;
            }
        progress_update(&r->progress, (k + 1.0) / repetitions);
    }
    for (int i = 0; i < r->count; i++) {
        Length *l = &r->lengths[i];
        for (int way = 0; way < 2; way++)
            l->seconds[way] = median_of(l->samples[way], repetitions);
        l->predicted = cache_savings(r->session.config, l->n);
    }
    return true;
}

// The lengths of cost --savings below --gen, and --gen itself.
static bool open_lengths(Run *r, Error *error) {
    static const int LENGTHS[] = {10, 50, 100, 200, 500};
    const Config *c = r->session.config;
    int64_t last = option_given(&r->options, OPTION_GEN) ? r->options.gen : USUAL_LENGTH;
    if (!option_given(&r->options, OPTION_GEN) && last > c->max_seq_len) last = c->max_seq_len;
    if (last > c->max_seq_len)
        return error_set(error, ERROR_USAGE, "--gen: got %" PRId64 ", the model's context is %d",
                         last, c->max_seq_len);
    r->lengths = calloc(MOST_LENGTHS, sizeof *r->lengths);
    r->tokens = malloc((size_t)last * sizeof *r->tokens);
    if (!r->lengths || !r->tokens)
        return error_set(error, ERROR_MEMORY, "out of memory for %" PRId64 " tokens", last);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS && LENGTHS[i] < last; i++)
        r->lengths[r->count++].n = LENGTHS[i];
    r->lengths[r->count++].n = (int)last;
    for (int t = 0; t < (int)last; t++)
        r->tokens[t] = bench_token(&r->session, t);
    return true;
}

// ---- the report ----

// A number of a row: for people with a title of two lines, width and decimals.
enum { N_COLUMNS = 9 };
static const struct Column {
    const char *key, *title[2];
    int width, decimals;
} COLUMNS[N_COLUMNS] = {
    {"tokens", {"", "tokens"}, 6, 0},
    {"seconds_without", {"seconds", "without"}, 9, 4},
    {"seconds_with", {"seconds", "with"}, 9, 4},
    {"tokens_per_second_without", {"tokens/s", "without"}, 9, 1},
    {"tokens_per_second_with", {"tokens/s", "with"}, 9, 1},
    {"speed_up", {"measured", "ratio"}, 9, 2},
    {"flops_ratio", {"FLOP", "ratio"}, 9, 2},
    {"rows_ratio", {"rows", "ratio"}, 9, 1},
    {"same_bits", {"same", "bits"}, 5, 0},
};

static void values_of(const Length *l, double values[N_COLUMNS]) {
    const CacheSavings *p = &l->predicted;
    const double all[N_COLUMNS] = {l->n,
                                   l->seconds[1],
                                   l->seconds[0],
                                   l->n / l->seconds[1],
                                   l->n / l->seconds[0],
                                   l->seconds[1] / l->seconds[0],
                                   p->flops_without / p->flops_with,
                                   p->rows_without / p->rows_with,
                                   l->same_bits};
    memcpy(values, all, sizeof all);
}

static void print_text(const Run *r) {
    char path[256];
    const char *name = checkpoint_path(r->session.checkpoint);
    output_print("%s\n%s\nn tokens one after another, without the cache and with it: medians of "
                 "%" PRId64 " runs, interleaved;\nthe ratios of FLOPs and of rows through the "
                 "layers are those of cost --savings\n\n",
                 escape_bytes(path, sizeof path, name, strlen(name)),
                 device_info(r->session.model->device)->description, r->options.repetitions);
    for (int line = 0; line < 2; line++)
        for (int c = 0; c < N_COLUMNS; c++)
            output_print("%*s%s", COLUMNS[c].width, COLUMNS[c].title[line],
                         c + 1 < N_COLUMNS ? " " : "\n");
    for (int i = 0; i < r->count; i++) {
        double values[N_COLUMNS];
        values_of(&r->lengths[i], values);
        for (int c = 0; c + 1 < N_COLUMNS; c++)
            output_print("%*.*f ", COLUMNS[c].width, COLUMNS[c].decimals, values[c]);
        output_print("%5s\n", r->lengths[i].same_bits ? "yes" : "no");
    }
}

static void print_csv(const Run *r) {
    for (int c = 0; c < N_COLUMNS; c++)
        output_print("%s%s", c ? "," : "", COLUMNS[c].key);
    output_print("\n");
    for (int i = 0; i < r->count; i++) {
        double values[N_COLUMNS];
        values_of(&r->lengths[i], values);
        for (int c = 0; c < N_COLUMNS; c++)
            output_print("%s%.9g", c ? "," : "", values[c]);
        output_print("\n");
    }
}

// docs/scripting.md describes the keys.
static void print_json(const Run *r) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "file", checkpoint_path(r->session.checkpoint));
    writer_string(&w, "device", device_info(r->session.model->device)->description);
    writer_integer(&w, "repetitions", r->options.repetitions);
    writer_begin(&w, "rows", '[');
    for (int i = 0; i < r->count; i++) {
        double values[N_COLUMNS];
        values_of(&r->lengths[i], values);
        writer_begin(&w, NULL, '{');
        for (int c = 0; c + 1 < N_COLUMNS; c++)
            writer_number(&w, COLUMNS[c].key, values[c]);
        writer_bool(&w, "same_bits", r->lengths[i].same_bits);
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
    } OTHERS[] = {{OPTION_PROMPT_LENGTHS, "pp"}, {OPTION_DEPTHS, "depth"},
                  {OPTION_BATCHES, "batch"},     {OPTION_PATTERN, "pattern"},
                  {OPTION_ONLY, "only"},         {OPTION_NO_LIMITS, "no-limits"},
                  {OPTION_MARKDOWN, "markdown"}};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (option_given(o, OTHERS[i].id))
            return error_set(error, ERROR_USAGE,
                             "bench --no-cache takes --gen tokens of one sequence, and no --%s",
                             OTHERS[i].name);
    return o->threads.count == 1 ||
           error_set(error, ERROR_USAGE, "bench --no-cache takes one number of threads");
}

bool bench_no_cache(const Options *o, Error *error) {
    Run r = {.options = *o};
    bool good = check_options(o, error) && session_open(&r.session, &r.options, error) &&
                open_lengths(&r, error);
    SessionModel wanted = {.context = good ? r.lengths[r.count - 1].n : 0};
    good = good && session_open_model(&r.session, &wanted, error);
    progress_begin(&r.progress, "bench", o->quiet);
    good = good && warm_up(&r, error) && measure(&r, error);
    progress_end(&r.progress);
    if (good && o->json)
        print_json(&r);
    else if (good && o->csv)
        print_csv(&r);
    else if (good)
        print_text(&r);
    free(r.lengths);
    free(r.tokens);
    session_close(&r.session);
    return good;
}

// bench --attention: one layer's attention with random weights, so that shapes can be compared
// without a model. Four tables:
//
//   kinds    MHA, GQA and MQA: a pass of all positions through wq wk wv, cache, attention, wo
//   heads    the same width cut into 4, 16 and 32 heads
//   online   attention alone: the backend's kernel, and all scores stored (attention_naive)
//   cache    n tokens one after another, and all tokens so far again for each
//
// Each table has a device of its own. A run takes every row of the table once, in both ways where
// there are two; the figures are medians over the runs.
#include "base/hash.h"
#include "commands/bench/bench.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIM = ATTENTION_DIM,
    HEADS = 8,
    QUERIES = 32, // of "online": the last positions of a context
    FILL = 512,   // positions that a call writes to its cache
    MOST_BLOCKS = OPTIONS_MAX_LIST,
    USUAL_RUNS = 100,
    USUAL_POSITIONS = 128,
    USUAL_BATCH = 4,
};
static const double MOST_BYTES = 4.0 * (1u << 30);

typedef struct Block {
    AttentionShape shape;
    int batch, positions;
    DeviceMatrix *wq, *wk, *wv, *wo; // NULL: attention alone
    Kv *kv;
} Block;

typedef enum Way { WAY_PASS, WAY_ONLINE, WAY_NAIVE, WAY_CACHED, WAY_RECOMPUTED } Way;

// A line of the table before it is measured.
typedef struct Item {
    const Block *block;
    Way ways[2];
    int n_ways, n; // n: tokens of "cache"
    AttentionRow row;
} Item;

typedef struct Table {
    Device *device;
    KvType kv;
    int max_rows, batch, positions; // of the largest block
    Block blocks[MOST_BLOCKS];
    int n_blocks;
    Item items[MOST_BLOCKS];
    int n_items;
    float *weights;                         // host (4, DIM, DIM): the blocks share it
    float *x, *q, *k, *v, *attended, *out;  // (max_rows, DIM)
    float *scores;                          // (QUERIES, HEADS, positions) of "online", or NULL
    int32_t *row_positions, *row_sequences; // (batch * positions)
    float *host[2];                         // (max_rows, DIM)
    double *samples;                        // (n_items, 2, runs) seconds
} Table;

// The lists of a run with their defaults, which are not those of bench with a model.
typedef struct Sizes {
    int runs, positions, batch;
    IntegerList contexts;
} Sizes;

// ---- random numbers ----

// Uniform, with deviation 1.
static float noise(uint64_t *state) {
    return ((float)(splitmix64(state) >> 40) * 0x1p-23f - 1) * sqrtf(3);
}

static void upload_noise(Table *t, float *to, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++)
        t->host[0][i] = noise(&seed);
    device_upload(t->device, to, t->host[0], count * sizeof(float));
}

// ---- memory ----

static DeviceMatrix *matrix(Table *t, int index, int rows, int cols) {
    Matrix m = {.dtype = DTYPE_F32,
                .rows = (size_t)rows,
                .cols = (size_t)cols,
                .data = t->weights + (size_t)index * DIM * DIM};
    return device_matrix(t->device, &m);
}

static const Block *add_block(Table *t, int heads, int kv_heads, int batch, int positions,
                              bool whole) {
    Block *b = &t->blocks[t->n_blocks++];
    int head_dim = DIM / heads, kv_dim = kv_heads * head_dim;
    b->batch = batch;
    b->positions = positions;
    b->shape = (AttentionShape){heads, kv_heads, head_dim, 1 / sqrtf((float)head_dim), {0}, 0};
    if (whole) {
        b->wq = matrix(t, 0, DIM, DIM);
        b->wk = matrix(t, 1, kv_dim, DIM);
        b->wv = matrix(t, 2, kv_dim, DIM);
        b->wo = matrix(t, 3, DIM, DIM);
    }
    b->kv = kv_open(t->device, &(KvShape){1, batch, kv_heads, head_dim, positions, t->kv, NULL, 0});
    return b;
}

static bool upload_rows(Table *t, Error *error) {
    size_t n = (size_t)t->batch * (size_t)t->positions;
    int32_t *positions = malloc(2 * n * sizeof *positions);
    if (!positions) return error_set(error, ERROR_MEMORY, "out of memory for %zu rows", n);
    int32_t *sequences = positions + n;
    for (size_t i = 0; i < n; i++) {
        positions[i] = (int32_t)(i % (size_t)t->positions);
        sequences[i] = (int32_t)(i / (size_t)t->positions);
    }
    t->row_positions = device_alloc(t->device, n * sizeof *positions);
    t->row_sequences = device_alloc(t->device, n * sizeof *positions);
    if (t->row_positions && t->row_sequences) {
        device_upload(t->device, t->row_positions, positions, n * sizeof *positions);
        device_upload(t->device, t->row_sequences, sequences, n * sizeof *positions);
    }
    free(positions);
    return true;
}

static bool device_state(const Table *t, Error *error) {
    const Error *failure = device_error(t->device);
    return !failure->code || error_copy(error, failure);
}

// The device and what all blocks share, for blocks of `batch` sequences of up to `positions`.
static bool table_open(Table *t, const AttentionReport *r, int batch, int positions, int max_rows,
                       Error *error) {
    const Options *o = r->options;
    *t = (Table){.kv = r->kv, .max_rows = max_rows, .batch = batch, .positions = positions};
    size_t floats = (size_t)max_rows * DIM, all = (size_t)4 * DIM * DIM;
    t->device = device_open(o->threads.values[0], (Precision)o->precision);
    t->weights = malloc(all * sizeof *t->weights);
    t->host[0] = malloc(floats * sizeof(float));
    t->host[1] = malloc(floats * sizeof(float));
    t->samples = malloc((size_t)MOST_BLOCKS * 2 * (size_t)r->runs * sizeof *t->samples);
    if (!t->device || !t->weights || !t->host[0] || !t->host[1] || !t->samples)
        return error_set(error, ERROR_MEMORY, "out of memory for a table of bench --attention");
    uint64_t seed = 0;
    for (size_t i = 0; i < all; i++)
        t->weights[i] = noise(&seed) / sqrtf(DIM);
    float **const buffers[] = {&t->x, &t->q, &t->k, &t->v, &t->attended, &t->out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        *buffers[i] = device_alloc(t->device, floats * sizeof(float));
    return device_state(t, error) && upload_rows(t, error) && device_state(t, error);
}

// After the blocks.
static bool table_ready(Table *t, Error *error) {
    if (!device_state(t, error)) return false;
    device_reserve(t->device, t->max_rows);
    if (device_state(t, error)) upload_noise(t, t->x, (size_t)t->max_rows * DIM, 1);
    return device_state(t, error);
}

static void table_close(Table *t) {
    for (int i = 0; i < t->n_blocks; i++)
        kv_close(t->device, t->blocks[i].kv);
    device_close(t->device);
    free(t->weights);
    free(t->host[0]);
    free(t->host[1]);
    free(t->samples);
}

// ---- the ways ----

static Rows rows_at(const Table *t, int first, int n) {
    return (Rows){n, t->row_positions + first, t->row_positions + first, t->row_sequences + first};
}

// Rows first .. first + n - 1 through the whole block.
static void run_pass(Table *t, const Block *b, int first, int n) {
    Device *d = t->device;
    KvView view = {b->kv, 0};
    Rows rows = rows_at(t, first, n);
    size_t at = (size_t)first * DIM;
    int last = b->batch > 1 ? b->positions - 1 : first + n - 1;
    const Projection qkv[] = {
        {t->q + at, b->wq, NULL}, {t->k + at, b->wk, NULL}, {t->v + at, b->wv, NULL}};
    device_begin(d, &(PassShape){.n = n, .max_position = last});
    project(d, t->x + at, n, qkv, 3);
    kv_write(d, &view, t->k + at, t->v + at, &rows);
    attention(d, t->attended + at, t->q + at, &view, &rows, &b->shape, NULL);
    project(d, t->attended + at, n, &(Projection){t->out + at, b->wo, NULL}, 1);
    device_end(d);
}

static void run_attention(Table *t, const Block *b, bool naive) {
    KvView view = {b->kv, 0};
    Rows rows = rows_at(t, b->positions - QUERIES, QUERIES);
    device_begin(t->device, &(PassShape){.n = QUERIES, .max_position = b->positions - 1});
    if (naive)
        attention_naive(t->device, t->out, t->q, &view, &rows, &b->shape, t->scores);
    else
        attention(t->device, t->out, t->q, &view, &rows, &b->shape, NULL);
    device_end(t->device);
}

// Ends with a download, for which a device with a queue of its own finishes its work.
static double run_way(Table *t, const Item *item, Way way) {
    const Block *b = item->block;
    double started = seconds_now();
    switch (way) {
    case WAY_PASS: run_pass(t, b, 0, b->batch * b->positions); break;
    case WAY_ONLINE: run_attention(t, b, false); break;
    case WAY_NAIVE: run_attention(t, b, true); break;
    case WAY_CACHED:
        for (int i = 0; i < item->n; i++)
            run_pass(t, b, i, 1);
        break;
    case WAY_RECOMPUTED:
        for (int i = 1; i <= item->n; i++)
            run_pass(t, b, 0, i);
    }
    device_download(t->device, t->host[0], t->out, sizeof(float));
    return seconds_now() - started;
}

// The largest difference between the outputs of both ways.
static double compare_ways(Table *t, const Item *item) {
    size_t count = (size_t)(item->n ? item->n : QUERIES) * DIM;
    double most = 0;
    for (int i = 0; i < 2; i++) {
        run_way(t, item, item->ways[i]);
        device_download(t->device, t->host[i], t->out, count * sizeof(float));
    }
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)t->host[0][i] - (double)t->host[1][i]));
    return most;
}

// ---- measuring ----

static void run_all(Table *t, double *samples, int run, int runs) {
    for (int i = 0; i < t->n_items; i++)
        for (int w = 0; w < t->items[i].n_ways; w++) {
            double seconds = run_way(t, &t->items[i], t->items[i].ways[w]);
            if (samples) samples[(2 * i + w) * runs + run] = seconds;
        }
}

// Appends the table's rows to the report. `done`: tables before it.
static bool measure(Table *t, AttentionReport *r, Progress *progress, int done, Error *error) {
    enum { TABLES = 4 };
    for (int i = 0; i < r->warm_up; i++)
        run_all(t, NULL, 0, 0);
    for (int i = 0; i < r->runs && !device_error(t->device)->code; i++) {
        run_all(t, t->samples, i, r->runs);
        progress_update(progress, (done + (i + 1.0) / r->runs) / TABLES);
    }
    double first = NAN;
    for (int i = 0; i < t->n_items; i++) {
        const Item *item = &t->items[i];
        AttentionRow *row = &r->rows[r->n_rows++];
        *row = item->row;
        row->ms = 1e3 * median_of(t->samples + 2 * i * r->runs, r->runs);
        if (!i) first = row->ms;
        bool two = item->n_ways > 1;
        row->other_ms =
            two ? 1e3 * median_of(t->samples + (2 * i + 1) * r->runs, r->runs) : (double)NAN;
        row->speed_up = (two ? row->other_ms : first) / row->ms;
        row->difference = two ? compare_ways(t, item) : (double)NAN;
    }
    return device_state(t, error);
}

static Item *add_item(Table *t, const char *table, const Block *b, Way way) {
    Item *item = &t->items[t->n_items++];
    double kv_dim = (double)b->shape.n_kv_heads * b->shape.head_dim;
    *item = (Item){.block = b, .ways = {way}, .n_ways = 1};
    item->row = (AttentionRow){.table = table,
                               .heads = b->shape.n_heads,
                               .kv_heads = b->shape.n_kv_heads,
                               .batch = b->batch,
                               .positions = b->positions,
                               .parameters = b->wq ? 2.0 * DIM * (DIM + kv_dim) : (double)NAN,
                               .score_bytes = NAN};
    return item;
}

// ---- the tables ----

typedef struct HeadShape {
    int heads, kv_heads;
} HeadShape;

static bool fill_shapes(Table *t, const Sizes *s, const char *name, const HeadShape *shapes,
                        int count, Error *error) {
    for (int i = 0; i < count; i++)
        add_item(t, name,
                 add_block(t, shapes[i].heads, shapes[i].kv_heads, s->batch, s->positions, true),
                 WAY_PASS);
    return table_ready(t, error);
}

// Random keys and values at all positions of a block of one sequence.
static void fill_cache(Table *t, const Block *b) {
    for (int at = 0, n; at < b->positions; at += n) {
        n = b->positions - at < t->max_rows ? b->positions - at : t->max_rows;
        Rows rows = rows_at(t, at, n);
        upload_noise(t, t->k, (size_t)n * DIM, 2 * (uint64_t)at + 2);
        upload_noise(t, t->v, (size_t)n * DIM, 2 * (uint64_t)at + 3);
        kv_write(t->device, &(KvView){b->kv, 0}, t->k, t->v, &rows);
        device_sync(t->device);
    }
}

static bool fill_online(Table *t, const Sizes *s, Error *error) {
    for (int i = 0; i < s->contexts.count; i++) {
        const Block *b = add_block(t, HEADS, HEADS, 1, s->contexts.values[i], false);
        Item *item = add_item(t, "online", b, WAY_ONLINE);
        item->ways[item->n_ways++] = WAY_NAIVE;
        item->row.score_bytes = (double)QUERIES * HEADS * b->positions * sizeof(float);
    }
    t->scores =
        device_alloc(t->device, (size_t)QUERIES * HEADS * (size_t)t->positions * sizeof(float));
    if (!table_ready(t, error)) return false;
    for (int i = 0; i < t->n_blocks; i++)
        fill_cache(t, &t->blocks[i]);
    upload_noise(t, t->q, QUERIES * DIM, 0);
    return device_state(t, error);
}

static bool fill_cached(Table *t, const Sizes *s, Error *error) {
    static const int LENGTHS[] = {10, 50, 100, 200, 500}; // as cost --savings has them
    const Block *b = add_block(t, HEADS, HEADS, 1, s->positions, true);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        if (LENGTHS[i] > s->positions && i) break;
        int n = LENGTHS[i] < s->positions ? LENGTHS[i] : s->positions;
        Item *item = add_item(t, "cache", b, WAY_CACHED);
        item->ways[item->n_ways++] = WAY_RECOMPUTED;
        item->row.positions = item->n = n;
    }
    return table_ready(t, error);
}

// Table number `index`: opened, measured, closed.
static bool run_table(AttentionReport *r, const Sizes *s, int index, Progress *progress,
                      Error *error) {
    static const HeadShape KINDS[] = {{8, 8}, {8, 4}, {8, 2}, {8, 1}},
                           NUMBERS[] = {{4, 4}, {16, 16}, {32, 32}};
    bool online = index == 2;
    int batch = index < 2 ? s->batch : 1, positions = s->positions, longest = 0;
    for (int i = 0; i < s->contexts.count; i++)
        if (s->contexts.values[i] > longest) longest = s->contexts.values[i];
    if (online) positions = longest;
    int rows = online && positions > FILL ? FILL : batch * positions;
    Table *t = calloc(1, sizeof *t); // with its lines too large for the stack
    if (!t) return error_set(error, ERROR_MEMORY, "out of memory for a table");
    bool good = table_open(t, r, batch, positions, rows, error);
    if (good && index == 0) good = fill_shapes(t, s, "kinds", KINDS, 4, error);
    if (good && index == 1) good = fill_shapes(t, s, "heads", NUMBERS, 3, error);
    if (good && index == 2) good = fill_online(t, s, error);
    if (good && index == 3) good = fill_cached(t, s, error);
    good = good && measure(t, r, progress, index, error);
    if (good) snprintf(r->device, sizeof r->device, "%s", device_info(t->device)->description);
    table_close(t);
    free(t);
    return good;
}

// ---- the command ----

static Sizes sizes_of(const Options *o) {
    static const IntegerList CONTEXTS = {{128, 256, 512, 1024, 2048, 4096, 8192, 16384}, 8};
    return (Sizes){.runs = option_given(o, OPTION_REPETITIONS) ? (int)o->repetitions : USUAL_RUNS,
                   .positions = option_given(o, OPTION_PROMPT_LENGTHS) ? o->prompt_lengths.values[0]
                                                                       : USUAL_POSITIONS,
                   .batch = option_given(o, OPTION_BATCHES) ? o->batches.values[0] : USUAL_BATCH,
                   .contexts = option_given(o, OPTION_DEPTHS) ? o->depths : CONTEXTS};
}

// Of the largest table, before anything of it is allocated. A row takes its activations, about as
// much again while it is multiplied, and keys and values in each of four blocks.
static bool check_sizes(const Sizes *s, Error *error) {
    static const double ROW_BYTES = (6 + 6 + 2 * 4) * DIM * sizeof(float) + 16;
    double bytes = (double)s->batch * s->positions * ROW_BYTES, contexts = 0;
    for (int i = 0; i < s->contexts.count; i++) {
        if (s->contexts.values[i] < QUERIES)
            return error_set(error, ERROR_USAGE, "--depth: got %d, wanted at least %d positions",
                             s->contexts.values[i], QUERIES);
        contexts += (2.0 * DIM + QUERIES * HEADS + 4) * sizeof(float) * s->contexts.values[i];
    }
    if (contexts > bytes) bytes = contexts;
    if (bytes <= MOST_BYTES) return true;
    return error_set(error, ERROR_USAGE,
                     "these tables take %.3g GB, at most %.3g; give smaller --pp, --batch or "
                     "--depth",
                     bytes / 1e9, MOST_BYTES / 1e9);
}

static bool check_options(const Options *o, Error *error) {
    if (strcmp(o->model, "builtin") != 0)
        return error_set(error, ERROR_USAGE,
                         "bench --attention has random weights of its own: leave the model out");
    if (o->prompt_lengths.count > 1 || o->batches.count > 1 || o->threads.count > 1)
        return error_set(error, ERROR_USAGE,
                         "bench --attention takes one number for each of --pp, --batch and -j");
    static const struct {
        OptionId id;
        const char *name;
    } OTHERS[] = {{OPTION_GEN, "gen"},           {OPTION_ONLY, "only"},
                  {OPTION_PATTERN, "pattern"},   {OPTION_TOKENIZER, "tokenizer"},
                  {OPTION_MARKDOWN, "markdown"}, {OPTION_NO_LIMITS, "no-limits"}};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (option_given(o, OTHERS[i].id))
            return error_set(error, ERROR_USAGE, "--%s is not of bench --attention",
                             OTHERS[i].name);
    return true;
}

bool bench_attention(const Options *o, Error *error) {
    Sizes s = sizes_of(o);
    AttentionReport r = {.options = o,
                         .kv = option_given(o, OPTION_KV) ? (KvType)o->kv : KV_F32,
                         .runs = s.runs,
                         .warm_up = (s.runs + 9) / 10,
                         .queries = QUERIES};
    Progress progress;
    bool good = check_options(o, error) && check_sizes(&s, error);
    progress_begin(&progress, "bench", o->quiet);
    for (int i = 0; good && i < 4; i++)
        good = run_table(&r, &s, i, &progress, error);
    progress_end(&progress);
    if (good) attention_print(&r);
    return good;
}

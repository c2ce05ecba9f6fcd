// Orders of rank 0 and what the others do with them. Messages of rank 0 to another come in order,
// so an order needs no answer, but that to open.
//
//   rank 0        OPEN   PASS chunk 0   PASS chunk 1   ...   COPY   CLOSE   END
//   with PASS     rows: positions, sequences, which rows want logits
//
// A struct is sent as it is in memory: all ranks run the same program.
#include "model/ranks.h"

#include "base/hash.h"
#include "model/cost.h"
#include "model/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum OrderKind { ORDER_OPEN, ORDER_PASS, ORDER_COPY, ORDER_CLOSE, ORDER_END } OrderKind;

typedef struct Order {
    OrderKind kind;
    uint64_t model;                    // OPEN: model_mark
    ModelOptions options;              // OPEN: of this rank
    KeyPattern pattern;                // PASS
    int n, n_logit_rows, max_position; // PASS
    int to, from, count;               // COPY
} Order;

// One model at a time is open on all ranks.
static struct {
    int per_rank[RANKS_MOST]; // of --layers-per-rank
    int n_per_rank;
    LayerRange layers[RANKS_MOST]; // rank 0
    bool open, finished;
} here;

static bool is_first(void) {
    return transport_rank() == 0;
}

static bool is_last(void) {
    return transport_rank() == transport_count() - 1;
}

const Error *ranks_error(void) {
    return transport_error();
}

LayerRange ranks_layers(int rank) {
    return here.layers[rank];
}

// ---- which layers are whose ----

// Bytes of the matrices of layer l; of the head where l is n_layers.
static double layer_bytes(const Config *c, const Weights *w, int l) {
    double bytes = 0;
    if (l == c->n_layers) return (double)matrix_bytes(&w->head);
    for (OperationId id = 0; id < OPERATION_HEAD; id++) {
        const Matrix *m = operation_matrix(w, id, l);
        if (m && m->data) bytes += (double)matrix_bytes(m);
    }
    return bytes;
}

double ranks_token_bytes(LayerRange range, const Config *c, const Weights *w) {
    double bytes = range.end == c->n_layers ? layer_bytes(c, w, c->n_layers) : 0;
    for (int l = range.first; l < range.end; l++)
        bytes += layer_bytes(c, w, l);
    return bytes;
}

// From the last rank on each takes its share of the bytes that are left, to the nearest layer, but
// one at least, and one stays for each rank before it. So a head that is larger than a share is
// made up for by all other ranks, not by the next one.
static void split_evenly(LayerRange *ranges, int n, const Config *c, const Weights *w) {
    double left = 0;
    for (int l = 0; l <= c->n_layers; l++)
        left += layer_bytes(c, w, l);
    for (int r = n - 1, end = c->n_layers; r >= 0; r--) {
        int first = end - 1;
        double share = left / (r + 1), bytes = ranks_token_bytes((LayerRange){first, end}, c, w);
        while (first > r && bytes + layer_bytes(c, w, first - 1) / 2 < share)
            bytes += layer_bytes(c, w, --first);
        if (r == 0) first = 0;
        ranges[r] = (LayerRange){first, end};
        left -= bytes;
        end = first;
    }
}

static bool split_as_asked(LayerRange *ranges, int n, const int *per_rank, int n_layers,
                           Error *error) {
    int sum = 0;
    for (int r = 0; r < n; r++) {
        ranges[r] = (LayerRange){sum, sum + per_rank[r]};
        sum += per_rank[r];
    }
    return sum == n_layers ||
           error_set(error, ERROR_USAGE, "--layers-per-rank: %d layers in all, the model has %d",
                     sum, n_layers);
}

bool ranks_split(LayerRange *ranges, int n, const int *per_rank, const Config *c, const Weights *w,
                 Error *error) {
    if (n > c->n_layers || n > RANKS_MOST)
        return error_set(error, ERROR_USAGE, "%d ranks: at most %d, for %d layers", n,
                         c->n_layers < RANKS_MOST ? c->n_layers : RANKS_MOST, c->n_layers);
    if (per_rank) return split_as_asked(ranges, n, per_rank, c->n_layers, error);
    split_evenly(ranges, n, c, w);
    return true;
}

// ---- orders of rank 0 ----

bool ranks_begin(const int *per_rank, int n, Error *error) {
    if (!transport_begin(error)) return false;
    if (n > 1 && transport_count() == 1)
        return error_set(error, ERROR_USAGE,
                         "--layers-per-rank: %d numbers for one process; mpirun starts more "
                         "(docs/scale.md)",
                         n);
    if (n && is_first() && n != transport_count()) // the others are told which layers are theirs
        return error_set(error, ERROR_USAGE, "--layers-per-rank: %d number%s for %d ranks", n,
                         n > 1 ? "s" : "", transport_count());
    here.n_per_rank = n;
    for (int i = 0; i < n && i < RANKS_MOST; i++)
        here.per_rank[i] = per_rank[i];
    return true;
}

static void order(int rank, const Order *o) {
    transport_send(rank, TAG_ORDER, o, sizeof *o);
}

static void order_all(const Order *o) {
    for (int r = 1; r < transport_count(); r++)
        order(r, o);
}

void ranks_finish(void) {
    if (transport_count() > 1 && is_first() && !here.finished)
        order_all(&(Order){.kind = ORDER_END});
    here.finished = true;
}

void ranks_copy(int to, int from, int count) {
    order_all(&(Order){.kind = ORDER_COPY, .to = to, .from = from, .count = count});
}

// ---- opening ----

// Its type, its sizes, and some of its bytes: at the beginning, in the middle, at the end.
static uint64_t matrix_mark(uint64_t mark, const Matrix *m) {
    enum { SOME = 64 };
    const size_t sizes[] = {m->dtype, m->rows, m->cols};
    size_t bytes = m->data ? matrix_data_bytes(m) : 0, some = bytes < SOME ? bytes : SOME;
    mark = fnv1a(mark, sizes, sizeof sizes);
    for (size_t i = 0; i < 3 && some; i++)
        mark = fnv1a(mark, (const char *)m->data + (bytes - some) / 2 * i, some);
    return mark;
}

// The same number for the same file: its configuration, its norms, which every rank has read, and
// some bytes of each matrix; all of a matrix is read only by the rank that has its layer. So
// another quantisation of the model is noticed, and a copy that is damaged in a few places is not.
static uint64_t model_mark(const Config *c, const Weights *w) {
    uint64_t lanes[8];
    fnv1a_lanes_begin(lanes);
    config_hash(lanes, c);
    uint64_t mark = fnv1a_lanes_end(lanes);
    for (int l = 0; l < c->n_layers; l++)
        if (w->layers[l].ffn_norm)
            mark = fnv1a(mark, w->layers[l].ffn_norm, (size_t)c->dim * sizeof(float));
    for (int l = 0; l < c->n_layers; l++)
        for (OperationId id = 0; id < OPERATION_HEAD; id++) {
            const Matrix *m = operation_matrix(w, id, l);
            if (m) mark = matrix_mark(mark, m);
        }
    mark = matrix_mark(matrix_mark(mark, &w->token_embedding), &w->head);
    return w->final_norm ? fnv1a(mark, w->final_norm, (size_t)c->dim * sizeof(float)) : mark;
}

int ranks_rows(const ModelOptions *o) {
    int rows = o->context > 0 && o->context < RANK_ROWS ? o->context : RANK_ROWS;
    return rows < o->n_sequences ? o->n_sequences : rows;
}

// MPI counts in int.
static bool check_sizes(const ModelOptions *o, const Config *c, Error *error) {
    double rows = o->max_rows, logit_rows = o->max_logit_rows < rows ? o->max_logit_rows : rows;
    if (rows * c->dim < INT_MAX / 4 && logit_rows * c->vocab_size < INT_MAX / 4) return true;
    return error_set(error, ERROR_USAGE, "%d rows in a chunk: too many for a message to a rank",
                     o->max_rows);
}

bool ranks_open(ModelOptions *o, const Config *c, const Weights *w, Error *error) {
    int n = transport_count();
    if (!is_first()) return true; // the order has said it
    if (here.open) return error_set(error, ERROR_USAGE, "ranks have one model at a time");
    if (o->max_rows <= 0) o->max_rows = ranks_rows(o);
    if (!check_sizes(o, c, error)) return false;
    if (!ranks_split(here.layers, n, here.n_per_rank ? here.per_rank : NULL, c, w, error))
        return false;
    Order open = {.kind = ORDER_OPEN, .model = model_mark(c, w), .options = *o};
    open.options.progress = NULL;
    open.options.progress_context = NULL;
    open.options.stop = NULL;
    for (int r = 1; r < n; r++) {
        open.options.layers = here.layers[r];
        order(r, &open);
    }
    here.open = true;
    o->layers = here.layers[0];
    return true;
}

// Rank 0: how the others fared; the first failure in their order is told.
static bool hear_answers(Error *error) {
    bool good = true;
    for (int r = 1; r < transport_count(); r++) {
        Error answer = {0};
        if (!transport_receive(r, TAG_ANSWER, &answer, sizeof answer, true))
            return error_copy(error, transport_error());
        if (!answer.code) continue;
        answer.message[sizeof answer.message - 1] = '\0';
        good = error_set(error, ERROR_DEVICE, "rank %d: %s", r, answer.message);
    }
    return good;
}

// m NULL: `error` says why.
static bool allocate(Model *m, Error *error) {
    if (!m) return false;
    HostMemory memory = host_memory(&m->config, &m->options);
    m->ranked = true;
    m->cache.ranked = is_first();
    m->host_stream = malloc(memory.stream);
    m->host_rows = malloc(memory.rows);
    return (m->host_stream && m->host_rows) ||
           error_set(error, ERROR_MEMORY, "no memory for the messages between ranks");
}

Model *ranks_opened(Model *m, Error *error) {
    bool good = allocate(m, error);
    if (!is_first()) {
        const Error none = {0};
        transport_send(0, TAG_ANSWER, good ? &none : error, sizeof none);
        return m;
    }
    good = hear_answers(error) && good;
    if (good) return m;
    if (m)
        model_close(m);
    else
        ranks_close();
    return NULL;
}

void ranks_close(void) {
    if (!is_first() || !here.open) return;
    order_all(&(Order){.kind = ORDER_CLOSE});
    here.open = false;
}

// ---- a chunk ----

static size_t stream_bytes(const Model *m) {
    return (size_t)m->chunk.n * (size_t)m->config.dim * sizeof(float);
}

static size_t chunk_logit_bytes(const Model *m) {
    return (size_t)m->chunk.n_logit_rows * (size_t)m->config.vocab_size * sizeof(float);
}

// Positions and sequences of the chunk, and which of its rows want logits.
static size_t rows_bytes(const Model *m) {
    return (2 * (size_t)m->chunk.n + (size_t)m->chunk.n_logit_rows) * sizeof(int32_t);
}

// The receive for the logits is there before they are sent: the last rank never waits for room.
static void announce(Model *m) {
    const Chunk *c = &m->chunk;
    size_t n = (size_t)c->n, bytes = n * sizeof(int32_t);
    Order pass = {.kind = ORDER_PASS,
                  .pattern = m->pattern,
                  .n = c->n,
                  .n_logit_rows = c->n_logit_rows,
                  .max_position = c->max_position};
    if (c->n_logit_rows)
        transport_post(transport_count() - 1, TAG_LOGITS,
                       m->host_logits + (size_t)m->n_logit_rows * (size_t)m->config.vocab_size,
                       chunk_logit_bytes(m));
    // From the device, since after `advance` it alone has them.
    device_download(m->device, m->host_rows, m->scratch.positions, bytes);
    device_download(m->device, m->host_rows + n, m->scratch.sequences, bytes);
    memcpy(m->host_rows + 2 * n, c->logit_rows, (size_t)c->n_logit_rows * sizeof(int32_t));
    order_all(&pass);
    for (int r = 1; r < transport_count(); r++)
        transport_send(r, TAG_ROWS, m->host_rows, rows_bytes(m));
}

void ranks_receive(Model *m) {
    if (is_first())
        announce(m);
    else if (transport_receive(transport_rank() - 1, TAG_STREAM, m->host_stream, stream_bytes(m),
                               false))
        device_upload(m->device, m->scratch.x, m->host_stream, stream_bytes(m));
}

void ranks_send(Model *m) {
    if (is_first()) m->n_logit_rows += m->chunk.n_logit_rows;
    if (!is_last()) {
        device_download(m->device, m->host_stream, m->scratch.x, stream_bytes(m));
        transport_send(transport_rank() + 1, TAG_STREAM, m->host_stream, stream_bytes(m));
    } else if (m->chunk.n_logit_rows) {
        device_download(m->device, m->host_logits, m->scratch.logits, chunk_logit_bytes(m));
        transport_send(0, TAG_LOGITS, m->host_logits, chunk_logit_bytes(m));
    }
}

void ranks_collect(Model *m) {
    size_t bytes = (size_t)m->n_logit_rows * (size_t)m->config.vocab_size * sizeof(float);
    if (!transport_wait()) memset(m->host_logits, 0xff, bytes); // NaN: no token comes of it
    device_upload(m->device, m->scratch.logits, m->host_logits, bytes);
}

// ---- the other ranks ----

static bool serve_open(Model **m, const Order *o, const Config *c, const Weights *w,
                       const Error *trouble, Error *error) {
    Error cause = {0};
    if (trouble)
        error_copy(&cause, trouble);
    else if (o->model != model_mark(c, w))
        error_set(&cause, ERROR_FILE, "another model than that of rank 0");
    if (!cause.code)
        *m = model_open(c, w, &o->options, &cause); // which answers
    else
        transport_send(0, TAG_ANSWER, &cause, sizeof cause);
    return !transport_error()->code || error_copy(error, transport_error());
}

static bool serve_pass(Model *m, const Order *o, Error *error) {
    Chunk *c = &m->chunk;
    size_t n = (size_t)o->n, bytes = n * sizeof(int32_t);
    c->n = o->n;
    c->n_logit_rows = o->n_logit_rows;
    c->max_position = o->max_position;
    m->pattern = o->pattern;
    m->n_logit_rows = 0;
    if (!transport_receive(0, TAG_ROWS, m->host_rows, rows_bytes(m), false))
        return error_copy(error, transport_error());
    device_upload(m->device, m->scratch.positions, m->host_rows, bytes);
    device_upload(m->device, m->scratch.sequences, m->host_rows + n, bytes);
    memcpy(c->logit_rows, m->host_rows + 2 * n, (size_t)o->n_logit_rows * sizeof(int32_t));
    run_chunk(m);
    const Error *failure = device_error(m->device);
    if (transport_error()->code) return error_copy(error, transport_error());
    if (!failure->code) return true;
    transport_fail(ERROR_DEVICE, failure->message);
    return error_set(error, ERROR_DEVICE, "rank %d: %s", transport_rank(), failure->message);
}

bool ranks_serve(const Config *c, const Weights *w, const Error *trouble, Error *error) {
    Model *m = NULL;
    Order o = {0};
    bool good = true;
    while (good && o.kind != ORDER_END) {
        good = transport_receive(0, TAG_ORDER, &o, sizeof o, true);
        if (!good) {
            error_copy(error, transport_error());
        } else if (o.kind == ORDER_OPEN) {
            good = serve_open(&m, &o, c, w, trouble, error);
        } else if (o.kind == ORDER_PASS) {
            good = serve_pass(m, &o, error);
        } else if (o.kind == ORDER_COPY) {
            kv_copy(m->device, m->cache.kv, o.to, o.from, o.count);
        } else {
            model_close(m);
            m = NULL;
        }
    }
    if (!good) model_close(m);
    return good;
}

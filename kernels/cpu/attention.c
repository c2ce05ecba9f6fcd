// Attention over the cache: how the work is cut and shared; lanes/attention.c does it.
//
// A block is a few rows times the heads that share a KV head, at most ATTENTION_QUERIES. The keys
// of a query are cut into chunks of 256 at fixed positions; each chunk has a state (max, sum, out),
// and states merge in rising order. So a row's bits depend on nothing but its own position:
//   many blocks   (a prompt, many sequences)   a thread walks all chunks of a block and merges
//   few blocks    (one token, a long cache)    threads take single chunks, the caller merges
// Blocks are few, too, where one of them is so long that the other threads would wait for it: a
// long conversation beside short ones. A sparse pattern goes by the first way: of most chunks it
// shows little or nothing, and a chunk without visible keys is left out.
#include "kernels/cpu/attention.h"
#include "kernels/limits.h"
#include "kernels/precision.h"

#include <math.h>
#include <string.h>

enum { WAVE_STATES = 16 }; // full states per thread for single chunks

typedef struct AttentionWork {
    const AttentionKernels *kernels;
    Kv *kv;
    KvLayer layer;
    float *out;     // (n, n_heads, head_dim)
    const float *q; // (n, n_heads, head_dim)
    const Rows *rows;
    const AttentionShape *shape;
    float *weights_out; // (n, n_heads, max_seq_len)

    int group;                   // heads that share a KV head,
    int block_heads, head_parts; // so many of them in a block, so many blocks for all
    int block_rows, row_blocks;  // rows in a block, so many blocks for all
    int first_chunk, last_chunk; // that any row sees
    int wave_chunk, wave_chunks; // single chunks: those that are run at once
} AttentionWork;

// ---- scratch ----
// Per thread: packed queries (ATTENTION_QUERIES, head_dim), scores (ATTENTION_QUERIES,
// ATTENTION_CHUNK), two states. Then, for single chunks,
// a running state per block and a state per block and chunk.

static size_t state_floats(size_t n_queries, size_t value_dim) {
    return (2 * n_queries + 15) / 16 * 16 + n_queries * value_dim;
}

static AttentionState state_at(float *memory, size_t n_queries) {
    return (AttentionState){memory, memory + n_queries, memory + (2 * n_queries + 15) / 16 * 16};
}

size_t attention_scratch(const Device *device, Kv *kv) {
    size_t threads = (size_t)device->info.threads;
    size_t state = state_floats(ATTENTION_QUERIES, kv->value_dim);
    kv->scratch_thread =
        ATTENTION_QUERIES * kv->value_dim + ATTENTION_QUERIES * ATTENTION_CHUNK + 2 * state;
    kv->scratch_wave = threads * WAVE_STATES * state;
    size_t floats = threads * kv->scratch_thread + kv->scratch_wave;
    return floats * sizeof *kv->scratch;
}

// ---- blocks ----

static int smaller(int a, int b) {
    return a < b ? a : b;
}

// The rows `row` .. of one sequence, before `end`, for `n_heads` heads from `head` on. Returns how
// many rows.
static int fill_block(QueryBlock *block, const AttentionWork *w, int row, int end, int head,
                      int n_heads, int thread) {
    Kv *kv = w->kv;
    const Rows *rows = w->rows;
    float *scratch = kv->scratch + (size_t)thread * kv->scratch_thread;
    int sequence = rows->sequences[row], n = 0, first = row;
    block->kv = kv;
    block->layer = w->layer;
    block->region = kv_region(kv, &w->layer, sequence, head / w->group);
    block->sparse = w->shape->pattern.n_parts;
    block->scale = w->shape->scale;
    block->cap = w->shape->cap;
    block->packed = scratch;
    block->scores = scratch + ATTENTION_QUERIES * kv->value_dim;
    block->next_keys = block->next_values = NULL; // take_chunk may name some
    for (; row < end && rows->sequences[row] == sequence; row++) {
        KeyReach reach = key_reach(&w->shape->pattern, rows->positions[row]);
        int visible = key_run(&reach, 0).first;
        for (int h = head; h < head + n_heads; h++, n++) {
            size_t index = (size_t)row * (size_t)w->shape->n_heads + (size_t)h;
            block->first[n] = visible;
            block->last[n] = reach.last;
            if (block->sparse) block->reach[n] = reach;
            block->q[n] = w->q + index * (size_t)w->shape->head_dim;
        }
    }
    block->n_queries = n;
    return row - first;
}

// Block number b, from one of its rows on. KV heads are outside, so that a region stays in the
// cache; blocks of rows run backwards, so that the longest of a share come first. Returns the row
// after those taken, or 0 where the block has no more.
static int next_rows(QueryBlock *block, const AttentionWork *w, int b, int row, int thread) {
    int row_block = w->row_blocks - 1 - b % w->row_blocks, part = b / w->row_blocks;
    int head = part / w->head_parts * w->group, from = part % w->head_parts * w->block_heads;
    int begin = row_block * w->block_rows, end = smaller(begin + w->block_rows, w->rows->n);
    if (row < begin) row = begin;
    if (row >= end) return 0;
    row += fill_block(block, w, row, end, head + from, smaller(w->block_heads, w->group - from),
                      thread);
    w->kernels->pack(block);
    return row;
}

// The first chunk with a key that some query sees at `position` or later; -1: there is none.
static int chunk_from(const QueryBlock *block, int position) {
    int first = INT32_MAX;
    for (int i = 0; i < block->n_queries; i++) {
        int key = position > block->first[i] ? position : block->first[i];
        if (block->sparse) key = key_run(&block->reach[i], position).first;
        if (key <= block->last[i] && key < first) first = key;
    }
    return first == INT32_MAX ? -1 : first / ATTENTION_CHUNK;
}

static int after(int chunk) {
    return (chunk + 1) * ATTENTION_CHUNK;
}

// One chunk, while `next_chunk` of the same block (-1: none) is fetched. Where many queries share
// the keys, memory is not what they wait for; a sparse pattern needs too little of the chunk.
static void take_chunk(const AttentionWork *w, QueryBlock *block, int chunk, int next_chunk,
                       const AttentionState *state) {
    enum { FEW_QUERIES = 8 };
    const Kv *kv = w->kv;
    block->next_keys = block->next_values = NULL; // of the chunk before
    if (next_chunk >= 0 && block->n_queries <= FEW_QUERIES && !block->sparse) {
        // Where a ring begins anew inside the chunk, what is behind its end is fetched in vain.
        size_t slot = (size_t)kv_slot(w->layer.slots, next_chunk * ATTENTION_CHUNK);
        block->next_keys =
            block->region + kv_key_index(slot, (size_t)kv->shape.head_dim) * kv->element;
        block->next_values =
            block->region + w->layer.values_offset + slot * kv->value_dim * kv->element;
    }
    w->kernels->chunk(block, chunk, state);
}

static void finish_block(const AttentionWork *w, const QueryBlock *block,
                         const AttentionState *state) {
    for (int i = 0; i < block->n_queries; i++)
        w->kernels->finish(w->out + (block->q[i] - w->q), state, i, w->kv);
}

static void whole_blocks(void *context, size_t begin, size_t end, int thread) {
    const AttentionWork *w = context;
    size_t value_dim = w->kv->value_dim;
    QueryBlock block;
    for (size_t b = begin; b < end; b++) {
        for (int row = 0; (row = next_rows(&block, w, (int)b, row, thread));) {
            float *memory = block.scores + ATTENTION_QUERIES * ATTENTION_CHUNK;
            size_t size = state_floats(ATTENTION_QUERIES, value_dim);
            AttentionState state = state_at(memory, ATTENTION_QUERIES);
            AttentionState of_chunk = state_at(memory + size, ATTENTION_QUERIES);
            int chunk = chunk_from(&block, 0), next = chunk_from(&block, after(chunk));
            take_chunk(w, &block, chunk, next, &state);
            while ((chunk = next) >= 0) {
                next = chunk_from(&block, after(chunk));
                take_chunk(w, &block, chunk, next, &of_chunk);
                w->kernels->merge(&state, &of_chunk, block.n_queries, value_dim);
            }
            finish_block(w, &block, &state);
        }
    }
}

// ---- single chunks ----

enum { WAVE_CHUNKS = 3 }; // at least, of each block

// Chunks of each block that there are states for at once, beside the running state.
static size_t wave_room(const AttentionWork *w, int n_blocks) {
    size_t n_queries = (size_t)w->block_rows * (size_t)w->block_heads;
    size_t states = w->kv->scratch_wave / state_floats(n_queries, w->kv->value_dim);
    size_t room = states / (size_t)n_blocks;
    return room ? room - 1 : 0;
}

// The state of block b: the running one (slot 0), or of the chunk slot - 1 of the wave.
static AttentionState wave_state(const AttentionWork *w, size_t n_threads, int b, int slot) {
    size_t n_queries = (size_t)w->block_rows * (size_t)w->block_heads;
    size_t index = (size_t)b * (size_t)(w->wave_chunks + 1) + (size_t)slot;
    float *memory = w->kv->scratch + n_threads * w->kv->scratch_thread;
    return state_at(memory + index * state_floats(n_queries, w->kv->value_dim), n_queries);
}

// Whether the row of block b, a single one, sees no key of the chunk or of a later one.
static bool is_behind(const AttentionWork *w, int b, int chunk) {
    int row = w->row_blocks - 1 - b % w->row_blocks;
    return w->block_rows == 1 && chunk > w->rows->positions[row] / ATTENTION_CHUNK;
}

typedef struct WaveWork {
    const AttentionWork *work;
    size_t n_threads;
} WaveWork;

static void single_chunks(void *context, size_t begin, size_t end, int thread) {
    const WaveWork *wave = context;
    const AttentionWork *w = wave->work;
    QueryBlock block;
    for (size_t item = begin; item < end; item++) {
        int b = (int)(item / (size_t)w->wave_chunks), c = (int)(item % (size_t)w->wave_chunks);
        AttentionState state = wave_state(w, wave->n_threads, b, c + 1);
        if (is_behind(w, b, w->wave_chunk + c)) { // merging skips it
            memset(state.sum, 0, (size_t)w->block_rows * (size_t)w->block_heads * sizeof(float));
            continue;
        }
        next_rows(&block, w, b, 0, thread);
        bool more = item + 1 < end && c + 1 < w->wave_chunks;
        take_chunk(w, &block, w->wave_chunk + c, more ? w->wave_chunk + c + 1 : -1, &state);
    }
}

// Chunk by chunk, as many at once as there are states for.
static void run_waves(Device *device, AttentionWork *w, int n_blocks, size_t chunk_work) {
    WaveWork wave = {w, (size_t)device->info.threads};
    size_t n_queries = (size_t)w->block_rows * (size_t)w->block_heads, value_dim = w->kv->value_dim;
    size_t room = wave_room(w, n_blocks);
    int n_chunks = w->last_chunk - w->first_chunk + 1;
    w->wave_chunks = room < (size_t)n_chunks ? (int)room : n_chunks;
    for (int b = 0; b < n_blocks; b++)
        memset(wave_state(w, wave.n_threads, b, 0).sum, 0, n_queries * sizeof(float));
    QueryBlock block;
    for (int c = w->first_chunk; c <= w->last_chunk; c += w->wave_chunks) {
        w->wave_chunk = c;
        int count = smaller(w->wave_chunks, w->last_chunk - c + 1);
        // Chunks beyond the last are found empty. A thread takes several beside each other at once,
        // an eighth of its share or more, so that it knows what to fetch.
        size_t items = (size_t)n_blocks * (size_t)w->wave_chunks;
        size_t several = items / (8 * wave.n_threads), least = work_chunk(chunk_work);
        device_run(device, single_chunks, &wave, items, several > least ? several : least);
        for (int b = 0; b < n_blocks; b++) {
            AttentionState running = wave_state(w, wave.n_threads, b, 0);
            next_rows(&block, w, b, 0, 0);
            for (int slot = 1; slot <= count; slot++) {
                AttentionState next = wave_state(w, wave.n_threads, b, slot);
                w->kernels->merge(&running, &next, block.n_queries, value_dim);
            }
            if (c + count > w->last_chunk) finish_block(w, &block, &running);
        }
    }
}

// ---- weights ----

// The softmax itself of (row, head) items, for looking at: plain loops over the kernel's scores.
static void weight_rows(void *context, size_t begin, size_t end, int thread) {
    const AttentionWork *w = context;
    size_t n_heads = (size_t)w->shape->n_heads, length = (size_t)w->kv->shape.max_seq_len;
    const KeyPattern *pattern = &w->shape->pattern;
    QueryBlock block;
    for (size_t item = begin; item < end; item++) {
        int row = (int)(item / n_heads), last = w->rows->positions[row];
        float *weights = w->weights_out + item * length, max = -INFINITY, sum = 0;
        fill_block(&block, w, row, row + 1, (int)(item % n_heads), 1, thread);
        w->kernels->pack(&block);
        for (size_t t = 0; t < length; t++)
            weights[t] = 0;
        for (int c = block.first[0] / ATTENTION_CHUNK; c <= last / ATTENTION_CHUNK; c++) {
            w->kernels->scores(&block, c);
            int start = c * ATTENTION_CHUNK, stop = smaller(start + ATTENTION_CHUNK - 1, last);
            for (int t = start > block.first[0] ? start : block.first[0]; t <= stop; t++)
                weights[t] = key_visible(pattern, last, t) ? block.scores[t - start] : -INFINITY;
        }
        for (int t = block.first[0]; t <= last; t++)
            max = weights[t] > max ? weights[t] : max;
        for (int t = block.first[0]; t <= last; t++)
            sum += weights[t] = exp_float(weights[t] - max);
        for (int t = block.first[0]; t <= last; t++)
            weights[t] /= sum;
    }
}

// ---- with all scores in memory ----

// out (head_dim) = the stored weights of one query times the values, in rising order of positions.
static void weigh_values(const AttentionWork *w, size_t item) {
    const Kv *kv = w->kv;
    size_t n_heads = (size_t)w->shape->n_heads, head_dim = (size_t)w->shape->head_dim;
    int row = (int)(item / n_heads), head = (int)(item % n_heads) / w->group;
    int last = w->rows->positions[row];
    const unsigned char *values =
        kv_region(kv, &w->layer, w->rows->sequences[row], head) + w->layer.values_offset;
    const float *weights = w->weights_out + item * (size_t)kv->shape.max_seq_len;
    float *out = w->out + item * head_dim;
    for (size_t j = 0; j < head_dim; j++)
        out[j] = 0;
    for (int t = 0; t <= last; t++) {
        if (!key_visible(&w->shape->pattern, last, t)) continue;
        size_t slot = (size_t)kv_slot(w->layer.slots, t);
        const unsigned char *v = values + slot * kv->value_dim * kv->element;
        for (size_t j = 0; j < head_dim; j++)
            out[j] += weights[t] * kv_element(kv, v, j);
    }
}

static void naive_rows(void *context, size_t begin, size_t end, int thread) {
    weight_rows(context, begin, end, thread);
    for (size_t item = begin; item < end; item++)
        weigh_values(context, item);
}

static AttentionWork work_of(const Device *device, float *out, const float *q, const KvView *view,
                             const Rows *rows, const AttentionShape *shape, float *weights_out) {
    return (AttentionWork){.kernels = device->kernels->rows->attention,
                           .kv = view->kv,
                           .layer = kv_layer(view->kv, view->layer),
                           .out = out,
                           .q = q,
                           .rows = rows,
                           .shape = shape,
                           .weights_out = weights_out,
                           .group = shape->n_heads / shape->n_kv_heads};
}

void attention_naive(Device *device, float *out, const float *q, const KvView *view,
                     const Rows *rows, const AttentionShape *shape, float *weights) {
    if (!device_ok(device) || rows->n <= 0) return;
    AttentionWork work = work_of(device, out, q, view, rows, shape, weights);
    device_run(device, naive_rows, &work, (size_t)rows->n * (size_t)shape->n_heads, 1);
}

// ---- the operation ----

// Multiply-adds per key that a query sees: the dot product, the exponential, the weighted value.
static size_t key_work(const AttentionShape *shape) {
    return 2 * (size_t)shape->head_dim + 8;
}

// How many keys a query sees; those of two strides count twice.
static size_t count_keys(const KeyReach *reach) {
    int keys = reach->last - reach->suffix + 1, between = reach->suffix - reach->low;
    if (between > 0) keys += smaller(reach->prefix, between);
    for (int i = 0; i < reach->n_strides; i++)
        keys += between / reach->strides[i];
    return (size_t)keys;
}

typedef struct WorkSize {
    size_t all, longest; // multiply-adds of it all, at most of a block
    bool one_sequence;   // in every block
} WorkSize;

// Cuts the rows and heads into blocks. As many rows share one as fill it, but no more than there
// are consecutive rows of one sequence.
static WorkSize cut(AttentionWork *w) {
    const Rows *rows = w->rows;
    int runs = 1, first_key = INT32_MAX, last_key = 0;
    size_t keys = 0, most_keys = 0;
    for (int i = 0; i < rows->n; i++) {
        KeyReach reach = key_reach(&w->shape->pattern, rows->positions[i]);
        if (i && rows->sequences[i] != rows->sequences[i - 1]) runs++;
        first_key = smaller(key_run(&reach, 0).first, first_key);
        if (reach.last > last_key) last_key = reach.last;
        size_t of_row = count_keys(&reach);
        keys += of_row;
        if (of_row > most_keys) most_keys = of_row;
    }
    w->first_chunk = first_key / ATTENTION_CHUNK;
    w->last_chunk = last_key / ATTENTION_CHUNK;
    w->block_heads = smaller(w->group, ATTENTION_QUERIES);
    w->head_parts = (w->group + w->block_heads - 1) / w->block_heads;
    w->block_rows = smaller(ATTENTION_QUERIES / w->block_heads, rows->n / runs);
    w->row_blocks = (rows->n + w->block_rows - 1) / w->block_rows;
    size_t queries = (size_t)w->block_rows * (size_t)w->block_heads;
    return (WorkSize){.all = keys * (size_t)w->shape->n_heads * key_work(w->shape),
                      .longest = most_keys * queries * key_work(w->shape),
                      .one_sequence = runs == 1 || w->block_rows == 1};
}

// Whether threads share the chunks of a block, so that none waits for another's long block.
static bool shares_chunks(const Device *device, const AttentionWork *w, const WorkSize *size,
                          int n_blocks) {
    size_t threads = (size_t)device->active_threads;
    if (threads < 2 || w->last_chunk == w->first_chunk || !size->one_sequence) return false;
    if (w->shape->pattern.n_parts) return false;
    bool is_uneven = w->block_rows == 1 && size->longest > size->all / (4 * threads);
    bool is_few = (size_t)n_blocks < 4 * threads;
    return (is_few || is_uneven) && wave_room(w, n_blocks) >= WAVE_CHUNKS;
}

void attention(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
               const AttentionShape *shape, float *weights_out) {
    if (!device_ok(device) || rows->n <= 0) return;
    AttentionWork work = work_of(device, out, q, view, rows, shape, weights_out);
    WorkSize size = cut(&work);
    int n_blocks = work.row_blocks * work.head_parts * shape->n_kv_heads;
    if (shares_chunks(device, &work, &size, n_blocks)) {
        size_t queries = (size_t)work.block_rows * (size_t)work.block_heads;
        run_waves(device, &work, n_blocks, queries * ATTENTION_CHUNK * key_work(shape));
    } else {
        device_run(device, whole_blocks, &work, (size_t)n_blocks, work_chunk(size.longest));
    }
    if (weights_out)
        device_run(device, weight_rows, &work, (size_t)rows->n * (size_t)shape->n_heads, 1);
}

// Checks a Batch of any length and cuts it into chunks that the scratch can hold. For max_rows = 4
// and a prompt of 6 tokens behind 10 in the cache:
//
//   batch      row        0   1   2   3 | 4   5
//              position  10  11  12  13 |14  15
//   chunk      row        0   1   2   3 | 0   1      two passes through all layers
//
// A chunk may hold rows of several sequences. Rows of one sequence in one chunk see each other's
// keys, since attention reads the cache after all rows of the chunk were written to it.
#include "model/internal.h"

#include <assert.h>
#include <string.h>

static int row_sequence(const Batch *batch, int i) {
    return batch->sequences ? batch->sequences[i] : 0;
}

// A row without a position continues its sequence: its position is lengths[sequence].
static int row_position(const Batch *batch, int i, const int *lengths) {
    return batch->positions ? batch->positions[i] : lengths[row_sequence(batch, i)];
}

static bool row_wants_logits(const Batch *batch, int i) {
    return batch->wants_logits ? batch->wants_logits[i] : i == batch->n - 1;
}

// Checks token, sequence and position of row i; lengths[] are those after the rows before it. A
// position beyond the length would leave a gap of keys that were never written; one far before it
// would need keys that layers with a window have no more.
static bool check_row(const Model *m, const Batch *batch, int i, const int *lengths, Error *error) {
    int sequence = row_sequence(batch, i), token = batch->tokens[i];
    if (token < 0 || token >= m->config.vocab_size)
        return error_set(error, ERROR_USAGE, "token %d at row %d is not in the vocabulary of %d",
                         token, i, m->config.vocab_size);
    if (sequence < 0 || sequence >= m->options.n_sequences)
        return error_set(error, ERROR_USAGE, "sequence %d at row %d: the cache has %d", sequence, i,
                         m->options.n_sequences);
    int position = row_position(batch, i, lengths);
    if (position < 0 || position > lengths[sequence])
        return error_set(error, ERROR_USAGE,
                         "position %d at row %d: sequence %d holds %d and continues there",
                         position, i, sequence, lengths[sequence]);
    if (position && position < m->lowest_planned[sequence])
        return error_set(error, ERROR_USAGE,
                         "position %d at row %d: layers with a window hold no more of sequence %d "
                         "than what %d and later positions see; 0 begins it anew",
                         position, i, sequence, m->lowest_planned[sequence]);
    return true;
}

// Row i takes its place: how far the rings can go back behind it.
static void plan_row(const Model *m, int sequence, int position) {
    int *lowest = &m->lowest_planned[sequence];
    int behind = kv_cache_lowest(&m->cache, -1, position + 1);
    m->lengths_planned[sequence] = position + 1;
    if (!position) *lowest = 0;
    if (behind > *lowest) *lowest = behind;
}

// Goes through the whole batch as the passes will, over a copy of the lengths: a batch that is
// refused changes nothing.
bool check_model_batch(Model *m, const Batch *batch, Error *error) {
    int *lengths = m->lengths_planned, needed = 0, wanted = 0;
    if (batch->n < 1) return error_set(error, ERROR_USAGE, "a batch of %d rows", batch->n);
    memcpy(lengths, m->cache.lengths, (size_t)m->options.n_sequences * sizeof *lengths);
    memcpy(m->lowest_planned, m->cache.lowest, (size_t)m->options.n_sequences * sizeof *lengths);
    for (int i = 0; i < batch->n; i++) {
        if (!check_row(m, batch, i, lengths, error)) return false;
        int position = row_position(batch, i, lengths);
        if (position >= needed) needed = position + 1;
        plan_row(m, row_sequence(batch, i), position);
        wanted += row_wants_logits(batch, i);
    }
    if (needed > m->options.context)
        return error_set(error, ERROR_USAGE, "%d tokens do not fit the context of %d", needed,
                         m->options.context);
    if (wanted > m->options.max_logit_rows)
        return error_set(error, ERROR_USAGE, "%d rows want logits, there is room for %d", wanted,
                         m->options.max_logit_rows);
    return true;
}

// Rows behind the old length are forgotten by restoring the length alone. A row that was written at
// an earlier position has overwritten the keys there, so its sequence now ends before it.
void model_forget(Model *m, const Batch *batch) {
    int *lengths = m->lengths_planned;
    memcpy(lengths, m->lengths_before, (size_t)m->options.n_sequences * sizeof *lengths);
    for (int i = 0; i < batch->n; i++) {
        int sequence = row_sequence(batch, i), position = row_position(batch, i, lengths);
        if (position < lengths[sequence]) lengths[sequence] = position;
    }
    kv_cache_return(&m->cache, lengths);
    m->n_logit_rows = m->n_host_rows = 0;
}

// Appends one row to the chunk, and to its list of rows that want logits.
static void chunk_add(Chunk *c, int token, int position, int sequence, bool wants_logits) {
    if (wants_logits) {
        int k = c->n_logit_rows++;
        c->logit_rows[k] = c->n;
        c->logit_tokens[k] = token;
        c->logit_positions[k] = position;
        c->logit_sequences[k] = sequence;
    }
    c->tokens[c->n] = token;
    c->positions[c->n] = position;
    c->sequences[c->n] = sequence;
    if (position > c->max_position) c->max_position = position;
    c->n++;
}

void chunk_take(Model *m, const Batch *batch, int start) {
    Chunk *c = &m->chunk;
    c->n = c->n_logit_rows = c->max_position = 0;
    for (int i = start; i < batch->n && c->n < m->options.max_rows; i++) {
        int sequence = row_sequence(batch, i);
        int position = row_position(batch, i, m->cache.lengths);
        if (c->n && position < kv_cache_length(&m->cache, sequence)) break;
        if (batch->tentative)
            kv_cache_write_tentatively(&m->cache, sequence, position);
        else
            kv_cache_write(&m->cache, sequence, position);
        chunk_add(c, batch->tokens[i], position, sequence, row_wants_logits(batch, i));
    }
    size_t bytes = (size_t)c->n * sizeof(int32_t);
    device_upload(m->device, m->scratch.tokens, c->tokens, bytes);
    device_upload(m->device, m->scratch.positions, c->positions, bytes);
    device_upload(m->device, m->scratch.sequences, c->sequences, bytes);
}

// Positions start one below that of the first pass, since `advance` comes before every pass.
// chunk_take is not used here: it needs tokens on the host. The chunk's lists are filled once for
// all passes, one row per sequence.
void forward_sampled_begin(Model *m, int n) {
    Chunk *c = &m->chunk;
    size_t bytes = (size_t)n * sizeof(int32_t);
    assert(n <= m->options.max_rows && n <= m->options.max_logit_rows);
    for (int i = 0; i < n; i++) {
        c->positions[i] = kv_cache_length(&m->cache, i) - 1;
        c->sequences[i] = i;
        c->logit_rows[i] = i;
    }
    device_upload(m->device, m->scratch.positions, c->positions, bytes);
    device_upload(m->device, m->scratch.sequences, c->sequences, bytes);
}

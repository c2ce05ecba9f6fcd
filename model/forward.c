// The forward pass: embed, layers of attention and feed-forward, final norm, logits.
//
// Decoder-only transformers differ in which steps they have, hardly in the order, so one path
// serves all: a weight that a model lacks is NULL and its step is left out; Config says the rest.
// Every step is one call of kernels/kernels.h, and a listener can see every result (observe).
//
//   x = embedding                                     the residual stream, (n, dim)
//   x = x + wo attention(rope(wq x'), rope(wk x'), wv x')        x' = norm(x)     per layer
//   x = x + w_down (act(w_gate x') * w_up x')                    x' = norm(x)
//   logits = head norm(x)
//
// With post norms (Gemma) a norm also follows wo and w_down; OLMo 2 has only those. In GPT-NeoX
// both blocks read the same x. Stages with their shapes are in observe.h, buffers in model.h
// (Scratch). Not here: how a step is computed (kernels/), which rows form a chunk (chunk.c),
// sampling (decoder.c), layers in other processes (ranks.h).
//
// n rows go through together, each a token with its position and sequence: a whole prompt, or the
// last token of a text. A row reads other rows only in attention, from the cache.
#include "model/internal.h"
#include "model/ranks.h"

#include <string.h>

// out = norm(x), returned; or x itself where the model has no norm here.
static const float *norm(Model *m, float *out, const float *x, const DeviceNorm *w, int n) {
    const Config *c = &m->config;
    if (!w->weight) return x;
    if (c->norm == NORM_LAYER)
        layernorm(m->device, out, x, w->weight, w->bias, n, c->dim, c->norm_eps);
    else
        rmsnorm(m->device, out, x, w->weight, n, c->dim, c->norm_eps);
    return out;
}

// out = weight x + bias, as an argument of project.
static Projection to(float *out, const DeviceLinear *w) {
    return (Projection){out, w->weight, w->bias};
}

// Normalises queries or keys in place: each head by itself, or all heads as one vector.
static void qk_norm(Model *m, StageId id, int l, float *x, const DeviceNorm *w, int n,
                    int n_heads) {
    const Config *c = &m->config;
    if (!w->weight) return;
    bool per_head = c->qk_norm == QK_NORM_PER_HEAD;
    int rows = per_head ? n * n_heads : n, width = per_head ? c->head_dim : n_heads * c->head_dim;
    rmsnorm(m->device, x, x, w->weight, rows, width, c->norm_eps);
    observe(m, id, l, x);
}

// Position enters here: RoPE rotates queries and keys by angles that grow with it.
static void rotate(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const RopeTable *table = c->layers[l].local_rope ? &m->rope_local : &m->rope;
    if (c->position != POSITION_ROPE || c->layers[l].no_rope) return;
    const RopeTable *of_queries = m->rope_queries.cos ? &m->rope_queries : table;
    rope(m->device, m->scratch.q, c->n_heads, c->head_dim, of_queries, rows);
    rope(m->device, m->scratch.k, c->n_kv_heads, c->head_dim, table, rows);
    observe(m, STAGE_Q_ROTATED, l, m->scratch.q);
    observe(m, STAGE_K_ROTATED, l, m->scratch.k);
}

// From the projected queries and keys to those whose dot products are the scores. The order of QK
// norm and RoPE matters only where the norm has weights, since a rotation keeps the mean square.
static void norm_and_rotate_qk(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    if (c->qk_norm_after_rope) rotate(m, l, rows);
    qk_norm(m, STAGE_Q_NORM, l, m->scratch.q, &w->q_norm, rows->n, c->n_heads);
    qk_norm(m, STAGE_K_NORM, l, m->scratch.k, &w->k_norm, rows->n, c->n_kv_heads);
    if (!c->qk_norm_after_rope) rotate(m, l, rows);
}

// Adds the rows' keys and values to the cache. Then each row's att_heads is the weighted sum of the
// values at all positions that it may see: its own, and earlier rows of the same chunk.
static void attend(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    KvView view = {m->cache.kv, l - m->options.layers.first};
    AttentionShape shape = {c->n_heads,          c->n_kv_heads,
                            c->head_dim,         c->layers[l].attention_scale,
                            model_pattern(m, l), c->score_softcap};
    kv_write(m->device, &view, s->k, s->v, rows);
    attention(m->device, s->att_heads, s->q, &view, rows, &shape, m->att_weights);
    if (m->att_weights) observe(m, STAGE_ATT_WEIGHTS, l, m->att_weights);
    observe(m, STAGE_ATT_HEADS, l, s->att_heads);
}

// x += the output of a block, which is in `branch`: its norm and its factor come first, where the
// model has them. `projected` is the first of the block's three last stages.
static void add_branch(Model *m, int l, StageId projected, const DeviceNorm *post_norm, int n) {
    const Config *c = &m->config;
    float *branch = m->scratch.branch;
    size_t count = (size_t)n * (size_t)c->dim;
    bool scaled = c->residual_scale != 1.0f;
    if (post_norm->weight || scaled) observe(m, projected, l, branch);
    norm(m, branch, branch, post_norm, n);
    if (scaled) scale(m->device, branch, count, c->residual_scale);
    observe(m, projected + 1, l, branch);
    add(m->device, m->scratch.x, branch, count);
    observe(m, projected + 2, l, m->scratch.x);
}

// x += wo attention: the one block where a row reads other positions.
static void attention_block(Model *m, int l, const Rows *rows) {
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;
    // The residual stream is only ever added to. Without a norm here (OLMo 2) `in` is x itself.
    const float *in = norm(m, s->x_norm, s->x, &w->att_norm, rows->n);
    observe(m, STAGE_ATT_NORM, l, in);

    // (n, dim) -> (n, q_dim), (n, kv_dim) twice, in one call, since all read the same rows.
    Projection qkv[] = {to(s->q, &w->wq), to(s->k, &w->wk), to(s->v, &w->wv)};
    project(m->device, in, rows->n, qkv, 3);
    observe(m, STAGE_Q, l, s->q);
    observe(m, STAGE_K, l, s->k);
    observe(m, STAGE_V, l, s->v);

    norm_and_rotate_qk(m, l, rows);
    attend(m, l, rows);
    Projection o = to(s->branch, &w->wo);
    project(m->device, s->att_heads, rows->n, &o, 1);
    // Before x changes: the feed-forward block reads what attention has read.
    if (m->config.parallel_residual) norm(m, s->x_norm, s->x, &w->ffn_norm, rows->n);
    add_branch(m, l, STAGE_ATT_PROJECTED, &w->att_post_norm, rows->n);
}

// x += w_down (act(w_gate x') * w_up x'), or w_down act(w_up x') without a gate. Rows stay apart.
static void ffn_block(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;
    const float *in =
        c->parallel_residual ? s->x_norm : norm(m, s->x_norm, s->x, &w->ffn_norm, rows->n);
    observe(m, STAGE_FFN_NORM, l, in);

    Projection up_gate[] = {to(s->up, &w->w_up), to(s->gate, &w->w_gate)};
    project(m->device, in, rows->n, up_gate, c->gated_ffn ? 2 : 1);
    if (c->gated_ffn) observe(m, STAGE_FFN_GATE, l, s->gate);
    observe(m, STAGE_FFN_UP, l, s->up);

    // activate works in place: act(gate) * up in gate; without a gate, act(up) in up.
    float *hidden = c->gated_ffn ? s->gate : s->up;
    activate(m->device, hidden, c->gated_ffn ? s->up : NULL,
             (size_t)rows->n * (size_t)c->hidden_dim, (ActivationKind)c->activation);
    observe(m, STAGE_FFN_ACTIVATED, l, hidden);

    Projection down = to(s->branch, &w->w_down);
    project(m->device, hidden, rows->n, &down, 1);
    add_branch(m, l, STAGE_FFN_PROJECTED, &w->ffn_post_norm, rows->n);
}

// Logits of the rows that want them, stored behind those of earlier chunks. The head is often the
// largest matrix of a small model, so it meets the rows that need it only: of a prompt, the last.
void forward_logits(Model *m) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    int n = m->chunk.n_logit_rows;
    size_t dim = (size_t)c->dim, vocab_size = (size_t)c->vocab_size;
    float *out = s->logits + (size_t)m->n_logit_rows * vocab_size;

    // `last` gathers the rows that want logits; each run of neighbours is one call.
    for (int i = 0, run; i < n; i += run) {
        const int *row = m->chunk.logit_rows + i;
        for (run = 1; i + run < n && row[run] == row[0] + run;)
            run++;
        // The norm copies as well: from the chunk's rows to neighbouring rows of `last`.
        norm(m, s->last + (size_t)i * dim, s->x + (size_t)row[0] * dim, &m->final_norm, run);
    }
    observe(m, STAGE_FINAL_NORM, -1, s->last);
    project(m->device, s->last, n, &(Projection){out, m->head, NULL}, 1);
    size_t count = (size_t)n * vocab_size;
    if (config_changes_logits(c)) observe(m, STAGE_UNCAPPED, -1, out);
    if (c->logit_divisor != 1.0f) scale(m->device, out, count, 1.0f / c->logit_divisor);
    if (c->logit_softcap != 0.0f) softcap(m->device, out, count, c->logit_softcap);
    observe(m, STAGE_LOGITS, -1, out);
    m->n_logit_rows += n;
}

// x = embedding, of tokens and, in GPT-2, of positions.
static void embed_rows(Model *m, const Rows *rows) {
    float *x = m->scratch.x;
    embed(m->device, x, m->token_embedding, m->position_embedding, m->config.embedding_scale, rows);
    if (m->embedding_norm.weight) {
        observe(m, STAGE_TOKEN_EMBEDDING, -1, x);
        norm(m, x, x, &m->embedding_norm, rows->n);
    }
    observe(m, STAGE_EMBEDDING, -1, x);
}

// The whole pass for the rows of one chunk, or what of it is in this process.
static void forward_chunk(Model *m) {
    Scratch *s = &m->scratch;
    LayerRange layers = m->options.layers;
    Rows rows = {m->chunk.n, s->tokens, s->positions, s->sequences};

    if (layers.first == 0) embed_rows(m, &rows);
    for (int l = layers.first; l < layers.end; l++) {
        attention_block(m, l, &rows);
        ffn_block(m, l, &rows);
        if (m->ranked) transport_progress(); // the chunk before this one reaches the next rank
    }
    if (layers.end == m->config.n_layers && m->chunk.n_logit_rows) forward_logits(m);
}

// Between begin and end a backend may record the operations and replay them later (CUDA graphs).
void run_chunk(Model *m) {
    if (m->ranked) ranks_receive(m);
    device_begin(m->device, &(PassShape){m->chunk.n, m->chunk.max_position, &m->stop});
    forward_chunk(m);
    device_end(m->device);
    if (m->ranked) ranks_send(m);
}

// Chunks in order: a later one attends to the keys that an earlier one has written.
void forward_batch(Model *m, const Batch *batch) {
    m->n_logit_rows = m->n_host_rows = 0;
    for (int start = 0; start < batch->n && !model_stopped(m); start += m->chunk.n) {
        chunk_take(m, batch, start);
        run_chunk(m);
    }
    if (m->ranked) ranks_collect(m);
}

void forward_sampled(Model *m, const int32_t *sampled, int n) {
    Chunk *c = &m->chunk;
    c->n = c->n_logit_rows = n;
    c->max_position = 0;
    for (int i = 0; i < n; i++) {
        // The host counts positions too, without knowing the tokens: for the cache's lengths, and
        // for max_position, by which the cuda backend sizes the launches of attention.
        int position = kv_cache_length(&m->cache, i);
        kv_cache_write(&m->cache, i, position);
        if (position > c->max_position) c->max_position = position;
    }
    m->n_logit_rows = m->n_host_rows = 0;
    advance(m->device, m->scratch.tokens, m->scratch.positions, sampled, n);
    run_chunk(m);
    if (m->ranked) ranks_collect(m);
}

bool model_forward(Model *m, const Batch *batch, Error *error) {
    Error cause = {0};
    m->n_logit_rows = m->n_host_rows = 0;
    model_clear_stop(m);
    if (!check_model_batch(m, batch, error)) return false;
    memcpy(m->lengths_before, m->cache.lengths,
           (size_t)m->options.n_sequences * sizeof *m->lengths_before);
    forward_batch(m, batch);

    if (fetch_logits(m, &cause)) return logits_finite(m) || find_nonfinite_stage(m, batch, error);
    if (cause.code == ERROR_INTERRUPTED) model_forget(m, batch);
    return error_copy(error, &cause);
}

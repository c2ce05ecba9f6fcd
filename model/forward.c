// The forward pass: embed, layers of attention and feed-forward, final norm, logits.
//
// Llama and its relatives differ in which steps they have, not in their order, so there is one path
// for all of them: a weight that a model lacks is NULL and its step is left out; Config says the
// rest. Every step is one call of kernels/kernels.h, and every result can be watched (observe).
//
//   x = embedding                                     the residual stream, (n, dim)
//   x = x + wo attention(rope(wq x'), rope(wk x'), wv x')        x' = norm(x)     per layer
//   x = x + w_down (act(w_gate x') * w_up x')                    x' = norm(x)
//   logits = head norm(x)
#include "model/forward.h"

#include "model/attention_pattern.h"

#include <assert.h>
#include <string.h>

// x through a norm into `out`; where the model has none at this place, x as it is.
static const float *norm(Model *m, float *out, const float *x, const DeviceNorm *w, int n) {
    const Config *c = &m->config;
    if (!w->weight) return x;
    if (c->norm == NORM_LAYER)
        layernorm(m->device, out, x, w->weight, w->bias, n, c->dim, c->norm_eps);
    else
        rmsnorm(m->device, out, x, w->weight, n, c->dim, c->norm_eps);
    return out;
}

// out = weight x + bias, for project.
static Projection to(float *out, const DeviceLinear *w) {
    return (Projection){out, w->weight, w->bias};
}

// Norm of queries or keys: of each head by itself, or of all heads as one vector.
static void qk_norm(Model *m, StageId id, int l, float *x, const DeviceNorm *w, int n,
                    int n_heads) {
    const Config *c = &m->config;
    if (!w->weight) return;
    bool per_head = c->qk_norm == QK_NORM_PER_HEAD;
    int rows = per_head ? n * n_heads : n, width = per_head ? c->head_dim : n_heads * c->head_dim;
    rmsnorm(m->device, x, x, w->weight, rows, width, c->norm_eps);
    observe(m, id, l, x);
}

// Position enters here: queries and keys are turned by an angle that grows with it.
static void rotate(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const RopeTable *table = c->layers[l].local_rope ? &m->rope_local : &m->rope;
    if (c->position != POSITION_ROPE || c->layers[l].no_rope) return;
    rope(m->device, m->scratch.q, c->n_heads, c->head_dim, table, rows);
    rope(m->device, m->scratch.k, c->n_kv_heads, c->head_dim, table, rows);
    observe(m, STAGE_Q_ROTATED, l, m->scratch.q);
    observe(m, STAGE_K_ROTATED, l, m->scratch.k);
}

// Queries and keys from as they were projected to as they meet.
static void place(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    if (c->qk_norm_after_rope) rotate(m, l, rows);
    qk_norm(m, STAGE_Q_NORM, l, m->scratch.q, &w->q_norm, rows->n, c->n_heads);
    qk_norm(m, STAGE_K_NORM, l, m->scratch.k, &w->k_norm, rows->n, c->n_kv_heads);
    if (!c->qk_norm_after_rope) rotate(m, l, rows);
}

// Weighted sums of the values of all positions that each row may see, its own included.
static void attend(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    KvView view = {m->cache.kv, l};
    AttentionShape shape = {c->n_heads, c->n_kv_heads, c->head_dim, c->layers[l].attention_scale,
                            attention_pattern(c, l)};
    if (m->pattern_override) shape.pattern = *m->pattern_override;
    kv_write(m->device, &view, s->k, s->v, rows);
    attention(m->device, s->att_out, s->q, &view, rows, &shape, m->att_weights);
    if (m->att_weights) observe(m, STAGE_ATT_WEIGHTS, l, m->att_weights);
    observe(m, STAGE_ATT_HEADS, l, s->att_out);
}

// x += wo attention: where positions exchange what they know. Everything else works on one row
// alone.
static void attention_block(Model *m, int l, const Rows *rows) {
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;

    const float *in = norm(m, s->x_norm, s->x, &w->att_norm, rows->n);
    observe(m, STAGE_ATT_NORM, l, in);

    Projection qkv[] = {to(s->q, &w->wq), to(s->k, &w->wk), to(s->v, &w->wv)};
    project(m->device, in, rows->n, qkv, 3);
    observe(m, STAGE_Q, l, s->q);
    observe(m, STAGE_K, l, s->k);
    observe(m, STAGE_V, l, s->v);

    place(m, l, rows);
    attend(m, l, rows);

    Projection o = to(s->branch, &w->wo);
    project(m->device, s->att_out, rows->n, &o, 1);
    if (w->att_post_norm.weight) observe(m, STAGE_ATT_PROJECTED, l, s->branch);
    const float *out = norm(m, s->branch, s->branch, &w->att_post_norm, rows->n);
    observe(m, STAGE_ATT_OUT, l, out);
    add(m->device, s->x, out, (size_t)rows->n * (size_t)m->config.dim);
    observe(m, STAGE_ATT_RESIDUAL, l, s->x);
}

// x += down(act(gate x) * up x), or down(act(up x)) without a gate: what each position makes of
// what it has gathered.
static void ffn_block(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;

    const float *in = norm(m, s->x_norm, s->x, &w->ffn_norm, rows->n);
    observe(m, STAGE_FFN_NORM, l, in);

    Projection up_gate[] = {to(s->up, &w->w_up), to(s->gate, &w->w_gate)};
    project(m->device, in, rows->n, up_gate, c->gated_ffn ? 2 : 1);
    if (c->gated_ffn) observe(m, STAGE_FFN_GATE, l, s->gate);
    observe(m, STAGE_FFN_UP, l, s->up);

    float *hidden = c->gated_ffn ? s->gate : s->up;
    activate(m->device, hidden, c->gated_ffn ? s->up : NULL,
             (size_t)rows->n * (size_t)c->hidden_dim, (ActivationKind)c->activation);
    observe(m, STAGE_FFN_ACTIVATED, l, hidden);

    Projection down = to(s->branch, &w->w_down);
    project(m->device, hidden, rows->n, &down, 1);
    if (w->ffn_post_norm.weight) observe(m, STAGE_FFN_PROJECTED, l, s->branch);
    const float *out = norm(m, s->branch, s->branch, &w->ffn_post_norm, rows->n);
    observe(m, STAGE_FFN_OUT, l, out);
    add(m->device, s->x, out, (size_t)rows->n * (size_t)c->dim);
    observe(m, STAGE_LAYER_OUT, l, s->x);
}

// Logits of the rows that want them, behind those of earlier pieces.
static void logits(Model *m) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    int n = m->piece.n_logit_rows;
    size_t dim = (size_t)c->dim, vocab_size = (size_t)c->vocab_size;
    float *out = s->logits + (size_t)m->n_logit_rows * vocab_size;

    // Neighbouring rows go through the norm together.
    for (int i = 0, run; i < n; i += run) {
        const int *row = m->piece.logit_rows + i;
        for (run = 1; i + run < n && row[run] == row[0] + run;)
            run++;
        norm(m, s->last + (size_t)i * dim, s->x + (size_t)row[0] * dim, &m->final_norm, run);
    }
    observe(m, STAGE_FINAL_NORM, -1, s->last);
    project(m->device, s->last, n, &(Projection){out, m->head, NULL}, 1);
    if (c->logit_softcap != 0.0f) {
        observe(m, STAGE_UNCAPPED, -1, out);
        softcap(m->device, out, (size_t)n * vocab_size, c->logit_softcap);
    }
    observe(m, STAGE_LOGITS, -1, out);
    m->n_logit_rows += n;
}

// All layers for the rows of one piece.
static void forward_piece(Model *m) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    Rows rows = {m->piece.n, s->tokens, s->positions, s->sequences};

    embed(m->device, s->x, m->token_embedding, m->position_embedding, c->embedding_scale, &rows);
    if (m->embedding_norm.weight) {
        observe(m, STAGE_TOKEN_EMBEDDING, -1, s->x);
        norm(m, s->x, s->x, &m->embedding_norm, rows.n);
    }
    observe(m, STAGE_EMBEDDING, -1, s->x);
    for (int l = 0; l < c->n_layers; l++) {
        attention_block(m, l, &rows);
        ffn_block(m, l, &rows);
    }
    if (m->piece.n_logit_rows) logits(m);
}

static void run_piece(Model *m) {
    device_begin(m->device, &(PassShape){m->piece.n, m->piece.max_position});
    forward_piece(m);
    device_end(m->device);
}

void forward_batch(Model *m, const Batch *batch) {
    m->n_logit_rows = 0;
    for (int start = 0; start < batch->n; start += m->piece.n) {
        piece_take(m, batch, start);
        run_piece(m);
    }
}

// The rows stand one step before the first pass: advance comes before a pass.
void forward_drawn_begin(Model *m, int n) {
    Piece *p = &m->piece;
    size_t bytes = (size_t)n * sizeof(int32_t);
    assert(n <= m->options.max_rows && n <= m->options.max_logit_rows);
    for (int i = 0; i < n; i++) {
        p->positions[i] = kv_cache_length(&m->cache, i) - 1;
        p->sequences[i] = i;
        p->logit_rows[i] = i;
    }
    device_upload(m->device, m->scratch.positions, p->positions, bytes);
    device_upload(m->device, m->scratch.sequences, p->sequences, bytes);
}

void forward_drawn(Model *m, const int32_t *drawn, int n) {
    Piece *p = &m->piece;
    p->n = p->n_logit_rows = n;
    p->max_position = 0;
    for (int i = 0; i < n; i++) {
        int position = kv_cache_length(&m->cache, i);
        kv_cache_write(&m->cache, i, position);
        if (position > p->max_position) p->max_position = position;
    }
    m->n_logit_rows = 0;
    advance(m->device, m->scratch.tokens, m->scratch.positions, drawn, n);
    run_piece(m);
}

bool model_forward(Model *m, const Batch *batch, Error *error) {
    m->n_logit_rows = 0;
    if (!batch_check(m, batch, error)) return false;
    memcpy(m->lengths_before, m->cache.lengths,
           (size_t)m->options.n_sequences * sizeof *m->lengths_before);
    forward_batch(m, batch);

    size_t count = (size_t)m->n_logit_rows * (size_t)m->config.vocab_size;
    device_download(m->device, m->host_logits, m->scratch.logits, count * sizeof(float));
    const Error *failure = device_error(m->device);
    if (failure->code) return error_set(error, failure->code, "%s", failure->message);
    return all_finite(m->host_logits, count) || blame_stage(m, batch, error);
}

const float *model_logits(const Model *m, int i) {
    assert(i >= 0 && i < m->n_logit_rows);
    return m->host_logits + (size_t)i * (size_t)m->config.vocab_size;
}

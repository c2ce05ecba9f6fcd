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

// Norm of queries or keys before they meet: of each head by itself, or of all heads as one vector.
static void qk_norm(Model *m, float *x, const DeviceNorm *w, int n, int n_heads) {
    const Config *c = &m->config;
    bool per_head = c->qk_norm == QK_NORM_PER_HEAD;
    int rows = per_head ? n * n_heads : n, width = per_head ? c->head_dim : n_heads * c->head_dim;
    if (w->weight) rmsnorm(m->device, x, x, w->weight, rows, width, c->norm_eps);
}

// Gives queries and keys their place in the text.
static void rotate(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const RopeTable *table = c->layers[l].local_rope ? &m->rope_local : &m->rope;
    if (c->position != POSITION_ROPE || c->layers[l].no_rope) return;
    rope(m->device, m->scratch.q, c->n_heads, c->head_dim, table, rows);
    rope(m->device, m->scratch.k, c->n_kv_heads, c->head_dim, table, rows);
}

static void attend(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    AttentionShape shape = {.n_heads = c->n_heads,
                            .n_kv_heads = c->n_kv_heads,
                            .head_dim = c->head_dim,
                            .scale = c->layers[l].attention_scale,
                            .pattern = m->pattern_override ? *m->pattern_override
                                                           : attention_pattern(c, l)};
    KvView view = {m->cache.kv, l};
    kv_write(m->device, &view, m->scratch.k, m->scratch.v, rows);
    attention(m->device, m->scratch.att_out, m->scratch.q, &view, rows, &shape, m->att_weights);
}

static void attention_block(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;
    int n = rows->n;

    const float *in = norm(m, s->x_norm, s->x, &w->att_norm, n);
    observe(m, &(Stage){STAGE_ATT_NORM, l, {n, c->dim}, in, {0}});

    Projection qkv[] = {{s->q, w->wq.weight, w->wq.bias},
                        {s->k, w->wk.weight, w->wk.bias},
                        {s->v, w->wv.weight, w->wv.bias}};
    project(m->device, in, n, qkv, 3);
    observe(m, &(Stage){STAGE_Q, l, {n, c->n_heads, c->head_dim}, s->q, {0}});
    observe(m, &(Stage){STAGE_K, l, {n, c->n_kv_heads, c->head_dim}, s->k, {0}});
    observe(m, &(Stage){STAGE_V, l, {n, c->n_kv_heads, c->head_dim}, s->v, {0}});

    if (c->qk_norm_after_rope) rotate(m, l, rows);
    qk_norm(m, s->q, &w->q_norm, n, c->n_heads);
    qk_norm(m, s->k, &w->k_norm, n, c->n_kv_heads);
    if (!c->qk_norm_after_rope) rotate(m, l, rows);
    observe(m, &(Stage){STAGE_Q_ROTATED, l, {n, c->n_heads, c->head_dim}, s->q, {0}});
    observe(m, &(Stage){STAGE_K_ROTATED, l, {n, c->n_kv_heads, c->head_dim}, s->k, {0}});

    attend(m, l, rows);
    if (m->att_weights)
        observe(
            m, &(Stage){
                   STAGE_ATT_WEIGHTS, l, {n, c->n_heads, m->options.context}, m->att_weights, {0}});
    observe(m, &(Stage){STAGE_ATT_HEADS, l, {n, c->n_heads, c->head_dim}, s->att_out, {0}});

    project(m->device, s->att_out, n, &(Projection){s->branch, w->wo.weight, w->wo.bias}, 1);
    const float *out = norm(m, s->branch, s->branch, &w->att_post_norm, n);
    observe(m, &(Stage){STAGE_ATT_OUT, l, {n, c->dim}, out, {0}});
    add(m->device, s->x, out, (size_t)n * (size_t)c->dim);
    observe(m, &(Stage){STAGE_ATT_RESIDUAL, l, {n, c->dim}, s->x, {0}});
}

// down(act(gate x) * up x), or down(act(up x)) without a gate.
static void ffn_block(Model *m, int l, const Rows *rows) {
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;
    int n = rows->n;

    const float *in = norm(m, s->x_norm, s->x, &w->ffn_norm, n);
    observe(m, &(Stage){STAGE_FFN_NORM, l, {n, c->dim}, in, {0}});

    Projection up_and_gate[] = {{s->up, w->w_up.weight, w->w_up.bias},
                                {s->gate, w->w_gate.weight, w->w_gate.bias}};
    project(m->device, in, n, up_and_gate, c->gated_ffn ? 2 : 1);
    if (c->gated_ffn) observe(m, &(Stage){STAGE_FFN_GATE, l, {n, c->hidden_dim}, s->gate, {0}});
    observe(m, &(Stage){STAGE_FFN_UP, l, {n, c->hidden_dim}, s->up, {0}});

    float *hidden = c->gated_ffn ? s->gate : s->up;
    activate(m->device, hidden, c->gated_ffn ? s->up : NULL, (size_t)n * (size_t)c->hidden_dim,
             (ActivationKind)c->activation);
    observe(m, &(Stage){STAGE_FFN_ACTIVATED, l, {n, c->hidden_dim}, hidden, {0}});

    project(m->device, hidden, n, &(Projection){s->branch, w->w_down.weight, w->w_down.bias}, 1);
    const float *out = norm(m, s->branch, s->branch, &w->ffn_post_norm, n);
    observe(m, &(Stage){STAGE_FFN_OUT, l, {n, c->dim}, out, {0}});
    add(m->device, s->x, out, (size_t)n * (size_t)c->dim);
    observe(m, &(Stage){STAGE_LAYER_OUT, l, {n, c->dim}, s->x, {0}});
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
    observe(m, &(Stage){STAGE_FINAL_NORM, -1, {n, c->dim}, s->last, {0}});
    project(m->device, s->last, n, &(Projection){out, m->head, NULL}, 1);
    if (c->logit_softcap != 0.0f) softcap(m->device, out, (size_t)n * vocab_size, c->logit_softcap);
    observe(m, &(Stage){STAGE_LOGITS, -1, {n, c->vocab_size}, out, {0}});
    m->n_logit_rows += n;
}

static void forward_piece(Model *m) {
    const Config *c = &m->config;
    Scratch *s = &m->scratch;
    Rows rows = {m->piece.n, s->tokens, s->positions, s->sequences};

    embed(m->device, s->x, m->token_embedding, m->position_embedding, c->embedding_scale, &rows);
    if (m->embedding_norm.weight) norm(m, s->x, s->x, &m->embedding_norm, rows.n);
    observe(m, &(Stage){STAGE_EMBEDDING, -1, {rows.n, c->dim}, s->x, {0}});
    for (int l = 0; l < c->n_layers; l++) {
        attention_block(m, l, &rows);
        ffn_block(m, l, &rows);
    }
    if (m->piece.n_logit_rows) logits(m);
}

void forward_batch(Model *m, const Batch *batch) {
    m->n_logit_rows = 0;
    for (int start = 0; start < batch->n; start += m->piece.n) {
        piece_take(m, batch, start);
        device_begin(m->device, &(PassShape){m->piece.n, m->piece.max_position});
        forward_piece(m);
        device_end(m->device);
    }
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

// From the residual stream to logits, outside a forward pass: what the model would say if it ended
// after an earlier layer. The logit lens (nostalgebraist 2020) does that for every layer.
//
// The rows go through forward_logits, the function that ends every pass, as a chunk of which each
// row wants logits. So there is one copy of that arithmetic, and the stream after the last layer
// gives the logits of the pass.
#include "model/internal.h"
#include "model/ranks.h"

#include <assert.h>

const Error *model_failure(const Model *m) {
    const Error *failure = device_error(m->device);
    return failure->code || !m->ranked ? failure : ranks_error();
}

bool fetch_logits(Model *m, Error *error) {
    size_t count = (size_t)m->n_logit_rows * (size_t)m->config.vocab_size;
    // A copy of many logits takes a tenth of a second.
    if (!model_stopped(m))
        device_download(m->device, m->host_logits, m->scratch.logits, count * sizeof(float));
    const Error *failure = model_failure(m);
    if (failure->code) return error_copy(error, failure);
    if (model_stopped(m)) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    m->n_host_rows = m->n_logit_rows;
    return true;
}

const float *model_logits(const Model *m, int i) {
    assert(i >= 0 && i < m->n_host_rows);
    return m->host_logits + (size_t)i * (size_t)m->config.vocab_size;
}

// Tokens and positions stay those of the last pass: neither norm nor head reads them.
static void set_chunk(Chunk *chunk, int n) {
    chunk->n = chunk->n_logit_rows = n;
    for (int i = 0; i < n; i++)
        chunk->logit_rows[i] = i;
}

bool model_unembed(Model *m, const float *x, int n, Error *error) {
    size_t bytes = (size_t)n * (size_t)m->config.dim * sizeof *x;
    assert(n > 0 && n <= m->options.max_rows && n <= m->options.max_logit_rows);
    // For a listener these rows would be stages of a pass.
    Listener *listener = m->listener;
    uint32_t stages = m->intervention_stages;
    m->listener = NULL;
    m->intervention_stages = 0;
    m->n_logit_rows = m->n_host_rows = 0;
    model_clear_stop(m);
    set_chunk(&m->chunk, n);
    device_upload(m->device, m->scratch.x, x, bytes);
    device_begin(m->device, &(PassShape){.n = n, .stop = &m->stop});
    forward_logits(m);
    device_end(m->device);
    m->listener = listener;
    m->intervention_stages = stages;
    if (!fetch_logits(m, error)) return false;
    return logits_finite(m) ||
           error_set(error, ERROR_NONFINITE, "a logit of an earlier layer is not a finite number");
}

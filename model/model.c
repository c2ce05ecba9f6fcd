// Opens and closes a model, by the table of memory.c. The forward pass is in forward.c, the
// weights' way to the device in upload.c.
//
//   device -> shapes of all weights checked, bytes counted -> memory plan -> cache -> scratch,
//   host buffers, RoPE tables -> weights uploaded -> device_reserve
//
// In this order a model that cannot run fails in the cheapest step, before the long upload.
#include "model/model.h"

#include "model/internal.h"
#include "model/ranks.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- opening ----

// Logits are an allocation of their own, since they may be larger than all the rest.
static bool open_scratch(Model *m) {
    ScratchPart parts[SCRATCH_PARTS];
    size_t total = scratch_parts(parts, &m->config, &m->options);
    char *at = m->scratch_block = device_alloc(m->device, total);
    m->scratch.logits = device_alloc(m->device, logits_bytes(&m->config, &m->options));
    if (!at || !m->scratch.logits) return false;
    for (int i = 0; i < SCRATCH_PARTS; at += parts[i++].bytes)
        if (parts[i].bytes) *(void **)((char *)&m->scratch + parts[i].field) = at;
    return true;
}

// Host memory of a call: the logits for the caller, the rows of a chunk, and the lengths of the
// sequences before it, to return to.
static bool open_host_side(Model *m) {
    // Seven arrays of `rows` entries in one allocation, owned through p->tokens.
    Chunk *p = &m->chunk;
    HostMemory memory = host_memory(&m->config, &m->options);
    size_t rows = (size_t)m->options.max_rows;
    m->host_logits = device_host_alloc(m->device, memory.logits);
    m->lengths_before = calloc(1, memory.lengths);
    p->tokens = calloc(1, memory.chunk);
    if (!m->host_logits || !m->lengths_before || !p->tokens) return false;
    m->lengths_planned = m->lengths_before + m->options.n_sequences;
    m->lowest_planned = m->lengths_planned + m->options.n_sequences;
    p->positions = p->tokens + rows;
    p->sequences = p->positions + rows;
    p->logit_tokens = p->sequences + rows;
    p->logit_positions = p->logit_tokens + rows;
    p->logit_sequences = p->logit_positions + rows;
    p->logit_rows = p->logit_sequences + rows;
    return true;
}

// Fills in what a scaling derives from the model's length where the file does not say it.
static RopeConfig rope_config(const Config *c, const RopeConfig *rope) {
    RopeConfig r = *rope;
    if (r.original_max_seq_len <= 0) r.original_max_seq_len = c->max_seq_len;
    if (r.scaling == ROPE_LONGROPE && r.factor <= 0.0f)
        r.factor = (float)c->max_seq_len / (float)r.original_max_seq_len;
    return r;
}

// cos and sin of every position of the context, made on the host and uploaded once. Double
// precision on the host, so every backend rotates by the same float32 numbers. The device keeps
// ownership of what was allocated, also on a failure.
static bool open_rope(Model *m, RopeTable *table, const RopeConfig *rope, bool of_queries) {
    const Config *c = &m->config;
    size_t bytes = rope_bytes(c, &m->options);
    float *cos = device_alloc(m->device, bytes), *sin = device_alloc(m->device, bytes);
    float *host = malloc(2 * bytes);
    *table = (RopeTable){cos, sin, c->rope_dim};
    bool good = cos && sin && host;
    if (good) {
        RopeConfig r = rope_config(c, rope);
        float *host_sin = host + bytes / sizeof *host;
        good = rope_tables(host, host_sin, &r, c->rope_dim, m->options.context);
        if (of_queries) rope_grow(host, host_sin, &r, c->rope_dim, m->options.context);
        device_upload(m->device, cos, host, bytes);
        device_upload(m->device, sin, host_sin, bytes);
    }
    free(host);
    return good;
}

static bool open_ropes(Model *m) {
    if (m->config.position != POSITION_ROPE) return true;
    const Config *c = &m->config;
    return open_rope(m, &m->rope, &c->rope, false) &&
           (!has_local_rope(c) || open_rope(m, &m->rope_local, &c->rope_local, false)) &&
           (c->rope.query_growth == 0.0f || open_rope(m, &m->rope_queries, &c->rope, true));
}

// The message of a failed step: the device's own where it has one.
static bool open_failed(const Model *m, Error *error) {
    const Error *failure = device_error(m->device);
    if (failure->code) return error_copy(error, failure);
    return error_set(error, ERROR_MEMORY, "no memory for the model's working space");
}

// Everything that is known without allocating: the shapes are right, and what they will take. The
// device's own failure is the caller's to look at.
static bool model_check(Model *m, const Weights *weights, Error *error) {
    const ModelOptions *o = &m->options;
    if (m->config.position == POSITION_LEARNED && o->context > m->config.max_seq_len)
        return error_set(error, ERROR_USAGE, "a context of %d: the model has %d learned positions",
                         o->context, m->config.max_seq_len);
    m->device = device_open(o->threads, o->precision);
    if (!m->device) return error_set(error, ERROR_MEMORY, "no memory for the device");
    return model_check_weights(m, weights, error);
}

static bool model_fill(Model *m, const Weights *weights, Error *error) {
    const ModelOptions *o = &m->options;
    if (!model_check(m, weights, error)) return false;
    if (device_error(m->device)->code) return open_failed(m, error);
    // Tells the device the total of what will be allocated, before the first allocation.
    MemoryPlan plan = memory_plan(m, o);
    device_plan(m->device, &plan);
    if (device_error(m->device)->code) return open_failed(m, error);
    // The cache comes first: a user learns that it does not fit before a long upload.
    if (!kv_cache_init(&m->cache, m->device, &plan.cache, error)) return false;
    m->cache.windows = m->windows;
    m->cache.n_windows = m->config.n_layers;
    if (!open_scratch(m) || !open_host_side(m) || !open_ropes(m)) return open_failed(m, error);
    if (!model_upload(m, weights, error)) return false;
    device_reserve(m->device, o->max_rows);
    return !device_error(m->device)->code || open_failed(m, error);
}

// Opens by one of the two above; NULL where it fails.
typedef bool Opening(Model *m, const Weights *weights, Error *error);
static Model *model_make(Opening *opening, const Config *config, const Weights *weights,
                         const ModelOptions *options, Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) {
        error_set(error, ERROR_MEMORY, "no memory for the model");
        return NULL;
    }
    m->config = *config;
    for (int l = 0; l < config->n_layers; l++)
        m->windows[l] = config->layers[l].window;
    m->options = model_defaults(config, options);
    m->stop.asked = m->options.stop;
    if (opening(m, weights, error)) return m;
    model_close(m);
    return NULL;
}

Model *model_open(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error) {
    ModelOptions here = *options;
    bool ranked = transport_count() > 1;
    if (ranked && !ranks_open(&here, config, weights, error)) return NULL;
    Model *m = model_make(model_fill, config, weights, &here, error);
    return ranked ? ranks_opened(m, error) : m;
}

Model *model_plan(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error) {
    return model_make(model_check, config, weights, options, error);
}

void model_close(Model *m) {
    if (!m) return;
    if (m->ranked) ranks_close();
    if (m->device) kv_cache_free(&m->cache);
    if (m->device) device_host_free(m->device, m->host_logits);
    device_close(m->device); // frees all device memory
    free(m->layers);
    free(m->host_stage);
    free(m->lengths_before);
    free(m->chunk.tokens);
    free(m->host_stream);
    free(m->host_rows);
    free(m);
}

// ---- listeners ----

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

// Floats of the largest stage of a chunk: (rows, widest), the logits, or the attention weights.
// kv_dim is never wider than q_dim.
static size_t largest_stage(const Model *m) {
    const Config *c = &m->config;
    size_t rows = (size_t)m->options.max_rows;
    size_t width = larger(larger((size_t)c->dim, (size_t)c->hidden_dim), (size_t)c->q_dim);
    size_t logits = (size_t)m->options.max_logit_rows * (size_t)c->vocab_size;
    size_t weights = rows * (size_t)c->n_heads * (size_t)m->options.context;
    return larger(larger(rows * width, logits), m->att_weights ? weights : 0);
}

// A listener sees every stage, and these are in several processes.
static bool check_alone(const Model *m, Error *error) {
    return !m->ranked || error_set(error, ERROR_USAGE,
                                   "stages are seen and changed in one process, not in %d ranks",
                                   transport_count());
}

// The host copy, of the size that the attached need. False, with nothing attached: exit code 5.
static bool reserve_host_stage(Model *m, Error *error) {
    free(m->host_stage);
    m->host_stage = NULL;
    if (!model_has_listener(m)) return true;
    m->host_stage = malloc(largest_stage(m) * sizeof(float));
    if (m->host_stage) return true;
    m->listener = NULL;
    m->intervention_stages = 0;
    return open_failed(m, error);
}

bool model_listen(Model *m, Listener *listener, void *context, bool attention_weights,
                  Error *error) {
    size_t weights =
        (size_t)m->options.max_rows * (size_t)m->config.n_heads * (size_t)m->options.context;
    if (!check_alone(m, error)) return false;
    m->listener = NULL;
    device_free(m->device, m->att_weights);
    m->att_weights = NULL;
    if (attention_weights) {
        m->att_weights = device_alloc(m->device, weights * sizeof(float));
        if (!m->att_weights) {
            open_failed(m, error);
            device_clear_memory_error(m->device);
            return false;
        }
    }
    m->listener = listener;
    m->listener_context = context;
    return reserve_host_stage(m, error);
}

bool model_intervene(Model *m, Intervention *intervention, void *context, uint32_t stages,
                     Error *error) {
    if (intervention && !check_alone(m, error)) return false;
    m->intervention = intervention;
    m->intervention_context = context;
    m->intervention_stages = intervention ? stages & ((1u << STAGE_COUNT) - 1) : 0;
    return reserve_host_stage(m, error);
}

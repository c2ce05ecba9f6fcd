// Opens and closes a model and counts its memory. The forward pass is in forward.c, the weights'
// way to the device in upload.c.
//
//   device -> shapes of all weights checked, bytes counted -> memory plan -> cache -> scratch,
//   host buffers, RoPE tables -> weights uploaded -> device_reserve
//
// In this order a model that cannot run fails in the cheapest step, before the long upload.
#include "model/model.h"

#include "model/internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ALIGNMENT in bytes: a cache line, which is also the width of an AVX-512 register.
enum { DEFAULT_MAX_ROWS = 512, ALIGNMENT = 64 };

// Replaces every 0 that means the default by that default.
static ModelOptions with_defaults(const Config *config, const ModelOptions *options) {
    ModelOptions o = *options;
    if (o.context <= 0) o.context = config->max_seq_len;
    if (o.n_sequences <= 0) o.n_sequences = 1;
    if (o.max_rows <= 0) {
        o.max_rows = o.context < DEFAULT_MAX_ROWS ? o.context : DEFAULT_MAX_ROWS;
        if (o.max_rows < o.n_sequences) o.max_rows = o.n_sequences;
    }
    if (o.max_logit_rows <= 0) o.max_logit_rows = 1;
    return o;
}

// All layers have one shape: layers with a window keep all positions too.
static KvShape cache_shape(const Config *c, const ModelOptions *o) {
    return (KvShape){.n_layers = c->n_layers,
                     .n_sequences = o->n_sequences,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .max_seq_len = o->context,
                     .type = o->kv_type};
}

// ---- the scratch: one allocation, carved by this table ----

typedef struct Part {
    // Each row is one buffer of Scratch: (rows, cols) numbers of 4 bytes, float or int32_t. A
    // buffer with 0 rows does not exist: its pointer stays NULL.
    size_t field;      // offset of the pointer in Scratch
    size_t rows, cols; // of 4-byte numbers
} Part;

// All pointers of Scratch but `logits`.
enum { PARTS = 14 };

static void scratch_parts(Part parts[PARTS], const Config *c, const ModelOptions *o) {
    size_t rows = (size_t)o->max_rows, logit_rows = (size_t)o->max_logit_rows;
    size_t dim = (size_t)c->dim, hidden_dim = (size_t)c->hidden_dim;
    size_t q_dim = (size_t)c->q_dim, kv_dim = (size_t)c->kv_dim;
    const Part table[PARTS] = {
        {offsetof(Scratch, x), rows, dim},
        {offsetof(Scratch, x_norm), rows, dim},
        {offsetof(Scratch, branch), rows, dim},
        {offsetof(Scratch, q), rows, q_dim},
        {offsetof(Scratch, k), rows, kv_dim},
        {offsetof(Scratch, v), rows, kv_dim},
        {offsetof(Scratch, att_heads), rows, q_dim},
        {offsetof(Scratch, gate), c->gated_ffn ? rows : 0, hidden_dim},
        {offsetof(Scratch, up), rows, hidden_dim},
        {offsetof(Scratch, last), rows < logit_rows ? rows : logit_rows, dim},
        {offsetof(Scratch, tokens), rows, 1},
        {offsetof(Scratch, positions), rows, 1},
        {offsetof(Scratch, sequences), rows, 1},
        {offsetof(Scratch, sampled), rows, 1},
    };
    memcpy(parts, table, sizeof table);
}

static size_t part_bytes(const Part *part) {
    size_t bytes = part->rows * part->cols * sizeof(float);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// One copy: (max_logit_rows, vocab_size) floats. model_cost counts two, on the device and on the
// host.
static size_t logits_bytes(const Config *c, const ModelOptions *o) {
    return (size_t)o->max_logit_rows * (size_t)c->vocab_size * sizeof(float);
}

// One table of cosines, or of sines: (context, rope_dim / 2) floats.
static size_t rope_bytes(const Config *c, const ModelOptions *o) {
    return (size_t)o->context * (size_t)(c->rope_dim / 2) * sizeof(float);
}

// Gemma 3: layers with a window rotate by another theta, and need tables of their own.
static bool has_local_rope(const Config *c) {
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].local_rope) return true;
    return false;
}

ModelCost model_cost(const Config *config, const ModelOptions *options) {
    ModelOptions o = with_defaults(config, options);
    KvShape shape = cache_shape(config, &o);
    ModelCost cost = {.cache = kv_bytes(&shape), .logits = 2 * logits_bytes(config, &o)};
    Part parts[PARTS];
    scratch_parts(parts, config, &o);
    for (int i = 0; i < PARTS; i++)
        cost.scratch += part_bytes(&parts[i]);
    if (config->position == POSITION_ROPE)
        cost.rope = rope_bytes(config, &o) * 2 * (has_local_rope(config) ? 2 : 1);
    return cost;
}

// ---- opening ----

// Logits are an allocation of their own, since they may be larger than all the rest.
static bool open_scratch(Model *m) {
    Part parts[PARTS];
    size_t total = 0;
    scratch_parts(parts, &m->config, &m->options);
    for (int i = 0; i < PARTS; i++)
        total += part_bytes(&parts[i]);
    char *at = m->scratch_block = device_alloc(m->device, total);
    m->scratch.logits = device_alloc(m->device, logits_bytes(&m->config, &m->options));
    if (!at || !m->scratch.logits) return false;
    for (int i = 0; i < PARTS; at += part_bytes(&parts[i++]))
        if (parts[i].rows) *(void **)((char *)&m->scratch + parts[i].field) = at;
    return true;
}

// Host memory of a call: the logits for the caller, the rows of a chunk, and the lengths of the
// sequences before it, to return to.
static bool open_host_side(Model *m) {
    // Seven arrays of `rows` entries in one allocation, owned through p->tokens.
    Chunk *p = &m->chunk;
    size_t rows = (size_t)m->options.max_rows, sequences = (size_t)m->options.n_sequences;
    m->host_logits = malloc(logits_bytes(&m->config, &m->options));
    m->lengths_before = calloc(2 * sequences, sizeof(int));
    p->tokens = calloc(7 * rows, sizeof(int32_t));
    if (!m->host_logits || !m->lengths_before || !p->tokens) return false;
    m->lengths_planned = m->lengths_before + sequences;
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
static bool open_rope(Model *m, RopeTable *table, const RopeConfig *rope) {
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
        device_upload(m->device, cos, host, bytes);
        device_upload(m->device, sin, host_sin, bytes);
    }
    free(host);
    return good;
}

static bool open_ropes(Model *m) {
    if (m->config.position != POSITION_ROPE) return true;
    return open_rope(m, &m->rope, &m->config.rope) &&
           (!has_local_rope(&m->config) || open_rope(m, &m->rope_local, &m->config.rope_local));
}

// The message of a failed step: the device's own where it has one.
static bool open_failed(const Model *m, Error *error) {
    const Error *failure = device_error(m->device);
    if (failure->code) return error_copy(error, failure);
    return error_set(error, ERROR_MEMORY, "no memory for the model's working space");
}

// Tells the device the total of what will be allocated, before the first allocation.
static bool plan_memory(Model *m, const WeightBytes *weights, Error *error) {
    const ModelOptions *o = &m->options;
    ModelCost cost = model_cost(&m->config, o);
    device_plan(m->device, &(MemoryPlan){.bytes = weights->vectors + cost.scratch + cost.rope +
                                                  logits_bytes(&m->config, o),
                                         .cache = cache_shape(&m->config, o),
                                         .n_heads = m->config.n_heads,
                                         .max_rows = o->max_rows});
    return !device_error(m->device)->code || open_failed(m, error);
}

// False: exit code 2, 3, 5 or 6. What was opened until then is closed by model_close.
static bool model_fill(Model *m, const Weights *weights, Error *error) {
    const ModelOptions *o = &m->options;
    if (m->config.position == POSITION_LEARNED && o->context > m->config.max_seq_len)
        return error_set(error, ERROR_USAGE, "a context of %d: the model has %d learned positions",
                         o->context, m->config.max_seq_len);
    m->device = device_open(o->threads, o->precision);
    if (!m->device) return error_set(error, ERROR_MEMORY, "no memory for the device");
    if (device_error(m->device)->code) return open_failed(m, error);
    WeightBytes bytes;
    if (!model_check_weights(m, weights, &bytes, error) || !plan_memory(m, &bytes, error))
        return false;
    // The cache comes first: a user learns that it does not fit before a long upload.
    KvShape shape = cache_shape(&m->config, o);
    if (!kv_cache_init(&m->cache, m->device, &shape, error)) return false;
    if (!open_scratch(m) || !open_host_side(m) || !open_ropes(m)) return open_failed(m, error);
    if (!model_upload(m, weights, &bytes, error)) return false;
    device_reserve(m->device, o->max_rows);
    return !device_error(m->device)->code || open_failed(m, error);
}

Model *model_open(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) {
        error_set(error, ERROR_MEMORY, "no memory for the model");
        return NULL;
    }
    m->config = *config;
    m->options = with_defaults(config, options);
    if (model_fill(m, weights, error)) return m;
    model_close(m);
    return NULL;
}

void model_close(Model *m) {
    if (!m) return;
    if (m->device) kv_cache_free(&m->cache);
    device_close(m->device); // frees all device memory
    free(m->layers);
    free(m->host_logits);
    free(m->host_stage);
    free(m->lengths_before);
    free(m->chunk.tokens);
    free(m);
}

// ---- the listener ----

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

bool model_listen(Model *m, Listener *listener, void *context, bool attention_weights,
                  Error *error) {
    const Config *c = &m->config;
    size_t rows = (size_t)m->options.max_rows;
    // The largest stage of a chunk decides: (rows, widest), the logits, or the attention weights.
    // kv_dim is never wider than q_dim.
    size_t weights = rows * (size_t)c->n_heads * (size_t)m->options.context;
    size_t width = larger(larger((size_t)c->dim, (size_t)c->hidden_dim), (size_t)c->q_dim);
    size_t size = larger(rows * width, (size_t)m->options.max_logit_rows * (size_t)c->vocab_size);
    m->listener = NULL;
    device_free(m->device, m->att_weights);
    free(m->host_stage);
    m->att_weights = NULL;
    m->host_stage = NULL;
    if (!listener) return true;
    if (attention_weights) {
        size = larger(size, weights);
        m->att_weights = device_alloc(m->device, weights * sizeof(float));
        if (!m->att_weights) return open_failed(m, error);
    }
    m->host_stage = malloc(size * sizeof(float));
    if (!m->host_stage) return open_failed(m, error);
    m->listener = listener;
    m->listener_context = context;
    return true;
}

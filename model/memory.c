// The table of what a model allocates. model_open allocates by it, and model_memory adds it up:
// there is no second formula.
#include "model/internal.h"

#include <stddef.h>
#include <string.h>

// ALIGNMENT in bytes: a cache line, which is also the width of an AVX-512 register.
enum { DEFAULT_MAX_ROWS = 512, ALIGNMENT = 64 };

// Replaces every 0 that means the default by that default.
ModelOptions model_defaults(const Config *config, const ModelOptions *options) {
    ModelOptions o = *options;
    if (o.context <= 0) o.context = config->max_seq_len;
    if (o.layers.end <= 0) o.layers = (LayerRange){0, config->n_layers};
    if (o.n_sequences <= 0) o.n_sequences = 1;
    if (o.max_rows <= 0) {
        o.max_rows = o.context < DEFAULT_MAX_ROWS ? o.context : DEFAULT_MAX_ROWS;
        if (o.max_rows < o.n_sequences) o.max_rows = o.n_sequences;
    }
    if (o.max_logit_rows <= 0) o.max_logit_rows = 1;
    return o;
}

// Of the layers that are here.
static KvShape cache_shape(const Config *c, const ModelOptions *o, const int *windows) {
    return (KvShape){.windows = o->full_cache ? NULL : windows,
                     .max_rows = o->max_rows,
                     .n_layers = o->layers.end - o->layers.first,
                     .n_sequences = o->n_sequences,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .max_seq_len = o->context,
                     .type = o->kv_type};
}

// ---- the scratch: one allocation, carved by this table ----

size_t scratch_parts(ScratchPart parts[SCRATCH_PARTS], const Config *c, const ModelOptions *o) {
    size_t rows = (size_t)o->max_rows, logit_rows = (size_t)o->max_logit_rows;
    size_t dim = (size_t)c->dim, hidden_dim = (size_t)c->hidden_dim;
    size_t q_dim = (size_t)c->q_dim, kv_dim = (size_t)c->kv_dim;
    // Each row is one buffer of Scratch: (rows, cols) numbers of 4 bytes, float or int32_t. A
    // buffer with 0 rows does not exist: its pointer stays NULL.
    const struct {
        size_t field, rows, cols; // of 4-byte numbers
    } table[SCRATCH_PARTS] = {
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
    size_t total = 0;
    for (int i = 0; i < SCRATCH_PARTS; i++) {
        size_t bytes = table[i].rows * table[i].cols * sizeof(float);
        bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        parts[i] = (ScratchPart){table[i].field, bytes};
        total += bytes;
    }
    return total;
}

// ---- the other parts ----

// The process of the last layers computes them, that of the first ones gets them: those between
// have a line of them.
size_t logits_bytes(const Config *c, const ModelOptions *o) {
    if (o->layers.first > 0 && o->layers.end < c->n_layers) return ALIGNMENT;
    return (size_t)o->max_logit_rows * (size_t)c->vocab_size * sizeof(float);
}

size_t rope_bytes(const Config *c, const ModelOptions *o) {
    return (size_t)o->context * (size_t)(c->rope_dim / 2) * sizeof(float);
}

bool has_local_rope(const Config *c) {
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].local_rope) return true;
    return false;
}

// cos and sin, of one or of two thetas, or again for queries that grow.
static size_t all_ropes_bytes(const Config *c, const ModelOptions *o) {
    if (c->position != POSITION_ROPE) return 0;
    return rope_bytes(c, o) * 2 * (1 + has_local_rope(c) + (c->rope.query_growth != 0.0f));
}

HostMemory host_memory(const Config *c, const ModelOptions *o) {
    bool part = o->layers.first > 0 || o->layers.end < c->n_layers;
    size_t sent = part ? (size_t)o->max_rows : 0; // rows of a message
    return (HostMemory){.stream = sent * (size_t)c->dim * sizeof(float),
                        .rows = 3 * sent * sizeof(int32_t),
                        .logits = logits_bytes(c, o),
                        .lengths = 3 * (size_t)o->n_sequences * sizeof(int),
                        .chunk = 7 * (size_t)o->max_rows * sizeof(int32_t),
                        .layers = (size_t)c->n_layers * sizeof(DeviceLayer)};
}

// ---- the sums ----

MemoryPlan memory_plan(const Model *m, const ModelOptions *o) {
    const Config *c = &m->config;
    ScratchPart parts[SCRATCH_PARTS];
    return (MemoryPlan){.bytes = m->weight_bytes.vectors + scratch_parts(parts, c, o) +
                                 logits_bytes(c, o) + all_ropes_bytes(c, o),
                        .cache = cache_shape(c, o, m->windows + o->layers.first),
                        .n_heads = c->n_heads,
                        .max_rows = o->max_rows};
}

ModelMemory model_memory(const Model *m, const ModelOptions *options) {
    const Config *c = &m->config;
    ModelOptions o = model_defaults(c, options);
    MemoryPlan plan = memory_plan(m, &o);
    DeviceMemory needs = device_needs(m->device, &plan);
    HostMemory host = host_memory(c, &o);
    ScratchPart parts[SCRATCH_PARTS];
    bool borrows = device_info(m->device)->borrows_weights;
    return (ModelMemory){
        .weights = (double)needs.matrices + (double)m->weight_bytes.vectors,
        .cache = (double)needs.cache,
        .scratch = (double)scratch_parts(parts, c, &o) + (double)logits_bytes(c, &o),
        .rope = (double)all_ropes_bytes(c, &o),
        .operations = (double)needs.operations,
        .host = (double)sizeof *m + (double)host.logits + (double)host.lengths +
                (double)host.chunk + (double)host.layers + (double)host.stream + (double)host.rows,
        .file = borrows ? m->weight_bytes.matrices : m->weight_bytes.largest,
    };
}

double model_memory_device(const ModelMemory *memory) {
    return memory->weights + memory->cache + memory->scratch + memory->rope + memory->operations;
}

double model_memory_peak(const ModelMemory *memory) {
    return model_memory_device(memory) + memory->host + memory->file;
}

// The writer of .bin files. Where each tensor lies comes from the reader's plan (llama2c_plan), so
// that the order of the file is in one table; rows come from encode_rows.c in Meta's order.
//
//   version 2: the integers of all rows, then the scales of all rows, one for each group of a row
//     | rows * cols x i8 | rows * cols / group_size x f32 |
#include "weights/llama2c/llama2c.h"

#include "base/bytes.h"
#include "weights/container.h"
#include "weights/quant.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_GROUP = 64 }; // of llama2.c's exporter

// ---- what the format cannot say ----

static bool cannot(Error *error, const char *what) {
    return error_set(error, ERROR_FILE, "a llama2.c file cannot say that the model has %s", what);
}

// A reader computes with what run.c assumes, so the model must do just that.
static bool check_config(const Config *c, Error *error) {
    float usual = (float)(1.0 / sqrt((double)c->head_dim));
    char text[100];
    if (c->norm_eps != 1e-5f) {
        snprintf(text, sizeof text, "epsilon %g (it is 1e-05 there)", (double)c->norm_eps);
        return cannot(error, text);
    }
    if (c->rope.theta != 10000) {
        snprintf(text, sizeof text, "theta %g (it is 10000 there)", (double)c->rope.theta);
        return cannot(error, text);
    }
    if (c->rope.scaling != ROPE_PLAIN || c->rope.divisors) return cannot(error, "scaled RoPE");
    if (c->rope_dim != c->head_dim) return cannot(error, "heads that rotate in part");
    if (c->head_dim * c->n_heads != c->dim) return cannot(error, "heads of another width in all");
    if (c->activation != ACTIVATION_SILU) return cannot(error, "another activation than silu");
    if (c->embedding_scale != 1 || c->logit_softcap != 0)
        return cannot(error, "scaled embeddings or capped logits");
    for (int l = 0; l < c->n_layers; l++) {
        if (c->layers[l].window) return cannot(error, "a window");
        if (c->layers[l].no_rope) return cannot(error, "layers that do not rotate");
        if (c->layers[l].attention_scale != usual) return cannot(error, "another attention scale");
    }
    return true;
}

static Llama2cHeader header_of(const Outgoing *out, int version) {
    const Config *c = &out->from->config;
    const Weights *w = &out->from->weights;
    Llama2cHeader h = {.version = version,
                       .dim = c->dim,
                       .hidden_dim = c->hidden_dim,
                       .n_layers = c->n_layers,
                       .n_heads = c->n_heads,
                       .n_kv_heads = c->n_kv_heads,
                       .vocab_size = c->vocab_size,
                       .seq_len = c->max_seq_len,
                       .tied = w->head.data == w->token_embedding.data,
                       .start = version ? LLAMA2C_HEADER_BYTES : LLAMA2C_V0_HEADER_BYTES};
    if (version != 2) return h;
    h.group_size = USUAL_GROUP;
    while (h.dim % h.group_size || h.hidden_dim % h.group_size)
        h.group_size /= 2;
    return h;
}

static void put_header(Buffer *b, const Llama2cHeader *h) {
    // In version 0 the sign says whether the head is the embedding.
    const int numbers[] = {h->dim,        h->hidden_dim,
                           h->n_layers,   h->n_heads,
                           h->n_kv_heads, h->version || h->tied ? h->vocab_size : -h->vocab_size,
                           h->seq_len};
    if (h->version) {
        buffer_u32(b, LLAMA2C_MAGIC);
        buffer_u32(b, (uint32_t)h->version);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        buffer_u32(b, (uint32_t)numbers[i]);
    if (!h->version) return;
    buffer_put(b, &(uint8_t){h->tied}, 1);
    if (h->version == 2) buffer_u32(b, (uint32_t)h->group_size);
    buffer_zeros(b, LLAMA2C_HEADER_BYTES - b->size);
}

// ---- the file ----

// Where each tensor of `out` lies: that of the same name in the reader's plan.
static bool place_tensors(TensorWriter *w, const Outgoing *out, const Llama2cHeader *h,
                          uint64_t *end, Error *error) {
    Checkpoint *plan = calloc(1, sizeof *plan); // with its Config too large for the stack
    bool good = plan && llama2c_plan(plan, h, end, error);
    if (!plan) error_set(error, ERROR_MEMORY, "out of memory for the tensors of a file");
    for (size_t i = 0; good && i < out->n; i++) {
        good = tensor_writer_name(w, i, out->tensors[i].name, error);
        for (size_t t = 0; good && t < plan->n_tensors; t++) {
            const TensorPlan *at = &plan->tensors[t];
            if (strcmp(at->name, out->tensors[i].name) != 0) continue;
            w->tensors[i].begin = at->offset - h->start;
            w->tensors[i].bytes = at->bytes;
            if (at->group_size)
                w->tensors[i].bytes += plan_elements(at) / at->group_size * sizeof(float);
        }
    }
    if (plan) arena_free(&plan->arena);
    free(plan);
    return good;
}

// Version 0 has the RoPE tables between the final norm and the head: cos, then sin, of every
// position. Readers skip them; the first llama2.c used them. They are the room that no tensor has.
static bool put_tables(TensorWriter *w, const Outgoing *out, const Llama2cHeader *h, Error *error) {
    uint64_t at = 0;
    int half = h->dim / h->n_heads / 2;
    Buffer b = {0};
    for (size_t i = 0; i < out->n; i++)
        if (!strcmp(out->tensors[i].name, "norm.weight"))
            at = w->data_start + w->tensors[i].begin + w->tensors[i].bytes;
    for (int table = 0; table < 2; table++)
        for (int t = 0; t < h->seq_len; t++)
            for (int i = 0; i < half; i++) {
                double angle = t / pow(10000, (double)i / half);
                buffer_f32(&b, (float)(table ? sin(angle) : cos(angle)));
            }
    bool good = !b.failed || error_set(error, ERROR_MEMORY, "out of memory for the RoPE tables");
    good = good && file_writer_put(w->file, at, b.bytes, b.size, error);
    buffer_free(&b);
    return good;
}

TensorWriter *llama2c_writer_open(const OutputFile *place, const Outgoing *out, int version,
                                  Error *error) {
    Llama2cHeader h = header_of(out, version);
    Buffer header = {0};
    uint64_t end = 0;
    if (!check_config(&out->from->config, error)) return NULL;
    TensorWriter *w = tensor_writer_new(out->n, error);
    bool good = w && place_tensors(w, out, &h, &end, error);
    put_header(&header, &h);
    good = good && tensor_writer_begin(w, place, &header, end - h.start, error) &&
           (version || put_tables(w, out, &h, error));
    buffer_free(&header);
    if (good) return w;
    error_prefix(error, place->shown ? place->shown : place->path);
    tensor_writer_close(w);
    return NULL;
}

// ---- rows ----

// scale = the largest magnitude / 127, q = x / scale rounded; a group of zeros has scale 0.
static bool make_group(int8_t *q, uint8_t *scale, const uint8_t *values, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        float x = load_f32(values + i * sizeof x);
        if (!isfinite(x)) return false;
        if (fabsf(x) > largest) largest = fabsf(x);
    }
    float s = largest / 127;
    if (s < FLT_MIN) s = 0; // x / s could be far from 127
    for (size_t i = 0; i < count; i++)
        q[i] = (int8_t)(s > 0 ? rintf(load_f32(values + i * sizeof(float)) / s) : 0);
    return quantise(scale, DTYPE_F32, &s, 1);
}

bool llama2c_put(TensorWriter *w, const Outgoing *out, size_t i, uint64_t first, uint64_t count,
                 const uint8_t *rows, Error *error) {
    const TensorPlan *t = &out->tensors[i];
    size_t cols = (size_t)t->shape[t->n_dims - 1], elements = (size_t)count * cols;
    if (w->tensors[i].bytes == t->bytes)
        return tensor_writer_put(w, i, first * cols * sizeof(float), rows, elements * sizeof(float),
                                 error);
    // rows * cols bytes of integers, the rest are scales: so many elements share one.
    uint64_t all = plan_elements(t), scales_bytes = w->tensors[i].bytes - all;
    size_t group = (size_t)(all / (scales_bytes / sizeof(float)));
    size_t n_scales = elements / group;
    uint8_t *bytes = malloc(elements + n_scales * sizeof(float));
    if (!bytes) return error_set(error, ERROR_MEMORY, "out of memory for %zu elements", elements);
    bool good = true;
    for (size_t g = 0; good && g < n_scales; g++)
        good = make_group((int8_t *)bytes + g * group, bytes + elements + g * sizeof(float),
                          rows + g * group * sizeof(float), group);
    if (!good) error_set(error, ERROR_NONFINITE, "tensor \"%s\": a value is not finite", t->name);
    good = good && tensor_writer_put(w, i, first * cols, bytes, elements, error) &&
           tensor_writer_put(w, i, all + first * cols / group * sizeof(float), bytes + elements,
                             n_scales * sizeof(float), error);
    free(bytes);
    return good;
}

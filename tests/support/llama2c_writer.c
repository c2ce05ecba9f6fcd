#include "tests/support/llama2c_writer.h"

#include "tests/test.h"

BinShape bin_shape_tiny(int version, bool tied) {
    return (BinShape){.version = version,
                      .tied = tied,
                      .dim = 8,
                      .hidden_dim = 12,
                      .n_layers = 1,
                      .n_heads = 2,
                      .n_kv_heads = 1,
                      .vocab_size = 6,
                      .seq_len = 5,
                      .group_size = 4};
}

size_t bin_start(const BinShape *shape) {
    return shape->version ? 256 : 28;
}

typedef struct Writer {
    char *bytes, *at;
    const BinShape *shape;
    TestRandom random;
} Writer;

static void put(Writer *w, const void *bytes, size_t count) {
    memcpy(w->at, bytes, count);
    w->at += count;
}

static void put_i32(Writer *w, int32_t value) {
    put(w, &value, 4);
}

static void put_floats(Writer *w, size_t count, float centre, float spread) {
    for (size_t i = 0; i < count; i++) {
        float value = centre + spread * test_random_normal(&w->random);
        put(w, &value, 4);
    }
}

// Norms stay float32 in every version.
static void put_norms(Writer *w, int32_t count) {
    put_floats(w, (size_t)count * (size_t)w->shape->dim, 1, 0.1f);
}

// One matrix of version 2: its elements as q = round(w / scale), then all its scales.
static void put_groups(Writer *w, size_t count) {
    size_t group = (size_t)w->shape->group_size;
    float *values = malloc(count * sizeof *values), *scales = malloc(count * sizeof *scales);
    for (size_t i = 0; i < count; i++)
        values[i] = 0.3f * test_random_normal(&w->random);
    for (size_t g = 0; g < count / group; g++) {
        float largest = 0;
        for (size_t i = 0; i < group; i++)
            largest = fmaxf(largest, fabsf(values[g * group + i]));
        scales[g] = largest / 127;
        for (size_t i = 0; i < group; i++) {
            int8_t q = (int8_t)rintf(values[g * group + i] / scales[g]);
            put(w, &q, 1);
        }
    }
    put(w, scales, count / group * sizeof *scales);
    free(values);
    free(scales);
}

static void put_matrices(Writer *w, int32_t count, int32_t rows, int32_t cols) {
    for (int32_t i = 0; i < count; i++) {
        size_t elements = (size_t)rows * (size_t)cols;
        if (w->shape->version == 2)
            put_groups(w, elements);
        else
            put_floats(w, elements, 0, 0.3f);
    }
}

static void put_header(Writer *w) {
    const BinShape *s = w->shape;
    int32_t fields[7] = {s->dim,        s->hidden_dim, s->n_layers, s->n_heads,
                         s->n_kv_heads, s->vocab_size, s->seq_len};
    if (s->version == 0 && !s->tied) fields[5] = -fields[5];
    if (s->version) {
        put(w, "24ka", 4);
        put_i32(w, s->version);
    }
    put(w, fields, sizeof fields);
    if (s->version) put(w, s->tied ? "\1" : "\0", 1);
    if (s->version == 2) put_i32(w, s->group_size);
    w->at = w->bytes + bin_start(s);
}

static void put_version_0(Writer *w, int32_t kv_dim) {
    const BinShape *s = w->shape;
    put_matrices(w, 1, s->vocab_size, s->dim);
    put_norms(w, s->n_layers);
    put_matrices(w, s->n_layers, s->dim, s->dim);
    put_matrices(w, 2 * s->n_layers, kv_dim, s->dim);
    put_matrices(w, s->n_layers, s->dim, s->dim);
    put_norms(w, s->n_layers);
    put_matrices(w, 3 * s->n_layers, s->hidden_dim, s->dim); // w2's shape differs, not its size
    put_norms(w, 1);
    put_floats(w, (size_t)s->seq_len * (size_t)(s->dim / s->n_heads), 0, 1); // freq_cis
}

static void put_version_1(Writer *w, int32_t kv_dim) {
    const BinShape *s = w->shape;
    put_norms(w, 2 * s->n_layers + 1);
    put_matrices(w, 1, s->vocab_size, s->dim);
    put_matrices(w, s->n_layers, s->dim, s->dim);
    put_matrices(w, 2 * s->n_layers, kv_dim, s->dim);
    put_matrices(w, s->n_layers, s->dim, s->dim);
    put_matrices(w, 3 * s->n_layers, s->hidden_dim, s->dim);
}

char *bin_bytes(size_t *size, const BinShape *shape, uint64_t seed) {
    size_t d = (size_t)shape->dim, layer = 4 * d * d + 3 * d * (size_t)shape->hidden_dim + 2 * d;
    size_t room = 256 + 4 * ((size_t)shape->n_layers * layer + d * 2 * (size_t)shape->vocab_size +
                             d * (size_t)(shape->seq_len + 1));
    Writer w = {.bytes = calloc(2, room), .shape = shape, .random = {seed}};
    w.at = w.bytes;
    int32_t kv_dim = shape->dim / shape->n_heads * shape->n_kv_heads;
    put_header(&w);
    if (shape->version)
        put_version_1(&w, kv_dim);
    else
        put_version_0(&w, kv_dim);
    if (!shape->tied) put_matrices(&w, 1, shape->vocab_size, shape->dim);
    *size = (size_t)(w.at - w.bytes);
    return w.bytes;
}

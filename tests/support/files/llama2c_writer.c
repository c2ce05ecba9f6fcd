#include "tests/support/files/llama2c_writer.h"

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

BinShape bin_shape_blocks(void) {
    return (BinShape){.tied = false,
                      .dim = 64,
                      .hidden_dim = 96,
                      .n_layers = 2,
                      .n_heads = 4,
                      .n_kv_heads = 2,
                      .vocab_size = 50,
                      .seq_len = 40};
}

size_t bin_start(const BinShape *shape) {
    return shape->version ? 256 : 28;
}

// ---- weights ----

enum { EMBEDDING, ATT_NORM, WQ, WK, WV, WO, FFN_NORM, W1, W2, W3, NORM, FREQ_CIS, HEAD, N_PIECES };

// All layers of one role.
typedef struct Piece {
    size_t n_matrices, size; // matrices and elements of each; n_matrices 0: `size` float32 in all
    float *values;
} Piece;

static void draw(Piece *piece, TestRandom *random, bool norm) {
    size_t count = piece->size * (piece->n_matrices ? piece->n_matrices : 1);
    piece->values = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        piece->values[i] =
            norm ? 1 + 0.1f * test_random_normal(random) : 0.3f * test_random_normal(random);
}

static void draw_pieces(Piece pieces[N_PIECES], const BinShape *s, uint64_t seed) {
    size_t d = (size_t)s->dim, f = (size_t)s->hidden_dim, n = (size_t)s->n_layers;
    size_t head = d / (size_t)s->n_heads, kv = head * (size_t)s->n_kv_heads;
    size_t table = (size_t)s->vocab_size * d;
    const Piece sizes[N_PIECES] = {
        [EMBEDDING] = {1, table, NULL}, [ATT_NORM] = {0, n * d, NULL},
        [WQ] = {n, d * d, NULL},        [WK] = {n, kv * d, NULL},
        [WV] = {n, kv * d, NULL},       [WO] = {n, d * d, NULL},
        [FFN_NORM] = {0, n * d, NULL},  [W1] = {n, f * d, NULL},
        [W2] = {n, f * d, NULL},        [W3] = {n, f * d, NULL},
        [NORM] = {0, d, NULL},          [FREQ_CIS] = {0, (size_t)s->seq_len * head, NULL},
        [HEAD] = {1, table, NULL},
    };
    TestRandom random = {seed};
    for (int i = 0; i < N_PIECES; i++) {
        pieces[i] = sizes[i];
        draw(&pieces[i], &random, i == ATT_NORM || i == FFN_NORM || i == NORM);
    }
}

// q[count] and a scale for each group; a value is then q * scale.
static void quantise_groups(int8_t *q, float *scales, const float *values, size_t count,
                            size_t group) {
    for (size_t g = 0; g < count / group; g++) {
        float largest = 0;
        for (size_t i = 0; i < group; i++)
            largest = fmaxf(largest, fabsf(values[g * group + i]));
        scales[g] = largest / 127;
        for (size_t i = g * group; i < (g + 1) * group; i++)
            q[i] = (int8_t)rintf(values[i] / scales[g]);
    }
}

// ---- file ----

typedef struct Writer {
    char *bytes, *at;
    const BinShape *shape;
} Writer;

static void put(Writer *w, const void *bytes, size_t count) {
    memcpy(w->at, bytes, count);
    w->at += count;
}

static void put_header(Writer *w) {
    const BinShape *s = w->shape;
    int32_t fields[7] = {s->dim,        s->hidden_dim, s->n_layers, s->n_heads,
                         s->n_kv_heads, s->vocab_size, s->seq_len};
    if (s->version == 0 && !s->tied) fields[5] = -fields[5];
    if (s->version) {
        put(w, "24ka", 4);
        put(w, &s->version, 4);
    }
    put(w, fields, sizeof fields);
    if (s->version) put(w, s->tied ? "\1" : "\0", 1);
    if (s->version == 2) put(w, &s->group_size, 4);
    w->at = w->bytes + bin_start(s);
}

static void put_matrix(Writer *w, float *values, size_t count) {
    size_t group = (size_t)w->shape->group_size;
    bool elements = w->shape->version == 2;
    if (elements || w->shape->rounded) {
        int8_t *q = malloc(count);
        float *scales = malloc(count / group * sizeof *scales);
        quantise_groups(q, scales, values, count, group);
        for (size_t i = 0; i < count; i++)
            values[i] = (float)q[i] * scales[i / group];
        if (elements) put(w, q, count);
        if (elements) put(w, scales, count / group * sizeof *scales);
        free(q);
        free(scales);
    }
    if (!elements) put(w, values, count * sizeof *values);
}

static void put_piece(Writer *w, const Piece *piece) {
    if (!piece->n_matrices) put(w, piece->values, piece->size * sizeof(float));
    for (size_t i = 0; i < piece->n_matrices; i++)
        put_matrix(w, piece->values + i * piece->size, piece->size);
}

char *bin_bytes(size_t *size, const BinShape *shape, uint64_t seed) {
    static const int V1[] = {ATT_NORM, FFN_NORM, NORM, EMBEDDING, WQ, WK, WV, WO, W1, W2, W3, HEAD};
    Piece pieces[N_PIECES];
    size_t room = 256;
    draw_pieces(pieces, shape, seed);
    for (int i = 0; i < N_PIECES; i++)
        room += 8 * pieces[i].size * (pieces[i].n_matrices ? pieces[i].n_matrices : 1);
    Writer w = {.bytes = calloc(1, room), .shape = shape};
    w.at = w.bytes;
    put_header(&w);
    int n = shape->version ? (int)(sizeof V1 / sizeof *V1) : N_PIECES;
    for (int i = 0; i < (shape->tied ? n - 1 : n); i++)
        put_piece(&w, &pieces[shape->version ? V1[i] : i]);
    *size = (size_t)(w.at - w.bytes);
    for (int i = 0; i < N_PIECES; i++)
        free(pieces[i].values);
    return w.bytes;
}

#include "tests/support/files/tiny_model.h"

#include "tests/support/files/random_blocks.h"
#include "tests/test.h"
#include "weights/quant.h"

static void *keep(TinyModel *tiny, size_t bytes) {
    if (tiny->n_pieces == TINY_MAX_PIECES) abort();
    void *piece = calloc(1, bytes);
    if (!piece) abort();
    return tiny->pieces[tiny->n_pieces++] = piece;
}

Matrix tiny_matrix(TinyModel *tiny, DType dtype, int rows, int cols, float deviation,
                   uint64_t *seed) {
    TestRandom random = {*seed};
    if ((uint32_t)cols % dtype_info(dtype)->block) dtype = DTYPE_F16; // as converters do
    size_t count = (size_t)rows * (size_t)cols, row_bytes = dtype_row_bytes(dtype, (size_t)cols);
    float *values = malloc(count * sizeof *values);
    char *data = keep(tiny, (size_t)rows * row_bytes);
    if (!values) abort();
    for (size_t i = 0; i < count; i++)
        values[i] = deviation * test_random_normal(&random);
    bool written = true;
    for (int r = 0; r < rows && written; r++)
        written = quantise(data + (size_t)r * row_bytes, dtype, values + (size_t)r * (size_t)cols,
                           (size_t)cols);
    if (!written) random_elements(&random.state, data, dtype, count, deviation);
    free(values);
    *seed = random.state;
    return (Matrix){.dtype = dtype, .rows = (size_t)rows, .cols = (size_t)cols, .data = data};
}

static float *vector(TinyModel *tiny, int count, float mean, uint64_t *seed) {
    TestRandom random = {*seed};
    float *values = keep(tiny, (size_t)count * sizeof *values);
    for (int i = 0; i < count; i++)
        values[i] = mean + 0.1f * test_random_normal(&random);
    *seed = random.state;
    return values;
}

TinyShape tiny_shape(void) {
    return (TinyShape){.dim = 96,
                       .hidden_dim = 160,
                       .n_layers = 3,
                       .n_heads = 6,
                       .n_kv_heads = 2,
                       .head_dim = 40,
                       .vocab_size = 101,
                       .max_seq_len = 64,
                       .seed = 7};
}

TinyShape tiny_shape_of_blocks(void) {
    return (TinyShape){.dim = 64,
                       .hidden_dim = 96,
                       .n_layers = 2,
                       .n_heads = 4,
                       .n_kv_heads = 2,
                       .head_dim = 16,
                       .vocab_size = 70,
                       .max_seq_len = 32,
                       .seed = 5};
}

TinyShape tiny_shape_of_large_blocks(void) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.dim = shape.hidden_dim = 256;
    shape.head_dim = 64;
    return shape;
}

static void fill_config(Config *c, const TinyShape *s) {
    c->dim = s->dim;
    c->hidden_dim = s->hidden_dim;
    c->n_layers = s->n_layers;
    c->n_heads = s->n_heads;
    c->n_kv_heads = s->n_kv_heads;
    c->head_dim = c->rope_dim = s->head_dim;
    c->q_dim = s->n_heads * s->head_dim;
    c->kv_dim = s->n_kv_heads * s->head_dim;
    c->vocab_size = s->vocab_size;
    c->max_seq_len = s->max_seq_len;
    c->norm = s->layer_norm ? NORM_LAYER : NORM_RMS;
    c->norm_eps = 1e-5f;
    c->qk_norm = s->qk_norm;
    c->gated_ffn = !s->plain_ffn;
    c->position = s->learned ? POSITION_LEARNED : POSITION_ROPE;
    c->embedding_scale = c->residual_scale = c->logit_divisor = 1.0f;
    c->rope = c->rope_local = (RopeConfig){.theta = 10000.0f, .sign = 1.0f};
    for (int l = 0; l < s->n_layers; l++)
        c->layers[l] =
            (LayerConfig){.window = s->window, .attention_scale = 1.0f / sqrtf((float)s->head_dim)};
}

static void fill_layer(TinyModel *tiny, LayerWeights *w, const TinyShape *s, uint64_t *seed) {
    const Config *c = &tiny->config;
    float in = 1.0f / sqrtf((float)s->dim), hidden = 1.0f / sqrtf((float)s->hidden_dim);
    int qk_q = s->qk_norm == QK_NORM_PER_HEAD ? s->head_dim : c->q_dim;
    int qk_k = s->qk_norm == QK_NORM_PER_HEAD ? s->head_dim : c->kv_dim;
    w->wq = tiny_matrix(tiny, s->dtype, c->q_dim, s->dim, 2 * in, seed);
    w->wk = tiny_matrix(tiny, s->dtype, c->kv_dim, s->dim, 2 * in, seed);
    w->wv = tiny_matrix(tiny, s->dtype, c->kv_dim, s->dim, in, seed);
    w->wo = tiny_matrix(tiny, s->dtype, s->dim, c->q_dim, in, seed);
    if (!s->plain_ffn) w->w_gate = tiny_matrix(tiny, s->dtype, s->hidden_dim, s->dim, in, seed);
    w->w_up = tiny_matrix(tiny, s->dtype, s->hidden_dim, s->dim, in, seed);
    w->w_down = tiny_matrix(tiny, s->dtype, s->dim, s->hidden_dim, hidden, seed);
    if (!s->no_pre_norms) {
        w->att_norm = vector(tiny, s->dim, 1.0f, seed);
        w->ffn_norm = vector(tiny, s->dim, 1.0f, seed);
    }
    if (s->layer_norm) {
        w->att_norm_bias = vector(tiny, s->dim, 0.0f, seed);
        w->ffn_norm_bias = vector(tiny, s->dim, 0.0f, seed);
    }
    if (s->post_norms) {
        w->att_post_norm = vector(tiny, s->dim, 1.0f, seed);
        w->ffn_post_norm = vector(tiny, s->dim, 1.0f, seed);
    }
    if (s->qk_norm != QK_NORM_NONE) {
        w->q_norm = vector(tiny, qk_q, 1.0f, seed);
        w->k_norm = vector(tiny, qk_k, 1.0f, seed);
    }
    if (!s->biases) return;
    w->bq = vector(tiny, c->q_dim, 0.0f, seed);
    w->bk = vector(tiny, c->kv_dim, 0.0f, seed);
    w->bv = vector(tiny, c->kv_dim, 0.0f, seed);
    w->bo = vector(tiny, s->dim, 0.0f, seed);
    w->b_up = vector(tiny, s->hidden_dim, 0.0f, seed);
    w->b_down = vector(tiny, s->dim, 0.0f, seed);
}

TinyModel *tiny_model_open(const TinyShape *s) {
    TinyModel *tiny = calloc(1, sizeof *tiny);
    uint64_t seed = s->seed;
    if (!tiny) abort();
    fill_config(&tiny->config, s);
    Weights *w = &tiny->weights;
    w->token_embedding = tiny_matrix(tiny, s->dtype, s->vocab_size, s->dim, 1.0f, &seed);
    w->head = w->token_embedding;
    if (s->untied) w->head = tiny_matrix(tiny, s->dtype, s->vocab_size, s->dim, 0.2f, &seed);
    if (s->learned)
        w->position_embedding = tiny_matrix(tiny, s->dtype, s->max_seq_len, s->dim, 0.5f, &seed);
    w->layers = keep(tiny, (size_t)s->n_layers * sizeof *w->layers);
    for (int l = 0; l < s->n_layers; l++)
        fill_layer(tiny, &w->layers[l], s, &seed);
    w->final_norm = vector(tiny, s->dim, 1.0f, &seed);
    if (s->layer_norm) w->final_norm_bias = vector(tiny, s->dim, 0.0f, &seed);
    return tiny;
}

static void remake(TinyModel *tiny, Matrix *m, DType dtype, uint64_t *seed) {
    float deviation = 1.0f / sqrtf((float)m->cols);
    *m = tiny_matrix(tiny, dtype, (int)m->rows, (int)m->cols, deviation, seed);
}

void tiny_model_mix(TinyModel *tiny, DType dtype, bool up) {
    uint64_t seed = 23;
    for (int l = 0; l < tiny->config.n_layers; l++) {
        LayerWeights *layer = &tiny->weights.layers[l];
        remake(tiny, &layer->wv, dtype, &seed);
        remake(tiny, &layer->w_down, dtype, &seed);
        if (up) remake(tiny, &layer->w_up, dtype, &seed);
    }
}

static void dequantise_matrix(TinyModel *tiny, Matrix *m) {
    if (!m->data || m->dtype == DTYPE_F32) return;
    float *values = keep(tiny, m->rows * m->cols * sizeof *values);
    for (size_t r = 0; r < m->rows; r++)
        matrix_row(values + r * m->cols, m, r);
    *m = (Matrix){.dtype = DTYPE_F32, .rows = m->rows, .cols = m->cols, .data = values};
}

void tiny_model_dequantise(TinyModel *tiny) {
    Weights *w = &tiny->weights;
    dequantise_matrix(tiny, &w->token_embedding);
    dequantise_matrix(tiny, &w->position_embedding);
    dequantise_matrix(tiny, &w->head);
    for (int l = 0; l < tiny->config.n_layers; l++) {
        LayerWeights *layer = &w->layers[l];
        Matrix *matrices[] = {&layer->wq,     &layer->wk,   &layer->wv,    &layer->wo,
                              &layer->w_gate, &layer->w_up, &layer->w_down};
        for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
            dequantise_matrix(tiny, matrices[i]);
    }
}

void tiny_model_close(TinyModel *tiny) {
    if (!tiny) return;
    for (int i = 0; i < tiny->n_pieces; i++)
        free(tiny->pieces[i]);
    free(tiny);
}

Model *tiny_model_run(const TinyModel *tiny, ModelOptions options) {
    Error error = {0};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, &error);
    CHECK(model, "%s", error.message);
    return model;
}

void tiny_model_forward(Model *model, const Batch *batch) {
    Error error = {0};
    CHECK(model_forward(model, batch, &error), "%s", error.message);
}

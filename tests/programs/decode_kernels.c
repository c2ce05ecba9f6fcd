// What each of the five kernels of a decode step takes alone, and the head: one of them for all
// layers in a row, as one recorded pass, so that nothing but the gap to the next one is in the time
// and no layer finds its weights in a cache. scripts/check_gpu shows them beside the time of a
// whole step.
//
//     decode_kernels MODEL.gguf [DEPTH]      a line each: model, kernel, us, MB read, GB/s; with
//     tabs
//
// For models like Llama's: norms before both blocks, a gate, rotary positions. By the host's clock,
// the least of five times a row of passes.
#include "base/clock.h"
#include "model/internal.h"
#include "weights/checkpoint.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 5, PASSES = 10, DEPTH = 64, MOST_DEPTH = 16384 };

typedef struct Work {
    Model *model;
    const Weights *weights;
    Rows rows; // the one of a step behind DEPTH tokens
} Work;

// ---- the kernels: what forward.c does for one row ----

typedef void Kernel(const Work *work, int layer);

static Projection to(float *out, const DeviceLinear *w) {
    return (Projection){out, w->weight, w->bias};
}

static void norm(Model *m, float *out, const float *weight) {
    rmsnorm(m->device, out, m->scratch.x, weight, 1, m->config.dim, m->config.norm_eps);
}

// With rotation and the write to the cache.
static void run_qkv(const Work *work, int l) {
    Model *m = work->model;
    const Config *c = &m->config;
    const DeviceLayer *w = &m->layers[l];
    Scratch *s = &m->scratch;
    norm(m, s->x_norm, w->att_norm.weight);
    Projection qkv[] = {to(s->q, &w->wq), to(s->k, &w->wk), to(s->v, &w->wv)};
    project(m->device, s->x_norm, 1, qkv, 3);
    rope(m->device, s->q, c->n_heads, c->head_dim, &m->rope, &work->rows);
    rope(m->device, s->k, c->n_kv_heads, c->head_dim, &m->rope, &work->rows);
    kv_write(m->device, &(KvView){m->cache.kv, l}, s->k, s->v, &work->rows);
}

static void run_attention_alone(const Work *work, int l) {
    Model *m = work->model;
    const Config *c = &m->config;
    AttentionShape shape = {.n_heads = c->n_heads,
                            .n_kv_heads = c->n_kv_heads,
                            .head_dim = c->head_dim,
                            .scale = c->layers[l].attention_scale};
    attention(m->device, m->scratch.att_heads, m->scratch.q, &(KvView){m->cache.kv, l}, &work->rows,
              &shape, NULL);
}

static void run_linear_add(const Work *work, const float *x, const DeviceLinear *w) {
    Model *m = work->model;
    Projection projection = to(m->scratch.branch, w);
    project(m->device, x, 1, &projection, 1);
    add(m->device, m->scratch.x, m->scratch.branch, (size_t)m->config.dim);
}

static void run_o(const Work *work, int l) {
    run_linear_add(work, work->model->scratch.att_heads, &work->model->layers[l].wo);
}

static void run_gate_up(const Work *work, int l) {
    Model *m = work->model;
    Scratch *s = &m->scratch;
    const DeviceLayer *w = &m->layers[l];
    norm(m, s->x_norm, w->ffn_norm.weight);
    Projection up_gate[] = {to(s->up, &w->w_up), to(s->gate, &w->w_gate)};
    project(m->device, s->x_norm, 1, up_gate, 2);
    activate(m->device, s->gate, s->up, (size_t)m->config.hidden_dim,
             (ActivationKind)m->config.activation);
}

static void run_down(const Work *work, int l) {
    run_linear_add(work, work->model->scratch.gate, &work->model->layers[l].w_down);
}

static void run_head(const Work *work, int l) {
    Model *m = work->model;
    (void)l;
    norm(m, m->scratch.last, m->final_norm.weight);
    project(m->device, m->scratch.last, 1, &(Projection){m->scratch.logits, m->head, NULL}, 1);
}

// ---- bytes ----

static double bytes_of(const Work *work, Kernel *kernel) {
    const Config *c = &work->model->config;
    const LayerWeights *w = &work->weights->layers[0];
    if (kernel == run_qkv)
        return (double)(matrix_bytes(&w->wq) + matrix_bytes(&w->wk) + matrix_bytes(&w->wv));
    if (kernel == run_o) return (double)matrix_bytes(&w->wo);
    if (kernel == run_gate_up) return (double)(matrix_bytes(&w->w_gate) + matrix_bytes(&w->w_up));
    if (kernel == run_down) return (double)matrix_bytes(&w->w_down);
    if (kernel == run_head) return (double)matrix_bytes(&work->weights->head);
    return 4.0 * (double)(c->n_kv_heads * c->head_dim) * kv_cache_length(&work->model->cache, 0);
}

// ---- measuring ----

static void run_pass(const Work *work, Kernel *kernel, int layers) {
    Device *device = work->model->device;
    device_begin(device, &(PassShape){1, kv_cache_length(&work->model->cache, 0) - 1, NULL});
    for (int l = 0; l < layers; l++)
        kernel(work, l);
    device_end(device);
}

// Waits for all that was begun.
static double seconds_behind(const Work *work) {
    float one;
    device_download(work->model->device, &one, work->model->scratch.x, sizeof one);
    return seconds_now();
}

static double least_seconds(const Work *work, Kernel *kernel, int layers) {
    double least = 0.0;
    run_pass(work, kernel, layers); // recorded
    for (int i = 0; i < TIMES; i++) {
        double began = seconds_behind(work);
        for (int pass = 0; pass < PASSES; pass++)
            run_pass(work, kernel, layers);
        double seconds = (seconds_behind(work) - began) / PASSES / layers;
        if (!i || seconds < least) least = seconds;
    }
    return least;
}

static void measure(const Work *work, const char *name) {
    static const struct {
        const char *name;
        Kernel *run;
    } KERNELS[] = {
        {"qkv", run_qkv},   {"attention", run_attention_alone},
        {"o", run_o},       {"gate_up", run_gate_up},
        {"down", run_down}, {"head", run_head},
    };
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++) {
        bool once = KERNELS[i].run == run_head;
        double seconds =
            least_seconds(work, KERNELS[i].run, once ? 1 : work->model->config.n_layers);
        double bytes = bytes_of(work, KERNELS[i].run);
        printf("%s\t%s\t%.2f\t%.3f\t%.1f\n", name, KERNELS[i].name, seconds * 1e6, bytes / 1e6,
               bytes / seconds / 1e9);
        fflush(stdout);
    }
}

static bool is_like_llama(const Config *c, const Weights *w) {
    const LayerWeights *layer = &w->layers[0];
    return c->norm == NORM_RMS && c->gated_ffn && c->position == POSITION_ROPE && layer->att_norm &&
           layer->ffn_norm && !layer->att_post_norm && !layer->q_norm && w->final_norm;
}

// DEPTH tokens, then one more: the row that all kernels are run for.
static bool fill(Model *model, int depth, Error *error) {
    int32_t *tokens = calloc((size_t)depth, sizeof *tokens), one = 1;
    if (!tokens) return error_set(error, ERROR_MEMORY, "no memory for %d tokens", depth);
    for (int i = 0; i < depth; i++)
        tokens[i] = 1 + i % 250;
    bool done = model_forward(model, &(Batch){.n = depth, .tokens = tokens}, error) &&
                model_forward(model, &(Batch){.n = 1, .tokens = &one}, error);
    free(tokens);
    return done;
}

static bool run(const char *path, int depth, Error *error) {
    Checkpoint *checkpoint = NULL;
    Model *model = NULL;
    if (!checkpoint_open(&checkpoint, path, error)) return false;
    const Config *config = checkpoint_config(checkpoint);
    const Weights *weights = checkpoint_weights(checkpoint);
    bool done = is_like_llama(config, weights) ||
                error_set(error, ERROR_FILE, "%s: not built like Llama", path);
    ModelOptions options = {.precision = PRECISION_A16, .kv_type = KV_F16, .context = depth + 1};
    if (done) model = model_open(config, weights, &options, error);
    done = model && fill(model, depth, error);
    if (done) {
        const Scratch *s = &model->scratch;
        char *copy = strdup(path), *name = copy ? basename(copy) : NULL;
        if (name && strrchr(name, '.')) *strrchr(name, '.') = 0;
        Work work = {model, weights, {1, s->tokens, s->positions, s->sequences}};
        measure(&work, name ? name : path);
        free(copy);
        if (device_error(model->device)->code)
            done = error_copy(error, device_error(model->device));
    }
    model_close(model);
    checkpoint_close(checkpoint);
    return done;
}

int main(int argc, char **argv) {
    Error error = {0};
    char *end = NULL;
    long depth = argc == 3 ? strtol(argv[2], &end, 10) : DEPTH;
    if (argc < 2 || argc > 3 || (end && *end) || depth < 1 || depth > MOST_DEPTH) {
        fprintf(stderr, "decode_kernels MODEL.gguf [DEPTH, 1 to %d]\n", MOST_DEPTH);
        return ERROR_USAGE;
    }
    if (run(argv[1], (int)depth, &error)) return 0;
    fprintf(stderr, "decode_kernels: %s\n", error.message);
    return error.code ? (int)error.code : ERROR_DEVICE;
}

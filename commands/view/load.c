// Loads a trace into a View: which tensor is what, checked against each other.
#include "commands/view/view.h"

#include "commands/shared/interrupt.h"
#include "weights/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- sizes ----

// Numbers that a trace's metadata tells of the model; 0: not told.
typedef struct TraceSizes {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, vocab_size;
} TraceSizes;

static int number_of(const char *config, const char *key, int most) {
    const char *at = strstr(config, key);
    uint64_t value = 0;
    if (!at) return 0;
    at += strlen(key);
    at += leading_space(at, strlen(at));
    return decimal_take(at, strlen(at), &value) && value <= (uint64_t)most ? (int)value : 0;
}

// From the text of `config`, which is JSON with integers; what is beyond a limit counts as not
// told.
static TraceSizes read_sizes(const char *config) {
    if (!config) config = "";
    TraceSizes s = {.dim = number_of(config, "\"dim\":", LIMIT_DIM),
                    .hidden_dim = number_of(config, "\"hidden_dim\":", LIMIT_DIM),
                    .n_layers = number_of(config, "\"n_layers\":", LIMIT_LAYERS),
                    .n_heads = number_of(config, "\"n_heads\":", LIMIT_HEADS),
                    .n_kv_heads = number_of(config, "\"n_kv_heads\":", LIMIT_HEADS),
                    .head_dim = number_of(config, "\"head_dim\":", LIMIT_DIM),
                    .vocab_size = number_of(config, "\"vocab_size\":", LIMIT_VOCAB)};
    // Heads that do not share keys evenly are no heads.
    if (!s.n_heads || !s.n_kv_heads || s.n_heads % s.n_kv_heads) s.n_heads = s.n_kv_heads = 0;
    return s;
}

static bool take_sizes(View *v, Error *error) {
    const char *config = NULL;
    if (!safetensors_metadata(v->trace, "config", &config, error)) return false;
    TraceSizes s = read_sizes(config);
    v->layers = s.n_layers, v->heads = s.n_heads, v->kv_heads = s.n_kv_heads;
    v->head_dim = s.head_dim, v->dim = s.dim, v->hidden_dim = s.hidden_dim;
    v->vocab_size = s.vocab_size;
    v->vocab_known = s.vocab_size;
    for (size_t i = 0; i < v->trace->count; i++) {
        int layer = trace_layer(v->trace->tensors[i].plan.name);
        if (layer >= v->layers && layer < LIMIT_LAYERS) v->layers = layer + 1;
    }
    return view_open_index(v, error);
}

// Which layers have norms behind their modules, and whether blocks have factors.
static bool find_norms(View *v, Error *error) {
    v->post_norms = calloc((size_t)v->layers + 1, sizeof *v->post_norms);
    v->shown = calloc(v->trace->count + 1, sizeof *v->shown);
    if (!v->post_norms || !v->shown)
        return error_set(error, ERROR_MEMORY, "no memory for %d layers", v->layers);
    for (size_t i = 0; i < v->trace->count; i++) {
        const char *name = v->trace->tensors[i].plan.name;
        int layer = trace_layer(name);
        bool norm =
            layer < 0 ? !strcmp(name, TRACE_EMBEDDING_NORM) : ends_with(name, TRACE_POST_NORM);
        v->with_factor |= ends_with(name, TRACE_FACTOR);
        if (norm && layer < v->layers) v->post_norms[layer + 1] = true;
    }
    return true;
}

// ---- tokens ----

static bool take_tokens(View *v, Error *error) {
    const SafetensorsTensor *ids = safetensors_find(v->trace, "input_ids");
    uint64_t count = ids->plan.shape[0];
    const char *prompt = NULL;
    uint64_t n_prompt = 0;
    if (count > LIMIT_CONTEXT)
        return error_set(error, ERROR_FILE, "input_ids: more than %d tokens", LIMIT_CONTEXT);
    for (uint64_t i = 0; i < count; i++) {
        int64_t id = trace_token(ids, i);
        if (id < 0 || id >= (v->vocab_size ? v->vocab_size : LIMIT_VOCAB))
            return error_set(error, ERROR_FILE, "input_ids: token %lld is not in the vocabulary",
                             (long long)id);
        if (!id_list_push(&v->ids, (int32_t)id, error)) return false;
    }
    v->n = (size_t)count;
    if (!safetensors_metadata(v->trace, "prompt_tokens", &prompt, error)) return false;
    bool told = prompt && parse_unsigned(&n_prompt, prompt) && n_prompt && n_prompt <= count;
    v->n_prompt = told ? (size_t)n_prompt : v->n;
    return true;
}

static bool name_tokens(View *v, Error *error) {
    for (size_t i = 0; i < v->n; i++)
        if (v->ids.ids[i] >= v->vocab_size) v->vocab_size = v->ids.ids[i] + 1;
    v->named = calloc((size_t)v->vocab_size, sizeof *v->named);
    if (!v->named) return error_set(error, ERROR_MEMORY, "no memory for %d tokens", v->vocab_size);
    for (size_t i = 0; i < v->n; i++)
        v->named[v->ids.ids[i]] = true;
    return true;
}

// ---- tensors ----

static bool is_wanted(const View *v, const SafetensorsTensor *t) {
    const TensorPlan *p = &t->plan;
    bool rows = p->n_dims == 2 && p->shape[0] == v->n && p->shape[1] && p->shape[1] <= LIMIT_VOCAB;
    bool square = p->n_dims == 3 && p->shape[1] == v->n && p->shape[2] == v->n &&
                  ends_with(p->name, "attn_weights");
    return dtype_is_float(p->dtype) && (rows || square);
}

static bool check_memory(const View *v, const SafetensorsTensor *const *tensors, size_t count,
                         Error *error) {
    // And what predictions take for every token.
    double bytes = (double)v->n * (VIEW_TEMPERATURES * 8 + VIEW_CANDIDATES * 8);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(v, tensors[i])) bytes += 4 * (double)plan_elements(&tensors[i]->plan);
    if (bytes <= (double)TRACE_BYTES) return true;
    return error_set(error, ERROR_USAGE,
                     "the trace has %.3g MB of stages, a page at most %.3g MB: give fewer tokens "
                     "to trace, or fewer names to its --only",
                     bytes / 1e6, (double)TRACE_BYTES / 1e6);
}

static void put_id(ViewStage *s) {
    if (s->stage == STAGE_COUNT)
        memcpy(s->id, s->name, sizeof s->id);
    else if (s->layer < 0)
        snprintf(s->id, sizeof s->id, "%s", stage_name(s->stage));
    else
        snprintf(s->id, sizeof s->id, "%d.%s", s->layer, stage_name(s->stage));
}

// Heads side by side, where the sizes say that these are.
static void put_shape(const View *v, ViewStage *s) {
    bool queries = s->stage == STAGE_Q || s->stage == STAGE_Q_NORM || s->stage == STAGE_Q_ROTATED ||
                   s->stage == STAGE_ATT_HEADS;
    bool keys = s->stage == STAGE_K || s->stage == STAGE_V || s->stage == STAGE_K_NORM ||
                s->stage == STAGE_K_ROTATED;
    size_t heads = queries ? (size_t)v->heads : keys ? (size_t)v->kv_heads : 0;
    bool fits = heads && heads * (size_t)v->head_dim == s->width;
    s->shape[0] = fits ? (int)heads : (int)s->width;
    s->shape[1] = fits ? v->head_dim : 0;
}

// A stage that the trace has already is a tensor without one.
static bool add_tensor(View *v, const SafetensorsTensor *t, Error *error) {
    int layer = trace_layer(t->plan.name);
    if (layer >= v->layers) layer = -1;
    StageId stage = trace_stage_of(t->plan.name, layer, v->post_norms[layer + 1], v->with_factor);
    if (view_stage(v, stage, layer)) stage = STAGE_COUNT;
    ViewStage *s = view_add_stage(v, stage, layer, (size_t)t->plan.shape[1], error);
    if (!s) return false;
    v->shown[t - v->trace->tensors] = (uint32_t)v->n_stages;
    dequantise(s->values, t->plan.dtype, t->plan.data, v->n * s->width);
    snprintf(s->name, sizeof s->name, "%s", t->plan.name);
    put_id(s);
    put_shape(v, s);
    return true;
}

// (heads, T, T): the lower triangle.
static bool add_attention(View *v, const SafetensorsTensor *t, Error *error) {
    int layer = trace_layer(t->plan.name);
    size_t heads = (size_t)v->heads, cells = heads * view_pairs(v), n = v->n;
    if (!heads || t->plan.shape[0] != heads || layer < 0 || layer >= v->layers) return true;
    if ((double)v->layers * (double)cells * sizeof *v->attention > (double)TRACE_BYTES)
        return error_set(error, ERROR_USAGE,
                         "attention weights of %d layers take more than %.3g MB", v->layers,
                         (double)TRACE_BYTES / 1e6);
    if (!v->attention) {
        v->attention = calloc((size_t)v->layers * cells, sizeof *v->attention);
        v->attended = calloc((size_t)v->layers, sizeof *v->attended);
    }
    if (!v->attention || !v->attended)
        return error_set(error, ERROR_MEMORY, "no memory for the attention of %zu tokens", n);
    size_t row_bytes = n * dtype_row_bytes(t->plan.dtype, 1);
    for (size_t h = 0; h < heads; h++)
        for (size_t q = 0; q < n; q++)
            dequantise(view_attention(v, layer, (int)h, q), t->plan.dtype,
                       t->plan.data + (h * n + q) * row_bytes, q + 1);
    v->attended[layer] = true;
    return true;
}

// Logits that a sampler can use; else they are a tensor like any other, with its NaN.
static bool take_logits(View *v, bool *taken, const SafetensorsTensor *t, Error *error) {
    size_t width = (size_t)t->plan.shape[1], count = v->n * width;
    *taken = t->plan.n_dims == 2 && t == v->of_logits && width >= (size_t)v->vocab_size;
    if (!*taken) return true;
    v->logits = malloc(count * sizeof *v->logits);
    if (!v->logits) return error_set(error, ERROR_MEMORY, "no memory for %zu logits", count);
    dequantise(v->logits, t->plan.dtype, t->plan.data, count);
    for (size_t i = 0; *taken && i < count; i++)
        *taken = isfinite(v->logits[i]);
    if (!*taken) free(v->logits), v->logits = NULL;
    return true;
}

static bool load_tensor(View *v, const SafetensorsTensor *t, Error *error) {
    bool logits = false;
    if (!is_wanted(v, t)) return true;
    if (t->plan.n_dims == 3) return add_attention(v, t, error);
    return take_logits(v, &logits, t, error) && (logits || add_tensor(v, t, error));
}

// The width of the logits is the size of the vocabulary, whatever the metadata says.
static void widen_vocabulary(View *v) {
    const SafetensorsTensor *t = safetensors_find(v->trace, "logits");
    if (!t) t = safetensors_find(v->trace, "lm_head");
    v->of_logits = t;
    if (!t || !is_wanted(v, t) || t->plan.n_dims != 2) return;
    v->vocab_known = true;
    if (t->plan.shape[1] > (uint64_t)v->vocab_size) v->vocab_size = (int)t->plan.shape[1];
}

bool view_load_trace(View *v, Error *error) {
    size_t count = 0;
    const SafetensorsTensor **tensors = trace_tensors(v->trace, &count, error);
    bool good = tensors && take_sizes(v, error) && find_norms(v, error) && take_tokens(v, error) &&
                check_memory(v, tensors, count, error);
    if (good) widen_vocabulary(v);
    good = good && name_tokens(v, error);
    for (size_t i = 0; good && i < count; i++)
        good = load_tensor(v, tensors[i], error) &&
               (!interrupt_asked() || error_set(error, ERROR_INTERRUPTED, "interrupted"));
    return good || error_prefix(error, v->trace->mapping.path);
}

// The core of the page as JSON: what the first paint needs, and where everything else is.
#include "commands/view/view.h"

#include "base/text.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 0 is unknown.
static void put_size(JsonWriter *w, const char *key, int value) {
    if (value)
        writer_integer(w, key, value);
    else
        writer_string(w, key, NULL);
}

void view_put_text(JsonWriter *w, const char *key, const char *text) {
    char escaped[512];
    writer_string(w, key,
                  text && *text ? escape_bytes(escaped, sizeof escaped, text, strlen(text)) : NULL);
}

const char *view_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

// ---- model and run ----

static void put_config(JsonWriter *w, const View *v) {
    writer_begin(w, "config", '{');
    put_size(w, "dim", v->dim);
    put_size(w, "hidden_dim", v->hidden_dim);
    put_size(w, "n_layers", v->layers);
    put_size(w, "n_heads", v->heads);
    put_size(w, "n_kv_heads", v->kv_heads);
    put_size(w, "head_dim", v->head_dim);
    put_size(w, "vocab_size", v->vocab_size);
    writer_end(w, '}');
}

// False: out of memory.
static bool put_model(JsonWriter *w, const View *v) {
    const Checkpoint *checkpoint = v->session->checkpoint;
    size_t count = 0;
    uint64_t parameters = 0;
    const TensorPlan *tensors = checkpoint_tensors(checkpoint, &count);
    for (size_t i = 0; i < count; i++)
        parameters += plan_elements(&tensors[i]);
    writer_begin(w, "model", '{');
    writer_string(w, "name", *v->session->config->name ? v->session->config->name : NULL);
    view_put_text(w, "file", view_file_name(checkpoint_path(checkpoint)));
    writer_integer(w, "bytes", (int64_t)checkpoint_file_bytes(checkpoint));
    writer_string(w, "family", v->session->config->family);
    put_config(w, v);
    writer_integer(w, "parameters", (int64_t)parameters);
    writer_end(w, '}');
    const ModelOptions *o = &v->session->model->options;
    Buffer changes = {0};
    interventions_describe(&changes, v->options);
    writer_begin(w, "run", '{');
    writer_string(w, "precision", precision_name(o->precision));
    writer_string(w, "kv", kv_name(o->kv_type));
    writer_string(w, "pattern", v->options->pattern);
    if (changes.size)
        writer_text(w, "interventions", (const char *)changes.bytes, changes.size);
    else
        writer_string(w, "interventions", NULL);
    bool good = !changes.failed;
    buffer_free(&changes);
    writer_string(w, "backend", device_info(v->session->model->device)->description);
    writer_string(w, "isa", NULL);
    put_size(w, "threads", o->threads);
    writer_end(w, '}');
    return good;
}

// Metadata of a trace. False: exit code 5.
static bool put_metadata(JsonWriter *w, const char *key, const char *metadata,
                         SafetensorsFile *file, Error *error) {
    const char *value = NULL;
    if (!safetensors_metadata(file, metadata, &value, error)) return false;
    view_put_text(w, key, value);
    return true;
}

static bool put_trace(JsonWriter *w, const View *v, Error *error) {
    SafetensorsFile *file = v->trace;
    writer_begin(w, "model", '{');
    bool good = put_metadata(w, "name", "model", file, error);
    view_put_text(w, "file", view_file_name(file->mapping.path));
    writer_integer(w, "bytes", (int64_t)file->mapping.size);
    good = good && put_metadata(w, "family", "family", file, error);
    put_config(w, v);
    writer_string(w, "parameters", NULL);
    writer_end(w, '}');
    writer_begin(w, "run", '{');
    good = good && put_metadata(w, "precision", "precision", file, error) &&
           put_metadata(w, "kv", "kv", file, error) &&
           put_metadata(w, "backend", "backend", file, error) &&
           put_metadata(w, "producer", "producer", file, error);
    good = good && put_metadata(w, "interventions", "interventions", file, error);
    writer_string(w, "pattern", NULL);
    writer_string(w, "isa", NULL);
    writer_string(w, "threads", NULL);
    writer_end(w, '}');
    return good;
}

// ---- tokens ----

// The text, with every byte that is no UTF-8 as \xNN. False: out of memory.
static bool put_piece(JsonWriter *w, Tokenizer *tokenizer, int32_t id) {
    char key[16];
    size_t length = 0;
    const char *text = tokenizer_piece(tokenizer, id, false, true, &length);
    Buffer out = {0};
    buffer_put_text(&out, text, length);
    snprintf(key, sizeof key, "%" PRId32, id);
    writer_text(w, key, out.size ? (const char *)out.bytes : "", out.size);
    bool good = !out.failed;
    buffer_free(&out);
    return good;
}

static bool put_tokens(JsonWriter *w, const View *v) {
    bool good = true;
    writer_ids(w, "ids", v->ids.ids, v->ids.count);
    writer_integer(w, "prompt", (int64_t)v->n_prompt);
    writer_begin(w, "pieces", '{');
    for (int id = 0; good && v->named && v->session->tokenizer && id < v->vocab_size; id++)
        good = !v->named[id] || put_piece(w, v->session->tokenizer, id);
    writer_end(w, '}');
    if (!v->surprise) return good;
    writer_begin(w, "surprise", '[');
    for (size_t t = 0; t < v->n; t++)
        if (t)
            writer_float(w, NULL, (float)v->surprise[t]);
        else
            writer_string(w, NULL, NULL);
    writer_end(w, ']');
    return good;
}

// ---- what blocks hold ----

static void put_candidates(JsonWriter *w, const View *v) {
    writer_begin(w, "candidates", '{');
    writer_integer(w, "count", v->n_candidates);
    writer_begin(w, "temperatures", '[');
    for (int i = 0; i < VIEW_TEMPERATURES; i++)
        writer_number(w, NULL, (i + 1) / 20.0);
    writer_end(w, ']');
    writer_end(w, '}');
}

static void put_name(JsonWriter *w, const char *key, int layer, const char *what) {
    char name[40];
    snprintf(name, sizeof name, "%d.%s", layer, what);
    writer_string(w, key, name);
}

static void put_lens(JsonWriter *w, const View *v) {
    writer_begin(w, "lens", '{');
    writer_integer(w, "top", v->vocab_size < VIEW_LENS_TOP ? v->vocab_size : VIEW_LENS_TOP);
    writer_begin(w, "depths", '[');
    writer_string(w, NULL, "embedding");
    for (int l = 0; l < v->layers; l++) {
        put_name(w, NULL, l, "attention");
        put_name(w, NULL, l, "ffn");
    }
    writer_end(w, ']');
    writer_end(w, '}');
}

// In the order of directions_parts.
static void put_part_names(JsonWriter *w, const View *v) {
    const Weights *weights = checkpoint_weights(v->session->checkpoint);
    writer_begin(w, "parts", '[');
    writer_string(w, NULL, "embedding");
    for (int l = 0; l < v->layers; l++) {
        for (int h = 0; h < v->heads; h++) {
            char head[16];
            snprintf(head, sizeof head, "%d", h);
            put_name(w, NULL, l, head);
        }
        if (weights->layers[l].bo) put_name(w, NULL, l, "bias");
        put_name(w, NULL, l, "ffn");
    }
    if (weights->final_norm_bias) writer_string(w, NULL, "norm_bias");
    writer_end(w, ']');
}

static void put_attribution(JsonWriter *w, const View *v) {
    size_t targets = (size_t)v->n_targets;
    writer_begin(w, "attribution", '{');
    writer_begin(w, "targets", '[');
    for (size_t t = 0; t < v->n; t++)
        writer_ids(w, NULL, v->targets + t * targets, targets);
    writer_end(w, ']');
    put_part_names(w, v);
    writer_end(w, '}');
}

static void put_attention(JsonWriter *w, const View *v) {
    writer_begin(w, "attention", '{');
    writer_string(w, "coding", v->n <= VIEW_EXACT_WEIGHTS || v->trace ? "f32" : "u8");
    if (!v->trace) {
        writer_begin(w, "scale", '[');
        for (int l = 0; l < v->layers; l++)
            writer_float(w, NULL, v->session->config->layers[l].attention_scale);
        writer_end(w, ']');
        writer_float(w, "softcap", v->session->config->score_softcap);
    }
    writer_begin(w, "kvOf", '[');
    for (int h = 0; h < v->heads; h++)
        writer_integer(w, NULL, h / (v->heads / v->kv_heads));
    writer_end(w, ']');
    writer_end(w, '}');
}

static void put_stage(JsonWriter *w, const View *v, const ViewStage *s) {
    static const char *const CODINGS[] = {"", "f32", "i8", "sum"};
    writer_begin(w, NULL, '{');
    view_put_text(w, "id", s->id);
    writer_string(w, "stage", s->stage < STAGE_COUNT ? stage_name(s->stage) : NULL);
    writer_integer(w, "layer", s->layer);
    view_put_text(w, "name", s->name);
    writer_integer(w, "rows", (int64_t)v->n);
    writer_begin(w, "shape", '[');
    for (int i = 0; i < 2 && s->shape[i]; i++)
        writer_integer(w, NULL, s->shape[i]);
    writer_end(w, ']');
    writer_string(w, "coding", CODINGS[s->coding]);
    writer_bool(w, "exact", s->exact);
    if (s->coding == CODING_SUM) {
        writer_begin(w, "of", '[');
        view_put_text(w, NULL, v->stages[s->of[0]].id);
        view_put_text(w, NULL, v->stages[s->of[1]].id);
        writer_end(w, ']');
    } else {
        writer_string(w, "block", s->block);
        writer_integer(w, "offset", (int64_t)s->offset);
    }
    writer_begin(w, "stats", '[');
    writer_float(w, NULL, s->low);
    writer_float(w, NULL, s->high);
    writer_float(w, NULL, s->rms);
    writer_integer(w, NULL, (int64_t)s->nans);
    writer_integer(w, NULL, (int64_t)s->infinities);
    writer_end(w, ']');
    writer_begin(w, "extremes", '[');
    for (size_t i = 0; i < s->n_extremes; i++) {
        writer_begin(w, NULL, '[');
        writer_integer(w, NULL, (int64_t)s->extremes[i].row);
        writer_integer(w, NULL, (int64_t)s->extremes[i].column);
        writer_float(w, NULL, s->extremes[i].value);
        writer_end(w, ']');
    }
    writer_end(w, ']');
    writer_end(w, '}');
}

static void put_weight(JsonWriter *w, const ViewWeight *weight, size_t index) {
    char block[24];
    snprintf(block, sizeof block, "W%zu", index);
    writer_begin(w, NULL, '{');
    writer_string(w, "name", weight->name);
    writer_begin(w, "shape", '[');
    writer_integer(w, NULL, (int64_t)weight->rows);
    writer_integer(w, NULL, (int64_t)weight->columns);
    writer_end(w, ']');
    writer_string(w, "type", weight->group ? "integers of 8 bits" : "float32");
    writer_string(w, "block", block);
    writer_integer(w, "offset", 0);
    writer_string(w, "coding", weight->group ? "q8" : "f32");
    if (weight->group) writer_integer(w, "group", weight->group);
    writer_end(w, '}');
}

// ---- the core ----

static void put_sizes(JsonWriter *w, const View *v) {
    put_size(w, "layers", v->layers);
    put_size(w, "heads", v->heads);
    put_size(w, "kvHeads", v->kv_heads);
    put_size(w, "headDim", v->head_dim);
    put_size(w, "dim", v->dim);
    put_size(w, "hidden", v->hidden_dim);
    put_size(w, "vocab", v->vocab_size);
    writer_begin(w, "open", '{');
    writer_integer(w, "layer", v->open_layer);
    writer_integer(w, "head", v->open_head);
    writer_integer(w, "position", (int64_t)v->open_position);
    writer_end(w, '}');
    writer_begin(w, "exactLayers", '[');
    for (int l = 0; l < v->layers; l++)
        if (v->exact[l]) writer_integer(w, NULL, l);
    writer_end(w, ']');
}

static void put_parts(JsonWriter *w, const View *v) {
    if (v->n_candidates) put_candidates(w, v);
    if (v->has_lens) put_lens(w, v);
    if (v->n_parts) put_attribution(w, v);
    if (v->attention) put_attention(w, v);
    writer_bool(w, "river", v->has_river);
    writer_begin(w, "stages", '[');
    for (size_t i = 0; i < v->n_stages; i++)
        if (v->stages[i].coding != CODING_NONE) put_stage(w, v, &v->stages[i]);
    writer_end(w, ']');
    if (v->n_weights) {
        writer_begin(w, "weights", '[');
        for (size_t i = 0; i < v->n_weights; i++)
            put_weight(w, &v->weights[i], i);
        writer_end(w, ']');
    }
    if (v->diff) view_put_diff(w, v);
}

bool view_core(const View *v, Buffer *core, Error *error) {
    JsonWriter w = {.out = core};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "format", 1);
    writer_string(&w, "kind", v->diff ? "diff" : v->trace ? "trace" : "model");
    writer_string(&w, "limpid", LIMPID_VERSION);
    bool good = true;
    if (v->trace) {
        if (!put_trace(&w, v, error)) return false;
    } else {
        good = put_model(&w, v);
    }
    put_sizes(&w, v);
    good = put_tokens(&w, v) && good;
    put_parts(&w, v);
    writer_end(&w, '}');
    if (good && !core->failed) return true;
    return error_set(error, ERROR_MEMORY, "no memory for the core of a page");
}

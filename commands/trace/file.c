// Plans the tensors of the file, and writes stages into it as they are computed.
//
//   trace_file_plan     a pass of one token; note_stage lists the stages, each with its width
//   trace_file_open     begins the file with the final shapes; attaches write_stage
//   (the caller feeds the text; write_stage puts each row at its place)
//   trace_file_finish   the token ids, then the file moves to its place
#include "commands/trace/file.h"

#include "commands/commands.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the list of tensors ----

// Attention weights grow with the square of the text, so they are written only on request.
static bool wants_attention(const Options *o) {
    bool named = false;
    for (int i = 0; i < o->only_names.count; i++)
        named |= strstr(o->only_names.texts[i], "attn_weights") != NULL;
    return o->attention || named;
}

// Listener of the first pass: notes one tensor per stage.
static void note_stage(void *context, const Model *model, const Stage *stage) {
    TraceFile *f = context;
    (void)model;
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 256;
        TraceTensor *grown = realloc(f->tensors, room * sizeof *grown);
        if (!grown) {
            error_set(&f->failure, ERROR_MEMORY, "out of memory");
            return;
        }
        f->tensors = grown;
        f->room = room;
    }
    TraceTensor *tensor = &f->tensors[f->count];
    *tensor = (TraceTensor){.id = stage->id, .layer = stage->layer};
    // Elements of a row: of attention weights (n, n_heads, context) the heads, since the file has
    // them as (n_heads, T, T) for the T of this text.
    size_t width = stage_size(stage) / (size_t)stage->shape[0];
    bool weights = stage->id == STAGE_ATT_WEIGHTS;
    tensor->width = weights ? (size_t)stage->shape[1] : width;
    if (!trace_stage_name(tensor->name, f->session->checkpoint, stage->id, stage->layer)) return;
    if (!only_matches(&f->session->options->only_names, tensor->name)) return;
    f->bytes += sizeof(float) * f->n_tokens * tensor->width * (weights ? f->n_tokens : 1);
    f->count++;
}

// Whether a stage has the name. Of several names some may be those of other families.
static bool is_planned(const TraceFile *f, const char *pattern) {
    for (size_t k = 0; k < f->count; k++)
        if (name_matches(pattern, f->tensors[k].name)) return true;
    return false;
}

static bool check_only(const TraceFile *f, Error *error) {
    static const char NONE[] = "no stage of this model has such a name (docs/trace.md lists them)";
    const Options *o = f->session->options;
    for (int i = 0; i < o->only_names.count; i++) {
        const char *pattern = o->only_names.texts[i];
        if (!f->count) return error_set(error, ERROR_USAGE, "--only %.60s: %s", pattern, NONE);
        if (!o->quiet && !is_planned(f, pattern)) note("--only %.60s: %s", pattern, NONE);
    }
    return true;
}

bool trace_file_plan(TraceFile *f, Error *error) {
    Model *model = f->session->model;
    Error cause = {0};
    if (!model_listen(model, note_stage, f, wants_attention(f->session->options), error))
        return false;
    bool good = session_forward(f->session, &(Batch){.n = 1, .tokens = f->tokens->ids}, &cause);
    model_listen(model, NULL, NULL, false, NULL);
    kv_cache_reset(&model->cache, 0);
    // NaN does not stop a trace, which shows where it comes from.
    if (!good && cause.code != ERROR_NONFINITE) return error_copy(error, &cause);
    if (f->failure.code) return error_copy(error, &f->failure);
    return check_only(f, error);
}

bool trace_file_wants_logits(const TraceFile *f) {
    return f->count && f->tensors[f->count - 1].id >= STAGE_FINAL_NORM;
}

// ---- the file ----

enum { N_METADATA = 10, TEXT_SIZE = 512 };

// "1,403,407", owned. 12 bytes hold any id and a comma. NULL: out of memory.
static char *ids_text(const IdList *ids) {
    enum { MOST = 12 };
    char *text = malloc(ids->count * MOST + 1), *at = text;
    for (size_t i = 0; text && i < ids->count; i++)
        at += snprintf(at, MOST + 1, "%s%" PRId32, i ? "," : "", ids->ids[i]);
    return text;
}

// A JSON object for the metadata. Numbers only, so nothing needs to be quoted.
static void config_text(char *out, size_t size, const Config *c) {
    snprintf(out, size,
             "{\"dim\":%d,\"hidden_dim\":%d,\"n_layers\":%d,\"n_heads\":%d,\"n_kv_heads\":%d,"
             "\"head_dim\":%d,\"vocab_size\":%d}",
             c->dim, c->hidden_dim, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim,
             c->vocab_size);
}

// The layout of the file: the tokens come first.
static void lay_out(WriteTensor *tensors, const TraceFile *f) {
    uint64_t n = f->n_tokens;
    tensors[0] = (WriteTensor){"input_ids", "I64", 1, {n}};
    for (size_t i = 0; i < f->count; i++) {
        const TraceTensor *t = &f->tensors[i];
        tensors[i + 1] = t->id == STAGE_ATT_WEIGHTS
                             ? (WriteTensor){t->name, "F32", 3, {t->width, n, n}}
                             : (WriteTensor){t->name, "F32", 2, {n, t->width}};
    }
}

// docs/trace.md describes the metadata; diff chooses its budget by precision and kv.
static bool begin(TraceFile *f, const WriteTensor *tensors, const char *prompt_ids, Error *error) {
    const Session *s = f->session;
    const ModelOptions *o = &s->model->options;
    const char *path = checkpoint_path(s->checkpoint);
    char config[TEXT_SIZE], prompt_tokens[24];
    Buffer changes = {0}, model = {0};
    config_text(config, sizeof config, s->config);
    snprintf(prompt_tokens, sizeof prompt_tokens, "%zu", f->tokens->count);
    interventions_describe(&changes, s->options);
    buffer_zeros(&changes, 1);
    buffer_put_text(&model, path, strlen(path) + 1); // with its end, which is UTF-8 too
    const WriteMetadata metadata[N_METADATA] = {
        {"producer", "limpid " LIMPID_VERSION},
        {"model", (const char *)model.bytes},
        {"family", s->config->family},
        {"precision", precision_name(o->precision)},
        {"kv", kv_name(o->kv_type)},
        {"backend", device_info(s->model->device)->description},
        {"config", config},
        {"prompt_tokens", prompt_tokens},
        {"prompt_ids", prompt_ids},
        {"interventions", (const char *)changes.bytes}, // the last, since most traces have none
    };
    int count = s->interventions ? N_METADATA : N_METADATA - 1;
    if (changes.failed || model.failed)
        error_set(error, ERROR_MEMORY, "no memory for the header of the trace");
    else
        f->out = safetensors_writer_open(f->place, tensors, f->count + 1, metadata, count, error);
    buffer_free(&changes);
    buffer_free(&model);
    return f->out;
}

// `count` floats from element `element` of a tensor on. Tensor 0 of the file is input_ids, hence +
// 1. A failed write is kept in f->failure, and nothing is written after it.
static void put(TraceFile *f, size_t tensor, uint64_t element, const float *data, size_t count) {
    if (f->failure.code) return;
    safetensors_writer_put(f->out, tensor + 1, element * sizeof *data, data, count * sizeof *data,
                           &f->failure);
}

// From the stage's (n, n_heads, context) to rows of the file's (n_heads, T, T).
static void put_attention(TraceFile *f, size_t tensor, const Stage *stage) {
    size_t n_heads = (size_t)stage->shape[1], context = (size_t)stage->shape[2];
    for (int i = 0; i < stage->rows.n; i++)
        for (size_t h = 0; h < n_heads; h++)
            put(f, tensor, (h * f->n_tokens + (size_t)stage->rows.positions[i]) * f->n_tokens,
                stage->data + ((size_t)i * n_heads + h) * context, f->n_tokens);
}

// Listener: writes the rows of a stage, which are consecutive positions of one sequence.
static void write_stage(void *context, const Model *model, const Stage *stage) {
    TraceFile *f = context;
    (void)model;
    // A search of a few hundred names for each stage, which costs nothing beside the pass.
    for (size_t i = 0; i < f->count; i++) {
        const TraceTensor *tensor = &f->tensors[i];
        if (tensor->id != stage->id || tensor->layer != stage->layer) continue;
        if (stage->id == STAGE_ATT_WEIGHTS)
            put_attention(f, i, stage);
        else
            put(f, i, (uint64_t)stage->rows.positions[0] * tensor->width, stage->data,
                stage_size(stage));
        return;
    }
}

bool trace_check_size(const char *path, double bytes, double left, Error *error) {
    if (left < 0 || bytes <= left) return true;
    double unit = bytes < 1e9 ? 1e6 : 1e9;
    const char *name = bytes < 1e9 ? "MB" : "GB";
    error_set(
        error, ERROR_IO,
        "the trace would take %.1f %s, the disk has %.1f %s left; --only NAME makes it smaller",
        bytes / unit, name, left / unit, name);
    return error_prefix(error, path);
}

bool trace_file_open(TraceFile *f, Error *error) {
    WriteTensor *tensors = calloc(f->count + 1, sizeof *tensors);
    char *prompt_ids = ids_text(f->tokens);
    bool good = tensors && prompt_ids;
    if (good)
        lay_out(tensors, f);
    else
        error_set(error, ERROR_MEMORY, "out of memory");
    good = good && begin(f, tensors, prompt_ids, error) &&
           model_listen(f->session->model, write_stage, f, wants_attention(f->session->options),
                        error);
    free(tensors);
    free(prompt_ids);
    return good;
}

bool trace_file_finish(TraceFile *f, Error *error) {
    const IdList *tokens = f->tokens;
    model_listen(f->session->model, NULL, NULL, false, NULL);
    for (size_t i = 0; i < tokens->count && !f->failure.code; i++) {
        int64_t id = tokens->ids[i];
        safetensors_writer_put(f->out, 0, i * sizeof id, &id, sizeof id, &f->failure);
    }
    if (f->failure.code) return error_copy(error, &f->failure);
    return safetensors_writer_finish(f->out, error);
}

void trace_file_close(TraceFile *f) {
    safetensors_writer_close(f->out);
    free(f->tensors);
    *f = (TraceFile){0};
}

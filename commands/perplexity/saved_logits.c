// Writes and reads the file of saved logits; its layout is in saved_logits.h. Two runs are
// comparable if they score the same tokens with the same context: text, windows and vocabulary must
// be equal. The model, its precision and its cache may differ, which is what is measured.
#include "commands/perplexity/saved_logits.h"
#include "commands/shared/generation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_KEYS = 6, TEXT_SIZE = 32 };

static const char FORMAT[] = "limpid-logits";

// The metadata that must be equal in two runs, as text.
typedef struct KeyTexts {
    const char *names[N_KEYS];
    char values[N_KEYS][TEXT_SIZE];
} KeyTexts;

// text_hash: FNV-1a of the ids that the windows read, and of the BOS that --second-half puts in
// place of the first id of each window. All values are texts, as safetensors demands of its
// metadata.
static KeyTexts key_texts(const LogitsKey *key) {
    KeyTexts t = {
        .names = {"format", "vocab_size", "window", "stride", "second_half", "text_hash"}};
    uint64_t hash = fnv1a(FNV_START, key->ids, key->used * sizeof *key->ids);
    if (key->windows.second_half && key->bos >= 0) hash = fnv1a(hash, &key->bos, sizeof key->bos);
    snprintf(t.values[0], TEXT_SIZE, "%s", FORMAT);
    snprintf(t.values[1], TEXT_SIZE, "%d", key->vocab_size);
    snprintf(t.values[2], TEXT_SIZE, "%zu", key->windows.window);
    snprintf(t.values[3], TEXT_SIZE, "%zu", key->windows.stride);
    snprintf(t.values[4], TEXT_SIZE, "%s", key->windows.second_half ? "true" : "false");
    snprintf(t.values[5], TEXT_SIZE, "%016" PRIx64, hash);
    return t;
}

// ---- out ----

uint64_t saved_logits_bytes(const LogitsKey *key) {
    return (uint64_t)key->rows * ((uint64_t)key->vocab_size * sizeof(float) + sizeof(int64_t));
}

// The ids of the scored tokens, in the order in which their rows follow.
static bool put_targets(LogitsWriter *w, const LogitsKey *key, Error *error) {
    TextWindow window;
    uint64_t at = 0;
    for (size_t i = 0; text_window(&window, &key->windows, key->used, i); i++) {
        for (size_t t = window.first; t < window.after; t++, at += sizeof(int64_t)) {
            int64_t id = key->ids[t];
            if (!safetensors_writer_put(w->out, 0, at, &id, sizeof id, error)) return false;
        }
    }
    return true;
}

bool logits_writer_open(LogitsWriter *w, const OutputFile *place, const LogitsKey *key,
                        Error *error) {
    KeyTexts texts = key_texts(key);
    WriteMetadata metadata[N_KEYS + 3];
    for (int i = 0; i < N_KEYS; i++)
        metadata[i] = (WriteMetadata){texts.names[i], texts.values[i]};
    metadata[N_KEYS] = (WriteMetadata){"model", key->model};
    metadata[N_KEYS + 1] = (WriteMetadata){"precision", key->precision};
    metadata[N_KEYS + 2] = (WriteMetadata){"kv", key->kv};
    WriteTensor tensors[] = {{"targets", "I64", 1, {key->rows}},
                             {"logits", "F32", 2, {key->rows, (uint64_t)key->vocab_size}}};
    *w = (LogitsWriter){.row_bytes = (size_t)key->vocab_size * sizeof(float)};
    w->out = safetensors_writer_open(place, tensors, 2, metadata, N_KEYS + 3, error);
    return w->out && put_targets(w, key, error);
}

bool logits_writer_put(LogitsWriter *w, const float *logits, Error *error) {
    uint64_t at = (uint64_t)w->rows++ * w->row_bytes;
    return safetensors_writer_put(w->out, 1, at, logits, w->row_bytes, error);
}

bool logits_writer_finish(LogitsWriter *w, Error *error) {
    return safetensors_writer_finish(w->out, error);
}

void logits_writer_close(LogitsWriter *w) {
    safetensors_writer_close(w->out);
    *w = (LogitsWriter){0};
}

// ---- in ----

// False with exit code 3, and the first key that differs. Model, precision and cache are kept for
// the report.
static bool check_metadata(SavedLogits *s, const LogitsKey *key, Error *error) {
    KeyTexts wanted = key_texts(key);
    for (int i = 0; i < N_KEYS; i++) {
        const char *value;
        if (!safetensors_metadata(&s->file, wanted.names[i], &value, error)) return false;
        if (!value)
            return error_set(error, ERROR_FILE,
                             "not a file of saved logits: the metadata has no \"%s\"",
                             wanted.names[i]);
        if (!i && strcmp(value, FORMAT) != 0)
            return error_set(error, ERROR_FILE, "not a file of saved logits: its format is %.40s",
                             value);
        if (strcmp(value, wanted.values[i]) != 0)
            return error_set(
                error, ERROR_FILE, "%s: these logits were saved with %.40s, this run has %s",
                i == N_KEYS - 1 ? "another text, other --windows or another BOS (text_hash)"
                                : wanted.names[i],
                value, wanted.values[i]);
    }
    return safetensors_metadata(&s->file, "model", &s->model, error) &&
           safetensors_metadata(&s->file, "precision", &s->precision, error) &&
           safetensors_metadata(&s->file, "kv", &s->kv, error);
}

// The tensor of this name, if type and shape are right. NULL: exit code 3.
static const TensorPlan *find(const SavedLogits *s, const char *name, const char *type,
                              const LogitsKey *key, uint32_t rank, Error *error) {
    const SafetensorsTensor *t = safetensors_find(&s->file, name);
    uint64_t shape[2] = {key->rows, (uint64_t)key->vocab_size};
    bool good = t && !strcmp(t->type->name, type) && t->plan.n_dims == rank &&
                !memcmp(t->plan.shape, shape, rank * sizeof *shape);
    if (good) return &t->plan;
    error_set(error, ERROR_FILE, "wanted a tensor \"%s\" of %s with %zu rows", name, type,
              key->rows);
    return NULL;
}

// Beside the hash, since the hash says nothing about where two texts part.
static bool check_targets(const TensorPlan *targets, const LogitsKey *key, Error *error) {
    TextWindow window;
    const uint8_t *at = targets->data;
    for (size_t i = 0; text_window(&window, &key->windows, key->used, i); i++) {
        for (size_t t = window.first; t < window.after; t++, at += sizeof(int64_t)) {
            int64_t id;
            memcpy(&id, at, sizeof id);
            if (id != key->ids[t])
                return error_set(error, ERROR_FILE,
                                 "another text: target %zu is %" PRId64 ", in this run %d",
                                 (size_t)(at - targets->data) / sizeof id, id, (int)key->ids[t]);
        }
    }
    return true;
}

// Everything before the first row is used. A row is copied, since the mapping has any alignment.
static bool check_file(SavedLogits *s, const LogitsKey *key, Error *error) {
    if (!check_metadata(s, key, error)) return false;
    const TensorPlan *targets = find(s, "targets", "I64", key, 1, error);
    const TensorPlan *logits = targets ? find(s, "logits", "F32", key, 2, error) : NULL;
    if (!logits || !check_targets(targets, key, error)) return false;
    s->rows = logits->data;
    s->n_rows = key->rows;
    s->row_bytes = (size_t)key->vocab_size * sizeof(float);
    s->row = malloc(s->row_bytes);
    return s->row || error_set(error, ERROR_MEMORY, "out of memory for a row of logits");
}

bool saved_logits_open(SavedLogits *s, const char *path, const LogitsKey *key, Error *error) {
    *s = (SavedLogits){.path = path};
    if (!safetensors_open(&s->file, path, error)) return false;
    if (check_file(s, key, error)) return true;
    saved_logits_close(s);
    return error_prefix(error, path);
}

// The pages of a row that was read are dropped, so that the file does not fill the memory.
const float *saved_logits_next(SavedLogits *s, Error *error) {
    const uint8_t *from = s->rows + s->next * s->row_bytes;
    size_t count = s->row_bytes / sizeof(float);
    memcpy(s->row, from, s->row_bytes);
    mapping_drop(&s->file.mapping, from, s->row_bytes);
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite &= isfinite(s->row[i]) != 0;
    if (mapping_damaged(&s->file.mapping))
        error_set(error, ERROR_IO, "%s: the file was cut short while it was read", s->path);
    else if (!finite)
        error_set(error, ERROR_FILE, "%s: row %zu of the logits is not finite", s->path, s->next);
    else
        return s->next++, s->row;
    return NULL;
}

void saved_logits_close(SavedLogits *s) {
    if (!s->path) return;
    safetensors_close(&s->file);
    free(s->row);
    *s = (SavedLogits){0};
}

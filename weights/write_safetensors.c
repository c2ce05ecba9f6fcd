// The safetensors writer: its header stands drawn in safetensors.h.
#include "weights/arena.h"
#include "weights/buffer.h"
#include "weights/bytes.h"
#include "weights/file_writer.h"
#include "weights/limits.h"
#include "weights/names.h"
#include "weights/write.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Placed {
    const char *name;
    uint64_t begin, bytes, written; // begin: in the file
} Placed;

struct SafetensorsWriter {
    Arena arena;
    FileWriter *file;
    Placed *tensors; // (n)
    size_t n;
};

// Elements that a writer here makes; widest first, which is the order in the file.
static const struct {
    const char *name;
    uint64_t bytes;
} TYPES[] = {{"I64", 8}, {"F32", 4}, {"I32", 4}, {"F16", 2}, {"BF16", 2}};

enum { WIDEST = 8 };

static uint64_t element_bytes(const char *type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (!strcmp(type, TYPES[i].name)) return TYPES[i].bytes;
    return 0;
}

static bool is_utf8(const char *text) {
    size_t length = strlen(text), n = 1;
    uint32_t character;
    for (size_t i = 0; i < length && n; i += n)
        n = utf8_decode(text + i, length - i, &character);
    return n;
}

// ---- the plan ----

static bool measure(const WriteTensor *tensor, uint64_t *bytes, Error *error) {
    *bytes = element_bytes(tensor->type);
    bool fits = tensor->rank <= 4, good_name = *tensor->name && is_utf8(tensor->name) &&
                                               strcmp(tensor->name, "__metadata__") != 0;
    if (!good_name)
        return error_set(error, ERROR_USAGE, "no tensor can be called \"%.100s\"", tensor->name);
    if (!*bytes)
        return error_set(error, ERROR_USAGE, "tensor \"%.100s\": no element type \"%.20s\"",
                         tensor->name, tensor->type);
    for (uint32_t i = 0; fits && i < tensor->rank; i++)
        fits = mul_ok(*bytes, tensor->shape[i], bytes);
    return fits ||
           error_set(error, ERROR_USAGE, "tensor \"%.100s\": its size does not fit", tensor->name);
}

// Sets begin, counted from the first byte after the header, and in *total what all come to.
static bool place(SafetensorsWriter *w, const WriteTensor *tensors, uint64_t *total, Error *error) {
    *total = 0;
    for (uint64_t width = WIDEST; width; width--) {
        for (size_t i = 0; i < w->n; i++) {
            if (element_bytes(tensors[i].type) != width) continue;
            w->tensors[i].begin = *total;
            if (!add_ok(*total, w->tensors[i].bytes, total))
                return error_set(error, ERROR_USAGE, "all tensors together do not fit a file");
        }
    }
    return true;
}

static bool plan(SafetensorsWriter *w, const WriteTensor *tensors, uint64_t *total, Error *error) {
    NameIndex index;
    Error twice = {0};
    w->tensors = arena_alloc(&w->arena, w->n, sizeof *w->tensors, error);
    NameEntry *entries = w->tensors ? arena_alloc(&w->arena, w->n, sizeof *entries, error) : NULL;
    if (!entries) return false;
    if (w->n > LIMIT_TENSORS)
        return error_set(error, ERROR_USAGE, "%zu tensors in one file (at most %d)", w->n,
                         LIMIT_TENSORS);
    for (size_t i = 0; i < w->n; i++) {
        size_t length = strlen(tensors[i].name);
        if (!measure(&tensors[i], &w->tensors[i].bytes, error)) return false;
        w->tensors[i].name = arena_text(&w->arena, tensors[i].name, length, error);
        if (!w->tensors[i].name) return false;
        entries[i] = (NameEntry){{w->tensors[i].name, length}, (uint32_t)i};
    }
    if (!names_index(&index, entries, w->n, "tensor", &twice))
        return error_set(error, ERROR_USAGE, "%s", twice.message);
    return place(w, tensors, total, error);
}

// ---- the header ----

static void describe(Buffer *json, const WriteTensor *tensor, const Placed *placed) {
    buffer_quote(json, tensor->name, strlen(tensor->name));
    buffer_print(json, ":{\"dtype\":\"%s\",\"shape\":[", tensor->type);
    for (uint32_t i = 0; i < tensor->rank; i++)
        buffer_print(json, "%s%llu", i ? "," : "", (unsigned long long)tensor->shape[i]);
    buffer_print(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)placed->begin,
                 (unsigned long long)(placed->begin + placed->bytes));
}

// The length, the JSON, and spaces up to a multiple of 8. Readers expect members in the order of
// the data.
static void write_header(Buffer *out, const SafetensorsWriter *w, const WriteTensor *tensors,
                         const WriteMetadata *metadata, size_t n_metadata) {
    buffer_u64(out, 0);
    buffer_print(out, "{");
    for (size_t i = 0; i < n_metadata; i++) {
        buffer_print(out, i ? "," : "\"__metadata__\":{");
        buffer_quote(out, metadata[i].key, strlen(metadata[i].key));
        buffer_print(out, ":");
        buffer_quote(out, metadata[i].value, strlen(metadata[i].value));
    }
    if (n_metadata) buffer_print(out, "}");
    bool comma = n_metadata;
    for (uint64_t width = WIDEST; width; width--) {
        for (size_t i = 0; i < w->n; i++) {
            if (element_bytes(tensors[i].type) != width) continue;
            if (comma) buffer_print(out, ",");
            comma = true;
            describe(out, &tensors[i], &w->tensors[i]);
        }
    }
    buffer_print(out, "}");
    while (!out->failed && out->size % 8)
        buffer_print(out, " ");
    for (size_t i = 0; !out->failed && i < 8; i++)
        out->bytes[i] = (uint8_t)((out->size - 8) >> (8 * i));
}

static bool begin_file(SafetensorsWriter *w, const char *path, const Buffer *header, uint64_t total,
                       Error *error) {
    uint64_t size;
    if (header->failed) return error_set(error, ERROR_MEMORY, "out of memory for the header");
    if (header->size - 8 > LIMIT_JSON_HEADER || !add_ok(header->size, total, &size))
        return error_set(error, ERROR_USAGE, "no safetensors file can hold all this");
    for (size_t i = 0; i < w->n; i++)
        w->tensors[i].begin += header->size;
    w->file = file_writer_open(path, size, error);
    return w->file && file_writer_put(w->file, 0, header->bytes, header->size, error);
}

SafetensorsWriter *safetensors_writer_open(const char *path, const WriteTensor *tensors, size_t n,
                                           const WriteMetadata *metadata, size_t n_metadata,
                                           Error *error) {
    SafetensorsWriter *w = calloc(1, sizeof *w);
    uint64_t total;
    if (!w) {
        error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", sizeof *w);
        return NULL;
    }
    w->n = n;
    bool good = plan(w, tensors, &total, error);
    if (good) {
        Buffer header = {0};
        write_header(&header, w, tensors, metadata, n_metadata);
        good = begin_file(w, path, &header, total, error);
        buffer_free(&header);
    }
    if (good) return w;
    error_prefix(error, path);
    safetensors_writer_close(w);
    return NULL;
}

// ---- the data ----

bool safetensors_writer_put(SafetensorsWriter *w, size_t tensor, uint64_t offset, const void *data,
                            uint64_t bytes, Error *error) {
    if (tensor >= w->n) return error_set(error, ERROR_USAGE, "tensor %zu of %zu", tensor, w->n);
    Placed *t = &w->tensors[tensor];
    if (offset > t->bytes || bytes > t->bytes - offset || bytes > t->bytes - t->written)
        return error_set(error, ERROR_USAGE, "tensor \"%.100s\": more than its %llu bytes", t->name,
                         (unsigned long long)t->bytes);
    t->written += bytes;
    return file_writer_put(w->file, t->begin + offset, data, bytes, error);
}

bool safetensors_writer_finish(SafetensorsWriter *w, Error *error) {
    for (size_t i = 0; i < w->n; i++) {
        const Placed *t = &w->tensors[i];
        if (t->written == t->bytes) continue;
        error_set(error, ERROR_USAGE,
                  "tensor \"%.100s\": %llu of its %llu bytes were never written", t->name,
                  (unsigned long long)(t->bytes - t->written), (unsigned long long)t->bytes);
        return error_prefix(error, file_writer_path(w->file));
    }
    return file_writer_finish(w->file, error);
}

void safetensors_writer_close(SafetensorsWriter *w) {
    if (!w) return;
    file_writer_close(w->file);
    arena_free(&w->arena);
    free(w);
}

// The safetensors writer: its header stands drawn in safetensors.h.
//
//     plan           sizes and names of the tensors checked, places chosen
//     write_header   length, JSON, spaces
//     begin          both, and the file opened
//
// Used for traces, saved logits and converted models alike: any tensors, no knowledge of families.
#include "base/bytes.h"
#include "base/text.h"
#include "weights/out/write.h"

#include <string.h>

// Elements that a writer here makes; widest first, which is the order in the file.
static const struct {
    const char *name;
    uint64_t bytes;
} TYPES[] = {{"I64", 8}, {"F32", 4}, {"I32", 4}, {"F16", 2}, {"BF16", 2}};

enum { WIDEST = 8 };

// 0: no type that can be written.
static uint64_t element_bytes(const char *type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (!strcmp(type, TYPES[i].name)) return TYPES[i].bytes;
    return 0;
}

// JSON strings are UTF-8; utf8_decode gives 0 where a byte begins no character.
static bool is_utf8(const char *text) {
    size_t length = strlen(text), n = 1;
    uint32_t character;
    for (size_t i = 0; i < length && n; i += n)
        n = utf8_decode(text + i, length - i, &character);
    return n;
}

// ---- the plan ----

// Sets *bytes, the tensor's size. "__metadata__" would be read as the metadata.
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
static bool place(TensorWriter *w, const WriteTensor *tensors, uint64_t *total, Error *error) {
    *total = 0;
    // Once for each width: tensors of wide elements first, so that every one is aligned to its
    // element.
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

// Two tensors of the same name are the caller's mistake, so exit code 2 and not that of a bad file.
static bool plan(TensorWriter *w, const WriteTensor *tensors, uint64_t *total, Error *error) {
    NameIndex index;
    Error twice = {0};
    NameEntry *entries = arena_alloc(&w->arena, w->n, sizeof *entries, error);
    if (!entries) return false;
    for (size_t i = 0; i < w->n; i++) {
        if (!measure(&tensors[i], &w->tensors[i].bytes, error) ||
            !tensor_writer_name(w, i, tensors[i].name, error))
            return false;
        const char *name = w->tensors[i].name;
        entries[i] = (NameEntry){{name, strlen(name)}, (uint32_t)i};
    }
    if (!names_index(&index, entries, w->n, "tensor", &twice))
        return error_set(error, ERROR_USAGE, "%s", twice.message);
    return place(w, tensors, total, error);
}

// ---- the header ----

// One member of the header: "name":{"dtype":..,"shape":[..],"data_offsets":[begin,end]}
static void describe(Buffer *json, const WriteTensor *tensor, const PlacedTensor *placed) {
    buffer_quote(json, tensor->name, strlen(tensor->name));
    buffer_print(json, ":{\"dtype\":\"%s\",\"shape\":[", tensor->type);
    for (uint32_t i = 0; i < tensor->rank; i++)
        buffer_print(json, "%s%llu", i ? "," : "", (unsigned long long)tensor->shape[i]);
    buffer_print(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)placed->begin,
                 (unsigned long long)(placed->begin + placed->bytes));
}

// The length, the JSON, and spaces up to a multiple of 8. Readers expect members in the order of
// the data.
static void write_header(Buffer *out, const TensorWriter *w, const WriteTensor *tensors,
                         const WriteMetadata *metadata, size_t n_metadata) {
    // The length is known at the end and written over these 8 bytes.
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
    uint64_t length = (uint64_t)out->size - 8;
    for (size_t i = 0; !out->failed && i < 8; i++)
        out->bytes[i] = (uint8_t)(length >> (8 * i));
}

static bool begin(TensorWriter *w, const OutputFile *out, const WriteTensor *tensors,
                  const WriteMetadata *metadata, size_t n_metadata, Error *error) {
    Buffer header = {0};
    uint64_t total;
    if (!plan(w, tensors, &total, error)) return false;
    write_header(&header, w, tensors, metadata, n_metadata);
    // A buffer that failed is left to tensor_writer_begin, which reports it.
    bool fits = header.failed || header.size - 8 <= LIMIT_JSON_HEADER ||
                error_set(error, ERROR_USAGE, "a header of %zu bytes (at most %d)", header.size,
                          LIMIT_JSON_HEADER);
    bool good = fits && tensor_writer_begin(w, out, &header, total, error);
    buffer_free(&header);
    return good;
}

SafetensorsWriter *safetensors_writer_open(const OutputFile *out, const WriteTensor *tensors,
                                           size_t n, const WriteMetadata *metadata,
                                           size_t n_metadata, Error *error) {
    if (n > LIMIT_TENSORS) {
        error_set(error, ERROR_USAGE, "%zu tensors in one file (at most %d)", n, LIMIT_TENSORS);
        return NULL;
    }
    TensorWriter *w = tensor_writer_new(n, error);
    if (w && begin(w, out, tensors, metadata, n_metadata, error)) return w;
    error_prefix(error, out->shown ? out->shown : out->path);
    tensor_writer_close(w);
    return NULL;
}

bool safetensors_writer_put(SafetensorsWriter *w, size_t tensor, uint64_t offset, const void *data,
                            uint64_t bytes, Error *error) {
    return tensor_writer_put(w, tensor, offset, data, bytes, error);
}

bool safetensors_writer_finish(SafetensorsWriter *w, Error *error) {
    return tensor_writer_finish(w, error);
}

void safetensors_writer_close(SafetensorsWriter *w) {
    tensor_writer_close(w);
}

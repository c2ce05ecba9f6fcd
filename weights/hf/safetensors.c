// One safetensors file: header -> tensors with checked types, shapes and ranges. The JSON
// header is parsed by safetensors_json.c; directories, shards and config.json are in checkpoint.c.
//
// The checks are those of the reference library (huggingface/safetensors, tensor.rs), and two that
// its text demands and it does not make: no leading space before '{', no name twice. The order:
//
//     length of the header -> text (safetensors_add, _set_type, _measure, _place for each tensor)
//     -> all are inside the file -> names differ -> tensors cover the data
#include "weights/hf/safetensors.h"

#include "base/bytes.h"
#include "base/text.h"
#include "weights/container.h"

#include <stdlib.h>
#include <string.h>

// Every type of the format, so that the size of each is checked even where it is of no use here.
//
// Columns: name, bits of an element, limpid's type (DTYPE_COUNT: none).
static const SafetensorsType TYPES[] = {
    {"F32", 32, DTYPE_F32},          {"F16", 16, DTYPE_F16},      {"BF16", 16, DTYPE_BF16},
    {"F64", 64, DTYPE_COUNT},        {"I64", 64, DTYPE_COUNT},    {"U64", 64, DTYPE_COUNT},
    {"I32", 32, DTYPE_COUNT},        {"U32", 32, DTYPE_COUNT},    {"I16", 16, DTYPE_COUNT},
    {"U16", 16, DTYPE_COUNT},        {"I8", 8, DTYPE_COUNT},      {"U8", 8, DTYPE_COUNT},
    {"BOOL", 8, DTYPE_COUNT},        {"C64", 64, DTYPE_COUNT},    {"F8_E5M2", 8, DTYPE_COUNT},
    {"F8_E4M3", 8, DTYPE_COUNT},     {"F8_E8M0", 8, DTYPE_COUNT}, {"F8_E4M3FNUZ", 8, DTYPE_COUNT},
    {"F8_E5M2FNUZ", 8, DTYPE_COUNT}, {"F6_E2M3", 6, DTYPE_COUNT}, {"F6_E3M2", 6, DTYPE_COUNT},
    {"F4", 4, DTYPE_COUNT},
};

// ---- what a reader of the text says ----

// One allocation for a bound that the text gives; a file cannot make it grow.
bool safetensors_room(SafetensorsHeader *h, size_t most, Error *error) {
    h->room = most > LIMIT_TENSORS ? LIMIT_TENSORS : most;
    h->tensors = arena_alloc(h->arena, h->room, sizeof *h->tensors, error);
    return h->tensors;
}

SafetensorsTensor *safetensors_add(SafetensorsHeader *h, const char *name, Error *error) {
    if (h->count == h->room) {
        error_set(error, ERROR_FILE, "more than %zu tensors", h->room);
        return NULL;
    }
    SafetensorsTensor *tensor = &h->tensors[h->count++];
    tensor->plan.name = arena_text(h->arena, name, strlen(name), error);
    return tensor->plan.name ? tensor : NULL;
}

bool safetensors_set_type(SafetensorsTensor *tensor, const char *name, Error *error) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(name, TYPES[i].name) != 0) continue;
        tensor->type = &TYPES[i];
        tensor->plan.dtype = TYPES[i].dtype;
        return true;
    }
    return error_set(error, ERROR_FILE, "unknown dtype \"%.32s\"", name);
}

// Counted in bits, since F4 and F6 have 4 and 6. A dimension of 0 makes an empty tensor.
bool safetensors_measure(SafetensorsTensor *tensor, Error *error) {
    uint64_t bits = tensor->type->bits;
    bool fits = true, empty = false;
    for (uint32_t i = 0; i < tensor->plan.n_dims; i++) {
        uint64_t size = tensor->plan.shape[i];
        empty |= size == 0;
        fits = fits && (size == 0 || mul_ok(bits, size, &bits));
    }
    if (!fits) return error_set(error, ERROR_FILE, "the shape does not fit 64 bits");
    if (empty) bits = 0;
    if (bits % 8) return error_set(error, ERROR_FILE, "the shape ends inside a byte");
    tensor->plan.bytes = bits / 8;
    return true;
}

static bool outside(const SafetensorsHeader *h, uint64_t begin, uint64_t end, Error *error) {
    return error_set(error, ERROR_FILE,
                     "data_offsets %llu .. %llu are outside the %zu bytes of data",
                     (unsigned long long)begin, (unsigned long long)end, h->size - h->start);
}

// data_offsets [begin, end) count from h->start. They have to span what type and shape need. A
// tensor behind the end of the file has no data: check_inside refuses it once all are known.
bool safetensors_place(const SafetensorsHeader *h, SafetensorsTensor *tensor, uint64_t begin,
                       uint64_t end, Error *error) {
    uint64_t last, bytes = tensor->plan.bytes;
    bool inside = end <= h->size - h->start, spans = begin <= end && end - begin == bytes;
    if (begin > end || (!inside && !spans) || !add_ok(h->start, end, &last))
        return outside(h, begin, end, error);
    if (!spans)
        return error_set(error, ERROR_FILE, "data_offsets span %llu bytes, dtype and shape %llu",
                         (unsigned long long)(end - begin), (unsigned long long)bytes);
    tensor->plan.data = inside ? h->file + h->start + begin : NULL;
    tensor->plan.offset = h->start + begin;
    return true;
}

// ---- all of them together ----

// The size of the whole file, by its tensors; 0 where they do not end where they would without
// gaps: then it is an offset that is wrong.
static uint64_t whole_size(const SafetensorsHeader *h) {
    uint64_t packed = h->start, end = h->start;
    for (size_t i = 0; i < h->count; i++) {
        const TensorPlan *plan = &h->tensors[i].plan;
        if (!add_ok(packed, plan->bytes, &packed)) return 0;
        if (plan->offset + plan->bytes > end) end = plan->offset + plan->bytes;
    }
    return end == packed ? end : 0;
}

// No tensor ends behind the file. Where one does, in->wanted says whether the file was cut off.
static bool check_inside(const SafetensorsHeader *h, Bytes *in, Error *error) {
    for (size_t i = 0; i < h->count; i++) {
        const TensorPlan *plan = &h->tensors[i].plan;
        uint64_t begin = plan->offset - h->start;
        Error cause = {0};
        if (plan->data) continue;
        in->wanted = whole_size(h);
        outside(h, begin, begin + plan->bytes, &cause);
        return error_set(error, cause.code, "tensor \"%.100s\": %s", plan->name, cause.message);
    }
    return true;
}

// Tensors by where they begin, empty ones before the one that begins at the same place.
static int by_offset(const void *a, const void *b) {
    const TensorPlan *x = &(*(const SafetensorsTensor *const *)a)->plan;
    const TensorPlan *y = &(*(const SafetensorsTensor *const *)b)->plan;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// No hole, no overlap, nothing before the first and after the last: so no byte of the file can be
// something else, a second file in disguise for instance.
//
// Sorted by offset, each tensor begins where the one before it ended.
static bool check_coverage(const SafetensorsTensor *tensors, size_t count, size_t start,
                           size_t size, Arena *arena, Error *error) {
    const SafetensorsTensor **order = arena_alloc(arena, count, sizeof(void *), error);
    if (!order) return false;
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    qsort(order, count, sizeof *order, by_offset);
    uint64_t end = start;
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *plan = &order[i]->plan;
        if (plan->offset != end)
            return error_set(error, ERROR_FILE, "offset %llu: tensor \"%.100s\" %s",
                             (unsigned long long)plan->offset, plan->name,
                             plan->offset < end ? "overlaps the one before it"
                                                : "leaves a hole before it");
        end += plan->bytes;
    }
    if (end == size) return true;
    return error_set(error, ERROR_FILE, "offset %llu: %llu bytes after the last tensor",
                     (unsigned long long)end, (unsigned long long)(size - end));
}

// No name twice.
static bool check_names(const SafetensorsTensor *tensors, size_t count, Arena *arena,
                        Error *error) {
    NameIndex index;
    NameEntry *entries = arena_alloc(arena, count, sizeof *entries, error);
    if (!entries) return false;
    for (size_t i = 0; i < count; i++)
        entries[i] = (NameEntry){{tensors[i].plan.name, strlen(tensors[i].plan.name)}, (uint32_t)i};
    return names_index(&index, entries, count, "tensor", error);
}

// The text begins at byte 8. It is loaded whole, so the limit on its length bounds the memory.
static bool read_header(SafetensorsHeader *header, Bytes *in, Arena *arena) {
    uint64_t length = bytes_u64(in, "header length");
    if (length > LIMIT_JSON_HEADER)
        return bytes_fail(in, 0, "header of %llu bytes (at most %d)", (unsigned long long)length,
                          LIMIT_JSON_HEADER);
    const char *text = (const char *)bytes_take(in, length, "header");
    if (!text) return false;
    if (length < 2 || text[0] != '{')
        return bytes_fail(in, 8, "the header does not begin with '{'");
    *header =
        (SafetensorsHeader){.file = in->base, .start = in->pos, .size = in->size, .arena = arena};
    Error cause = {0};
    if (safetensors_read_text(header, text, (size_t)length, &cause) &&
        check_inside(header, in, &cause) &&
        check_names(header->tensors, header->count, arena, &cause) &&
        check_coverage(header->tensors, header->count, header->start, header->size, arena, &cause))
        return true;
    return error_set(in->error, cause.code, "header: %s", cause.message);
}

static bool parse_file(SafetensorsHeader *header, Bytes in, Arena *arena) {
    return read_header(header, &in, arena) || bytes_incomplete(&in);
}

bool safetensors_parse(SafetensorsTensor **tensors, size_t *count, Bytes in, Arena *arena) {
    SafetensorsHeader header = {0};
    if (!parse_file(&header, in, arena)) return false;
    *tensors = header.tensors;
    *count = header.count;
    return true;
}

// ---- one plain file ----

// A header's length may spell any magic of another format, so these are looked for only where it is
// no length; 0 is none.
static bool is_other(const uint8_t *data, size_t size, Error *error) {
    if (size >= 8 && load_u64(data) && load_u64(data) <= LIMIT_JSON_HEADER) return false;
    if (text_is_foreign(data, size, "tensors", error)) return true;
    if (size < 9) return false;
    if (!memcmp(data, "GGUF", 4))
        return !error_set(error, ERROR_FILE, "this is a GGUF model, wanted a safetensors file");
    return is_foreign(data, size, "safetensors file", error);
}

bool safetensors_is_other(Mapping *file, Error *error) {
    enum { MAGIC_BYTES = 512 }; // that is_foreign looks at
    size_t front = file->size < MAGIC_BYTES ? file->size : MAGIC_BYTES;
    return !mapping_load(file, front, error) || is_other(file->data, front, error);
}

bool safetensors_open(SafetensorsFile *file, const char *path, Error *error) {
    SafetensorsHeader header = {0};
    *file = (SafetensorsFile){0};
    if (!mapping_open(&file->mapping, path, error)) return error_prefix(error, path);
    if (!safetensors_is_other(&file->mapping, error) &&
        parse_file(&header, bytes_of_file(&file->mapping, error), &file->arena) &&
        mapping_seal(&file->mapping, error)) {
        file->tensors = header.tensors;
        file->count = header.count;
        file->metadata = header.metadata;
        return true;
    }
    safetensors_close(file);
    return error_prefix(error, path);
}

void safetensors_close(SafetensorsFile *file) {
    mapping_close(&file->mapping);
    arena_free(&file->arena);
    *file = (SafetensorsFile){.mapping = mapping_of_memory(NULL, NULL, 0)};
}

const SafetensorsTensor *safetensors_find(const SafetensorsFile *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].plan.name, name)) return &file->tensors[i];
    return NULL;
}

const char *safetensors_header_text(const SafetensorsFile *file, size_t *length) {
    *length = (size_t)load_u64(file->mapping.data);
    return (const char *)file->mapping.data + 8;
}

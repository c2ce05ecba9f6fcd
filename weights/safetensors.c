// One safetensors file: header -> tensors with checked types, shapes and ranges. Directories,
// shards and config.json stand in hf_checkpoint.c.
#include "weights/safetensors.h"

#include "weights/bytes.h"
#include "weights/json.h"
#include "weights/names.h"

#include <stdlib.h>
#include <string.h>

// Every type of the format, so that the size of each is checked even where it is of no use here.
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

// For the entry of one tensor, which takes a hundred bytes, and for __metadata__.
static const JsonLimits MEMBER_LIMITS = {.bytes = 8 << 20, .values = 1 << 16, .no_negative = true};

static bool read_type(SafetensorsTensor *tensor, const json_t *entry, Error *error) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name)
        return error_set(error, ERROR_FILE, "\"dtype\": wanted a string, got %s",
                         json_kind(json_object_get(entry, "dtype")));
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(name, TYPES[i].name) != 0) continue;
        tensor->type = &TYPES[i];
        tensor->plan.dtype = TYPES[i].dtype;
        return true;
    }
    return error_set(error, ERROR_FILE, "unknown dtype \"%.32s\"", name);
}

// The shape, and in plan.bytes what it comes to.
static bool read_shape(SafetensorsTensor *tensor, const json_t *entry, Error *error) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return error_set(error, ERROR_FILE, "\"shape\": wanted an array, got %s", json_kind(shape));
    if (rank > 4) return error_set(error, ERROR_FILE, "%zu dimensions (at most 4)", rank);
    tensor->plan.n_dims = (uint32_t)rank;
    uint64_t bits = tensor->type->bits;
    bool fits = true, empty = false;
    for (size_t i = 0; i < rank; i++) {
        uint64_t *size = &tensor->plan.shape[i];
        if (!json_to_size(json_array_get(shape, i), "\"shape\"", size, error)) return false;
        empty |= *size == 0;
        fits = fits && (*size == 0 || mul_ok(bits, *size, &bits));
    }
    if (!fits) return error_set(error, ERROR_FILE, "the shape does not fit 64 bits");
    if (empty) bits = 0;
    if (bits % 8) return error_set(error, ERROR_FILE, "the shape ends inside a byte");
    tensor->plan.bytes = bits / 8;
    return true;
}

// The range, as offset in the file; `start` is where the data begins.
static bool read_range(SafetensorsTensor *tensor, const json_t *entry, const uint8_t *file,
                       size_t start, size_t size, Error *error) {
    const json_t *range = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    if (json_array_size(range) != 2)
        return error_set(error, ERROR_FILE, "\"data_offsets\": wanted two integers, got %s",
                         json_kind(range));
    if (!json_to_size(json_array_get(range, 0), "\"data_offsets\"", &begin, error) ||
        !json_to_size(json_array_get(range, 1), "\"data_offsets\"", &end, error))
        return false;
    if (begin > end || end > size - start)
        return error_set(error, ERROR_FILE,
                         "data_offsets %llu .. %llu are outside the %zu bytes of data",
                         (unsigned long long)begin, (unsigned long long)end, size - start);
    if (end - begin != tensor->plan.bytes)
        return error_set(error, ERROR_FILE, "data_offsets span %llu bytes, dtype and shape %llu",
                         (unsigned long long)(end - begin), (unsigned long long)tensor->plan.bytes);
    tensor->plan.data = file + start + begin;
    tensor->plan.offset = start + begin;
    return true;
}

static bool read_tensor(SafetensorsTensor *tensor, const char *name, const json_t *entry,
                        const uint8_t *file, size_t start, size_t size, Error *error) {
    Error cause = {0};
    tensor->plan.name = name;
    if (!name) return error_set(error, ERROR_MEMORY, "out of memory for tensor names");
    if (json_object_size(entry) != 3)
        error_set(&cause, ERROR_FILE, "wanted dtype, shape and data_offsets, got %s of %zu",
                  json_kind(entry), json_object_size(entry));
    else if (read_type(tensor, entry, &cause) && read_shape(tensor, entry, &cause) &&
             read_range(tensor, entry, file, start, size, &cause))
        return true;
    return error_set(error, cause.code, "tensor \"%.100s\": %s", name, cause.message);
}

static bool check_metadata(const json_t *metadata, Error *error) {
    if (!json_is_object(metadata))
        return error_set(error, ERROR_FILE, "\"__metadata__\": wanted an object, got %s",
                         json_kind(metadata));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value))
            return error_set(error, ERROR_FILE, "\"__metadata__\": \"%.100s\" is %s, not a string",
                             key, json_kind(value));
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

// A header being read.
typedef struct Header {
    const uint8_t *file;
    size_t start, size; // of the data, of the file
    SafetensorsTensor *tensors;
    size_t count, room;
    bool has_metadata;
} Header;

static bool read_member(Header *h, const char *key, const json_t *value, Arena *arena,
                        Error *error) {
    if (!strcmp(key, "__metadata__")) {
        if (h->has_metadata) return error_set(error, ERROR_FILE, "\"__metadata__\" twice");
        h->has_metadata = true;
        return check_metadata(value, error);
    }
    if (h->count == LIMIT_TENSORS)
        return error_set(error, ERROR_FILE, "more than %d tensors", LIMIT_TENSORS);
    const char *name = arena_text(arena, key, strlen(key), error);
    return read_tensor(&h->tensors[h->count++], name, value, h->file, h->start, h->size, error);
}

static bool read_members(Header *h, const char *text, size_t length, Arena *arena, Error *error) {
    h->room = json_members_bound(text, length);
    if (h->room > LIMIT_TENSORS + 1) h->room = LIMIT_TENSORS;
    h->tensors = arena_alloc(arena, h->room, sizeof *h->tensors, error);
    if (!h->tensors) return false;
    JsonMembers members = json_members(text, length, &MEMBER_LIMITS);
    bool good = true;
    while (good && json_members_next(&members, error))
        good = read_member(h, members.key, members.value, arena, error);
    json_members_end(&members);
    return good && !members.failed && check_names(h->tensors, h->count, arena, error) &&
           check_coverage(h->tensors, h->count, h->start, h->size, arena, error);
}

bool safetensors_parse(SafetensorsTensor **tensors, size_t *count, const uint8_t *data, size_t size,
                       Arena *arena, Error *error) {
    Bytes in = bytes_over(data, size, error);
    uint64_t length = bytes_u64(&in, "header length");
    if (in.failed) return false;
    if (length > LIMIT_JSON_HEADER)
        return bytes_fail(&in, 0, "header of %llu bytes (at most %d)", (unsigned long long)length,
                          LIMIT_JSON_HEADER);
    const char *text = (const char *)bytes_take(&in, length, "header");
    if (!text) return false;
    if (length < 2 || text[0] != '{')
        return bytes_fail(&in, 8, "the header does not begin with '{'");
    Header header = {.file = data, .start = in.pos, .size = size};
    Error cause = {0};
    if (!read_members(&header, text, (size_t)length, arena, &cause))
        return error_set(error, cause.code, "header: %s", cause.message);
    *tensors = header.tensors;
    *count = header.count;
    return true;
}

// ---- one plain file ----

bool safetensors_open(SafetensorsFile *file, const char *path, Error *error) {
    *file = (SafetensorsFile){0};
    if (!mapping_open(&file->mapping, path, error)) return error_prefix(error, path);
    if (safetensors_parse(&file->tensors, &file->count, file->mapping.data, file->mapping.size,
                          &file->arena, error))
        return true;
    safetensors_close(file);
    return error_prefix(error, path);
}

void safetensors_close(SafetensorsFile *file) {
    mapping_close(&file->mapping);
    arena_free(&file->arena);
    *file = (SafetensorsFile){.mapping.slot = -1};
}

const SafetensorsTensor *safetensors_find(const SafetensorsFile *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].plan.name, name)) return &file->tensors[i];
    return NULL;
}

bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value,
                          Error *error) {
    Bytes in = bytes_over(file->mapping.data, file->mapping.size, error);
    uint64_t length = bytes_u64(&in, "header length");
    const char *header = (const char *)bytes_take(&in, length, "header"), *text = NULL;
    *value = NULL;
    if (!header || !length || *header != '{') return !in.failed; // cut while it was open
    JsonMembers members = json_members(header, (size_t)length, &MEMBER_LIMITS);
    while (!text && json_members_next(&members, error)) {
        if (strcmp(members.key, "__metadata__") != 0) continue;
        text = json_string_value(json_object_get(members.value, key));
        if (!text) break;
        *value = arena_text(&file->arena, text, strlen(text), error);
    }
    json_members_end(&members);
    return !members.failed && (!text || *value);
}

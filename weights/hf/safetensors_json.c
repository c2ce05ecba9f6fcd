// The text of a safetensors header, whoever wrote it.
#include "base/json.h"
#include "weights/hf/safetensors.h"

#include <string.h>

// For the entry of one tensor, which takes a hundred bytes, and for __metadata__.
static const JsonLimits MEMBER_LIMITS = {.bytes = 8 << 20, .values = 1 << 16, .no_negative = true};

static bool read_type(SafetensorsTensor *tensor, const json_t *entry, Error *error) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name)
        return error_set(error, ERROR_FILE, "\"dtype\": wanted a string, got %s",
                         json_kind(json_object_get(entry, "dtype")));
    return safetensors_set_type(tensor, name, error);
}

static bool read_shape(SafetensorsTensor *tensor, const json_t *entry, Error *error) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape))
        return error_set(error, ERROR_FILE, "\"shape\": wanted an array, got %s", json_kind(shape));
    if (rank > 4) return error_set(error, ERROR_FILE, "%zu dimensions (at most 4)", rank);
    tensor->plan.n_dims = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++)
        if (!json_to_size(json_array_get(shape, i), "\"shape\"", &tensor->plan.shape[i], error))
            return false;
    return safetensors_measure(tensor, error);
}

static bool read_range(const SafetensorsHeader *h, SafetensorsTensor *tensor, const json_t *entry,
                       Error *error) {
    const json_t *range = json_object_get(entry, "data_offsets");
    uint64_t begin, end;
    if (json_array_size(range) != 2)
        return error_set(error, ERROR_FILE, "\"data_offsets\": wanted two integers, got %s",
                         json_kind(range));
    if (!json_to_size(json_array_get(range, 0), "\"data_offsets\"", &begin, error) ||
        !json_to_size(json_array_get(range, 1), "\"data_offsets\"", &end, error))
        return false;
    return safetensors_place(h, tensor, begin, end, error);
}

static bool read_tensor(const SafetensorsHeader *h, SafetensorsTensor *tensor, const json_t *entry,
                        Error *error) {
    Error cause = {0};
    if (json_object_size(entry) != 3)
        error_set(&cause, ERROR_FILE, "wanted dtype, shape and data_offsets, got %s of %zu",
                  json_kind(entry), json_object_size(entry));
    else if (read_type(tensor, entry, &cause) && read_shape(tensor, entry, &cause) &&
             read_range(h, tensor, entry, &cause))
        return true;
    return error_set(error, cause.code, "tensor \"%.100s\": %s", tensor->plan.name, cause.message);
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

static bool read_member(SafetensorsHeader *h, const char *key, const json_t *value, Error *error) {
    if (!strcmp(key, "__metadata__")) {
        if (h->has_metadata) return error_set(error, ERROR_FILE, "\"__metadata__\" twice");
        h->has_metadata = true;
        return check_metadata(value, error);
    }
    SafetensorsTensor *tensor = safetensors_add(h, key, error);
    return tensor && read_tensor(h, tensor, value, error);
}

bool safetensors_read_text(SafetensorsHeader *h, const char *text, size_t length, Error *error) {
    if (!safetensors_room(h, json_members_bound(text, length), error)) return false;
    JsonMembers members = json_members(text, length, &MEMBER_LIMITS);
    bool good = true;
    while (good && json_members_next(&members, error))
        good = read_member(h, members.key, members.value, error);
    json_members_end(&members);
    return good && !members.failed;
}

bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value,
                          Error *error) {
    size_t length;
    const char *header = safetensors_header_text(file, &length), *text = NULL;
    *value = NULL;
    JsonMembers members = json_members(header, length, &MEMBER_LIMITS);
    while (!text && json_members_next(&members, error)) {
        if (strcmp(members.key, "__metadata__") != 0) continue;
        text = json_string_value(json_object_get(members.value, key));
        if (!text) break;
        *value = arena_text(&file->arena, text, strlen(text), error);
    }
    json_members_end(&members);
    return !members.failed && (!text || *value);
}

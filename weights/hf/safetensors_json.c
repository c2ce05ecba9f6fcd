// The text of a safetensors header, whoever wrote it.
//
//     {"__metadata__": {"key": "text", ..},
//      "model.norm.weight": {"dtype": "F32", "shape": [576], "data_offsets": [0, 2304]}, ..}
//
// Members are parsed one at a time, so that a header of 100 MB needs no tree of a gigabyte. What
// the numbers mean is checked in safetensors.c; without_json.c is the same for builds without
// jansson.
#include "base/json.h"
#include "weights/hf/safetensors.h"

#include <string.h>

// For the entry of one tensor, which takes a hundred bytes, and for __metadata__.
// no_negative: JSON's -0 would pass for the integer 0.
static const JsonLimits MEMBER_LIMITS = {.bytes = 8 << 20, .values = 1 << 16, .no_negative = true};

// Each reader of a part: false with what was wanted and what is there.
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
    // TensorPlan has room for four.
    if (rank > 4) return error_set(error, ERROR_FILE, "%zu dimensions (at most 4)", rank);
    tensor->plan.n_dims = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++)
        if (!json_to_size(json_array_get(shape, i), "\"shape\"", &tensor->plan.shape[i], error))
            return false;
    return safetensors_measure(tensor, error);
}

// [begin, end): the bytes of the tensor behind the header.
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

// Exactly these three members, each of its type; a fourth could say something that is not followed.
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

// Texts only, as the format says; they are looked up by safetensors_metadata.
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

// `at`: where the member is in the text.
static bool read_member(SafetensorsHeader *h, const char *key, const json_t *value, size_t at,
                        Error *error) {
    if (!strcmp(key, "__metadata__")) {
        if (h->metadata) return error_set(error, ERROR_FILE, "\"__metadata__\" twice");
        h->metadata = at;
        return check_metadata(value, error);
    }
    SafetensorsTensor *tensor = safetensors_add(h, key, error);
    return tensor && read_tensor(h, tensor, value, error);
}

// The bound counts commas, so it is at least the number of members.
bool safetensors_read_text(SafetensorsHeader *h, const char *text, size_t length, Error *error) {
    if (!safetensors_room(h, json_members_bound(text, length), error)) return false;
    JsonMembers members = json_members(text, length, &MEMBER_LIMITS);
    bool good = true;
    size_t at = members.pos;
    for (; good && json_members_next(&members, error); at = members.pos)
        good = read_member(h, members.key, members.value, at, error);
    json_members_end(&members);
    return good && !members.failed;
}

// Parses __metadata__ again: a file of 65,536 tensors is not walked for each key.
bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value,
                          Error *error) {
    size_t length;
    const char *header = safetensors_header_text(file, &length), *text = NULL;
    *value = NULL;
    if (!file->metadata) return true;
    JsonMembers members = json_members(header, length, &MEMBER_LIMITS);
    members.pos = file->metadata;
    if (json_members_next(&members, error))
        text = json_string_value(json_object_get(members.value, key));
    if (text) *value = arena_text(&file->arena, text, strlen(text), error);
    json_members_end(&members);
    return !members.failed && (!text || *value);
}

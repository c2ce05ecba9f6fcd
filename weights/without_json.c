// The twin of the files that need jansson, for builds without it (make JSON=0, make core).
#include "weights/container.h"
#include "weights/hf_write.h"
#include "weights/safetensors.h"

static bool refuse(Error *error) {
    return error_set(error, ERROR_FILE, "this build reads no safetensors files (it has no JSON)");
}

bool safetensors_read(Checkpoint *checkpoint, Error *error) {
    (void)checkpoint;
    return refuse(error);
}

bool safetensors_parse(SafetensorsTensor **tensors, size_t *count, const uint8_t *data, size_t size,
                       Arena *arena, Error *error) {
    (void)tensors, (void)count, (void)data, (void)size, (void)arena;
    return refuse(error);
}

bool safetensors_open(SafetensorsFile *file, const char *path, Error *error) {
    (void)file;
    refuse(error);
    return error_prefix(error, path);
}

void safetensors_close(SafetensorsFile *file) {
    (void)file;
}

const SafetensorsTensor *safetensors_find(const SafetensorsFile *file, const char *name) {
    (void)file, (void)name;
    return NULL;
}

bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value,
                          Error *error) {
    (void)file, (void)key;
    *value = NULL;
    return refuse(error);
}

bool hf_config_write(Buffer *json, const Outgoing *out, Error *error) {
    (void)json, (void)out;
    return refuse(error);
}

void hf_generation_write(Buffer *json, const Checkpoint *from) {
    (void)json, (void)from;
}

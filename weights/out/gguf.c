// The GGUF writer. Two parts: keys as bytes, appended one after another, and the file: header,
// keys, list of tensors, padding, data (drawn in weights/gguf/gguf.c). What the keys of a model are
// is in weights/gguf/keys.c, what its tensors contain in outgoing.c and encode_rows.c.
#include "weights/out/gguf.h"

#include "base/bytes.h"
#include "weights/gguf/gguf.h"
#include "weights/quant.h"

#include <string.h>

// 32 is the format's default alignment, so general.alignment is not written. llama.cpp's buffer for
// a name has 64 bytes with the NUL.
enum { VERSION = 3, ALIGNMENT = 32, LONGEST_TENSOR_NAME = 63 };

// ---- keys ----

// A string: u64 length, then its bytes, no NUL.
static void put_span(Buffer *b, const char *text, size_t length) {
    buffer_u64(b, length);
    buffer_put(b, text, length);
}

// Every value begins with its key and type; the number of keys is counted for the header.
static void begin_value(GgufKeys *keys, const char *key, GgufType type) {
    keys->count++;
    buffer_put(&keys->names, &keys->bytes.size, sizeof keys->bytes.size);
    put_span(&keys->bytes, key, strlen(key));
    buffer_u32(&keys->bytes, type);
}

// The elements follow without their type.
static void begin_array(GgufKeys *keys, const char *key, GgufType element, size_t count) {
    begin_value(keys, key, GGUF_ARRAY);
    buffer_u32(&keys->bytes, element);
    buffer_u64(&keys->bytes, count);
}

void gguf_put_u32(GgufKeys *keys, const char *key, uint32_t value) {
    begin_value(keys, key, GGUF_U32);
    buffer_u32(&keys->bytes, value);
}

void gguf_put_i32(GgufKeys *keys, const char *key, int32_t value) {
    begin_value(keys, key, GGUF_I32);
    buffer_u32(&keys->bytes, (uint32_t)value);
}

void gguf_put_f32(GgufKeys *keys, const char *key, float value) {
    begin_value(keys, key, GGUF_F32);
    buffer_f32(&keys->bytes, value);
}

void gguf_put_bool(GgufKeys *keys, const char *key, bool value) {
    begin_value(keys, key, GGUF_BOOL);
    buffer_put(&keys->bytes, &(uint8_t){value}, 1);
}

void gguf_put_text(GgufKeys *keys, const char *key, TextSpan text) {
    begin_value(keys, key, GGUF_STRING);
    put_span(&keys->bytes, text.text, text.length);
}

void gguf_put_texts(GgufKeys *keys, const char *key, const TextSpan *texts, size_t count) {
    begin_array(keys, key, GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        put_span(&keys->bytes, texts[i].text, texts[i].length);
}

void gguf_put_f32s(GgufKeys *keys, const char *key, const float *values, size_t count) {
    begin_array(keys, key, GGUF_F32, count);
    for (size_t i = 0; i < count; i++)
        buffer_f32(&keys->bytes, values[i]);
}

// u8 here, i32 in the file, as converters write them.
void gguf_put_types(GgufKeys *keys, const char *key, const uint8_t *types, size_t count) {
    begin_array(keys, key, GGUF_I32, count);
    for (size_t i = 0; i < count; i++)
        buffer_u32(&keys->bytes, types[i]);
}

void gguf_put_bools(GgufKeys *keys, const char *key, const bool *values, size_t count) {
    begin_array(keys, key, GGUF_BOOL, count);
    for (size_t i = 0; i < count; i++)
        buffer_put(&keys->bytes, &(uint8_t){values[i]}, 1);
}

void gguf_keys_free(GgufKeys *keys) {
    buffer_free(&keys->bytes);
    buffer_free(&keys->names);
}

void gguf_put_new(GgufKeys *keys, TextSpan key) {
    size_t name = 8 + (size_t)load_u64((const uint8_t *)key.text), at;
    if (keys->bytes.failed || keys->names.failed) return;
    for (size_t i = 0; i < keys->names.size; i += sizeof at) {
        memcpy(&at, (const char *)keys->names.bytes + i, sizeof at);
        if (keys->bytes.size - at >= name &&
            !memcmp((const char *)keys->bytes.bytes + at, key.text, name))
            return;
    }
    buffer_put(&keys->bytes, key.text, key.length);
    keys->count++;
}

// ---- the file ----

// Where every tensor lies behind the header, each at a multiple of ALIGNMENT; *total with the
// padding after the last. False where no file could hold that or a name is too long for other
// readers.
static bool place(TensorWriter *w, const TensorPlan *tensors, uint64_t *total, Error *error) {
    *total = 0;
    for (size_t i = 0; i < w->n; i++) {
        PlacedTensor *placed = &w->tensors[i];
        if (strlen(tensors[i].name) > LONGEST_TENSOR_NAME)
            return error_set(error, ERROR_USAGE, "tensor name \"%.100s\" is longer than %d bytes",
                             tensors[i].name, LONGEST_TENSOR_NAME);
        if (!tensor_writer_name(w, i, tensors[i].name, error)) return false;
        placed->begin = *total;
        placed->bytes = tensors[i].bytes;
        if (!add_ok(*total, placed->bytes, total) || !align_ok(*total, ALIGNMENT, total))
            return error_set(error, ERROR_USAGE, "all tensors together do not fit a file");
    }
    return true;
}

// Written whole into memory: its size decides where the data begins. Offsets of tensors count from
// there.
static void put_header(Buffer *b, const GgufKeys *keys, const TensorPlan *tensors,
                       const TensorWriter *w) {
    uint64_t end;
    buffer_put(b, "GGUF", 4);
    buffer_u32(b, VERSION);
    buffer_u64(b, w->n);
    buffer_u64(b, keys->count);
    buffer_put(b, keys->bytes.bytes, keys->bytes.size);
    // A buffer that ran out of memory says so in `failed`; one check at the end is enough.
    b->failed |= keys->bytes.failed || keys->names.failed;
    for (size_t i = 0; i < w->n; i++) {
        const TensorPlan *t = &tensors[i];
        put_span(b, t->name, strlen(t->name));
        buffer_u32(b, t->n_dims);
        for (uint32_t d = t->n_dims; d-- > 0;)
            buffer_u64(b, t->shape[d]); // fastest first
        buffer_u32(b, (uint32_t)dtype_info(t->dtype)->gguf_type);
        buffer_u64(b, w->tensors[i].begin);
    }
    if (align_ok(b->size, ALIGNMENT, &end)) buffer_zeros(b, (size_t)end - b->size);
}

TensorWriter *gguf_writer_open(const OutputFile *out, const GgufKeys *keys,
                               const TensorPlan *tensors, size_t n, Error *error) {
    Buffer header = {0};
    uint64_t total;
    TensorWriter *w = tensor_writer_new(n, error);
    bool good = w && place(w, tensors, &total, error);
    if (good) put_header(&header, keys, tensors, w);
    good = good && tensor_writer_begin(w, out, &header, total, error);
    buffer_free(&header);
    if (good) return w;
    error_prefix(error, out->shown ? out->shown : out->path);
    tensor_writer_close(w);
    return NULL;
}

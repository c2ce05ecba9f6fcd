#include "tests/support/files/gguf_writer.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TINY_DIM = 4,
    TINY_HIDDEN = 6,
    TINY_HEADS = 2,
    TINY_KV = 1,
    TINY_LAYERS = 2,
    TINY_VOCAB = 8
};

static void *copy(const void *bytes, size_t size) {
    void *out = malloc(size + 1);
    if (!out) abort();
    if (size) memcpy(out, bytes, size);
    ((char *)out)[size] = '\0';
    return out;
}

GgufFile *gguf_file_new(void) {
    GgufFile *file = calloc(1, sizeof *file);
    if (!file) abort();
    file->version = 3;
    file->alignment = 32;
    return file;
}

void gguf_file_free(GgufFile *file) {
    for (size_t i = 0; i < file->n_keys; i++) {
        free(file->keys[i].name);
        free(file->keys[i].payload);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        free(file->tensors[i].name);
        free(file->tensors[i].data);
    }
    free(file->keys);
    free(file->tensors);
    free(file);
}

// A list of `count` elements with room for one more; it doubles at powers of two.
static void *room(void *list, size_t count, size_t size) {
    if (count & (count - 1)) return list;
    list = realloc(list, (count ? 2 * count : 1) * size);
    if (!list) abort();
    return list;
}

// ---- keys ----

static size_t find_key(const GgufFile *file, const char *key) {
    size_t i = 0;
    while (i < file->n_keys && strcmp(file->keys[i].name, key) != 0)
        i++;
    return i;
}

void gguf_add_raw(GgufFile *file, const void *key, size_t length, uint32_t type,
                  const void *payload, size_t size) {
    file->keys = room(file->keys, file->n_keys, sizeof *file->keys);
    file->keys[file->n_keys++] =
        (GgufKey){copy(key, length), length, length, type, copy(payload, size), size};
}

void gguf_set_raw(GgufFile *file, const char *key, uint32_t type, const void *payload,
                  size_t size) {
    size_t i = find_key(file, key);
    if (i == file->n_keys) {
        gguf_add_raw(file, key, strlen(key), type, payload, size);
        return;
    }
    free(file->keys[i].payload);
    file->keys[i].type = type;
    file->keys[i].payload = copy(payload, size);
    file->keys[i].size = size;
}

void gguf_set_u32(GgufFile *file, const char *key, uint32_t value) {
    gguf_set_raw(file, key, GGUF_U32, &value, sizeof value);
}

void gguf_set_f32(GgufFile *file, const char *key, float value) {
    gguf_set_raw(file, key, GGUF_F32, &value, sizeof value);
}

void gguf_set_bool(GgufFile *file, const char *key, uint8_t value) {
    gguf_set_raw(file, key, GGUF_BOOL, &value, sizeof value);
}

typedef struct Buffer {
    uint8_t *bytes;
    size_t size, capacity;
} Buffer;

static void put(Buffer *b, const void *bytes, size_t size) {
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size) + 256;
        b->bytes = realloc(b->bytes, b->capacity);
        if (!b->bytes) abort();
    }
    if (size) memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

static void put_u32(Buffer *b, uint32_t value) {
    put(b, &value, sizeof value);
}
static void put_u64(Buffer *b, uint64_t value) {
    put(b, &value, sizeof value);
}

static void put_zeros(Buffer *b, size_t count) {
    static const uint8_t ZEROS[4096];
    for (; count; count -= count < sizeof ZEROS ? count : sizeof ZEROS)
        put(b, ZEROS, count < sizeof ZEROS ? count : sizeof ZEROS);
}

void gguf_set_text(GgufFile *file, const char *key, const char *text) {
    Buffer b = {0};
    put_u64(&b, strlen(text));
    put(&b, text, strlen(text));
    gguf_set_raw(file, key, GGUF_STRING, b.bytes, b.size);
    free(b.bytes);
}

void gguf_set_strings(GgufFile *file, const char *key, const char *const *texts, size_t count) {
    Buffer b = {0};
    put_u32(&b, GGUF_STRING);
    put_u64(&b, count);
    for (size_t i = 0; i < count; i++) {
        put_u64(&b, strlen(texts[i]));
        put(&b, texts[i], strlen(texts[i]));
    }
    gguf_set_raw(file, key, GGUF_ARRAY, b.bytes, b.size);
    free(b.bytes);
}

void gguf_set_array(GgufFile *file, const char *key, uint32_t element, const void *values,
                    uint64_t count) {
    Buffer b = {0};
    put_u32(&b, element);
    put_u64(&b, count);
    put(&b, values, count * gguf_type_size(element));
    gguf_set_raw(file, key, GGUF_ARRAY, b.bytes, b.size);
    free(b.bytes);
}

void gguf_remove_key(GgufFile *file, const char *key) {
    size_t i = find_key(file, key);
    if (i == file->n_keys) abort();
    free(file->keys[i].name);
    free(file->keys[i].payload);
    file->n_keys--;
    memmove(file->keys + i, file->keys + i + 1, (file->n_keys - i) * sizeof *file->keys);
}

// ---- tensors ----

GgufTensor *gguf_find_tensor(GgufFile *file, const char *name) {
    for (size_t i = 0; i < file->n_tensors; i++)
        if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
    abort();
}

static uint64_t next_random(uint64_t *state) { // Knuth's MMIX
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

GgufTensor *gguf_add_tensor(GgufFile *file, const char *name, DType dtype, uint64_t cols,
                            uint64_t rows) {
    size_t count = cols * (rows ? rows : 1), bytes = dtype_row_bytes(dtype, count);
    uint64_t state = count + file->n_tensors;
    float *values = malloc(count * sizeof *values);
    uint8_t *data = malloc(bytes + 1);
    if (!values || !data) abort();
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(int32_t)(next_random(&state) >> 32) * 0x1p-31f;
    if (!quantise(data, dtype, values, count))
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)(next_random(&state) >> 40);
    free(values);
    file->tensors = room(file->tensors, file->n_tensors, sizeof *file->tensors);
    GgufTensor *tensor = &file->tensors[file->n_tensors++];
    *tensor = (GgufTensor){.name = copy(name, strlen(name)),
                           .name_length = strlen(name),
                           .n_dims = rows ? 2 : 1,
                           .dims = {cols, rows},
                           .type = (uint32_t)dtype_info(dtype)->gguf_type,
                           .data = data,
                           .size = bytes};
    return tensor;
}

void gguf_remove_tensor(GgufFile *file, const char *name) {
    GgufTensor *tensor = gguf_find_tensor(file, name);
    size_t i = (size_t)(tensor - file->tensors);
    free(tensor->name);
    free(tensor->data);
    file->n_tensors--;
    memmove(tensor, tensor + 1, (file->n_tensors - i) * sizeof *tensor);
}

// ---- the whole file ----

uint8_t *gguf_write(const GgufFile *file, size_t *size) {
    Buffer b = {0}, data = {0};
    put(&b, "GGUF", 4);
    put_u32(&b, file->version);
    put_u64(&b, file->lies_of_tensors ? file->said_tensors : file->n_tensors);
    put_u64(&b, file->lies_of_keys ? file->said_keys : file->n_keys);
    for (size_t i = 0; i < file->n_keys; i++) {
        const GgufKey *key = &file->keys[i];
        put_u64(&b, key->said_length);
        put(&b, key->name, key->name_length);
        put_u32(&b, key->type);
        put(&b, key->payload, key->size);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        const GgufTensor *tensor = &file->tensors[i];
        put_u64(&b, tensor->name_length);
        put(&b, tensor->name, tensor->name_length);
        put_u32(&b, tensor->n_dims);
        for (uint32_t d = 0; d < tensor->n_dims && d < 8; d++)
            put_u64(&b, tensor->dims[d]);
        put_u32(&b, tensor->type);
        put_u64(&b, tensor->fixed_offset ? tensor->offset : data.size);
        put(&data, tensor->data, tensor->size);
        put_zeros(&data, -data.size % file->alignment);
        if (file->gap && file->gap_after == i) put_zeros(&data, file->gap);
    }
    if (data.size) put_zeros(&b, -b.size % file->alignment);
    put(&b, data.bytes, data.size);
    put_zeros(&b, file->tail);
    free(data.bytes);
    *size = b.size;
    return b.bytes;
}

static void add_layer(GgufFile *file, int layer) {
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } TENSORS[] = {
        {"attn_norm", TINY_DIM, 0},
        {"attn_q", TINY_DIM, TINY_DIM},
        {"attn_k", TINY_DIM, TINY_DIM / TINY_HEADS * TINY_KV},
        {"attn_v", TINY_DIM, TINY_DIM / TINY_HEADS * TINY_KV},
        {"attn_output", TINY_DIM, TINY_DIM},
        {"ffn_norm", TINY_DIM, 0},
        {"ffn_gate", TINY_DIM, TINY_HIDDEN},
        {"ffn_up", TINY_DIM, TINY_HIDDEN},
        {"ffn_down", TINY_HIDDEN, TINY_DIM},
    };
    char name[64];
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, TENSORS[i].name);
        gguf_add_tensor(file, name, DTYPE_F32, TENSORS[i].cols, TENSORS[i].rows);
    }
}

GgufFile *gguf_tiny_llama(void) {
    static const char *const TOKENS[TINY_VOCAB] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81",
                                                   "a",     "b",   "ab",   "<0x0A>"};
    static const float SCORES[TINY_VOCAB] = {0, 0, 0, -1, -2, -3, -4, 0};
    static const int32_t TYPES[TINY_VOCAB] = {2, 3, 3, 1, 1, 1, 1, 6};
    GgufFile *file = gguf_file_new();
    gguf_set_text(file, "general.architecture", "llama");
    gguf_set_text(file, "general.name", "tiny");
    gguf_set_u32(file, "general.alignment", 32);
    gguf_set_u32(file, "llama.block_count", TINY_LAYERS);
    gguf_set_u32(file, "llama.context_length", 64);
    gguf_set_u32(file, "llama.embedding_length", TINY_DIM);
    gguf_set_u32(file, "llama.feed_forward_length", TINY_HIDDEN);
    gguf_set_u32(file, "llama.attention.head_count", TINY_HEADS);
    gguf_set_u32(file, "llama.attention.head_count_kv", TINY_KV);
    gguf_set_f32(file, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_set_u32(file, "llama.rope.dimension_count", TINY_DIM / TINY_HEADS);
    gguf_set_f32(file, "llama.rope.freq_base", 10000);
    gguf_set_text(file, "tokenizer.ggml.model", "llama");
    gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, TINY_VOCAB);
    gguf_set_array(file, "tokenizer.ggml.scores", GGUF_F32, SCORES, TINY_VOCAB);
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, TINY_VOCAB);
    gguf_set_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    gguf_add_tensor(file, "token_embd.weight", DTYPE_F32, TINY_DIM, TINY_VOCAB);
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        add_layer(file, layer);
    gguf_add_tensor(file, "output_norm.weight", DTYPE_F32, TINY_DIM, 0);
    return file;
}

// A Llama with random weights, of any shape and type, as a GGUF file: for measuring speed where the
// text does not matter.
//
//     random_model --shape 0.6b --type Q8_0 OUT.gguf
//     random_model --dim 512 --hidden 1536 --layers 8 --heads 8 --kv-heads 2 --type Q4_0 OUT.gguf
//
// The vocabulary is a minimal SPM one: <unk> <s> </s>, 256 bytes, and as many words as are missing.
#include "tests/support/random_blocks.h"
#include "weights/quant.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Shape {
    const char *name;
    int dim, hidden, layers, heads, kv_heads, head_dim, vocab, ctx;
    float theta;
    bool untied;
} Shape;

static const Shape SHAPES[] = {
    {"stories", 64, 172, 5, 8, 4, 8, 512, 512, 1e4f, false},
    {"stories15m", 288, 768, 6, 6, 6, 48, 32000, 256, 1e4f, false},
    {"smollm2", 576, 1536, 30, 9, 3, 64, 49152, 8192, 1e5f, false},
    {"0.6b", 1024, 3072, 28, 16, 8, 128, 151936, 40960, 1e6f, false},
    {"1b", 2048, 8192, 16, 32, 8, 64, 128256, 131072, 5e5f, false},
    {"tinyllama", 2048, 5632, 22, 32, 4, 64, 32000, 2048, 1e4f, true},
};

typedef struct Flag {
    const char *name;
    size_t field;
} Flag;

static const Flag FLAGS[] = {
    {"--dim", offsetof(Shape, dim)},           {"--hidden", offsetof(Shape, hidden)},
    {"--layers", offsetof(Shape, layers)},     {"--heads", offsetof(Shape, heads)},
    {"--kv-heads", offsetof(Shape, kv_heads)}, {"--head-dim", offsetof(Shape, head_dim)},
    {"--vocab", offsetof(Shape, vocab)},       {"--ctx", offsetof(Shape, ctx)},
};

enum { SPECIALS = 3, BYTES = 256, CHUNK = 1 << 20, ALIGNMENT = 32, MAX_TENSORS = 16384 };

static _Noreturn void stop(const char *what, const char *which) {
    fprintf(stderr, "random_model: %s%s\n", what, which);
    exit(2);
}

// ---- the header ----

static void put(FILE *file, const void *bytes, size_t size) {
    if (fwrite(bytes, 1, size, file) != size) stop("cannot write", "");
}

static void put_u32(FILE *file, uint32_t value) {
    put(file, &value, sizeof value);
}

static void put_u64(FILE *file, uint64_t value) {
    put(file, &value, sizeof value);
}

static void put_text(FILE *file, const char *text) {
    put_u64(file, strlen(text));
    put(file, text, strlen(text));
}

enum { GGUF_UINT32 = 4, GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_TEXT = 8, GGUF_LIST = 9 };

static void key_u32(FILE *file, const char *key, int value) {
    put_text(file, key);
    put_u32(file, GGUF_UINT32);
    put_u32(file, (uint32_t)value);
}

static void key_f32(FILE *file, const char *key, float value) {
    put_text(file, key);
    put_u32(file, GGUF_FLOAT32);
    put(file, &value, sizeof value);
}

static void key_text(FILE *file, const char *key, const char *value) {
    put_text(file, key);
    put_u32(file, GGUF_TEXT);
    put_text(file, value);
}

static void key_list(FILE *file, const char *key, uint32_t element, int count) {
    put_text(file, key);
    put_u32(file, GGUF_LIST);
    put_u32(file, element);
    put_u64(file, (uint64_t)count);
}

// Spelling of token `id`: specials, bytes, then words "▁a", "▁b", ... "▁ba", all different.
static const char *spelling(char out[32], int id) {
    static const char *const NAMES[SPECIALS] = {"<unk>", "<s>", "</s>"};
    if (id < SPECIALS) return NAMES[id];
    if (id < SPECIALS + BYTES) {
        snprintf(out, 32, "<0x%02X>", (unsigned)(id - SPECIALS));
        return out;
    }
    int at = 31, rest = id - SPECIALS - BYTES;
    out[at] = '\0';
    do
        out[--at] = (char)('a' + rest % 26);
    while ((rest /= 26));
    memcpy(out + at - 3, "\xe2\x96\x81", 3);
    return out + at - 3;
}

static void put_vocabulary(FILE *file, int vocab) {
    enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };
    char text[32];
    key_text(file, "tokenizer.ggml.model", "llama");
    key_list(file, "tokenizer.ggml.tokens", GGUF_TEXT, vocab);
    for (int id = 0; id < vocab; id++)
        put_text(file, spelling(text, id));
    key_list(file, "tokenizer.ggml.scores", GGUF_FLOAT32, vocab);
    for (int id = 0; id < vocab; id++) {
        float score = id < SPECIALS + BYTES ? 0.0f : (float)-id;
        put(file, &score, sizeof score);
    }
    key_list(file, "tokenizer.ggml.token_type", GGUF_INT32, vocab);
    for (int id = 0; id < vocab; id++)
        put_u32(file, id == 0                 ? UNKNOWN
                      : id < SPECIALS         ? CONTROL
                      : id < SPECIALS + BYTES ? BYTE
                                              : NORMAL);
    key_u32(file, "tokenizer.ggml.bos_token_id", 1);
    key_u32(file, "tokenizer.ggml.eos_token_id", 2);
    key_u32(file, "tokenizer.ggml.unknown_token_id", 0);
}

enum { N_KEYS = 22 }; // here and in put_vocabulary

static void put_keys(FILE *file, const Shape *s) {
    key_text(file, "general.architecture", "llama");
    key_text(file, "general.name", "random weights");
    key_u32(file, "general.quantization_version", 2);
    key_u32(file, "llama.context_length", s->ctx);
    key_u32(file, "llama.embedding_length", s->dim);
    key_u32(file, "llama.block_count", s->layers);
    key_u32(file, "llama.feed_forward_length", s->hidden);
    key_u32(file, "llama.attention.head_count", s->heads);
    key_u32(file, "llama.attention.head_count_kv", s->kv_heads);
    key_u32(file, "llama.attention.key_length", s->head_dim);
    key_u32(file, "llama.attention.value_length", s->head_dim);
    key_u32(file, "llama.rope.dimension_count", s->head_dim);
    key_f32(file, "llama.rope.freq_base", s->theta);
    key_f32(file, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_u32(file, "llama.vocab_size", s->vocab);
    put_vocabulary(file, s->vocab);
}

// ---- tensors ----

typedef struct Tensor {
    char name[48];
    DType dtype;
    int cols, rows; // rows 0: a vector
} Tensor;

typedef struct TensorList {
    Tensor tensors[MAX_TENSORS];
    int count;
} TensorList;

// The type of a tensor whose rows do not fill the blocks of the one asked for, as llama.cpp has it.
static DType fitting(DType dtype, int cols) {
    if ((uint32_t)cols % dtype_info(dtype)->block == 0) return dtype;
    switch (dtype) {
    case DTYPE_Q2_K:
    case DTYPE_Q3_K: return fitting(DTYPE_Q4_0, cols);
    case DTYPE_Q4_K: return fitting(DTYPE_Q5_0, cols);
    case DTYPE_Q5_K: return fitting(DTYPE_Q5_1, cols);
    case DTYPE_Q6_K: return fitting(DTYPE_Q8_0, cols);
    default: return DTYPE_F16;
    }
}

static void list_add(TensorList *list, int layer, const char *name, DType dtype, int cols,
                     int rows) {
    if (list->count == MAX_TENSORS) stop("too many layers", "");
    Tensor *t = &list->tensors[list->count++];
    *t = (Tensor){.dtype = rows ? fitting(dtype, cols) : DTYPE_F32, .cols = cols, .rows = rows};
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s.weight", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, name);
    if (rows && t->dtype != dtype && layer <= 0)
        fprintf(stderr, "random_model: %s is %s: %d columns do not fill blocks of %s\n", t->name,
                dtype_info(t->dtype)->name, cols, dtype_info(dtype)->name);
}

static void list_tensors(TensorList *list, const Shape *s, DType dtype) {
    int q_dim = s->heads * s->head_dim, kv_dim = s->kv_heads * s->head_dim;
    list_add(list, -1, "token_embd", dtype, s->dim, s->vocab);
    for (int l = 0; l < s->layers; l++) {
        list_add(list, l, "attn_norm", dtype, s->dim, 0);
        list_add(list, l, "attn_q", dtype, s->dim, q_dim);
        list_add(list, l, "attn_k", dtype, s->dim, kv_dim);
        list_add(list, l, "attn_v", dtype, s->dim, kv_dim);
        list_add(list, l, "attn_output", dtype, q_dim, s->dim);
        list_add(list, l, "ffn_norm", dtype, s->dim, 0);
        list_add(list, l, "ffn_gate", dtype, s->dim, s->hidden);
        list_add(list, l, "ffn_up", dtype, s->dim, s->hidden);
        list_add(list, l, "ffn_down", dtype, s->hidden, s->dim);
    }
    list_add(list, -1, "output_norm", dtype, s->dim, 0);
    if (s->untied) list_add(list, -1, "output", dtype, s->dim, s->vocab);
}

static size_t tensor_elements(const Tensor *t) {
    return (size_t)t->cols * (size_t)(t->rows ? t->rows : 1);
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_infos(FILE *file, const TensorList *list) {
    size_t offset = 0;
    for (const Tensor *t = list->tensors; t < list->tensors + list->count; t++) {
        put_text(file, t->name);
        put_u32(file, t->rows ? 2 : 1);
        put_u64(file, (uint64_t)t->cols);
        if (t->rows) put_u64(file, (uint64_t)t->rows);
        put_u32(file, (uint32_t)dtype_info(t->dtype)->gguf_type);
        put_u64(file, offset);
        offset += aligned(dtype_row_bytes(t->dtype, tensor_elements(t)));
    }
}

static void put_padding(FILE *file, size_t written) {
    static const char ZEROS[ALIGNMENT];
    put(file, ZEROS, aligned(written) - written);
}

static void put_tensor(FILE *file, const Tensor *t, char *chunk, uint64_t *seed) {
    size_t written = 0, left = tensor_elements(t);
    float deviation = 1.0f / sqrtf((float)t->cols);
    for (size_t count; left; left -= count) {
        count = left < CHUNK ? left : CHUNK;
        size_t bytes = dtype_row_bytes(t->dtype, count);
        random_elements(seed, chunk, t->dtype, count, deviation);
        for (size_t i = 0; !t->rows && i < count; i++) // a norm: about 1
            ((float *)chunk)[i] = 1.0f + ((float *)chunk)[i];
        put(file, chunk, bytes);
        written += bytes;
    }
    put_padding(file, written);
}

static void write_model(const char *path, const Shape *s, DType dtype) {
    FILE *file = fopen(path, "wb");
    TensorList *list = calloc(1, sizeof *list);
    char *chunk = malloc(CHUNK * sizeof(float));
    uint64_t seed = 1;
    if (!file) stop("cannot open ", path);
    if (!list || !chunk) stop("no memory", "");
    list_tensors(list, s, dtype);
    put(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, (uint64_t)list->count);
    put_u64(file, N_KEYS);
    put_keys(file, s);
    put_infos(file, list);
    put_padding(file, (size_t)ftell(file));
    for (int i = 0; i < list->count; i++)
        put_tensor(file, &list->tensors[i], chunk, &seed);
    if (fclose(file)) stop("cannot write ", path);
    free(chunk);
    free(list);
}

// ---- the command line ----

static DType parse_type(const char *text) {
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (!strcasecmp(dtype_info(dtype)->name, text) && dtype_info(dtype)->gguf_type >= 0)
            return dtype;
    stop("no such type: ", text);
}

static Shape parse_shape(const char *text) {
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (!strcmp(SHAPES[i].name, text)) return SHAPES[i];
    stop("no such shape (stories stories15m smollm2 0.6b 1b tinyllama): ", text);
}

static bool parse_flag(Shape *shape, const char *name, const char *value) {
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
        if (strcmp(FLAGS[i].name, name)) continue;
        char *end = NULL;
        long number = strtol(value, &end, 10);
        if (*end || number < 1 || number > 1 << 22) stop("not a size: ", value);
        *(int *)((char *)shape + FLAGS[i].field) = (int)number;
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    Shape shape = SHAPES[0];
    DType dtype = DTYPE_Q8_0;
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--untied"))
            shape.untied = true;
        else if (argv[i][0] != '-')
            path = argv[i];
        else if (i + 1 == argc)
            stop("a value is missing after ", argv[i]);
        else if (!strcmp(argv[i], "--shape"))
            shape = parse_shape(argv[++i]);
        else if (!strcmp(argv[i], "--type"))
            dtype = parse_type(argv[++i]);
        else if (parse_flag(&shape, argv[i], argv[i + 1]))
            i++;
        else
            stop("no such option: ", argv[i]);
    }
    if (!path) stop("usage: random_model [--shape NAME] [--type TYPE] [--dim N ...] OUT.gguf", "");
    if (shape.vocab <= SPECIALS + BYTES) stop("--vocab: at least 260", "");
    if (shape.heads % shape.kv_heads) stop("--heads: a multiple of --kv-heads", "");
    write_model(path, &shape, dtype);
    return 0;
}

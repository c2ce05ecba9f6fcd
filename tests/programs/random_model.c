// A model with random weights, of any family, shape and type, as a GGUF file: for measuring speed
// where the text does not matter, and for comparing devices.
//
//     random_model --shape 0.6b --type Q8_0 OUT.gguf
//     random_model --dim 512 --hidden 1536 --layers 8 --heads 8 --kv-heads 2 --type Q4_0 OUT.gguf
//     random_model --family gemma3 --window 8 --type F32 OUT.gguf
//
// The vocabulary is a minimal SPM one: <unk> <s> </s>, 256 bytes, and as many words as are missing.
#include "tests/support/files/random_blocks.h"
#include "weights/container.h"
#include "weights/quant.h"
#include "weights/roles.h"

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
    int window, softcap; // 0: none
    const char *family;  // NULL: llama
} Shape;

static const Shape SHAPES[] = {
    {"stories", 64, 172, 5, 8, 4, 8, 512, 512, 1e4f, false, 0, 0, NULL},
    {"stories15m", 288, 768, 6, 6, 6, 48, 32000, 256, 1e4f, false, 0, 0, NULL},
    {"smollm2", 576, 1536, 30, 9, 3, 64, 49152, 8192, 1e5f, false, 0, 0, NULL},
    {"0.6b", 1024, 3072, 28, 16, 8, 128, 151936, 40960, 1e6f, false, 0, 0, NULL},
    {"1b", 2048, 8192, 16, 32, 8, 64, 128256, 131072, 5e5f, false, 0, 0, NULL},
    {"3b", 3072, 8192, 28, 24, 8, 128, 128256, 131072, 5e5f, false, 0, 0, NULL},
    {"tinyllama", 2048, 5632, 22, 32, 4, 64, 32000, 2048, 1e4f, true, 0, 0, NULL},
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
    {"--window", offsetof(Shape, window)},     {"--softcap", offsetof(Shape, softcap)},
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

enum { N_KEYS = 22 }; // here and in put_vocabulary; a window and a cap are one more each

static void put_keys(FILE *file, const Shape *s, const Config *config) {
    char key[80];
#define OWN(name) (snprintf(key, sizeof key, "%s." name, s->family), key)
    key_text(file, "general.architecture", s->family);
    key_text(file, "general.name", "random weights");
    key_u32(file, "general.quantization_version", 2);
    key_u32(file, OWN("context_length"), s->ctx);
    key_u32(file, OWN("embedding_length"), s->dim);
    key_u32(file, OWN("block_count"), s->layers);
    key_u32(file, OWN("feed_forward_length"), s->hidden);
    key_u32(file, OWN("attention.head_count"), s->heads);
    key_u32(file, OWN("attention.head_count_kv"), s->kv_heads);
    key_u32(file, OWN("attention.key_length"), s->head_dim);
    key_u32(file, OWN("attention.value_length"), s->head_dim);
    key_u32(file, OWN("rope.dimension_count"), s->head_dim);
    key_f32(file, OWN("rope.freq_base"), s->theta);
    key_f32(file,
            config->norm == NORM_LAYER ? OWN("attention.layer_norm_epsilon")
                                       : OWN("attention.layer_norm_rms_epsilon"),
            1e-5f);
    if (s->window) key_u32(file, OWN("attention.sliding_window"), s->window);
    if (s->softcap) key_f32(file, OWN("final_logit_softcapping"), (float)s->softcap);
    key_u32(file, OWN("vocab_size"), s->vocab);
#undef OWN
    put_vocabulary(file, s->vocab);
}

// ---- tensors ----

typedef struct Tensor {
    TensorNameText name;
    DType dtype;
    int cols, rows; // rows 0: a vector
    bool norm;
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

// A row of the family's table: the roles say how large the tensor is.
static void list_add(TensorList *list, const Checkpoint *model, const TensorName *row, int layer,
                     DType dtype) {
    if (list->count == MAX_TENSORS) stop("too many layers", "");
    Tensor *t = &list->tensors[list->count++];
    RoleView first = role_view(model, row->roles[0], 0);
    size_t rows = 0;
    for (int i = 0; i < 3 && row->roles[i]; i++)
        rows += role_view(model, row->roles[i], 0).rows;
    bool vector = first.cols == 1;
    tensor_name_text(t->name, row->pattern, "", layer);
    t->norm = first.norm;
    t->cols = (int)(vector ? rows : first.cols);
    t->rows = vector ? 0 : (int)rows;
    if (row->roles[0] == ROLE_POSITION) dtype = DTYPE_F32; // read a row at a time
    t->dtype = vector ? DTYPE_F32 : fitting(dtype, t->cols);
    if (!vector && t->dtype != dtype && layer <= 0)
        fprintf(stderr, "random_model: %s is %s: %d columns do not fill blocks of %s\n", t->name,
                dtype_info(t->dtype)->name, t->cols, dtype_info(dtype)->name);
}

// What a model of the family must have, stacked (q|k|v) where it may be; layer -1: outside layers.
static void list_rows(TensorList *list, const Checkpoint *model, int layer, DType dtype,
                      bool untied) {
    const TensorName *const *lists = model->family->tensors[NAMES_GGUF];
    bool done[ROLE_COUNT] = {false};
    for (int i = 0; i < N_LISTS && lists[i]; i++) {
        for (const TensorName *row = lists[i]; row->pattern; row++) {
            bool stacked = row->need == OPTIONAL && row->roles[1];
            bool head = row->roles[0] == ROLE_HEAD && untied;
            if ((row->need != REQUIRED && !stacked && !head) || done[row->roles[0]] ||
                (strchr(row->pattern, '#') != NULL) != (layer >= 0))
                continue;
            for (int k = 0; k < 3; k++)
                done[row->roles[k]] = true;
            list_add(list, model, row, layer, dtype);
        }
    }
}

// A checkpoint with no more than what role_view looks at.
static void describe(Checkpoint *model, const Shape *s) {
    Error error = {0};
    Config *c = &model->config;
    model->family = family_find(NAMES_GGUF, s->family, &error);
    if (!model->family) stop(error.message, "");
    config_init(c);
    family_defaults(model->family, c);
    c->dim = s->dim, c->hidden_dim = s->hidden, c->n_layers = s->layers;
    c->n_heads = s->heads, c->n_kv_heads = s->kv_heads, c->head_dim = s->head_dim;
    c->vocab_size = s->vocab, c->max_seq_len = s->ctx;
    if (!config_finish(c, &error)) stop(error.message, "");
}

static void list_tensors(TensorList *list, const Checkpoint *model, const Shape *s, DType dtype) {
    bool untied = s->untied || family_needs_head(model->family, NAMES_GGUF);
    for (int l = -1; l < s->layers; l++)
        list_rows(list, model, l, dtype, untied);
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
        for (size_t i = 0; t->norm && i < count; i++) // about 1
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
    LayerWeights none = {0};
    static Checkpoint model;
    model.weights.layers = &none;
    if (!file) stop("cannot open ", path);
    if (!list || !chunk) stop("no memory", "");
    describe(&model, s);
    list_tensors(list, &model, s, dtype);
    put(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, (uint64_t)list->count);
    put_u64(file, (uint64_t)(N_KEYS + !!s->window + !!s->softcap));
    put_keys(file, s, &model.config);
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
    stop("no such shape (stories stories15m smollm2 0.6b 1b 3b tinyllama): ", text);
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
            shape = parse_shape(argv[++i]); // what is said of it comes behind
        else if (!strcmp(argv[i], "--family"))
            shape.family = argv[++i];
        else if (!strcmp(argv[i], "--type"))
            dtype = parse_type(argv[++i]);
        else if (parse_flag(&shape, argv[i], argv[i + 1]))
            i++;
        else
            stop("no such option: ", argv[i]);
    }
    if (!path)
        stop("usage: random_model [--shape NAME] [--family NAME] [--type TYPE] [--dim N ...] "
             "OUT.gguf",
             "");
    if (!shape.family) shape.family = "llama";
    if (shape.vocab <= SPECIALS + BYTES) stop("--vocab: at least 260", "");
    if (shape.heads % shape.kv_heads) stop("--heads: a multiple of --kv-heads", "");
    write_model(path, &shape, dtype);
    return 0;
}

// What limpid's readers make of many files, for comparison with other programs' readers:
// scripts/differential runs it.
//
//     differential safetensors|gguf [--contents] <LIST
//     differential tokenizer TEXTS [--contents] <LIST
//
// LIST has a path a line, and each gets a line: "accepted SHA-256", the sum of its contents as
// text, or "refused MESSAGE". --contents prints that text instead of its sum. TEXTS holds texts,
// each ended by a NUL, whose ids are contents of a tokenizer.
//
// Two formats have two of them, a tab between: of a GGUF the first is about keys and tensors,
// whether limpid can run the model or not, the second about the model's sizes and vocabulary; of a
// tokenizer the first is about tokens and ids, the second about the text that the ids stand for.
#include "base/hash.h"
#include "tokenizer/tokenizer.h"
#include "weights/container.h"
#include "weights/gguf/gguf.h"
#include "weights/hf/safetensors.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fills `contents`, or the second of them where the format has two; then `first` is the other.
typedef bool Reader(Buffer *contents, const char *path, Error *error);

static Buffer *first;
static bool first_read; // it is whole

static char *texts; // each with its NUL
static size_t texts_size;

// "5:bytes ", so that no bytes are taken for what surrounds them.
static void put_bytes(Buffer *out, const void *bytes, size_t size) {
    buffer_print(out, "%zu:", size);
    buffer_put(out, bytes, size);
    buffer_put(out, " ", 1);
}

static void put_sum(Buffer *out, const void *bytes, size_t size) {
    char sum[65];
    sha256_hex(sum, bytes, size);
    buffer_print(out, "%s", sum);
}

static void put_spans(Buffer *out, const char *name, const TextSpan *spans, size_t count) {
    Buffer all = {0};
    for (size_t i = 0; i < count; i++)
        put_bytes(&all, spans[i].text, spans[i].length);
    buffer_print(out, "%s %zu ", name, count);
    put_sum(out, all.bytes, all.size);
    buffer_put(out, "\n", 1);
    buffer_free(&all);
}

// "tensor NAME TYPE [2,3] OFFSET SHA-256": shape slowest first, the offset in the file.
static void put_tensor(Buffer *out, const TensorPlan *plan, const char *type) {
    buffer_print(out, "tensor ");
    put_bytes(out, plan->name, strlen(plan->name));
    buffer_print(out, "%s [", type);
    for (uint32_t i = 0; i < plan->n_dims; i++)
        buffer_print(out, "%s%llu", i ? "," : "", (unsigned long long)plan->shape[i]);
    buffer_print(out, "] %llu ", (unsigned long long)plan->offset);
    put_sum(out, plan->data, plan->bytes);
    buffer_put(out, "\n", 1);
}

// ---- safetensors ----

static int by_name(const void *a, const void *b) {
    return strcmp(((const SafetensorsTensor *)a)->plan.name,
                  ((const SafetensorsTensor *)b)->plan.name);
}

// The metadata of these keys; scripts/differential puts no others into its inputs.
static bool put_metadata(Buffer *out, SafetensorsFile *file, Error *error) {
    static const char *const KEYS[] = {"", "a", "b", "format", "note"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const char *value;
        if (!safetensors_metadata(file, KEYS[i], &value, error)) return false;
        if (!value) continue;
        buffer_print(out, "metadata \"%s\" ", KEYS[i]);
        put_bytes(out, value, strlen(value));
        buffer_put(out, "\n", 1);
    }
    return true;
}

static bool read_safetensors(Buffer *out, const char *path, Error *error) {
    SafetensorsFile file;
    if (!safetensors_open(&file, path, error)) return false;
    qsort(file.tensors, file.count, sizeof *file.tensors, by_name);
    for (size_t i = 0; i < file.count; i++)
        put_tensor(out, &file.tensors[i].plan, file.tensors[i].type->name);
    bool good = put_metadata(out, &file, error);
    safetensors_close(&file);
    return good;
}

// ---- GGUF ----

// What follows in gguf_read once keys and tensors are accepted is about models. The linker puts the
// function below in front of the reader of the vocabulary, the first of that.
bool __real_gguf_read_vocabulary(const Gguf *gguf, Error *error);
bool __wrap_gguf_read_vocabulary(const Gguf *gguf, Error *error);

// "key NAME TYPE VALUE", "key NAME array TYPE COUNT SHA-256": bytes as the file has them.
static void put_key(Buffer *out, TextSpan name, const GgufValue *value) {
    buffer_print(out, "key ");
    put_bytes(out, name.text, name.length);
    if (value->type == GGUF_ARRAY) {
        buffer_print(out, "array %s %llu ", gguf_type_name(value->element),
                     (unsigned long long)value->count);
        put_sum(out, value->bytes, value->size);
    } else {
        bool string = value->type == GGUF_STRING;
        buffer_print(out, "%s ", gguf_type_name(value->type));
        put_bytes(out, value->bytes, string ? value->count : gguf_type_size(value->type));
    }
    buffer_put(out, "\n", 1);
}

bool __wrap_gguf_read_vocabulary(const Gguf *gguf, Error *error) {
    const Checkpoint *c = gguf->checkpoint;
    buffer_print(first, "%s\n", c->container_name);
    for (size_t i = 0; i < gguf->keys.count; i++)
        put_key(first, gguf->keys.entries[i].name, &gguf->values[gguf->keys.entries[i].item]);
    for (size_t i = 0; i < c->n_tensors; i++) {
        char type[16];
        snprintf(type, sizeof type, "%d", dtype_info(c->tensors[i].dtype)->gguf_type);
        put_tensor(first, &c->tensors[i], type);
    }
    first_read = true;
    return __real_gguf_read_vocabulary(gguf, error);
}

static void put_model(Buffer *out, const Checkpoint *c) {
    const Config *config = checkpoint_config(c);
    const Vocabulary *v = checkpoint_vocabulary(c);
    buffer_print(out, "dim %d layers %d heads %d kv_heads %d context %d eps %.9g\n", config->dim,
                 config->n_layers, config->n_heads, config->n_kv_heads, config->max_seq_len,
                 (double)config->norm_eps);
    put_spans(out, "tokens", v->tokens, v->n_tokens);
    put_spans(out, "merges", v->merges, v->n_merges);
    buffer_print(out, "scores ");
    put_sum(out, v->scores, v->scores ? v->n_tokens * sizeof *v->scores : 0);
    buffer_print(out, "\ntypes ");
    put_sum(out, v->types, v->types ? v->n_tokens : 0);
    buffer_print(out, "\nbos %d eos %d unknown %d\n", v->bos_id, v->eos_id, v->unk_id);
}

static bool read_gguf(Buffer *out, const char *path, Error *error) {
    Checkpoint *checkpoint = NULL;
    if (!checkpoint_open(&checkpoint, path, error)) return false;
    put_model(out, checkpoint);
    checkpoint_close(checkpoint);
    return true;
}

// ---- tokenizer.json ----

// The ids of a text, and the text that they stand for, without control tokens.
static bool put_ids(Buffer *out, Tokenizer *t, const char *text, Error *error) {
    IdList ids = {0};
    Buffer back = {0};
    bool good = tokenizer_encode(t, &ids, text, strlen(text), true, error), begins = true;
    buffer_print(first, "ids");
    for (size_t i = 0; good && i < ids.count; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, ids.ids[i], begins, false, &length);
        buffer_put(&back, piece, length);
        begins = begins && tokenizer_type(t, ids.ids[i]) == TOKEN_CONTROL;
        buffer_print(first, " %d", ids.ids[i]);
    }
    buffer_print(first, "\n");
    buffer_print(out, "text ");
    put_bytes(out, back.bytes, back.size);
    buffer_put(out, "\n", 1);
    id_list_free(&ids);
    buffer_free(&back);
    return good;
}

static bool read_tokenizer(Buffer *out, const char *path, Error *error) {
    Tokenizer *t = tokenizer_open(&(TokenizerSource){.path = path}, error);
    if (!t) return false;
    bool good = true;
    for (int id = 0; id < tokenizer_size(t); id++) {
        TextSpan spelling = tokenizer_spelling(t, id);
        buffer_print(first, "token ");
        put_bytes(first, spelling.text, spelling.length);
        buffer_print(first, "\n");
    }
    for (size_t at = 0; good && at < texts_size; at += strlen(texts + at) + 1)
        good = put_ids(out, t, texts + at, error);
    first_read = good;
    tokenizer_close(t);
    return good;
}

// ---- the list ----

static const struct {
    const char *name;
    Reader *read;
} READERS[] = {
    {"safetensors", read_safetensors},
    {"gguf", read_gguf},
    {"tokenizer", read_tokenizer},
};

static void print_verdict(bool accepted, const Buffer *contents, const Error *error,
                          const char *path, bool shown) {
    size_t prefix = strlen(path);
    const char *message = error->message;
    if (!strncmp(message, path, prefix) && !strncmp(message + prefix, ": ", 2))
        message += prefix + 2;
    if (!accepted) {
        printf("refused %s", message);
    } else if (shown) {
        fwrite(contents->bytes, 1, contents->size, stdout);
    } else {
        char sum[65];
        sha256_hex(sum, contents->bytes, contents->size);
        printf("accepted %s", sum);
    }
}

static void read_file(Reader *read, const char *path, bool shown) {
    Buffer contents = {0}, around = {0};
    Error error = {0};
    first = &around;
    first_read = false;
    bool accepted = read(&contents, path, &error);
    if (read == read_gguf || read == read_tokenizer) {
        print_verdict(first_read, &around, &error, path, shown);
        putchar('\t');
    }
    print_verdict(accepted, &contents, &error, path, shown);
    putchar('\n');
    fflush(stdout);
    buffer_free(&contents);
    buffer_free(&around);
}

static bool load_texts(const char *path) {
    FILE *file = fopen(path, "rb");
    enum { MOST = 1 << 20 };
    texts = calloc(MOST + 1, 1);
    if (!file || !texts) return false;
    texts_size = fread(texts, 1, MOST, file);
    return !fclose(file);
}

static int usage(void) {
    fprintf(stderr, "usage: differential safetensors|gguf [--contents] <LIST\n"
                    "       differential tokenizer TEXTS [--contents] <LIST\n");
    return ERROR_USAGE;
}

int main(int argc, char **argv) {
    Reader *read = NULL;
    bool shown = argc > 1 && !strcmp(argv[argc - 1], "--contents");
    for (size_t i = 0; argc > 1 && i < sizeof READERS / sizeof *READERS; i++)
        if (!strcmp(argv[1], READERS[i].name)) read = READERS[i].read;
    int wanted = read == read_tokenizer ? 3 : 2;
    if (!read || argc != wanted + shown) return usage();
    if (wanted == 3 && !load_texts(argv[2])) {
        fprintf(stderr, "differential: %s: cannot be read\n", argv[2]);
        return ERROR_IO;
    }
    char *path = NULL;
    size_t room = 0;
    for (ssize_t length; (length = getline(&path, &room, stdin)) > 0;) {
        if (path[length - 1] == '\n') path[length - 1] = 0;
        read_file(read, path, shown);
    }
    free(path);
    free(texts);
    return ERROR_NONE;
}

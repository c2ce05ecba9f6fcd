// Bad GGUF files: the corpus, every truncation, and files that are something else.
#include "base/mapping.h"
#include "tests/support/changed_bytes.h"
#include "tests/support/files/gguf_corpus.h"
#include "tests/test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static ErrorCode open_bytes(const void *bytes, size_t size, Error *error) {
    Checkpoint *checkpoint = NULL;
    *error = (Error){0};
    if (checkpoint_open_memory(&checkpoint, "model.gguf", bytes, size, error)) {
        checkpoint_close(checkpoint);
        CHECK(!error->code, "opened, and %s", error->message);
        return ERROR_NONE;
    }
    CHECK(!checkpoint && error->code, "a failure without a cause");
    CHECK(!strncmp(error->message, "model.gguf: ", 12), "%s", error->message);
    return error->code;
}

Test(gguf_hostile, corpus_is_answered_as_the_table_says) {
    int wrong = 0;
    for (size_t i = 0; i < gguf_corpus_count(); i++) {
        const GgufCase *row = gguf_corpus(i);
        size_t size;
        Error error;
        uint8_t *bytes = gguf_case_write(row, &size);
        ErrorCode code = open_bytes(bytes, size, &error);
        free(bytes);
        if (code == row->code && (!code || strstr(error.message, row->message))) continue;
        fprintf(stderr, "%s: %d, \"%s\"\n", row->id, code, error.message);
        wrong++;
    }
    CHECK_INT(wrong, 0);
}

static const char *const REQUIRED_KEYS[] = {
    "general.architecture",
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.layer_norm_rms_epsilon",
};
enum { N_REQUIRED = sizeof REQUIRED_KEYS / sizeof *REQUIRED_KEYS };

static void check_refused(GgufFile *file, const char *part, const char *key) {
    size_t size;
    Error error;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    ErrorCode code = open_bytes(bytes, size, &error);
    free(bytes);
    CHECK(code == ERROR_FILE && strstr(error.message, part) && strstr(error.message, key),
          "%d, \"%s\", wanted \"%s\" and \"%s\"", code, error.message, part, key);
}

Test(gguf_hostile, G18_a_missing_hyper_parameter_is_named) {
    for (size_t k = 0; k < N_REQUIRED; k++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_remove_key(file, REQUIRED_KEYS[k]);
        check_refused(file, "is missing", REQUIRED_KEYS[k]);
    }
}

Test(gguf_hostile, G19_a_hyper_parameter_of_another_type_is_named) {
    for (size_t k = 0; k < N_REQUIRED; k++) {
        uint32_t right = !k ? GGUF_STRING : k + 1 == N_REQUIRED ? GGUF_F32 : GGUF_U32;
        bool per_layer =
            strstr(REQUIRED_KEYS[k], "feed_forward") || strstr(REQUIRED_KEYS[k], "head_");
        for (uint32_t type = 0; type < GGUF_TYPE_COUNT; type++) {
            if (type == right) continue;
            // As bytes: a 1 of up to eight bytes, a string of one letter, an array of one i32.
            uint8_t payload[20] = {1};
            if (type == GGUF_STRING) payload[8] = 'x';
            if (type == GGUF_ARRAY) payload[0] = GGUF_I32, payload[4] = 1;
            size_t size = type == GGUF_STRING ? 9 : type == GGUF_ARRAY ? 16 : gguf_type_size(type);
            GgufFile *file = gguf_tiny_llama();
            gguf_set_raw(file, REQUIRED_KEYS[k], type, payload, size);
            check_refused(file, type == GGUF_ARRAY && per_layer ? "layers" : "type ",
                          REQUIRED_KEYS[k]);
        }
    }
}

Test(gguf_hostile, an_optional_key_of_another_type_is_named) {
    static const char *const KEYS[] = {
        "llama.attention.head_count_kv",
        "llama.attention.key_length",
        "llama.attention.value_length",
        "llama.attention.scale",
        "llama.attention.causal",
        "llama.attention.sliding_window",
        "llama.final_logit_softcapping",
        "llama.rope.dimension_count",
        "llama.rope.freq_base",
        "llama.rope.freq_base_swa",
        "llama.rope.scale_linear",
        "llama.rope.scaling.type",
        "llama.rope.scaling.factor",
        "llama.rope.scaling.original_context_length",
        "llama.rope.scaling.attn_factor",
        "llama.rope.scaling.yarn_attn_factor",
        "llama.rope.scaling.yarn_ext_factor",
        "llama.rope.scaling.yarn_beta_fast",
        "llama.rope.scaling.yarn_beta_slow",
        "general.alignment",
        "general.name",
        "general.description",
        "general.license",
        "general.author",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.unknown_token_id",
        "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.add_bos_token",
        "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix",
        "tokenizer.chat_template",
    };
    for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++) {
        GgufFile *file = gguf_tiny_llama();
        const uint8_t one = 1;
        gguf_set_text(file, "llama.rope.scaling.type", "yarn"); // else its keys are not read
        gguf_set_f32(file, "llama.rope.scaling.factor", 4);
        size_t size;
        Error error;
        uint8_t *bytes = gguf_write(file, &size);
        CHECK_INT(open_bytes(bytes, size, &error), ERROR_NONE);
        free(bytes);
        gguf_set_raw(file, KEYS[k], GGUF_I8, &one, 1); // no key has a number of one byte
        check_refused(file, "type i8, wanted ", KEYS[k]);
    }
}

// Exactly as many keys as fit: a key takes 14 bytes at least.
Test(gguf_hostile, a_count_of_keys_is_held_against_what_is_left) {
    static const uint8_t KEY[14] = {1, 0, 0, 0, 0, 0, 0, 0, 'a', GGUF_U8};
    for (uint64_t said = 1; said <= 2; said++) {
        uint8_t bytes[24 + 14 + 13] = "GGUF\3";
        memcpy(bytes + 16, &said, sizeof said);
        memcpy(bytes + 24, KEY, sizeof KEY);
        const char *path = test_temporary("keys.gguf");
        test_write_file(path, bytes, said == 1 ? 24 + 14 : sizeof bytes);
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(!checkpoint_open_vocabulary(&checkpoint, path, &error));
        CHECK(strstr(error.message, said == 1 ? "\"tokenizer.ggml.model\" is missing"
                                              : "offset 16: 2 keys in 27 bytes"),
              "%s", error.message);
    }
}

// A tensor takes 33 bytes at least.
Test(gguf_hostile, a_count_of_tensors_is_held_against_what_is_left) {
    for (size_t left = 65; left <= 66; left++) {
        uint8_t bytes[24 + 66] = "GGUF\3\0\0\0\2";
        Error error;
        CHECK_INT(open_bytes(bytes, 24 + left, &error), ERROR_FILE);
        CHECK(!strstr(error.message, "offset 8: 2 tensors in 65 bytes") == (left == 66), "%s",
              error.message);
    }
}

// Two tokens and a space between them.
Test(gguf_hostile, a_merge_is_as_long_as_two_tokens_and_a_space) {
    for (size_t length = 131073; length <= 131074; length++) {
        char *text = calloc(1, length + 1);
        memset(text, 'x', length);
        GgufFile *file = gguf_tiny_llama();
        gguf_set_strings(file, "tokenizer.ggml.merges", (const char *const[]){text}, 1);
        free(text);
        size_t size;
        Error error;
        uint8_t *bytes = gguf_write(file, &size);
        gguf_file_free(file);
        CHECK_INT(open_bytes(bytes, size, &error), length == 131073 ? ERROR_NONE : ERROR_FILE);
        free(bytes);
    }
}

Test(gguf_hostile, types_that_do_not_exist_have_no_name_and_no_size) {
    CHECK_STRING(gguf_type_name(GGUF_F64), "f64");
    CHECK_STRING(gguf_type_name(GGUF_TYPE_COUNT), "?");
    CHECK_STRING(gguf_type_name(UINT32_MAX), "?");
    CHECK_INT(gguf_type_size(GGUF_F64), 8);
    CHECK_INT(gguf_type_size(GGUF_TYPE_COUNT), 0);
}

// What is in front of the cause where a file of `size` bytes should have `wanted` or more.
static const char *incomplete(size_t size, size_t wanted) {
    return test_text("model.gguf: the file is incomplete: %zu of at least %zu bytes (is it a "
                     "download that was interrupted?): ",
                     size, wanted);
}

Test(gguf_hostile, G01_every_truncation_is_refused) {
    for (uint32_t version = 2; version <= 3; version++) {
        GgufFile *file = gguf_tiny_llama();
        size_t size;
        Error error;
        file->version = version;
        gguf_set_bool(file, "tokenizer.ggml.add_bos_token", 1);
        uint8_t *bytes = gguf_write(file, &size);
        gguf_file_free(file);
        CHECK(size < 4096, "%zu", size);
        CHECK_INT(open_bytes(bytes, size, &error), ERROR_NONE);
        size_t padding = 16; // the last tensor has 16 bytes, its padding as many
        for (size_t length = 1; length < size; length++) {
            uint8_t *cut = malloc(length); // so that a read past the end is seen
            memcpy(cut, bytes, length);
            ErrorCode code = open_bytes(cut, length, &error);
            free(cut);
            CHECK_INT(code, length + padding >= size ? ERROR_NONE : ERROR_FILE);
            CHECK(code == ERROR_NONE || length > 23 || strstr(error.message, "header"), "%s",
                  error.message);
            CHECK(code == ERROR_NONE || length < 4 || strstr(error.message, "is incomplete: "),
                  "%zu: %s", length, error.message);
        }
        open_bytes(bytes, size - padding - 1, &error);
        const char *said = incomplete(size - padding - 1, size - padding);
        CHECK(!strncmp(error.message, said, strlen(said)), "%s", error.message);
        CHECK(strstr(error.message, "is not inside the file: "), "%s", error.message);
        free(bytes);
    }
}

// The tokens of a real vocabulary are most of a header.
Test(gguf_hostile, a_header_cut_off_inside_an_array_is_incomplete) {
    uint8_t bytes[24 + 8 + 1 + 4 + 4 + 8] = "GGUF\3";
    bytes[16] = 1; // a key, of which nothing else is there: its name, array, strings, 10000
    memcpy(bytes + 24, (uint8_t[]){1, 0, 0, 0, 0, 0, 0, 0, 'a', GGUF_ARRAY}, 10);
    bytes[37] = GGUF_STRING;
    bytes[41] = 0x10, bytes[42] = 0x27;
    Error error;
    CHECK_INT(open_bytes(bytes, sizeof bytes, &error), ERROR_FILE);
    const char *said = incomplete(sizeof bytes, sizeof bytes + 80000);
    CHECK(!strncmp(error.message, said, strlen(said)), "%s", error.message);
    CHECK(strstr(error.message, "): a: offset 37: array of 10000 elements in 0 bytes"), "%s",
          error.message);
}

// A number that no file could follow is wrong, whatever else the file lacks.
Test(gguf_hostile, a_wrong_number_makes_no_file_incomplete) {
    static const char *const WRONG[] = {
        "G04 n_tensors 2^63",  "G05 n_keys 2^64-1",   "G09 string of 2^64-1",
        "G09 string of 1 GiB", "G10 array of 2^64-1", "G10 array of 2^61",
        "G15 65537 keys",      "G30 offset 2^64-32",  "G30 offset past the end"};
    size_t found = 0;
    for (size_t i = 0; i < gguf_corpus_count(); i++) {
        const GgufCase *row = gguf_corpus(i);
        for (size_t w = 0; w < sizeof WRONG / sizeof *WRONG; w++) {
            if (strcmp(row->id, WRONG[w]) != 0) continue;
            size_t size;
            Error error;
            uint8_t *bytes = gguf_case_write(row, &size);
            CHECK_INT(open_bytes(bytes, size, &error), ERROR_FILE);
            free(bytes);
            CHECK(!strstr(error.message, "incomplete"), "%s: %s", row->id, error.message);
            found++;
        }
    }
    CHECK_INT(found, sizeof WRONG / sizeof *WRONG);
}

static bool opens(const void *bytes, size_t size, Error *error) {
    return open_bytes(bytes, size, error) == ERROR_NONE;
}

Test(gguf_hostile, changed_bytes_never_do_harm) {
    static const char FEW[] = "\x00\x01\x7f\x80\xff";
    size_t size;
    GgufFile *file = gguf_tiny_llama();
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    check_changed_bytes(opens, bytes, size, size, TEST_SANITIZED ? FEW : NULL, sizeof FEW - 1);
    free(bytes);
}

Test(gguf_hostile, G02_other_files_are_called_by_their_names) {
    static const struct {
        const char *bytes, *message;
    } FILES[] = {
        {"FUGG\0\0\0\3 and more", "big-endian"},
        {"gguf and more", "the magic is \"gguf\""},
        {"ggjt and more", "ggjt"},
        {"tjgg\3\0\0\0", "ggjt"},
        {"PK\3\4 and more", "zip"},
        {"\x1f\x8b\x08 and more", "gzip"},
        {"<!DOCTYPE html><html>404", "HTML"},
        {"<HTML>404", "HTML"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:1", "Git LFS pointer"},
        {"\xff\xfe{ and more", "UTF-16"},
        {"\xef\xbb\xbf{\"a\": 1}", "byte order mark"},
        {"\x80\x02}q\1X", "pickle"},
        {"{\"a\": 1}", "JSON"},
        {"\x89PNG\r\n\x1a\n", "picture (PNG)"},
        {"\xff\xd8\xff\xe0", "picture (JPEG)"},
        {"\x7f"
         "ELF\2",
         "a program"},
        {"%PDF-1.7", "PDF"},
        {"BZh9", "bzip2"},
        {"\x08\x07\x12\x07pytorch", "ONNX"},
        {"\x0a\x0e\x0a\x05<unk>", "SentencePiece"},
        {"# A heading\n\nand a line, caf\xc3\xa9\n", "this is a text"},
        {"a text and\x01", "no GGUF, safetensors or llama2.c file: offset 0: dim"},
        {"G", "truncated header"},
        {"GGU", "truncated header"},
        {"GGUF", "truncated: header"},
        {"vers", ""},
        {"nothing that anybody knows", ""},
    };
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        size_t length = strlen(FILES[i].bytes);
        Error error;
        char *exact = malloc(length); // so that a look past the end is seen
        memcpy(exact, FILES[i].bytes, length);
        CHECK_INT(open_bytes(exact, length, &error), ERROR_FILE);
        free(exact);
        CHECK(strstr(error.message, FILES[i].message), "%s", error.message);
    }
}

Test(gguf_hostile, P11_what_is_no_file_ends_with_4) {
    const char *fifo = test_temporary("model.gguf");
    CHECK(!mkfifo(fifo, 0600));
    const char *const PATHS[] = {fifo,        "/dev/zero",      "/no/such/file", "",
                                 "/dev/null", "/proc/self/mem", "/proc/version"};
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(!checkpoint_open(&checkpoint, PATHS[i], &error));
        CHECK(error.code == ERROR_IO, "%s: %d, %s", PATHS[i], error.code, error.message);
    }
    char name[4000];
    memset(name, '\x1b', sizeof name);
    name[sizeof name - 1] = '\0';
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(!checkpoint_open(&checkpoint, name, &error));
    CHECK_INT(error.code, ERROR_IO);
    CHECK(strstr(error.message, "\\x1b") && !strchr(error.message, '\x1b'));
}

Test(gguf_hostile, G52_a_sparse_terabyte_is_refused_without_reading_it) {
    const char *path = test_temporary("sparse.gguf");
    size_t size;
    GgufFile *file = gguf_tiny_llama();
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    test_write_file(path, bytes, size);
    free(bytes);
    if (truncate(path, (off_t)1 << 40)) SKIP("no sparse files of a terabyte here");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(!checkpoint_open(&checkpoint, path, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "follow the last tensor"), "%s",
          error.message);
}

// Opens the file at `path` after it was made `size` bytes long, the new ones zeros.
static ErrorCode open_sparse(const char *path, uint64_t size, bool vocabulary, Error *error) {
    Checkpoint *checkpoint = NULL;
    *error = (Error){0};
    CHECK(!truncate(path, (off_t)size));
    bool opened = vocabulary ? checkpoint_open_vocabulary(&checkpoint, path, error)
                             : checkpoint_open(&checkpoint, path, error);
    checkpoint_close(checkpoint);
    return opened ? ERROR_NONE : error->code;
}

static void write_out(const char *path, GgufFile *file, size_t *size) {
    uint8_t *bytes = gguf_write(file, size);
    gguf_file_free(file);
    test_write_file(path, bytes, *size);
    free(bytes);
}

Test(gguf_hostile, rows_of_the_embedding_are_bounded) {
    for (uint64_t rows = LIMIT_VOCAB; rows <= LIMIT_VOCAB + 1; rows++) {
        const char *path = test_temporary("rows.gguf");
        GgufFile *file = gguf_tiny_llama();
        gguf_set_text(file, "tokenizer.ggml.model", "none");
        gguf_remove_tensor(file, "token_embd.weight");
        gguf_add_tensor(file, "token_embd.weight", DTYPE_F32, 4, 2)->dims[1] = rows; // the last
        size_t size;
        Error error;
        write_out(path, file, &size);
        ErrorCode code = open_sparse(path, size - 32 + rows * 16, false, &error);
        CHECK_INT(code, rows == LIMIT_VOCAB ? ERROR_NONE : ERROR_FILE);
        CHECK(!code || strstr(error.message, "4194305 rows, at most 4194304"), "%s", error.message);
    }
}

// Strings of length 0 are eight zero bytes each, so that a sparse file is a list of millions.
Test(gguf_hostile, tokens_and_merges_are_bounded) {
    static const char *const KEYS[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"};
    for (int k = 0; k < 2; k++)
        for (uint64_t count = 1 << 22; count <= (1 << 22) + 1; count++) {
            const char *path = test_temporary("list.gguf");
            GgufFile *file = gguf_file_new();
            uint8_t array[12] = {GGUF_STRING};
            memcpy(array + 4, &count, sizeof count);
            gguf_set_text(file, "tokenizer.ggml.model", "gpt2");
            if (k) gguf_set_strings(file, KEYS[0], (const char *const[]){"a"}, 1);
            gguf_set_raw(file, KEYS[k], GGUF_ARRAY, array, sizeof array);
            size_t size;
            Error error;
            write_out(path, file, &size);
            ErrorCode code = open_sparse(path, size + 8 * count, true, &error);
            CHECK_INT(code, count == 1 << 22 ? ERROR_NONE : ERROR_FILE);
            CHECK(!code || strstr(error.message, "4194305 entries"), "%s", error.message);
        }
}

Test(gguf_hostile, a_vocabulary_is_asked_of_a_file_without_one) {
    const char *path = test_temporary("none.gguf");
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    test_write_file(path, "not a GGUF file", 15);
    CHECK(!checkpoint_open_vocabulary(&checkpoint, path, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "this is not a GGUF file"));
    GgufFile *file = gguf_tiny_llama();
    gguf_remove_key(file, "tokenizer.ggml.model");
    size_t size;
    write_out(path, file, &size);
    error = (Error){0};
    CHECK(!checkpoint_open_vocabulary(&checkpoint, path, &error));
    CHECK(strstr(error.message, "\"tokenizer.ggml.model\" is missing"), "%s", error.message);
}

Test(gguf_hostile, F01_a_model_cut_short_while_open_is_damaged_and_no_signal_comes) {
    const char *path = test_temporary("shrinks.gguf");
    size_t size;
    GgufFile *file = gguf_tiny_llama();
    gguf_add_tensor(file, "output.weight", DTYPE_F32, 4, 8);
    gguf_add_tensor(file, "far.away", DTYPE_F32, 4, 4096);
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    test_write_file(path, bytes, size);
    free(bytes);
    mapping_guard();
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    CHECK(!checkpoint_damaged(checkpoint));
    CHECK(!truncate(path, 100));
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(checkpoint, &count);
    CHECK_INT(tensors[count - 1].data[tensors[count - 1].bytes - 1], 0);
    CHECK(checkpoint_damaged(checkpoint));
    checkpoint_close(checkpoint);
}

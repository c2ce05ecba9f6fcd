// vocab.json with merges.txt, tiktoken text, and opening a path.
#include "base/bytes.h"
#include "base/text.h"
#include "tests/support/program.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <unistd.h>

// ---- vocab.json and merges.txt ----

static const char VOCAB[] = "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"<|endoftext|>\":5}";
static const char MERGES[] = "#version: 0.2\na b\nab c\n";

// Writes the two files to a directory and opens the directory.
static Tokenizer *open_pair(const char *vocab, const char *merges, Error *error) {
    char directory[400], path[450];
    snprintf(directory, sizeof directory, "%s", test_temporary("pair"));
    mkdir(directory, 0700);
    snprintf(path, sizeof path, "%s/merges.txt", directory);
    test_write_file(path, merges, strlen(merges));
    snprintf(path, sizeof path, "%s/vocab.json", directory);
    test_write_file(path, vocab, strlen(vocab));
    return test_open_tokenizer(directory, error);
}

Test(vocab_merges, reads_the_pair) {
    Error error = {0};
    Tokenizer *t = open_pair(VOCAB, MERGES, &error);
    if (!t) TEST_FAIL("%s", error.message);
    test_check_ids(t, "abcab", false, IDS(4, 3));
    test_check_ids(t, "a<|endoftext|>", true, IDS(0, 5));
    test_check_ids(t, "a<|endoftext|>", false, IDS(0)); // its letters are no tokens
    CHECK_INT(tokenizer_type(t, 5), TOKEN_CONTROL);
    CHECK_INT(tokenizer_type(t, 4), TOKEN_NORMAL);
    CHECK_INT(tokenizer_bos(t), -1);
    int32_t stop;
    CHECK(tokenizer_stops(t, &stop, 1) == 1 && stop == 5);
    tokenizer_close(t);
}

// It is another text then.
Test(vocab_merges, bytes_that_are_left_out_are_said_also_with_q) {
    Error error = {0};
    tokenizer_close(open_pair(VOCAB, MERGES, &error));
    TestRun r = program("tokenize|-z|%s/vocab.json|-i|abxa|-q", test_temporary("pair"));
    check_status(&r, 0);
    CHECK_STRING(r.out, "3 0\n");
    CHECK(strstr(r.err, "left out of the text: the first is 0x78"), "%s", r.err);
    test_run_free(&r);
}

static uint64_t digest_of_pair(const char *vocab, const char *merges) {
    Error error = {0};
    Tokenizer *t = open_pair(vocab, merges, &error);
    CHECK(t, "%s", error.message);
    uint64_t digest = tokenizer_digest(t);
    tokenizer_close(t);
    return digest;
}

Test(vocab_merges, the_digest_is_that_of_both_files) {
    static const char OTHER[] = "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"<|endofline|>\":5}";
    uint64_t digest = digest_of_pair(VOCAB, MERGES);
    CHECK(digest_of_pair(VOCAB, MERGES) == digest);
    CHECK(digest_of_pair(OTHER, MERGES) != digest);
    CHECK(digest_of_pair(VOCAB, "#version: 0.2\na b\n") != digest);
}

static uint64_t digest_of_vocabulary(const Vocabulary *v) {
    Tokenizer *t = test_open_vocabulary(v);
    uint64_t digest = tokenizer_digest(t);
    tokenizer_close(t);
    return digest;
}

// Of what a GGUF says, each field counts.
Test(tokenizer_paths, the_digest_of_a_gguf_is_that_of_its_fields) {
    TextSpan tokens[] = {{"<unk>", 5}, {"<s>", 3}, {"a", 1}, {"b", 1}};
    float scores[] = {0, 0, -1, -2};
    uint8_t types[] = {TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_NORMAL};
    Vocabulary v = VOCABULARY_ABSENT;
    v.model = "llama";
    v.n_tokens = sizeof tokens / sizeof *tokens;
    v.tokens = tokens, v.scores = scores, v.types = types;
    v.bos_id = 1, v.unk_id = 0;
    uint64_t digest = digest_of_vocabulary(&v);
    CHECK(digest_of_vocabulary(&v) == digest);
    tokens[3].text = "c";
    CHECK(digest_of_vocabulary(&v) != digest);
    tokens[3].text = "b";
    scores[3] = -3;
    CHECK(digest_of_vocabulary(&v) != digest);
    scores[3] = -2;
    types[3] = TOKEN_USER_DEFINED;
    CHECK(digest_of_vocabulary(&v) != digest);
    types[3] = TOKEN_NORMAL;
    v.add_space_prefix = 0;
    CHECK(digest_of_vocabulary(&v) != digest);
    v.add_space_prefix = VOCABULARY_ABSENT.add_space_prefix;
    CHECK(digest_of_vocabulary(&v) == digest);
    v.n_merges = 1, v.merges = &(TextSpan){"a b", 3};
    CHECK(digest_of_vocabulary(&v) != digest);
    // The same bytes, cut in another place.
    tokens[2] = (TextSpan){"12345678abcdefgh", 16}, tokens[3] = (TextSpan){"x", 1};
    uint64_t one_way = digest_of_vocabulary(&v);
    tokens[2] = (TextSpan){"12345678", 8}, tokens[3] = (TextSpan){"abcdefghx", 9};
    CHECK(digest_of_vocabulary(&v) != one_way);
}

// Control tokens are in angle brackets, have something in them and are what no merge yields.
Test(vocab_merges, finds_the_control_tokens) {
    static const char TOKENS[] = "{\"<\":0,\">\":1,\"a\":2,\"<>\":3,\"<a\":4,\"a>\":5,\"<a>\":6,"
                                 "\"<b>\":7,\"<bb\":8,\"bb>\":9,\"<s>\":10}";
    Error error = {0};
    Tokenizer *t = open_pair(TOKENS, "< a\n<a >", &error);
    CHECK(t, "%s", error.message);
    for (int32_t id = 0; id < 11; id++)
        CHECK_INT(tokenizer_type(t, id), id == 7 || id == 10 ? TOKEN_CONTROL : TOKEN_NORMAL);
    CHECK_INT(tokenizer_bos(t), 10);
    CHECK(!tokenizer_adds_bos(t));
    tokenizer_close(t);
}

// A line of any length is one merge.
Test(vocab_merges, counts_lines_and_not_bytes) {
    char *merges = malloc(5000010);
    memcpy(merges, "a b\n", 4);
    memset(merges + 4, 'x', 5000000);
    merges[5000004] = '\0';
    Error error = {0};
    CHECK(!open_pair(VOCAB, merges, &error));
    CHECK(strstr(error.message, "merges.txt line 2: merge 1"), "%s", error.message);
    free(merges);
}

// A refused file is not silently replaced by another one of the directory; the message names that.
Test(tokenizer_files, a_refused_file_names_the_one_beside_it) {
    char directory[400], path[450];
    snprintf(directory, sizeof directory, "%s", test_temporary("two"));
    mkdir(directory, 0700);
    snprintf(path, sizeof path, "%s/vocab.json", directory);
    test_write_file(path, VOCAB, strlen(VOCAB));
    snprintf(path, sizeof path, "%s/merges.txt", directory);
    test_write_file(path, MERGES, strlen(MERGES));
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    test_write_file(path, "{\"model\":{}}", 12);
    Error error = {0};
    CHECK(!test_open_tokenizer(directory, &error));
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, "tokenizer.json: "), "%s", error.message);
    CHECK(strstr(error.message, "; use -z to choose the vocab.json in the same directory"), "%s",
          error.message);
    unlink(path);
    error = (Error){0};
    Tokenizer *t = test_open_tokenizer(directory, &error);
    CHECK(t, "%s", error.message);
    tokenizer_close(t);
}

Test(vocab_merges, takes_lines_as_they_come_and_refuses_broken_ones) {
    static const struct {
        const char *merges, *cause;
    } rows[] = {
        {"#version: 0.2\r\na b\r\nab c\r\n", NULL},
        {"a b\nab c", NULL},
        {"#version: 0.2", NULL},
        {"#version: 0.2\n", NULL},
        {"#version: 0.2\na b\n\nab c\n", "merges.txt line 3: merge 1"},
        {"#version: 0.2\na b\nabc\n", "merges.txt line 3: merge 1: \"abc\""},
        {"#version: 0.2\na z\n", "merges.txt line 2: merge 0: \"a\" + \"z\""},
        {"a b\na b\n",
         "merges.txt line 2: merge 1: \"a\" + \"b\": an earlier merge has the same pair"},
        {"a b\n#version: 0.2\n", "merges.txt line 2"},
        {"a  b\n", "merges.txt line 1"},
        {" b\n", "merges.txt line 1"},
        {"#versioo 0.2\n", "merges.txt line 1"}, // no version
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error error = {0};
        Tokenizer *t = open_pair(VOCAB, rows[i].merges, &error);
        CHECK(!t == (rows[i].cause != NULL), "row %zu: %s", i, error.message);
        if (rows[i].cause) {
            CHECK_INT(error.code, ERROR_FILE);
            CHECK(strstr(error.message, rows[i].cause), "row %zu: \"%s\"", i, error.message);
        }
        tokenizer_close(t);
    }
    Error error = {0};
    CHECK(!open_pair("{\"a\":0,\"b\":2}", MERGES, &error));
    CHECK(strstr(error.message, "vocab.json: id of \"b\": 2 is outside 0 .. 1"), "%s",
          error.message);
}

Test(vocab_merges, every_cut_is_refused_or_means_fewer_merges) {
    for (size_t length = 0; length < strlen(VOCAB); length++) {
        char *vocab = strndup(VOCAB, length);
        Error error = {0};
        CHECK(!open_pair(vocab, MERGES, &error), "%zu bytes were accepted", length);
        CHECK_INT(error.code, ERROR_FILE);
        free(vocab);
    }
    for (size_t length = 1; length < strlen(MERGES); length++) {
        char *merges = strndup(MERGES, length);
        Error error = {0};
        Tokenizer *t = open_pair(VOCAB, merges, &error);
        CHECK(t || error.code == ERROR_FILE);
        tokenizer_close(t);
        free(merges);
    }
}

// ---- tiktoken text ----

Test(tiktoken, reads_lines_of_base64_and_rank) {
    Error error = {0};
    static const char text[] = "YQ== 0\nYg== 1\nYWI= 2\nYWJh 3\n/w== 4\n"; // a b ab aba \xff
    Tokenizer *t = test_open_tokenizer_text("tokenizer.model", text, strlen(text), &error);
    if (!t) TEST_FAIL("%s", error.message);
    test_check_ids(t, "aba", false, IDS(3));
    test_check_ids(t, "abab", false, IDS(2, 2));
    test_check_ids(t, "ababa", false, IDS(2, 3)); // ab has the lowest rank, twice; then ab + a
    test_check_ids(t, "b\xff", false, IDS(1, 4));
    tokenizer_close(t);
}

Test(tiktoken, refuses_broken_lines) {
    static const struct {
        const char *text, *cause;
    } rows[] = {
        {"YQ== 0\r\nYg== 1", NULL},
        {"YQ== 1\n", "line 1: wanted base64, a space and 0, got \"YQ== 1\""},
        {"YQ== 0\nYg== 0\n", "line 2: wanted base64, a space and 1"},
        {"YQ== 0\nYg==\n", "line 2"},
        {"YQ== 0\n\n", "line 2"},
        {"YQ== 0\nYg= 1\n", "line 2"},
        {"YQ== 0\nY=g= 1\n", "line 2"},
        {"YQ== 0\nY*== 1\n", "line 2"},
        {"YQ== 0\n==== 1\n", "line 2"},
        {"YQ== 0\nYg== 1 \n", "line 2"},
        {"YQ== 0\nYg== 01\n", "line 2"},
        {"YQ== 0\nYg== 2\n", "line 2: wanted base64, a space and 1, got \"Yg== 2\""},
        {"YQ== 0\nY=== 1\n", "line 2"},
        {"YQ== 0\n 1\n", "line 2"},
        {"YQ== 0\n= 1\n", "line 2"},
        {"YQ== 0\nYg 1\n", "line 2"},
        {"YQ== 0\nYg==YQ== 1\n", "line 2"},
        {"YQ== 0\nY@== 1\n", "line 2"},
        {"YQ== 0\nY[== 1\n", "line 2"},
        {"YQ== 0\nY`== 1\n", "line 2"},
        {"YQ== 0\nY{== 1\n", "line 2"},
        {"YQ== 0\nY:== 1\n", "line 2"},
        {"YQ== 0\nY.== 1\n", "line 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error error = {0};
        Tokenizer *t =
            test_open_tokenizer_text("tokenizer.model", rows[i].text, strlen(rows[i].text), &error);
        CHECK(!t == (rows[i].cause != NULL), "row %zu: %s", i, error.message);
        if (rows[i].cause)
            CHECK(error.code == ERROR_FILE && strstr(error.message, rows[i].cause),
                  "row %zu: \"%s\"", i, error.message);
        tokenizer_close(t);
    }
}

static size_t write_base64(char *out, const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *start = out;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t b = (uint32_t)bytes[i] << 16 | (i + 1 < n ? bytes[i + 1] : 0u) << 8 |
                     (i + 2 < n ? bytes[i + 2] : 0u);
        *out++ = digits[b >> 18];
        *out++ = digits[b >> 12 & 63];
        *out++ = i + 1 < n ? digits[b >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[b & 63] : '=';
    }
    return (size_t)(out - start);
}

// All 256 bytes alone, then 48 bytes whose base64 has each of the 64 digits once.
Test(tiktoken, every_digit_and_every_byte) {
    uint8_t digits[48];
    for (size_t i = 0; i < 16; i++) { // the digits 4 i to 4 i + 3, six bits each
        uint32_t bits = 0;
        for (size_t d = 4 * i; d < 4 * i + 4; d++)
            bits = bits * 64 + (uint32_t)d;
        for (size_t j = 0; j < 3; j++)
            digits[3 * i + j] = (uint8_t)(bits >> (16 - 8 * j));
    }
    char text[8000];
    size_t n = 0, length;
    for (int i = 0; i < 256; i++) {
        n += write_base64(text + n, &(uint8_t){(uint8_t)i}, 1);
        n += (size_t)sprintf(text + n, " %d\n", i);
    }
    sprintf(text + n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/ 256");
    Error error = {0};
    Tokenizer *t = test_open_tokenizer_text("tokenizer.model", text, strlen(text), &error);
    CHECK(t, "%s", error.message);
    CHECK_INT(tokenizer_size(t), 257);
    for (int i = 0; i < 256; i++) {
        const char *piece = tokenizer_piece(t, i, false, false, &length);
        CHECK(length == 1 && (uint8_t)*piece == i, "byte %d", i);
    }
    const char *piece = tokenizer_piece(t, 256, false, false, &length);
    CHECK(length == 48 && !memcmp(piece, digits, 48));
    CHECK(tokenizer_bos(t) == -1 && !tokenizer_adds_bos(t));
    tokenizer_close(t);
}

// Tokens 0 to 255 are the bytes, the others their own number in three.
static Tokenizer *open_ranks(int32_t count) {
    char *text = malloc((size_t)count * 16), *at = text;
    for (int32_t i = 0; i < count; i++) {
        uint8_t bytes[] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        at += i < 256 ? write_base64(at, bytes + 2, 1) : write_base64(at, bytes, 3);
        at += sprintf(at, " %d\n", i);
    }
    Error error = {0};
    Tokenizer *t = test_open_tokenizer_text("tokenizer.model", text, (size_t)(at - text), &error);
    free(text);
    CHECK(t, "%s", error.message);
    return t;
}

Test(tiktoken, has_as_many_tokens_as_any_vocabulary_and_no_more) {
    char *text = malloc((size_t)(LIMIT_VOCAB + 1) * 16), *at = text;
    for (int i = 0; i <= LIMIT_VOCAB; i++)
        at += sprintf(at, "AAAA %d\n", i);
    Error error = {0};
    CHECK(!test_open_tokenizer_text("tokenizer.model", text, (size_t)(at - text), &error));
    free(text);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, "more than 4194304 tokens"), "%s", error.message);
}

// Meta's program (llama/tokenizer.py) puts 256 control tokens behind its 128,000.
Test(tiktoken, has_the_control_tokens_of_llama_3_behind_exactly_128000) {
    static const struct {
        int32_t id;
        const char *spelling;
    } CONTROL[] = {
        {128000, "<|begin_of_text|>"},
        {128001, "<|end_of_text|>"},
        {128002, "<|reserved_special_token_0|>"},
        {128005, "<|reserved_special_token_3|>"},
        {128006, "<|start_header_id|>"},
        {128007, "<|end_header_id|>"},
        {128008, "<|reserved_special_token_4|>"},
        {128009, "<|eot_id|>"},
        {128010, "<|reserved_special_token_5|>"},
        {128255, "<|reserved_special_token_250|>"},
    };
    for (int32_t count = 127999; count <= 128001; count++) {
        Tokenizer *t = open_ranks(count);
        bool llama = count == 128000;
        int32_t stops[4];
        size_t length;
        CHECK_INT(tokenizer_size(t), count + (llama ? 256 : 0));
        CHECK_INT(tokenizer_bos(t), llama ? 128000 : -1);
        CHECK_INT(tokenizer_adds_bos(t), llama);
        CHECK_INT(tokenizer_stops(t, stops, 4), llama ? 2 : 0); // eot_id, end_of_text
        for (size_t i = 0; i < sizeof CONTROL / sizeof *CONTROL && llama; i++) {
            CHECK(span_equals(tokenizer_spelling(t, CONTROL[i].id), CONTROL[i].spelling), "%d",
                  CONTROL[i].id);
            CHECK_INT(tokenizer_type(t, CONTROL[i].id), TOKEN_CONTROL);
        }
        CHECK_INT(tokenizer_type(t, 127998), TOKEN_NORMAL);
        const char *piece = tokenizer_piece(t, 70000, false, false, &length);
        CHECK(length == 3 && !memcmp(piece, "\x01\x11\x70", 3));
        tokenizer_close(t);
    }
}

// Meta's file has the same tokens as the tokenizer.json, and no merges.
Test(tiktoken, gives_the_ids_of_llama3s_tokenizer_json) {
    Error error = {0};
    Tokenizer *json = test_open_tokenizer(test_data("tokenizers/llama3/tokenizer.json"), &error);
    if (!json) TEST_FAIL("%s", error.message);
    char *text = malloc(8 << 20);
    size_t n = 0;
    for (int32_t id = 0; id < 128000; id++) {
        size_t length;
        const char *piece = tokenizer_piece(json, id, false, false, &length);
        n += write_base64(text + n, (const uint8_t *)piece, length);
        n += (size_t)sprintf(text + n, " %d\n", id);
    }
    Tokenizer *t = test_open_tokenizer_text("tokenizer.model", text, n, &error);
    free(text);
    if (!t) TEST_FAIL("%s", error.message);
    CHECK_INT(tokenizer_size(t), tokenizer_size(json));
    for (int32_t id = 0; id < tokenizer_size(t); id++) {
        TextSpan a = tokenizer_spelling(t, id), b = tokenizer_spelling(json, id);
        CHECK(a.length == b.length && !memcmp(a.text, b.text, a.length), "token %d", id);
        CHECK_INT(tokenizer_type(t, id), tokenizer_type(json, id));
    }
    CHECK(tokenizer_bos(t) == 128000 && tokenizer_adds_bos(t) && tokenizer_adds_bos(json));
    size_t size;
    char *wiki = test_read_file(test_data("text/wiki.test.raw"), &size);
    IdList a = {0}, b = {0};
    CHECK(tokenizer_encode(t, &a, wiki, size, false, &error));
    CHECK(tokenizer_encode(json, &b, wiki, size, false, &error));
    CHECK_INT(a.count, b.count);
    CHECK(!memcmp(a.ids, b.ids, a.count * sizeof *a.ids));
    id_list_free(&a);
    id_list_free(&b);
    free(wiki);
    tokenizer_close(t);
    tokenizer_close(json);
}

// ---- paths ----

Test(tokenizer_path, says_what_is_wrong_with_a_path) {
    Error error = {0};
    CHECK(!test_open_tokenizer("/nowhere/tokenizer.json", &error));
    CHECK(error.code == ERROR_IO && strstr(error.message, "/nowhere/tokenizer.json: "), "%s",
          error.message);
    error = (Error){0};
    char directory[400];
    snprintf(directory, sizeof directory, "%s", test_temporary("empty"));
    mkdir(directory, 0700);
    CHECK(!test_open_tokenizer(directory, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "in this directory"), "%s",
          error.message);
    error = (Error){0};
    CHECK(!test_open_tokenizer_text("some.gguf", "GGUF\3\0\0\0", 8, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "a GGUF, not a tokenizer file"), "%s",
          error.message);
    error = (Error){0};
    CHECK(!test_open_tokenizer_text("vocab.json", VOCAB, strlen(VOCAB), &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "merges.txt"), "%s", error.message);
}

// By their first bytes, whatever the files are called; and what only looks similar is not.
Test(tokenizer_path, names_git_lfs_pointers_and_other_encodings) {
    static const char POINTER[] = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n";
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin", "x"};
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } CASES[] = {
        {POINTER, sizeof POINTER - 1, "this is a Git LFS pointer, not the tokenizer"},
        {"\xff\xfe{\0\"\0a\0", 8, "UTF-16"},
        {"\xfe\xff\0{\0\"\0a", 8, "UTF-16"},
        {"{\0\"\0a\0\"\0", 8, "UTF-16"},
        {"\0{\0\"\0a\0\"", 8, "UTF-16"},
        {"\xef\xbb\xbf{\"model\":1}", 15, "byte order mark"},
        {"{\0\0\0\0\0\0\0", 8, "token length"}, // a .bin: a longest token of 123 bytes
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int k = 0; k < 4; k++) {
            Error error = {0};
            CHECK(!test_open_tokenizer_text(NAMES[k], CASES[i].bytes, CASES[i].size, &error));
            CHECK_INT(error.code, ERROR_FILE);
            CHECK(strstr(error.message, CASES[i].message) && strstr(error.message, NAMES[k]), "%s",
                  error.message);
        }
    char path[400];
    snprintf(path, sizeof path, "%s", test_temporary("merges.txt"));
    test_write_file(path, POINTER, sizeof POINTER - 1);
    Error error = {0};
    CHECK(!test_open_tokenizer_text("vocab.json", VOCAB, strlen(VOCAB), &error));
    CHECK(strstr(error.message, "merges.txt: this is a Git LFS pointer"), "%s", error.message);
    unlink(path);
}

// A file of holes: without the limit all of it would be read.
Test(tokenizer_path, as_large_as_the_limit_and_no_larger) {
    const char *path = test_temporary("holes.model");
    test_write_file(path, "?", 1);
    for (int more = 0; more < 2; more++) {
        Error error = {0};
        CHECK(!truncate(path, (off_t)LIMIT_METADATA + more));
        CHECK(!test_open_tokenizer(path, &error));
        CHECK(
            error.code == ERROR_FILE &&
                strstr(error.message, more ? "a file of 268435457 bytes, at most 268435456 are read"
                                           : "more than 4194304 tokens"),
            "%s", error.message);
    }
}

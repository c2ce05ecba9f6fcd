// tokenizer.json with byte-level BPE and with byte fallback. Every refused file is one change away
// from an accepted one.
#include "tests/support/changed_bytes.h"
#include "tests/support/files/long_texts.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/bpe/byte_bpe.h"
#include "tokenizer/internal.h"

#include <sys/resource.h>

#define SPACE "\xe2\x96\x81" // U+2581

// Ids by the letters of their spelling: a 0, b 1, c 2, ab 3, abc 4.
#define ADDED                                                                                      \
    "{\"id\":5,\"content\":\"<|x|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"     \
    "\"normalized\":false,\"special\":true},"                                                      \
    "{\"id\":6,\"content\":\"<think>\",\"special\":false}"
static const char BYTE_LEVEL[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"added_tokens\":[" ADDED "],"
    "\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"post_processor\":{\"type\":\"ByteLevel\"},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\",\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"ignore_merges\":false,"
    "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4},"
    "\"merges\":[\"a b\",[\"ab\",\"c\"]]}}";

// <unk> 0, <s> 1, _ 2, a 3, b 4, <0xC3> 5, <0xA9> 6, ab 7, _a 8, _ab 9, __ 10
static const char FALLBACK[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
    "{\"id\":1,\"content\":\"<s>\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
    "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},"
    "\"pre_tokenizer\":null,"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\"}}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
    "\"pattern\":{\"String\":\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
    "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"" SPACE "\":2,\"a\":3,\"b\":4,\"<0xC3>\":5,\"<0xA9>\":6,"
    "\"ab\":7,\"" SPACE "a\":8,\"" SPACE "ab\":9,\"" SPACE SPACE "\":10},"
    "\"merges\":[\"a b\",\"" SPACE " ab\",\"" SPACE " a\",\"" SPACE " " SPACE "\"]}}";

// ---- helpers ----

static Tokenizer *open_good(const char *text) {
    Error error = {0};
    Tokenizer *t = test_open_tokenizer_text("good.json", text, strlen(text), &error);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

// A copy of `text` with the first `from` replaced; malloced.
static char *replaced(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    CHECK(at, "no %s in the text", from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

typedef struct Change {
    const char *from, *to;
    const char *cause; // in the message; NULL: accepted
} Change;

static void check_changes(const char *text, const Change *changes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const Change *c = &changes[i];
        Error error = {0};
        char *changed = replaced(text, c->from, c->to);
        Tokenizer *t = test_open_tokenizer_text("changed.json", changed, strlen(changed), &error);
        if (!c->cause) {
            CHECK(t, "%s -> %s: %s", c->from, c->to, error.message);
        } else {
            CHECK(!t, "%s -> %s was accepted", c->from, c->to);
            CHECK(error.code == ERROR_FILE, "%s -> %s: exit code %d", c->from, c->to, error.code);
            CHECK(strstr(error.message, c->cause), "%s -> %s: \"%s\", wanted \"%s\"", c->from,
                  c->to, error.message, c->cause);
            CHECK(strstr(error.message, "changed.json: "), "no file in \"%s\"", error.message);
        }
        tokenizer_close(t);
        free(changed);
    }
}
#define CHECK_CHANGES(text, rows) check_changes(text, rows, sizeof rows / sizeof *rows)

// Every truncation of the text is refused, unless only white space is missing.
static void check_cuts(const char *name, const char *text, size_t size) {
    for (size_t length = 0; length < size; length++) {
        Error error = {0};
        Tokenizer *t = test_open_tokenizer_text(name, text, length, &error);
        CHECK(!t, "%zu of %zu bytes were accepted", length, size);
        CHECK_INT(error.code, ERROR_FILE);
    }
}

// ---- tokenizer.json with byte-level BPE ----

Test(tokenizer_json, reads_a_byte_level_file) {
    Tokenizer *t = open_good(BYTE_LEVEL);
    CHECK_INT(tokenizer_size(t), 7);
    CHECK_STRING(tokenizer_description(t), "byte-level BPE, pattern gpt2");
    test_check_ids(t, "abcab", false, IDS(4, 3));
    test_check_ids(t, "a<think>b<|x|>", true, IDS(0, 6, 1, 5));
    test_check_ids(t, "<think><|x|>", false, IDS(6)); // none of the other letters is a token
    CHECK_INT(tokenizer_type(t, 5), TOKEN_CONTROL);
    CHECK_INT(tokenizer_type(t, 6), TOKEN_USER_DEFINED);
    CHECK_INT(tokenizer_bos(t), -1);
    tokenizer_close(t);
}

// A letter of the vocabulary stays its byte where it is an added token too; one that was added
// alone is found as text.
Test(tokenizer_json, an_added_letter_is_a_byte_where_the_vocabulary_has_it) {
    char *text = replaced(BYTE_LEVEL, ADDED,
                          "{\"id\":1,\"content\":\"b\",\"special\":true},"
                          "{\"id\":5,\"content\":\"y\",\"special\":true},"
                          "{\"id\":6,\"content\":\"\xc3\xa9\",\"special\":false}");
    Tokenizer *t = open_good(text);
    test_check_ids(t, "cbc", false, IDS(2, 1, 2));
    test_check_ids(t, "ab", false, IDS(3));
    test_check_ids(t, "cbc", true, IDS(2, 1, 2));
    CHECK_INT(tokenizer_dropped(t), -1);
    test_check_ids(t, "cyc", true, IDS(2, 5, 2));
    test_check_ids(t, "c\xc3\xa9", false, IDS(2, 6));
    test_check_ids(t, "c\xe9", false, IDS(2));
    CHECK_INT(tokenizer_dropped(t), 0xe9);
    tokenizer_close(t);
    t = open_good(text);
    test_check_ids(t, "cyc", false, IDS(2, 2));
    CHECK_INT(tokenizer_dropped(t), 'y');
    tokenizer_close(t);
    free(text);
}

// In BYTE_LEVEL abc is what "ab" and "c" are merged to.
Test(tokenizer_json, no_merge_makes_a_control_token) {
    char *text = replaced(BYTE_LEVEL, ADDED, "{\"id\":4,\"content\":\"abc\",\"special\":true}");
    Tokenizer *t = open_good(text);
    CHECK_INT(tokenizer_type(t, 4), TOKEN_CONTROL);
    test_check_ids(t, "abcab", false, IDS(3, 2, 3));
    test_check_ids(t, "abcab", true, IDS(4, 3));
    tokenizer_close(t);
    free(text);
}

// <think> is user-defined, so that text has it.
Test(tokenizer_json, leaves_out_control_tokens_beyond_a_model) {
    char *text = replaced(BYTE_LEVEL, ADDED,
                          "{\"id\":5,\"content\":\"<think>\",\"special\":false},"
                          "{\"id\":6,\"content\":\"<|x|>\",\"special\":true}");
    Tokenizer *t = open_good(text);
    test_check_ids(t, "a<think>b<|x|>", true, IDS(0, 5, 1, 6));
    CHECK(!tokenizer_limit(t, 5), "a text has <think>");
    CHECK_INT(tokenizer_size(t), 7);
    CHECK(tokenizer_limit(t, 7) && tokenizer_limit(t, 9));
    CHECK_INT(tokenizer_size(t), 7);
    CHECK(tokenizer_limit(t, 6));
    CHECK_INT(tokenizer_size(t), 6);
    CHECK_INT(tokenizer_find(t, "<|x|>"), -1);
    test_check_ids(t, "a<think>b<|x|>", true, IDS(0, 5, 1));
    tokenizer_close(t);
    free(text);
}

Test(tokenizer_json, refuses_ids_that_are_none) {
    static const Change rows[] = {
        {"\"c\":2", "\"c\" : 2", NULL},
        {"\"c\":2", "\"c\":-1", "id of \"c\": -1 is outside 0 .. 6"},
        {"\"c\":2", "\"c\":7", "id of \"c\": 7 is outside 0 .. 6"},
        {"\"c\":2", "\"c\":2147483648", "2147483648 is outside"},
        {"\"c\":2", "\"c\":18446744073709551616", "invalid JSON"},
        {"\"c\":2", "\"c\":2.0", "id of \"c\": wanted an integer, got a real number"},
        {"\"c\":2", "\"c\":\"2\"", "id of \"c\": wanted an integer, got a string"},
        {"\"c\":2", "\"c\":null", "id of \"c\": wanted an integer, got null"},
        {"\"c\":2", "\"c\":1", "id 1: both \"b\" and \"c\""},
        {"\"c\":2", "\"c\":5", "id 5: both \"c\" and \"<|x|>\""},
        {"\"c\":2", "\"c\":2,\"d\":5", "id 5: both \"d\" and \"<|x|>\""},
        {"\"c\":2", "\"c\":2,\"d\":8", "8 is outside 0 .. 7"},
        {"\"c\":2", "\"c\":2,\"c\":2", "invalid JSON: duplicate object key"},
        {"\"abc\":4},\"merges\":[\"a b\",[\"ab\",\"c\"]]", "\"\xc4\xa0\":4},\"merges\":[\"a b\"]",
         NULL},
        {"\"abc\":4},\"merges\":[\"a b\",[\"ab\",\"c\"]]", "\" \":4},\"merges\":[\"a b\"]",
         "token 4: \" \" has a character outside the byte alphabet"},
        {"\"c\":2", "\"c\":2,\"\\ud800\":7", "invalid JSON"},
        {"\"c\":2", "\"c\":2,\"\\u0000\":7", "invalid JSON"},
        {"\"c\":2", "\"c\":2,\"\xff\":7", "invalid JSON"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

// In a vocabulary, where a token of 65,536 bytes is the longest, and where no key is looked for.
Test(tokenizer_json, a_key_of_16_megabytes_is_a_long_token_or_none) {
    static const struct {
        const char *before;
        size_t length;
        const char *cause; // NULL: accepted
    } rows[] = {
        {"\"c\":2,\"", 65536, NULL},
        {"\"c\":2,\"", 65537, "token 5: 65537 bytes long (at most 65536)"},
        {"\"c\":2,\"", 16 << 20, "token 5: 16777216 bytes long (at most 65536)"},
    };
    char *key = malloc((16 << 20) + 32);
    char *base = replaced(BYTE_LEVEL, ADDED, "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t before = (size_t)sprintf(key, "%s", rows[i].before);
        memset(key + before, 'b', rows[i].length);
        strcpy(key + before + rows[i].length, "\":5");
        check_changes(base, &(Change){"\"c\":2", key, rows[i].cause}, 1);
    }
    memset(key + 1, 'b', 16 << 20);
    strcpy(key + 1 + (16 << 20), "\":7,\"model\":");
    check_changes(base, &(Change){"\"model\":", key, "unknown key \"bbb"}, 1);
    free(base);
    free(key);
}

Test(tokenizer_json, refuses_broken_added_tokens) {
    static const Change rows[] = {
        {"\"id\":6", "\"id\": 6", NULL},
        {"\"id\":6", "\"id\":7", "7 is outside 0 .. 6"},
        {"\"id\":6", "\"id\":5", "id 5: both"},
        {"\"id\":6", "\"id\":true", "got true"},
        {"\"id\":6,", "", "id of \"<think>\": wanted an integer, got nothing"},
        {"\"<think>\"", "\"<|x|>\"", "have the same text \"<|x|>\""},
        {"\"<think>\"", "\"\"", "added token 6: its text is empty"},
        {"\"<think>\"", "1", "\"content\": wanted a string"},
        {"\"content\":\"<think>\",", "", "an added token without \"content\""},
        {"\"special\":true", "\"special\":1", "\"special\": wanted true or false"},
        {"{\"id\":6,\"content\":\"<think>\",\"special\":false}", "7",
         "an added token without \"content\""},
        {"{\"id\":6,\"content\":\"<think>\",\"special\":false}",
         "{\"id\":4,\"content\":\"abc\",\"special\":false}", NULL},
        {"{\"id\":6,\"content\":\"<think>\",\"special\":false}",
         "{\"id\":3,\"content\":\"abc\",\"special\":false}", "has id 4 in the vocabulary"},
        {"\"added_tokens\":[", "\"added_tokens\":{},\"padding\":[",
         "\"added_tokens\": wanted an array"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

Test(tokenizer_json, refuses_broken_merges) {
    static const Change rows[] = {
        {"\"a b\"", "[\"a\",\"b\"]", NULL},
        {"\"a b\"", "\"ab\"", "merge 0: \"ab\""},
        {"\"a b\"", "\"a b c\"", "merge 0: \"a\" + \"b c\": the right side is no token"},
        {"\"a b\"", "\"a z\"", "merge 0: \"a\" + \"z\": the right side is no token"},
        {"\"a b\"", "\"b a\"", "merge 0: \"b\" + \"a\": the merged text is no token"},
        {"\"a b\"", "[\"a\",\"b\",\"c\"]", "merge 0: wanted a string or two strings"},
        {"\"a b\"", "[\"a\"]", "merge 0: wanted a string or two strings"},
        {"\"a b\"", "[1,\"b\"]", "merge 0: wanted a string or two strings"},
        {"\"a b\"", "[\"a\",1]", "merge 0: wanted a string or two strings"},
        {"\"a b\"", "7", "merge 0: wanted a string or two strings, got an integer"},
        {"\"a b\",", "\"a b\",\"a b\",",
         "merge 1: \"a\" + \"b\": an earlier merge has the same pair"},
        {"\"a b\"", "\"\"", "merge 0"},
        {"\"a b\",[\"ab\",\"c\"]", "", NULL},
        {"\"merges\":[\"a b\",[\"ab\",\"c\"]]", "\"merges\":\"a b\"", "\"merges\", an array"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

Test(tokenizer_json, refuses_what_it_would_have_to_leave_out) {
    static const char DEEP[] = "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                               "\"Sequence\",\"normalizers\":[]}]}";
    static const Change rows[] = {
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", NULL},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}",
         "normalizer: type \"NFKC\" is not supported"},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "\"Lowercase\""},
        {"\"normalizer\":null", "\"normalizer\":{}", "normalizer: a step without a \"type\""},
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Sequence\"}", "without its list"},
        {"\"normalizer\":null", DEEP, "normalizer: type \"Sequence\""},
        {"\"normalizer\":null", "\"normalizer\":7", "normalizer: a step without"},
        {"\"use_regex\":true", "\"use_regex\":1", "\"use_regex\": wanted true or false"},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":true", "\"add_prefix_space\""},
        {"\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true",
         "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}"
         ",{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]",
         NULL},
        {"\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true",
         "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"(a+)+$\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":false}]",
         "pre_tokenizer: pattern \"(a+)+$\" is not supported"},
        {"\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true",
         "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"\\\\p{N}\"},\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":false}]",
         "Split behavior \"Removed\""},
        {"\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true",
         "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
         "false},{\"type\":\"Digits\"}]",
         "ByteLevel is not the last step"},
        {"\"type\":\"ByteLevel\",\"add_prefix_space\":false", "\"type\":\"BertPreTokenizer\"",
         "pre_tokenizer: type \"BertPreTokenizer\""},
        {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"WordPiece\"}",
         "decoder: type \"WordPiece\""},
        {"\"post_processor\":{\"type\":\"ByteLevel\"}",
         "\"post_processor\":{\"type\":\"BertProcessing\"}",
         "post_processor: type \"BertProcessing\""},
        {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model: type \"Unigram\""},
        {"\"dropout\":null", "\"dropout\":0.1", "dropout"},
        {"\"end_of_word_suffix\":\"\"", "\"end_of_word_suffix\":\"</w>\"", "end_of_word_suffix"},
        {"\"model\":{", "\"mode\":{", "neither a tokenizer.json (no \"model\") nor"},
        {"\"vocab\":{", "\"vocab\":[],\"v\":{", "wanted \"vocab\", an object"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

// The library tokenizers numbers added tokens that are not in "vocab" in the order of the list,
// from the size of "vocab" on, whatever their "id" says.
Test(tokenizer_json, refuses_ids_of_added_tokens_that_others_would_number_otherwise) {
    static const Change rows[] = {
        {"\"id\":5", "\"id\":6", "id of \"<|x|>\": 6, wanted 5"},
        {"\"c\":2,\"ab\":3", "\"c\":2,\"d\":7,\"ab\":3", "id of \"<|x|>\": 5, wanted 6"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

Test(tokenizer_json, an_option_of_another_type_is_named) {
    static const Change rows[] = {
        {"\"type\":\"BPE\"", "\"type\":1", "model: \"type\": wanted a string"},
        {"\"dropout\":null", "\"dropout\":\"0\"", "model: \"dropout\": wanted a number"},
        {"\"unk_token\":null", "\"unk_token\":1", "model: \"unk_token\": wanted a string"},
        {"\"continuing_subword_prefix\":\"\"", "\"continuing_subword_prefix\":1",
         "model: \"continuing_subword_prefix\": wanted a string"},
        {"\"continuing_subword_prefix\":\"\"", "\"continuing_subword_prefix\":\"##\"",
         "continuing_subword_prefix"},
        {"\"end_of_word_suffix\":\"\"", "\"end_of_word_suffix\":1",
         "model: \"end_of_word_suffix\": wanted a string"},
        {"\"fuse_unk\":false", "\"fuse_unk\":1", "model: \"fuse_unk\": wanted true or false"},
        {"\"byte_fallback\":false", "\"byte_fallback\":1",
         "model: \"byte_fallback\": wanted true or false"},
        {"\"ignore_merges\":false", "\"ignore_merges\":1",
         "model: \"ignore_merges\": wanted true or false"},
        {"\"lstrip\":false", "\"lstrip\":1", "\"lstrip\": wanted true or false"},
        {"\"rstrip\":false", "\"rstrip\":1", "\"rstrip\": wanted true or false"},
        {"\"single_word\":false", "\"single_word\":1", "\"single_word\": wanted true or false"},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":1",
         "pre_tokenizer: \"add_prefix_space\": wanted true or false"},
        {"\"add_prefix_space\":false,", "", "add_prefix_space"}, // the library's default
        {",\"use_regex\":true", "", NULL},
        {"\"use_regex\":true", "\"use_regex\":false", NULL},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

// What the library does not know it refuses: a misspelt "added_tokens" is no list that is absent.
Test(tokenizer_json, refuses_keys_and_versions_that_nobody_knows) {
    static const Change rows[] = {
        {"\"added_tokens\":[", "\"aded_tokens\":[", "unknown key \"aded_tokens\""},
        {"\"truncation\":null", "\"padding\":null", NULL},
        {"\"truncation\":null", "\"\":null", "unknown key \"\""},
        {"\"1.0\"", "\"2.0\"", "version \"2.0\" is not supported"},
        {"\"1.0\"", "1.0", "\"version\": wanted a string"},
        {"\"version\":\"1.0\",", "", NULL},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

// A character that is no token becomes unk_token there; here there would be nothing in its place.
Test(tokenizer_json, refuses_an_unknown_token_where_a_byte_is_missing) {
    static const Change rows[] = {
        {"\"unk_token\":null", "\"unk_token\":\"a\"",
         "unk_token \"a\", and no token for byte 0x00"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
    static const Change fallback[] = {
        {"\"unk_token\":\"<unk>\",", "", NULL},
        {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"<no>\"", "unk_token \"<no>\" is no token"},
    };
    CHECK_CHANGES(FALLBACK, fallback);
}

Test(tokenizer_json, takes_an_unknown_token_beside_all_256_bytes) {
    for (int count = 255; count <= 256; count++) {
        char text[6000], *at = text;
        at += sprintf(at, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                          "\"model\":{\"unk_token\":\"a\",\"merges\":[],\"vocab\":{");
        for (int byte = 0; byte < count; byte++) {
            char letter[ALPHABET_MAX + 1] = "";
            alphabet_letter(letter, (uint8_t)byte);
            bool quoted = byte == '"' || byte == '\\';
            at += sprintf(at, "%s\"%s%s\":%d", byte ? "," : "", quoted ? "\\" : "", letter, byte);
        }
        strcpy(at, "}}}");
        Error error = {0};
        Tokenizer *t = test_open_tokenizer_text("bytes.json", text, strlen(text), &error);
        CHECK(!t == (count == 255), "%s", error.message);
        CHECK(t || strstr(error.message, "unk_token \"a\", and no token for byte 0xff"), "%s",
              error.message);
        tokenizer_close(t);
    }
}

// Tokens with "normalized" are looked for in the text behind the normalizer, theirs changed too.
Test(tokenizer_json, refuses_added_tokens_that_the_normalizer_changes) {
    static const Change nfc[] = {
        {"\"content\":\"<think>\"", "\"content\":\"<think>\",\"normalized\":true", NULL},
        {"\"content\":\"<think>\"", "\"content\":\"\xc3\xa9\",\"normalized\":true",
         "added token 6: \"normalized\" with this normalizer"},
        {"\"content\":\"<think>\"", "\"content\":\"\xc3\xa9\",\"normalized\":false", NULL},
    };
    char *with_nfc =
        replaced(BYTE_LEVEL, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}");
    check_changes(with_nfc, nfc, sizeof nfc / sizeof *nfc);
    free(with_nfc);
    static const Change prefixed[] = {
        {"\"<s>\",\"special\":true", "\"<s>\",\"normalized\":true,\"special\":true", NULL},
        {"\"<s>\",\"special\":true", "\"<s>\",\"normalized\":true,\"special\":false",
         "added token 1: \"normalized\" with this normalizer"},
    };
    CHECK_CHANGES(FALLBACK, prefixed);
    static const Change spaces[] = {
        {"\"content\":\"<s>\"", "\"normalized\":true,\"content\":\"<s>\"", NULL},
        {"{\"id\":1,\"content\":\"<s>\"",
         "{\"id\":8,\"normalized\":true,\"content\":\"" SPACE "a\"",
         "added token 8: \"normalized\" with this normalizer"},
    };
    static const Change inside[] = {
        {"{\"id\":1,\"content\":\"<s>\"", "{\"id\":8,\"normalized\":true,\"content\":\"a b\"",
         "added token 8: \"normalized\" with this normalizer"},
    };
    char *without = replaced(FALLBACK, "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},", "");
    check_changes(without, spaces, sizeof spaces / sizeof *spaces);
    check_changes(without, inside, sizeof inside / sizeof *inside);
    char *metaspace = replaced(FALLBACK, "\"normalizer\":{", "\"normalizer\":null,\"padding\":{");
    static const Change behind[] = {
        {"{\"id\":1,\"content\":\"<s>\"",
         "{\"id\":8,\"normalized\":true,\"content\":\"" SPACE "a\"", NULL},
    };
    char *plain = replaced(metaspace, "\"pre_tokenizer\":null",
                           "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
                           "\",\"prepend_scheme\":\"first\",\"split\":false}");
    check_changes(plain, behind, sizeof behind / sizeof *behind);
    free(metaspace);
    free(plain);
    free(without);
}

// Each of them puts U+2581 in front by a rule of its own; of two, only one was followed.
Test(tokenizer_json, refuses_prefixes_that_no_tokenizer_has) {
    static const char REPLACE[] =
        ",{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}";
    static const Change rows[] = {
        {REPLACE, "", "normalizer: Prepend without a Replace of spaces"},
        {"\"normalizers\":[", "\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},",
         "normalizer: Prepend twice"},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
         "\",\"prepend_scheme\":\"always\",\"split\":false}",
         "pre_tokenizer: Metaspace after Prepend"},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
         "\",\"prepend_scheme\":\"never\",\"split\":false}",
         NULL},
    };
    CHECK_CHANGES(FALLBACK, rows);
}

#define DIGITS "{\"type\":\"Digits\"},"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]"
#define STEPS "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true"
#define SEQUENCE "\"type\":\"Sequence\",\"pretokenizers\":["

Test(tokenizer_json, takes_four_patterns_and_the_bytes_last) {
    static const Change rows[] = {
        {STEPS, SEQUENCE DIGITS DIGITS DIGITS DIGITS BYTES, NULL},
        {STEPS, SEQUENCE DIGITS DIGITS DIGITS DIGITS DIGITS BYTES, "more than 4 patterns"},
        {STEPS,
         SEQUENCE "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},"
                  "\"behavior\":\"Isolated\"}," BYTES,
         NULL},
        {STEPS,
         SEQUENCE "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},"
                  "\"behavior\":\"Isolated\",\"invert\":true}," BYTES,
         "Split option \"invert\""},
        {STEPS,
         SEQUENCE "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
                  "\"behavior\":\"Isolated\"}," BYTES,
         "pattern \"\" is not supported"},
        {STEPS,
         SEQUENCE DIGITS DIGITS DIGITS DIGITS
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]",
         "more than 4 patterns"}, // the step has one of its own
        {"\"normalizer\":null", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}",
         "normalizer: Prepend without a Replace of spaces"},
        {"\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE
         "\"}",
         "ByteLevel after a step that replaces spaces"},
        {STEPS, "\"type\":\"Digits\"", "patterns or NFC without ByteLevel"},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
}

#define SPLIT(regex, behavior)                                                                     \
    SEQUENCE "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}," behavior "}," BYTES
#define GPT2_REGEX                                                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| "                                            \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"

// The matches alone are the text where they are all of it, and only there.
Test(tokenizer_json, keeps_the_matches_of_a_pattern_that_covers) {
    static const Change rows[] = {
        {STEPS, SPLIT(GPT2_REGEX, "\"behavior\":\"Isolated\",\"invert\":false"), NULL},
        {STEPS, SPLIT(GPT2_REGEX, "\"behavior\":\"Removed\",\"invert\":true"), NULL},
        {STEPS, SPLIT(GPT2_REGEX, "\"behavior\":\"Removed\",\"invert\":false"),
         "Split behavior \"Removed\""},
        {STEPS, SPLIT(GPT2_REGEX, "\"behavior\":\"MergedWithNext\",\"invert\":true"),
         "Split option \"invert\""},
        {STEPS, SPLIT("\\\\p{N}", "\"behavior\":\"Removed\",\"invert\":true"),
         "Split option \"invert\""},
        {STEPS, SPLIT("(a+)+$", "\"behavior\":\"Removed\",\"invert\":true"),
         "Split option \"invert\""},
    };
    CHECK_CHANGES(BYTE_LEVEL, rows);
    char *text = replaced(BYTE_LEVEL, STEPS, rows[1].to);
    Tokenizer *t = open_good(text);
    CHECK_STRING(tokenizer_description(t), "byte-level BPE, pattern gpt2");
    test_check_ids(t, "abcab", false, IDS(4, 3));
    test_check_ids(t, "ab1c", false, IDS(3, 2));
    tokenizer_close(t);
    free(text);
}

#define META_STEP "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\""
#define PLAIN_SPACES                                                                               \
    "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},"                                            \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}"

Test(tokenizer_json, steps_around_spaces_are_the_known_ones) {
    static const Change rows[] = {
        {"\"prepend\":\"" SPACE "\"", "\"prepend\":\"x\"", "Prepend \"x\""},
        {"{\"String\":\" \"},\"content\":\"" SPACE "\"", "{\"String\":\" \"},\"content\":\"x\"",
         "Replace with content \"x\""},
        {"{\"String\":\" \"}", "{\"String\":\"y\"}", "Replace with content"},
        {"\"pre_tokenizer\":null", META_STEP ",\"split\":false}", "Metaspace after Prepend"},
        {"\"pre_tokenizer\":null", META_STEP ",\"split\":false,\"prepend_scheme\":\"first\"}",
         "Metaspace after Prepend"},
        {"\"pre_tokenizer\":null", META_STEP ",\"split\":false,\"prepend_scheme\":\"never\"}",
         NULL},
        {"\"pre_tokenizer\":null", META_STEP ",\"split\":false,\"prepend_scheme\":\"odd\"}",
         "prepend_scheme \"odd\""},
        {"\"pre_tokenizer\":null", META_STEP "}", "Metaspace option \"split\""},
        {"\"pre_tokenizer\":null", META_STEP ",\"split\":1}", "\"split\": wanted true or false"},
        {"\"pre_tokenizer\":null", META_STEP ",\"add_prefix_space\":1}",
         "\"add_prefix_space\": wanted true or false"},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":false}",
         "Metaspace replacement \"_\""},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}}", NULL},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
         "ByteLevel after a step that replaces spaces"},
        {"\"content\":\" \"},{\"type\":\"ByteFallback\"}",
         "\"content\":\"x\"},{\"type\":\"ByteFallback\"}", "Replace with content \"x\""},
        {"\"content\":\" \",\"start\":1", "\"content\":\"x\",\"start\":1", "Strip of \"x\""},
        {"{\"String\":\"" SPACE "\"}", "{\"String\":\"x\"}", "Replace with content \" \""},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE "\"},\"content\":\" \"}",
         "{\"type\":\"Metaspace\"}", NULL},
        {"{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}", "{\"type\":\"NFC\"}",
         "patterns or NFC without ByteLevel"},
        {"\"unk_token\":\"<unk>\"", "\"unk_token\":null", NULL},
        {"\"start\":1", "\"start\":0", "Strip of \" \""},
        {"\"start\":1", "\"start\":2", "Strip of \" \""},
        {"\"stop\":0", "\"stop\":1", "Strip of \" \""},
        {"\"SpecialToken\":{\"id\":\"<s>\"", "\"SpecialToken\":{\"it\":\"<s>\"", NULL},
        {"\"byte_fallback\":true", "\"byte_fallback\":true,\"ignore_merges\":true",
         "ignore_merges"},
        {"\"byte_fallback\":true", "\"byte_fallback\":false", "byte_fallback"},
    };
    CHECK_CHANGES(FALLBACK, rows);
}

// How a text begins, and whether its first space is dropped again, by the scheme.
Test(tokenizer_json, metaspace_sets_a_space_in_front_by_its_scheme) {
    static const struct {
        const char *scheme;
        int first;
    } CASES[] = {
        {",\"prepend_scheme\":\"always\"", 8}, {",\"prepend_scheme\":\"first\"", 8},
        {",\"prepend_scheme\":\"never\"", 3},  {",\"add_prefix_space\":true", 8},
        {",\"add_prefix_space\":false", 3},    {"", 8},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char step[200];
        snprintf(step, sizeof step, META_STEP ",\"split\":false%s}", CASES[i].scheme);
        char *without = replaced(FALLBACK, PLAIN_SPACES, "");
        char *text = replaced(without, "\"pre_tokenizer\":null", step);
        Tokenizer *t = open_good(text);
        test_check_ids(t, "a", false, IDS(CASES[i].first));
        tokenizer_close(t);
        free(text);
        free(without);
    }
}

Test(tokenizer_json, refuses_text_that_is_no_json) {
    static const struct {
        const char *text;
        size_t size;
        const char *cause;
    } rows[] = {
        {"", 0, "empty"},
        {"{", 1, "invalid JSON"},
        {"{\"a\":1,}", 8, "invalid JSON"},
        {"{\"a\" 1}", 7, "invalid JSON"},
        {"{\"model\":{}}\0", 13, "invalid JSON"},
        {"{\"model\":{}} x", 14, "invalid JSON"},
        {"\xef\xbb\xbf{}", 5, "behind a byte order mark"},
        {"{\0\"\0", 4, "text in UTF-16"},
        {"[1]", 3, "unknown tokenizer format"},
        {"{\"a\":01}", 8, "invalid JSON"},
        {"{\"a\":+1}", 8, "invalid JSON"},
        {"{\"a\":NaN}", 9, "invalid JSON"},
        {"{'a':1}", 7, "invalid JSON"},
        {"{} // no", 8, "invalid JSON"},
        {"{}", 2, "neither a tokenizer.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error error = {0};
        Tokenizer *t = test_open_tokenizer_text("bad.json", rows[i].text, rows[i].size, &error);
        CHECK(!t && error.code == ERROR_FILE, "row %zu: exit code %d", i, error.code);
        CHECK(strstr(error.message, rows[i].cause), "row %zu: \"%s\", wanted \"%s\"", i,
              error.message, rows[i].cause);
    }
}

Test(tokenizer_json, refuses_deep_nesting_in_a_flat_stack) {
    enum { DEPTH = 100000 };
    static const char step[] = "{\"type\":\"Sequence\",\"normalizers\":[";
    char *text = malloc((sizeof step) * DEPTH + 64);
    size_t n = (size_t)sprintf(text, "{\"normalizer\":");
    for (int i = 0; i < DEPTH; i++) {
        memcpy(text + n, step, sizeof step - 1);
        n += sizeof step - 1;
    }
    Error error = {0};
    CHECK(!test_open_tokenizer_text("deep.json", text, n, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "nested deeper than 64"), "%s",
          error.message);
    free(text);
}

Test(tokenizer_json, is_refused_at_every_cut) {
    check_cuts("cut.json", BYTE_LEVEL, strlen(BYTE_LEVEL));
    check_cuts("cut.json", FALLBACK, strlen(FALLBACK));
}

static bool takes_and_encodes(const void *bytes, size_t size, Error *error) {
    TextSpan none = {NULL, 0}, json = {bytes, size};
    Tokenizer *t = tokenizer_new(error);
    bool good = tokenizer_json_open(t, json, none, NULL, error);
    if (good) test_pieces(t, "abcab <x>", true);
    tokenizer_close(t);
    return good;
}

Test(tokenizer_json, any_byte_changed_is_a_vocabulary_or_an_error) {
    // What means something to JSON, and some bytes that do not.
    static const char VALUES[] = "\0\1\x1b \"\\{}[],:-019aeu\x7f\x80\xc3\xff";
    static const char *const TEXTS[] = {BYTE_LEVEL, FALLBACK};
    for (int i = 0; i < 2; i++) {
        char *text = strdup(TEXTS[i]);
        size_t size = strlen(text);
        check_changed_bytes(takes_and_encodes, text, size, size, VALUES, sizeof VALUES - 1);
        free(text);
    }
}

// Many small values take the most memory per byte of text.
Test(tokenizer_json, memory_stays_within_eight_times_the_file) {
    if (TEST_SANITIZED) SKIP("sanitizers keep more memory than the program");
    static const char *const values[] = {"{},", "[],", "\"\",", "\"a\",", "1,", "[[]],"};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        size_t size = 4 << 20, unit = strlen(values[v]);
        char *text = malloc(size + 64);
        size_t n = (size_t)sprintf(text, "{\"x\":[");
        while (n + unit < size) {
            memcpy(text + n, values[v], unit);
            n += unit;
        }
        n += (size_t)sprintf(text + n, "0]}");
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        Error error = {0};
        CHECK(!test_open_tokenizer_text("many.json", text, n, &error));
        getrusage(RUSAGE_SELF, &after);
        long bound = 32 * 1024 + 8 * (long)(size / 1024), used = after.ru_maxrss - before.ru_maxrss;
        CHECK(used < bound, "%s: %ld KiB, bound %ld", values[v], used, bound);
        free(text);
    }
}

// 131,072 values and one more for 16 bytes of text.
Test(tokenizer_json, has_so_many_values_for_its_bytes) {
    static const struct {
        size_t count;
        const char *cause;
    } rows[] = {{140000, "unknown key \"x\""}, {160000, "JSON with more than 151073 values"}};
    for (size_t i = 0; i < 2; i++) {
        char *text = malloc(2 * rows[i].count + 20), *at = text;
        at += sprintf(at, "{\"x\":[0");
        for (size_t n = 1; n < rows[i].count; n++)
            at += sprintf(at, ",0");
        sprintf(at, "],\"model\":{}}");
        Error error = {0};
        CHECK(!test_open_tokenizer_text("values.json", text, strlen(text), &error));
        CHECK(strstr(error.message, rows[i].cause), "%zu: %s", rows[i].count, error.message);
        free(text);
    }
}

// Where no post_processor names it, BOS is the first of the usual names that is a control token.
Test(tokenizer_json, finds_bos_and_eos_by_their_names) {
    static const struct {
        const char *first, *second; // tokens 0 and 5
        bool special;               // token 0
        int bos, stop;              // -1: none
        bool adds;
    } CASES[] = {
        {"<s>", "<|x|>", true, 0, -1, false},
        {"<s>", "<|x|>", false, -1, -1, false},
        {"<s>", "<bos>", false, 5, -1, false},
        {"<bos>", "<s>", true, 5, -1, false},
        {"<|bos|>", "<eos>", true, 0, 5, false},
        {"<eos>", "<bos>", true, 5, 0, false},
        {"<eos>", "<bos>", false, 5, -1, false},
        {"<s>", "<|begin_of_text|>", true, 5, -1, true},
        {"<|begin_of_text|>", "<s>", true, 0, -1, true},
        {"x", "y", true, -1, -1, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[700];
        snprintf(text, sizeof text,
                 "{\"added_tokens\":[{\"id\":0,\"content\":\"%s\",\"special\":%s},"
                 "{\"id\":5,\"content\":\"%s\",\"special\":true}],"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                 "\"model\":{\"vocab\":{\"%s\":0,\"b\":1,\"c\":2,\"bc\":3,\"cb\":4},"
                 "\"merges\":[\"b c\",\"c b\"]}}",
                 CASES[i].first, CASES[i].special ? "true" : "false", CASES[i].second,
                 CASES[i].first);
        Tokenizer *t = open_good(text);
        int32_t stop = -1;
        CHECK(tokenizer_bos(t) == CASES[i].bos, "%zu: BOS %d", i, tokenizer_bos(t));
        CHECK(tokenizer_adds_bos(t) == CASES[i].adds, "%zu", i);
        CHECK_INT(tokenizer_stops(t, &stop, 1), CASES[i].stop >= 0);
        CHECK_INT(stop, CASES[i].stop);
        tokenizer_close(t);
    }
}

// ---- tokenizer.json with byte fallback ----

Test(tokenizer_json, reads_a_byte_fallback_file) {
    Tokenizer *t = open_good(FALLBACK);
    size_t length;
    CHECK_INT(tokenizer_bos(t), 1);
    CHECK(tokenizer_adds_bos(t));
    test_check_ids(t, "ab", false, IDS(9)); // _ a b: a b first, then _ ab
    test_check_ids(t, "ab ab", false, IDS(9, 9));
    test_check_ids(t, " a", false, IDS(2, 8)); // __a: _ a has the lower rank
    test_check_ids(t, "  b", false, IDS(10, 2, 4));
    test_check_ids(t, "\xc3\xa9", false, IDS(2, 5, 6));
    test_check_ids(t, "b\xc3", false, IDS(2, 4, 5));   // an incomplete character becomes bytes
    test_check_ids(t, "bzzb", false, IDS(2, 4, 0, 4)); // z has no byte token: unknown, fused
    test_check_ids(t, "<s>b", false, IDS(2, 0, 4));    // < s > are unknown
    test_check_ids(t, "<s>b", true, IDS(1, 2, 4));
    CHECK(!memcmp(tokenizer_piece(t, 9, false, false, &length), " ab", 3) && length == 3);
    CHECK(!memcmp(tokenizer_piece(t, 9, true, false, &length), "ab", 2) && length == 2);
    CHECK(!memcmp(tokenizer_piece(t, 5, false, false, &length), "\xc3", 1) && length == 1);
    tokenizer_close(t);
}

Test(tokenizer_json, a_long_text_takes_n_log_n_steps_with_byte_fallback) {
    Tokenizer *t = open_good(FALLBACK);
    test_long_texts(t);
    CHECK(tokenizer_steps(t) > 1000);
    tokenizer_close(t);
}

Test(tokenizer_json, knows_the_ways_to_prefix_a_space) {
    static const char METASPACE[] =
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
        "\",\"prepend_scheme\":\"first\",\"split\":false}";
    char *plain = replaced(FALLBACK, "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},", "");
    Tokenizer *t = open_good(plain);
    test_check_ids(t, "ab ab", false, IDS(7, 9)); // Gemma: no prefix
    tokenizer_close(t);
    char *first = replaced(plain, "\"pre_tokenizer\":null", METASPACE);
    t = open_good(first);
    test_check_ids(t, "ab", false, IDS(9));
    test_check_ids(t, " ab", false, IDS(9)); // begins with a space already
    test_check_ids(t, "<s>ab", true, IDS(1, 7));
    tokenizer_close(t);
    char *always = replaced(first, "\"first\"", "\"always\"");
    t = open_good(always);
    test_check_ids(t, "<s>ab", true, IDS(1, 9));
    tokenizer_close(t);
    free(plain);
    free(first);
    free(always);
}

Test(tokenizer_json, refuses_other_ways_with_spaces) {
    static const Change rows[] = {
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":"
         "\"MergedWithPrevious\",\"invert\":false}",
         NULL},
        {"\"String\":\" \"", "\"String\":\"x\"", "normalizer: Replace with content"},
        {"\"prepend\":\"" SPACE "\"", "\"prepend\":\"x\"", "normalizer: Prepend \"x\""},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\"}",
         "Metaspace option \"split\""},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"split\":false}",
         "Metaspace replacement \"_\""},
        {"\"pre_tokenizer\":null",
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
         "ByteLevel after a step that replaces spaces"},
        {"\"pre_tokenizer\":null", "\"pre_tokenizer\":{\"type\":\"Digits\"}",
         "patterns or NFC without ByteLevel"},
        {"\"start\":1", "\"start\":2", "decoder: Strip of"},
        {"\"byte_fallback\":true", "\"byte_fallback\":false",
         "neither ByteLevel nor byte_fallback"},
    };
    CHECK_CHANGES(FALLBACK, rows);
}

Test(tokenizer_json, a_pattern_can_be_asked_for) {
    Error error = {0};
    const char *path = test_temporary("asked.json");
    test_write_file(path, BYTE_LEVEL, strlen(BYTE_LEVEL));
    TokenizerSource source = {.path = path, .pretokenizer = "qwen2"};
    Tokenizer *t = tokenizer_open(&source, &error);
    CHECK(t, "%s", error.message);
    CHECK_STRING(tokenizer_description(t), "byte-level BPE, pattern qwen2");
    tokenizer_close(t);
    source.pretokenizer = "nosuch";
    CHECK(!tokenizer_open(&source, &error));
    CHECK_INT(error.code, ERROR_USAGE);
}

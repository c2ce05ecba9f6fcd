// The pre-tokenizer patterns, word by word. Expected words were worked by hand from the published
// patterns; for U+017F, U+180E and U+0085 they are the reference engine's.
#include "base/sandbox.h"
#include "base/text.h"
#include "tests/test.h"
#include "tokenizer/split/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Words {
    char text[4096]; // each in [brackets]
    size_t length, count;
} Words;

static bool take(void *context, const char *word, size_t length, Error *error) {
    Words *words = context;
    (void)error;
    CHECK(length > 0 && words->length + length + 3 < sizeof words->text);
    words->text[words->length++] = '[';
    memcpy(words->text + words->length, word, length);
    words->length += length;
    words->text[words->length++] = ']';
    words->text[words->length] = '\0';
    words->count++;
    return true;
}

static Pretokenizer *open_named(const char *name) {
    Error error = {0};
    SplitRule rule;
    if (!split_rule_find(&rule, NULL, name, &error)) TEST_FAIL("%s", error.message);
    Pretokenizer *p = pretokenizer_open(&rule, &error);
    if (!p) TEST_FAIL("%s", error.message);
    return p;
}

static void check_split_bytes(const char *name, const char *text, size_t length,
                              const char *wanted) {
    Error error = {0};
    Words words = {0};
    Pretokenizer *p = open_named(name);
    if (!pretokenizer_split(p, text, length, take, &words, &error)) TEST_FAIL("%s", error.message);
    if (strcmp(words.text, wanted))
        TEST_FAIL("%s of \"%s\": got %s, wanted %s", name, text, words.text, wanted);
    pretokenizer_close(p);
}

static void check_split(const char *name, const char *text, const char *wanted) {
    check_split_bytes(name, text, strlen(text), wanted);
}

Test(pretokenize, gpt2_keeps_a_space_with_the_word) {
    check_split("gpt2", "Hello  world, it's 1234", "[Hello][ ][ world][,][ it]['s][ 1234]");
    check_split("gpt2", "a \n b", "[a][ \n][ b]");
    check_split("gpt2", "DON'T don't", "[DON]['][T][ don]['t]");
    check_split("gpt2", "  ", "[  ]");
    check_split("gpt2", "x''s", "[x][''][s]");
}

Test(pretokenize, smollm_isolates_digits_of_every_kind) {
    check_split("smollm", "a 12\xc2\xbd", "[a][ ][1][2][\xc2\xbd]");
    check_split("smollm", "\xe2\x85\xa7 x", "[\xe2\x85\xa7][ x]"); // Roman eight
}

Test(pretokenize, llama3_takes_three_digits_and_any_case) {
    check_split("llama3", "1234567", "[123][456][7]");
    check_split("llama3", "I'LL go", "[I]['LL][ go]");
    check_split("llama3", "x'\xc5\xbfta", "[x]['\xc5\xbf][ta]"); // long s folds to s
    check_split("llama3", "a.b", "[a][.b]");
    check_split("llama3", "hi!\n\n x", "[hi][!\n\n][ x]");
    check_split("llama3", "a \n\n  b", "[a][ \n\n][ ][ b]");
}

Test(pretokenize, qwen2_takes_one_digit_and_composes) {
    check_split("qwen2", "12a", "[1][2][a]");
    check_split("qwen2", "e\xcc\x81!", "[\xc3\xa9][!]");
}

Test(pretokenize, default_is_four_passes) {
    check_split("default", "a+=12345 b", "[a][+=][123][45][ b]");
    check_split("default", "it's", "[it]['][s]"); // the first pass isolates the apostrophe
}

Test(pretokenize, nanochat_takes_two_digits) {
    check_split("nanochat", "123 I'm", "[12][3][ I]['m]");
}

Test(pretokenize, tekken_splits_at_a_change_of_case) {
    check_split("tekken", "fooBarBAZ x/y/", "[foo][Bar][BAZ][ x][/y][/]");
}

// As PyPI's tokenizers 0.23 splits with the published patterns (Phi-4-mini; Hunyuan dense).
Test(pretokenize, gpt_4o_keeps_a_suffix_with_its_word) {
    check_split("gpt-4o", "I'LL don't 12345", "[I'LL][ don't][ ][123][45]");
    check_split("gpt-4o", "fooBarBAZ x/y/", "[foo][Bar][BAZ][ x][/y][/]");
    check_split("gpt-4o", "a \n\n  b!\n", "[a][ \n\n][ ][ b][!\n]");
    check_split("gpt-4o",
                "\xc3\xa9t\xc3\xa9's \xe6\x97\xa5\xe6\x9c\xac \xc3\x89"
                "COLE",
                "[\xc3\xa9t\xc3\xa9's][ \xe6\x97\xa5\xe6\x9c\xac][ \xc3\x89"
                "COLE]");
}

Test(pretokenize, hunyuan_isolates_digits_and_chinese_first) {
    check_split("hunyuan-dense", "12345 .word  a=b", "[123][45][ .][word][ ][ a][=b]");
    check_split("hunyuan-dense",
                "\xe6\x88\x91\xe6\x83\xb3\xe5\x9c\xa8"
                "apple\xe5\xb7\xa5"
                "1314\xe5\xa4\xa9\xef\xbd\x9e",
                "[\xe6\x88\x91\xe6\x83\xb3\xe5\x9c\xa8][apple][\xe5\xb7\xa5]"
                "[131][4][\xe5\xa4\xa9][\xef\xbd\x9e]");
    check_split("hunyuan-dense", "\xe3\x81\xb2\xe3\x82\x89\xe3\x82\xab\xe6\xbc\xa2 x",
                "[\xe3\x81\xb2\xe3\x82\x89\xe3\x82\xab\xe6\xbc\xa2][ x]");
    check_split("hunyuan-dense", "don't e\xcc\x81te!\r\n\n x",
                "[don]['t][ e\xcc\x81te][!\r\n\n][ x]");
    check_split("hunyuan-dense", "a  \n b  ", "[a][  \n][ b][  ]");
}

Test(pretokenize, gpt_neox_composes) {
    check_split("olmo", "e\xcc\x81 it's 12", "[\xc3\xa9][ it]['s][ 12]");
    check_split("exaone4", "e\xcc\x81 it's", "[e][\xcc\x81][ it]['s]");
}

Test(pretokenize, white_space_is_the_unicode_list) {
    // U+0085, U+00A0, U+3000 are spaces; U+180E, U+200B, U+001C are not.
    check_split("gpt2", "a\xc2\x85\xc2\xa0\xe3\x80\x80", "[a][\xc2\x85\xc2\xa0\xe3\x80\x80]");
    check_split("gpt2", "  \xe1\xa0\x8e", "[ ][ \xe1\xa0\x8e]");
    check_split("gpt2", "  \xe2\x80\x8b", "[ ][ \xe2\x80\x8b]");
    check_split("gpt2", "  \x1c", "[ ][ \x1c]");
}

Test(pretokenize, white_space_of_the_patterns_is_that_of_the_code) {
    Pretokenizer *p = open_named("gpt2");
    for (uint32_t c = 1; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        // Two of them before a letter: a space gives the last one back, another character does not.
        char text[16];
        Error error = {0};
        Words words = {0};
        size_t n = utf8_encode(text, c);
        memcpy(text + n, text, n);
        text[2 * n] = 'a';
        CHECK(pretokenizer_split(p, text, 2 * n + 1, take, &words, &error));
        // Letters and U+0020 join the "a"; other spaces are words, [c][c][a]; others [cc][a].
        if (c == ' ')
            CHECK_INT(words.count, 2);
        else
            CHECK((words.count == 3) == is_white_space(c), "U+%04X: %s", c, words.text);
    }
    pretokenizer_close(p);
}

Test(pretokenize, bytes_that_are_no_characters_are_words) {
    check_split("gpt2", "ab\xff\xfe cd", "[ab][\xff][\xfe][ cd]");
    check_split("llama3", "\xe4\xb8", "[\xe4][\xb8]");             // an incomplete character
    check_split("gpt2", "a  \xc0\x80", "[a][  ][\xc0][\x80]");     // overlong
    check_split("gpt2", "\xed\xa0\x80x", "[\xed][\xa0][\x80][x]"); // a surrogate
    check_split("qwen2",
                "e\xcc\x81\xff"
                "e\xcc\x81",
                "[\xc3\xa9][\xff][\xc3\xa9]");
}

Test(pretokenize, nul_is_a_byte_like_others) {
    Error error = {0};
    Words words = {0};
    Pretokenizer *p = open_named("gpt2");
    CHECK(pretokenizer_split(p, "a\0b", 3, take, &words, &error));
    CHECK_INT(words.count, 3);
    CHECK(!memcmp(words.text, "[a][\0][b]", 9));
    CHECK(pretokenizer_split(p, "", 0, take, &words, &error));
    CHECK_INT(words.count, 3);
    pretokenizer_close(p);
}

Test(pretokenize, names_of_gguf_files_are_known) {
    static const char *const pairs[][2] = {{"gpt-2", "gpt2"},
                                           {"phi-2", "gpt2"},
                                           {"olmo", "gpt2"},
                                           {"mpt", "gpt2"},
                                           {"jais", "gpt2"},
                                           {"smollm", "smollm"},
                                           {"starcoder", "smollm"},
                                           {"refact", "smollm"},
                                           {"command-r", "smollm"},
                                           {"codeshell", "smollm"},
                                           {"llama-bpe", "llama3"},
                                           {"llama3", "llama3"},
                                           {"llama-v3", "llama3"},
                                           {"falcon3", "llama3"},
                                           {"pixtral", "llama3"},
                                           {"lfm2", "llama3"},
                                           {"dbrx", "llama3"},
                                           {"smaug-bpe", "llama3"},
                                           {"qwen2", "qwen2"},
                                           {"deepseek-r1-qwen", "qwen2"},
                                           {"stablelm2", "qwen2"},
                                           {"default", "default"},
                                           {"exaone4", "gpt2"},
                                           {"granite-docling", "gpt2"},
                                           {"exaone", "smollm"},
                                           {"mellum", "gpt2"},
                                           {"a.x-4.0", "gpt2"},
                                           {"gigachat", "gpt2"},
                                           {"trillion", "gpt2"},
                                           {"jina-es", "gpt2"},
                                           {"jina-de", "gpt2"},
                                           {"minerva-7b", "smollm"},
                                           {"midm-2.0", "llama3"},
                                           {"falcon-h1", "llama3"},
                                           {"llama4", "gpt-4o"},
                                           {"gpt-4o", "gpt-4o"},
                                           {"hunyuan-dense", "hunyuan-dense"},
                                           {"deepseek-v3", "hunyuan-dense"},
                                           {"tekken", "tekken"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        SplitRule rule;
        CHECK(split_rule_find(&rule, NULL, pairs[i][0], NULL), "%s", pairs[i][0]);
        CHECK_STRING(split_rule_name(&rule), pairs[i][1]);
    }
    SplitRule llama3, dbrx;
    CHECK(split_rule_find(&llama3, NULL, "llama-bpe", NULL));
    CHECK(split_rule_find(&dbrx, NULL, "smaug-bpe", NULL));
    CHECK(llama3.ignore_merges && llama3.adds_bos && !dbrx.ignore_merges && !dbrx.adds_bos);
}

// A rule is written under a name that reads back the same rule.
Test(pretokenize, names_in_a_written_gguf_read_back_the_same) {
    static const char *const NAMES[] = {"gpt-2",  "olmo",     "smollm", "llama-bpe",
                                        "dbrx",   "qwen2",    "tekken", "hunyuan-dense",
                                        "gpt-4o", "nanochat", "default"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        SplitRule rule;
        CHECK(split_rule_find(&rule, NULL, NAMES[i], NULL));
        CHECK_STRING(split_rule_gguf_name(&rule, rule.ignore_merges), NAMES[i]);
    }
}

Test(pretokenize, an_unknown_name_lists_the_known_ones) {
    Error error = {0};
    SplitRule rule;
    CHECK(!split_rule_find(&rule, NULL, "qwen35\n", &error));
    CHECK_INT(error.code, ERROR_FILE);
    CHECK_STRING(error.message,
                 "tokenizer.ggml.pre: unknown pre-tokenizer \"qwen35\\x0a\" (known: gpt2, "
                 "olmo, smollm, llama3, dbrx, qwen2, tekken, gpt-4o, hunyuan-dense, nanochat, "
                 "default)");
    error = (Error){0};
    CHECK(!split_rule_find(&rule, "nosuch", "gpt2", &error));
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK(strstr(error.message, "--pretokenizer") && strstr(error.message, "nosuch"));
}

Test(pretokenize, published_patterns_are_found_and_others_are_not) {
    CHECK(split_pattern_find("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                             "\\s+(?!\\S)|\\s+") >= 0);
    CHECK(split_pattern_find(
              "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}"
              "\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|"
              "\\s+(?!\\S)|\\s+") >= 0);
    CHECK(
        split_pattern_find(
            "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
            "\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}"
            "\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}"
            "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+") >= 0);
    CHECK_INT(split_pattern_find("(a+)+$"), -1);
    CHECK_INT(split_pattern_find(""), -1);
}

// What a pattern matches of each character, alone: all of it, or the pattern does not cover.
static bool matches_every_character(const char *regex) {
    int code;
    PCRE2_SIZE offset;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    CHECK(compiled);
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    bool all = true;
    for (uint32_t c = 0; c < 0x110000 && all; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        char text[8];
        size_t n = utf8_encode(text, c);
        all = pcre2_match(compiled, (PCRE2_SPTR)text, n, 0, PCRE2_NO_UTF_CHECK, match, NULL) > 0 &&
              pcre2_get_ovector_pointer(match)[1] == n;
    }
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
    return all;
}

Test(pretokenize, patterns_that_cover_match_every_character) {
    static const char *const NAMES[] = {"gpt2",     "llama3", "qwen2",         "tekken",
                                        "nanochat", "gpt-4o", "hunyuan-dense", "default"};
    int covering = 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        SplitRule rule;
        CHECK(split_rule_find(&rule, NULL, NAMES[i], NULL));
        for (int p = 0; p < rule.n_passes; p++) {
            bool covers = split_pattern_covers(rule.passes[p]);
            CHECK(covers == matches_every_character(split_pattern_regex(rule.passes[p])), "%s %d",
                  NAMES[i], p);
            covering += covers;
        }
    }
    CHECK_INT(covering, 7); // GPT-2's also in "default"
    CHECK(!split_pattern_covers(-1));
}

// ---- normalisation form C ----

static void check_nfc(const char *text, const char *wanted) {
    char *out;
    size_t length;
    CHECK(nfc(&out, &length, text, strlen(text), NULL));
    CHECK(length == strlen(wanted) && !memcmp(out, wanted, length), "\"%s\" gave \"%.*s\"", text,
          (int)length, out);
    if (out != text) free(out);
}

Test(nfc, composes_orders_and_leaves_alone) {
    check_nfc("plain", "plain");
    check_nfc("e\xcc\x81", "\xc3\xa9");
    check_nfc("a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81");            // dot below before acute
    check_nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); // Hangul
    check_nfc("\xe2\x84\xab", "\xc3\x85");                             // the Angstrom sign
    check_nfc("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");             // excluded from composition
    check_nfc("\xe1\xbe\x82", "\xe1\xbe\x82");                         // four characters and back
    check_nfc("a\xcc\x81\xe0\xa3\x92", "\xc3\xa1\xe0\xa3\x92");     // U+08D2, class 220: Unicode 14
    check_nfc("a\xe0\xa3\x8c\xcc\xa3", "\xe1\xba\xa1\xe0\xa3\x8c"); // U+08CC 230, dot below 220
}

Test(nfc, a_long_row_of_marks_takes_no_quadratic_time) {
    enum { N = 200000 };
    char *text = malloc(4 * N), *out;
    for (int i = 0; i < N; i++)
        memcpy(text + 4 * i, "\xcc\x81\xcc\xa3", 4);
    size_t length;
    CHECK(nfc(&out, &length, text, 4 * N, NULL));
    CHECK_INT(length, 4 * N);
    CHECK(!memcmp(out, "\xcc\xa3\xcc\xa3", 4) && !memcmp(out + 4 * N - 4, "\xcc\x81\xcc\x81", 4));
    free(out);
    free(text);
}

// ---- time and stack ----

static bool count_bytes(void *context, const char *word, size_t length, Error *error) {
    (void)word, (void)error;
    *(size_t *)context += length;
    return true;
}

static void *split_long_runs(void *unused) {
    static const char *const units[] = {"a",   " ",    "\n", "1",  "\xe4\xb8\x96", "!",
                                        " \n", "\xff", "'",  "\t", "e\xcc\x81",    "A"};
    static const char *const names[] = {"gpt2",   "smollm",  "llama3", "qwen2",
                                        "tekken", "default", "gpt-4o", "hunyuan-dense"};
    enum { SIZE = 1 << 18 };
    (void)unused;
    char *text = malloc(SIZE + 8);
    for (size_t r = 0; r < sizeof names / sizeof *names; r++) {
        Pretokenizer *p = open_named(names[r]);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            size_t n = strlen(units[u]), length = 0, total = 0;
            for (; length + n <= SIZE; length += n)
                memcpy(text + length, units[u], n);
            CHECK(pretokenizer_split(p, text, length, count_bytes, &total, NULL));
            CHECK(total == length || strlen(units[u]) == 3, "%s", names[r]); // NFC shortens
        }
        pretokenizer_close(p);
    }
    free(text);
    return NULL;
}

Test(pretokenize, long_runs_need_no_stack) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    // Sanitizers need more stack.
    pthread_attr_setstacksize(&attributes, TEST_SANITIZED ? 1 << 20 : 128 << 10);
    CHECK(!pthread_create(&thread, &attributes, split_long_runs, NULL));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

// ---- in a sandbox ----

// The bytes of machine code in a child process, in whose sandbox no memory can be made executable.
static int code_bytes_in_sandbox(bool reserve) {
    pid_t child = fork();
    if (!child) {
        static const char PATTERN[] = "'s| ?\\p{L}+| ?\\p{N}+|\\s+(?!\\S)|\\s+";
        int code;
        size_t offset, size = 0;
        if (reserve) pretokenizer_reserve();
        if (!sandbox_enter(&(SandboxOutputs){0})) _exit(255);
        pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)PATTERN, PCRE2_ZERO_TERMINATED,
                                             PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
        if (!compiled) _exit(254);
        pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
        pcre2_pattern_info(compiled, PCRE2_INFO_JITSIZE, &size);
        _exit((int)(size / 64));
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status), "status %d", status);
    return 64 * WEXITSTATUS(status);
}

Test(pretokenize, patterns_are_machine_code_in_the_sandbox_too) {
    char what[100];
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    if (!jit) SKIP("PCRE2 without JIT");
    if (!strstr(sandbox_describe(what, sizeof what), ", seccomp")) SKIP("sandbox: %s", what);
    int without = code_bytes_in_sandbox(false), with = code_bytes_in_sandbox(true);
    CHECK_INT(without, 0);
    CHECK(with > 500 && with < 20000, "%d bytes", with);
}

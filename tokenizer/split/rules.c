// The pre-tokenizer patterns and their names: tables. Each pattern is exactly the text in the
// models' tokenizer.json, so that a file's pattern is recognised by string comparison and never
// compiled.
//
// Reading a pattern: alternatives are tried from the left, so suffixes come before letters, and
// "\s+(?!\S)" before "\s+" leaves the last space of a run to the word behind it. A letter group
// takes one character before it that is no letter, digit or line end: mostly a space.
#include "tokenizer/split/pretokenize.h"

#include <stdio.h>
#include <string.h>

enum {
    GPT2,
    LLAMA3,
    QWEN2,
    DIGIT,
    DIGITS,
    NANOCHAT,
    TEKKEN,
    PUNCTUATION, // PUNCTUATION and THREE_DIGITS are passes of llama.cpp's "default"
    THREE_DIGITS,
    GPT4O,
    UP_TO_3_DIGITS, // UP_TO_3_DIGITS, CJK and HUNYUAN are passes of Hunyuan's and DeepSeek V3's
    CJK,
    HUNYUAN,
    N_PATTERNS
};

// Parts that several patterns share; the expanded text is the published one, character by
// character.
#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define SPACES "\\s+(?!\\S)|\\s+"

static const char *const patterns[N_PATTERNS] = {
    [GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES,
    [LLAMA3] =
        SUFFIXES "|" LETTERS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES,
    [QWEN2] = SUFFIXES "|" LETTERS "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES,
    [DIGIT] = "\\p{N}",
    [DIGITS] = "\\p{N}+",
    [NANOCHAT] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,2}"
                 "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" SPACES,
    [TEKKEN] = "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+|[^\\r\\n\\p{L}\\p{N}]?[" UPPER
               "]+[" LOWER "]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|" SPACES,
    [PUNCTUATION] = "[\\p{P}\\$\\+<=>\\^~\\|]+",
    [THREE_DIGITS] = "[0-9][0-9][0-9]",
    [GPT4O] = "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" SUFFIXES
              "?|[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*" SUFFIXES
              "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|" SPACES,
    [UP_TO_3_DIGITS] = "\\p{N}{1,3}",
    // U+4E00 to U+9FA5, Hiragana, Katakana.
    [CJK] = "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
    // The line ends in it are the characters themselves.
    [HUNYUAN] =
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|" SPACES,
};

typedef struct NamedRule {
    const char *name;
    bool alias_in_gguf;      // llama.cpp's name is aliases[0]; otherwise it is `name`
    const char *aliases[14]; // other values of tokenizer.ggml.pre with this rule
    SplitRule rule;
} NamedRule;

// split_rule_name takes the first row with the same passes.
static const NamedRule rules[] = {
    {"gpt2",
     true,
     {"gpt-2", "phi-2", "jais", "exaone4", "granite-docling", "mellum", "a.x-4.0", "gigachat",
      "trillion", "jina-es", "jina-de"},
     {.passes = {GPT2}, .n_passes = 1}},
    // GPT-NeoX, of which Pythia, OLMo 1 and MPT are. Its tokenizer.json has NFC, llama.cpp does
    // not.
    {"olmo", false, {"mpt"}, {.passes = {GPT2}, .n_passes = 1, .nfc = true}},
    {"smollm",
     false,
     {"starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {.passes = {DIGIT, GPT2}, .n_passes = 2}},
    {"llama3",
     true,
     {"llama-bpe", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {.passes = {LLAMA3}, .n_passes = 1, .ignore_merges = true, .adds_bos = true}},
    {"dbrx", false, {"smaug-bpe"}, {.passes = {LLAMA3}, .n_passes = 1}},
    {"qwen2",
     false,
     {"deepseek-r1-qwen", "stablelm2"},
     {.passes = {QWEN2}, .n_passes = 1, .nfc = true}},
    {"tekken",
     false,
     {0},
     {.passes = {TEKKEN}, .n_passes = 1, .ignore_merges = true, .adds_bos = true}},
    {"gpt-4o", false, {"llama4"}, {.passes = {GPT4O}, .n_passes = 1}},
    {"hunyuan-dense",
     false,
     {"deepseek-v3"},
     {.passes = {UP_TO_3_DIGITS, CJK, HUNYUAN}, .n_passes = 3}},
    {"nanochat", false, {0}, {.passes = {NANOCHAT}, .n_passes = 1, .adds_bos = true}},
    {"default", false, {0}, {.passes = {PUNCTUATION, GPT2, DIGITS, THREE_DIGITS}, .n_passes = 4}},
};
enum { N_RULES = sizeof rules / sizeof *rules };

// By the whole text: a pattern that differs in one character is another pattern.
int split_pattern_find(const char *regex) {
    for (int i = 0; i < N_PATTERNS; i++)
        if (!strcmp(regex, patterns[i])) return i;
    return -1;
}

const char *split_pattern_regex(int pattern) {
    return patterns[pattern];
}

// Those that end in \s+ and have a part for letters, one for numbers and one for everything else.
bool split_pattern_covers(int pattern) {
    return pattern == GPT2 || pattern == LLAMA3 || pattern == QWEN2 || pattern == NANOCHAT ||
           pattern == TEKKEN || pattern == GPT4O;
}

// A name of limpid's or one of the aliases; the list of these ends with NULL.
static bool is_named(const NamedRule *rule, const char *name) {
    if (!strcmp(rule->name, name)) return true;
    for (const char *const *alias = rule->aliases; *alias; alias++)
        if (!strcmp(*alias, name)) return true;
    return false;
}

bool split_rule_find(SplitRule *rule, const char *asked, const char *name, Error *error) {
    if (asked) name = asked;
    char known[240] = "", shown[64];
    for (size_t i = 0, at = 0; i < N_RULES; i++) {
        if (is_named(&rules[i], name)) {
            *rule = rules[i].rule;
            return true;
        }
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rules[i].name);
    }
    return error_set(error, asked ? ERROR_USAGE : ERROR_FILE,
                     "%s: unknown pre-tokenizer \"%s\" (known: %s)",
                     asked ? "--pretokenizer" : "tokenizer.ggml.pre",
                     escape_bytes(shown, sizeof shown, name, strlen(name)), known);
}

static bool same_passes(const SplitRule *a, const SplitRule *b) {
    return a->n_passes == b->n_passes &&
           !memcmp(a->passes, b->passes, (size_t)a->n_passes * sizeof *a->passes);
}

// adds_bos is not compared: a GGUF has a key for it.
const char *split_rule_gguf_name(const SplitRule *rule, bool ignore_merges) {
    for (size_t i = 0; i < N_RULES; i++) {
        const SplitRule *known = &rules[i].rule;
        if (same_passes(known, rule) && known->nfc == rule->nfc &&
            known->ignore_merges == ignore_merges)
            return rules[i].alias_in_gguf ? rules[i].aliases[0] : rules[i].name;
    }
    return NULL;
}

const char *split_rule_name(const SplitRule *rule) {
    for (size_t i = 0; i < N_RULES; i++) {
        if (same_passes(&rules[i].rule, rule)) return rules[i].name;
    }
    return "unnamed";
}

// The text format of tiktoken, in which Meta publishes Llama 3: lines of "base64 rank": the bytes
// of a token, and its rank, which is its id. Llama 3's control tokens are not in the file but in
// Meta's program (llama/tokenizer.py); they are added here.
//
//     IQ== 0        "!"                      base64 of the token's bytes, a space, the rank
//     Ig== 1        "\""
//
// There are no merges: two neighbours may be merged if the result is a token, the lowest rank first
// (byte_bpe.c, merged_is_token).
#include "tokenizer/internal.h"

#include "tokenizer/bpe/byte_bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LLAMA3_TOKENS = 128000, LLAMA3_SPECIALS = 256, SPECIAL_NAME = 40 };

typedef struct Ranks {
    TextSpan *tokens; // (n_tokens) normal ones in the byte alphabet, control tokens as plain text
    uint8_t *types;   // (n_tokens)
    char *text;       // storage of the spellings
    size_t n_tokens, text_at;
    size_t lines; // that were counted: room for so many tokens
} Ranks;

// -1: no digit; '=' is padding and handled before.
static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Decodes base64 and appends the bytes as a token in the byte alphabet; false: not valid base64.
//
// Four digits are 24 bits, the first digit on top; one '=' at the end leaves two bytes, two leave
// one.
static bool append_base64(Ranks *ranks, const char *digits, size_t length) {
    size_t padding = 0;
    while (padding < 2 && padding < length && digits[length - 1 - padding] == '=')
        padding++;
    if (!length || length % 4) return false;
    uint32_t bits = 0;
    size_t start = ranks->text_at;
    for (size_t i = 0; i < length; i++) {
        int digit = i < length - padding ? base64_digit(digits[i]) : 0;
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 3) continue;
        size_t bytes = i + 1 == length ? 3 - padding : 3;
        for (size_t j = 0; j < bytes; j++)
            ranks->text_at +=
                alphabet_letter(ranks->text + ranks->text_at, (uint8_t)(bits >> (16 - 8 * j)));
    }
    ranks->tokens[ranks->n_tokens] = (TextSpan){ranks->text + start, ranks->text_at - start};
    return true;
}

// Line N, from 0, has rank N.
//
// The rank is compared as text, so that 01 and +1 are refused.
static bool read_line(Ranks *ranks, const char *line, size_t length, Error *error) {
    const char *space = memchr(line, ' ', length);
    size_t digits = space ? (size_t)(space - line) : length;
    char rank[24];
    int wanted = snprintf(rank, sizeof rank, "%zu", ranks->n_tokens);
    bool good = space && length - digits - 1 == (size_t)wanted &&
                !memcmp(space + 1, rank, (size_t)wanted) && append_base64(ranks, line, digits);
    if (good) {
        ranks->types[ranks->n_tokens++] = TOKEN_NORMAL;
        return true;
    }
    char shown[64];
    return error_set(error, ERROR_FILE, "line %zu: wanted base64, a space and %s, got \"%s\"",
                     ranks->n_tokens + 1, rank, escape_bytes(shown, sizeof shown, line, length));
}

static bool read_lines(Ranks *ranks, TextSpan text, Error *error) {
    for (size_t at = 0; at < text.length;) {
        const char *line = text.text + at;
        const char *newline = memchr(line, '\n', text.length - at);
        size_t length = newline ? (size_t)(newline - line) : text.length - at;
        at += length + 1;
        if (ranks->n_tokens == LIMIT_VOCAB || ranks->n_tokens == ranks->lines)
            return error_set(error, ERROR_FILE, "more than %zu tokens", ranks->n_tokens);
        if (!read_line(ranks, line, length && line[length - 1] == '\r' ? length - 1 : length,
                       error))
            return false;
    }
    return true;
}

// The 256 control tokens in the order of Meta's program: ten by name, then reserved tokens 5 ..
// 250.
static void add_specials(Ranks *ranks) {
    static const char *const first[] = {"begin_of_text",
                                        "end_of_text",
                                        "reserved_special_token_0",
                                        "reserved_special_token_1",
                                        "reserved_special_token_2",
                                        "reserved_special_token_3",
                                        "start_header_id",
                                        "end_header_id",
                                        "reserved_special_token_4",
                                        "eot_id"};
    for (int i = 0; i < LLAMA3_SPECIALS; i++) {
        char *name = ranks->text + ranks->text_at;
        int length = i < 10 ? snprintf(name, SPECIAL_NAME, "<|%s|>", first[i])
                            : snprintf(name, SPECIAL_NAME, "<|reserved_special_token_%d|>", i - 5);
        ranks->text_at += (size_t)length;
        ranks->types[ranks->n_tokens] = TOKEN_CONTROL;
        ranks->tokens[ranks->n_tokens++] = (TextSpan){name, (size_t)length};
    }
}

// bos_id 128000 is <|begin_of_text|>; without the control tokens there is none.
static bool build(Tokenizer *t, const Ranks *ranks, const char *pretokenizer, Error *error) {
    SplitRule rule;
    if (!split_rule_find(&rule, pretokenizer, "llama3", error)) return false;
    Vocabulary v = {.n_tokens = ranks->n_tokens, .tokens = ranks->tokens, .types = ranks->types};
    v.bos_id = v.eos_id = v.eot_id = v.eom_id = v.unk_id = v.pad_id = -1;
    v.add_bos = v.add_eos = v.add_space_prefix = -1;
    if (ranks->n_tokens > LLAMA3_TOKENS && ranks->types[LLAMA3_TOKENS] == TOKEN_CONTROL)
        v.bos_id = LLAMA3_TOKENS;
    if (!vocabulary_copy(t, &v, error) || !added_from_types(t, error)) return false;
    vocabulary_set_ids(t, &v, true);
    return byte_bpe_open(t, NULL, &rule, true, t->n_tokens, error);
}

// Exactly 128000 tokens are Llama 3's file; any other number gets no control tokens.
bool tiktoken_open(Tokenizer *t, TextSpan text, const char *pretokenizer, Error *error) {
    Ranks ranks = {.lines = 1};
    for (size_t i = 0; i < text.length; i++)
        ranks.lines += text.text[i] == '\n';
    size_t room = ranks.lines + LLAMA3_SPECIALS;
    ranks.tokens = malloc(room * sizeof *ranks.tokens);
    ranks.types = malloc(room);
    // Four base64 digits are three bytes, each one or two bytes long in the byte alphabet.
    ranks.text =
        malloc(text.length / 4 * 3 * ALPHABET_MAX + (size_t)LLAMA3_SPECIALS * SPECIAL_NAME);
    bool good = (ranks.tokens && ranks.types && ranks.text) ||
                error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", ranks.lines);
    good = good && read_lines(&ranks, text, error);
    if (good && ranks.n_tokens == LLAMA3_TOKENS) add_specials(&ranks);
    good = good && build(t, &ranks, pretokenizer, error);
    free(ranks.tokens);
    free(ranks.types);
    free(ranks.text);
    return good;
}

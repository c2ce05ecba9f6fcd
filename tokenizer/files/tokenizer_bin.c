// llama2.c's tokenizer.bin, little-endian:
//
//     uint32 max_token_length   (not used here)
//     then for each token       float32 score, uint32 length, length bytes
//
// The file has no token count: it must end after a complete token and have as many as the model.
// Spaces are stored as spaces, <s> and </s> (ids 1 and 2) with newlines around them.
//
// Two passes over the same bytes: the first counts and checks, the second copies into memory of
// the counted size. Source: llama2.c, tokenizer.py (export) and run.c (build_tokenizer).
#include "tokenizer/internal.h"

#include "base/bytes.h"
#include "tokenizer/bpe/spm.h"

#include <stdlib.h>
#include <string.h>

typedef struct BinToken {
    TextSpan text;
    float score;
} BinToken;

// An empty text on a failure, which in->failed says.
static BinToken read_token(Bytes *in) {
    BinToken token = {{"", 0}, 0};
    size_t start = in->pos;
    token.score = bytes_f32(in, "score");
    uint32_t length = bytes_u32(in, "token length");
    if (!in->failed && length > LIMIT_TOKEN_LENGTH)
        bytes_fail(in, start + 4, "token length: got %d, wanted 0 to %d", (int)length,
                   LIMIT_TOKEN_LENGTH);
    const uint8_t *text = in->failed ? NULL : bytes_take(in, length, "token");
    if (text) token.text = (TextSpan){(const char *)text, length};
    return token;
}

// What the second pass fills: as much as the first one counted, and no more.
typedef struct BinTokens {
    size_t count, text_size; // of the text with U+2581 for each space, at most
    TextSpan *tokens;        // (count)
    float *scores;           // (count)
    char *text;              // (text_size)
} BinTokens;

// First pass: counts the tokens and their bytes.
//
// text_size takes every byte as a space of three bytes: an upper bound.
static bool measure(BinTokens *tokens, Bytes in, int vocab_size) {
    bytes_u32(&in, "max_token_length");
    while (!in.failed && bytes_left(&in)) {
        BinToken token = read_token(&in);
        tokens->text_size += token.text.length * SPM_SPACE_LENGTH;
        if (!in.failed && ++tokens->count > LIMIT_VOCAB)
            bytes_fail(&in, in.pos, "more than %d tokens", LIMIT_VOCAB);
    }
    if (in.failed) return false;
    if (!tokens->count) return bytes_fail(&in, in.pos, "no tokens");
    if (vocab_size > 0 && tokens->count != (size_t)vocab_size)
        return bytes_fail(&in, in.pos, "%zu tokens, but the model has %d", tokens->count,
                          vocab_size);
    return true;
}

// Copies a token with U+2581 for each space; of special tokens without the newlines around them.
static TextSpan copy_escaped(char *out, TextSpan from, bool special) {
    if (special) {
        while (from.length && from.text[0] == '\n') {
            from.text++;
            from.length--;
        }
        while (from.length && from.text[from.length - 1] == '\n')
            from.length--;
    }
    size_t n = 0;
    for (size_t i = 0; i < from.length; i++) {
        bool space = from.text[i] == ' ';
        memcpy(out + n, space ? SPM_SPACE : &from.text[i], space ? SPM_SPACE_LENGTH : 1);
        n += space ? SPM_SPACE_LENGTH : 1;
    }
    return (TextSpan){out, n};
}

// False only where the passes disagree, which the checks of the first rule out.
static bool fill(BinTokens *tokens, Bytes in) {
    size_t used = 0;
    bytes_u32(&in, "max_token_length");
    for (size_t i = 0; i < tokens->count && !in.failed; i++) {
        BinToken token = read_token(&in);
        if (token.text.length > (tokens->text_size - used) / SPM_SPACE_LENGTH)
            return bytes_fail(&in, in.pos, "more than the %zu bytes of text counted",
                              tokens->text_size);
        tokens->tokens[i] = copy_escaped(tokens->text + used, token.text, i == 1 || i == 2);
        tokens->scores[i] = token.score;
        used += tokens->tokens[i].length;
    }
    return !in.failed;
}

bool tokenizer_bin_open(Tokenizer *t, const uint8_t *bytes, size_t size, int vocab_size,
                        Error *error) {
    Bytes in = bytes_over(bytes, size, error);
    BinTokens tokens = {0};
    if (!measure(&tokens, in, vocab_size)) return false;
    tokens.tokens = malloc(tokens.count * sizeof *tokens.tokens);
    tokens.scores = malloc(tokens.count * sizeof *tokens.scores);
    tokens.text = malloc(tokens.text_size + 1);
    bool good = tokens.tokens && tokens.scores && tokens.text;
    if (!good) error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", tokens.count);
    good = good && fill(&tokens, in);
    if (good) {
        Vocabulary vocabulary = VOCABULARY_ABSENT;
        vocabulary.model = "llama";
        vocabulary.n_tokens = tokens.count;
        vocabulary.tokens = tokens.tokens;
        vocabulary.scores = tokens.scores;
        good = spm_bpe_open_vocabulary(t, &vocabulary, error);
        // llama2.c stops at BOS as well as at EOS.
        if (good) vocabulary_add_stop(t, t->bos_id);
    }
    free(tokens.text);
    free(tokens.scores);
    free(tokens.tokens);
    return good;
}

#include "tokenizer/kinds.h"

bool tokenizer_json_open(Tokenizer *tokenizer, const char *text, size_t size,
                         const char *pretokenizer, Error *error) {
    (void)tokenizer, (void)text, (void)size, (void)pretokenizer;
    return error_set(error, ERROR_FILE, "tokenizer.json is not read yet");
}

bool vocab_merges_open(Tokenizer *tokenizer, const char *vocab, size_t vocab_size,
                       const char *merges, size_t merges_size, const char *pretokenizer,
                       Error *error) {
    (void)tokenizer, (void)vocab, (void)vocab_size, (void)merges, (void)merges_size;
    (void)pretokenizer;
    return error_set(error, ERROR_FILE, "vocab.json is not read yet");
}

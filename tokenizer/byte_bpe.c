#include "tokenizer/kinds.h"

bool byte_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary,
                              const char *pretokenizer, Error *error) {
    (void)tokenizer, (void)vocabulary, (void)pretokenizer;
    return error_set(error, ERROR_FILE, "byte-level vocabularies are not read yet");
}

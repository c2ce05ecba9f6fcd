#include "tokenizer/kinds.h"

bool sentencepiece_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, Error *error) {
    (void)tokenizer, (void)bytes, (void)size;
    return error_set(error, ERROR_FILE, "sentencepiece models are not read yet");
}

#include "tokenizer/kinds.h"

bool tiktoken_open(Tokenizer *tokenizer, const char *text, size_t size, const char *pretokenizer,
                   Error *error) {
    (void)tokenizer, (void)text, (void)size, (void)pretokenizer;
    return error_set(error, ERROR_FILE, "tiktoken text is not read yet");
}

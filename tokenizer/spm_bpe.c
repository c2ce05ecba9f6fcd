#include "tokenizer/kinds.h"

bool spm_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary, Error *error) {
    (void)tokenizer, (void)vocabulary;
    return error_set(error, ERROR_FILE, "SPM-BPE vocabularies are not read yet");
}

bool spm_bpe_open_bin(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, int vocab_size,
                      Error *error) {
    (void)tokenizer, (void)bytes, (void)size, (void)vocab_size;
    return error_set(error, ERROR_FILE, "tokenizer.bin is not read yet");
}

// Stands for sentencepiece_c.cpp in a build without the library (make SENTENCEPIECE=0). BPE models
// that do not rewrite characters, such as Llama 2's, are encoded by spm_bpe.c and need it not.
#include "tokenizer/sentencepiece/sentencepiece_c.h"

#include <stdio.h>

bool sentencepiece_available(void) {
    return false;
}

SentencePieceStatus sentencepiece_load(SentencePiece **out, const void *bytes, size_t size,
                                       char reason[SENTENCEPIECE_REASON_SIZE]) {
    (void)bytes, (void)size;
    *out = NULL;
    snprintf(
        reason, SENTENCEPIECE_REASON_SIZE,
        "this model needs the sentencepiece library, which this program was built without; use "
        "a GGUF or a tokenizer.json of the same model");
    return SENTENCEPIECE_REFUSED;
}

void sentencepiece_free(SentencePiece *model) {
    (void)model;
}

size_t sentencepiece_size(const SentencePiece *model) {
    (void)model;
    return 0;
}

SentencePieceStatus sentencepiece_encode(SentencePiece *model, const char *text, size_t length,
                                         const int **ids, size_t *count,
                                         char reason[SENTENCEPIECE_REASON_SIZE]) {
    (void)model, (void)text, (void)length;
    *ids = NULL;
    *count = 0;
    snprintf(reason, SENTENCEPIECE_REASON_SIZE, "built without sentencepiece");
    return SENTENCEPIECE_REFUSED;
}

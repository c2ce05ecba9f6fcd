// The sentencepiece library (C++) behind C functions. No C++ exception leaves them, and every id is
// inside the vocabulary. The file must have passed sentencepiece_model_read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SentencePiece SentencePiece;

typedef enum SentencePieceStatus {
    SENTENCEPIECE_OK,
    SENTENCEPIECE_REFUSED, // `reason` is filled
    SENTENCEPIECE_MEMORY,
} SentencePieceStatus;

enum { SENTENCEPIECE_REASON_SIZE = 256 };

// False in a build without the library; then sentencepiece_load always fails.
bool sentencepiece_available(void);

// `bytes` are not needed afterwards. On failure *out is NULL and `reason` is filled.
SentencePieceStatus sentencepiece_load(SentencePiece **out, const void *bytes, size_t size,
                                       char reason[SENTENCEPIECE_REASON_SIZE]);
void sentencepiece_free(SentencePiece *model); // NULL is fine
size_t sentencepiece_size(const SentencePiece *model);

// Encodes text[length] with the library's algorithm: Viterbi for unigram models, merges by score
// for BPE. *ids (*count) is borrowed until the next call on this model.
SentencePieceStatus sentencepiece_encode(SentencePiece *model, const char *text, size_t length,
                                         const int **ids, size_t *count,
                                         char reason[SENTENCEPIECE_REASON_SIZE]);

#ifdef __cplusplus
}
#endif

// The sentencepiece library (C++) as three C functions. No exception crosses this fence, and every
// id that comes out is one of the model's. The file must have passed sentencepiece_model_read.
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
    SENTENCEPIECE_REFUSED, // the reason says why
    SENTENCEPIECE_MEMORY,
} SentencePieceStatus;

enum { SENTENCEPIECE_REASON_SIZE = 256 };

// False where limpid was built without the library; then sentencepiece_load always refuses.
bool sentencepiece_available(void);

// Copies what it needs of the bytes. On failure *out is NULL and `reason` filled.
SentencePieceStatus sentencepiece_load(SentencePiece **out, const void *bytes, size_t size,
                                       char reason[SENTENCEPIECE_REASON_SIZE]);
void sentencepiece_free(SentencePiece *model); // NULL is fine
size_t sentencepiece_size(const SentencePiece *model);

// *ids is borrowed until the next call on this model.
SentencePieceStatus sentencepiece_encode(SentencePiece *model, const char *text, size_t length,
                                         const int **ids, size_t *count,
                                         char reason[SENTENCEPIECE_REASON_SIZE]);

#ifdef __cplusplus
}
#endif

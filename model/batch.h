// Batch: rows of one or several sequences for one call of model_forward. A prompt, the next token
// of a generation and many prompts side by side are all the same thing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct Batch {
    int n;
    const int32_t *tokens;    // (n) ids below vocab_size
    const int32_t *positions; // (n) or NULL: each row continues its sequence where the cache ends
    const int32_t *sequences; // (n) or NULL: all rows belong to sequence 0
    const bool *wants_logits; // (n) or NULL: the last row only
} Batch;

// Vocabulary: what a container says about its tokenizer, before anyone gives it a meaning.
// Types; weights/gguf/vocabulary.c fills it, tokenizer/ reads it.
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum TokenType { // numbers as in tokenizer.ggml.token_type and in sentencepiece
    TOKEN_UNDEFINED = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
} TokenType;

typedef struct Vocabulary {
    const char *model; // "llama" (SPM-BPE) or "gpt2" (byte-level BPE); NULL: no vocabulary
    const char *pre;   // name of the splitting pattern, or NULL
    size_t n_tokens;
    const TextSpan *tokens; // (n_tokens)
    const float *scores;    // (n_tokens) or NULL
    const uint8_t *types;   // (n_tokens) TokenType, or NULL
    size_t n_merges;
    const TextSpan *merges;                             // "left right"
    int bos_id, eos_id, eot_id, eom_id, unk_id, pad_id; // -1: absent or outside the vocabulary
    int add_bos, add_eos, add_space_prefix;             // 1, 0, or -1: not said
    TextSpan chat_template;                             // never executed; shown and matched by name
} Vocabulary;

// No vocabulary, every id absent, nothing said: what a reader starts from.
extern const Vocabulary VOCABULARY_ABSENT;

// BPE over characters with byte fallback: the tokenizer.json of Gemma, Llama 2 and Mistral. The
// same vocabularies as SPM-BPE, but merged by the rank of written merges, not by score.
#pragma once

#include "tokenizer/bpe/merge_table.h"
#include "tokenizer/kinds.h"

typedef enum SpacePrefix { // what is put before a stretch of text
    PREFIX_NEVER,
    PREFIX_FIRST,  // a space at the beginning of the whole text, unless it begins with one
    PREFIX_ALWAYS, // the same before every stretch
    PREFIX_ADDED,  // a space before every stretch, also where one is
} SpacePrefix;

typedef struct FallbackOptions {
    bool spaces; // a space is written as U+2581
    SpacePrefix prefix;
    bool byte_fallback; // a character that is no token becomes its bytes' tokens
    bool fuse_unk;      // neighbouring unknown characters are one unknown token
    bool drops_space;   // decoding: the space that begins a text is dropped
    int unk_id;         // -1: unknown characters add nothing
} FallbackOptions;

// Makes `tokenizer`, whose vocabulary is there, one of this kind. Takes over *merges, also on
// failure.
bool fallback_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const FallbackOptions *options,
                       Error *error);

// What stands around the model in a tokenizer.json: normalizer, pre_tokenizer, decoder and
// post_processor. A known set of types and patterns is understood; anything else is refused by
// name, since a step left out would give other ids in silence.
#pragma once

#include "base/json.h"
#include "tokenizer/bpe/spm.h"
#include "tokenizer/split/pretokenize.h"

typedef struct JsonPipeline {
    bool byte_level;         // the pre_tokenizer writes bytes in the byte alphabet
    SplitRule rule;          // byte level: how a text is cut
    FallbackOptions options; // otherwise: what is done to spaces
    const char *first_token; // that the post_processor puts before a text; borrowed from the JSON
} JsonPipeline;

// False: exit code 3 naming the part and what is not known there.
bool json_pipeline_read(JsonPipeline *pipeline, const json_t *root, Error *error);

// ---- json_vocabulary.c ----

// The vocabulary of a JSON tokenizer while it is collected: which spelling has which id, and what
// was added. Every id from 0 on is given once, with no gap.
//
//     json_vocabulary_init(&v, vocab, added, &error) && json_vocabulary_finish(&v, tokenizer,
//     &error) json_vocabulary_free(&v);
typedef struct JsonVocabulary {
    TextSpan *tokens;  // (n_tokens) borrowed from the JSON; text NULL: none yet
    uint8_t *types;    // (n_tokens)
    AddedToken *added; // (n_added)
    size_t n_tokens, n_added;
} JsonVocabulary;

// Reads "vocab", an object of ids, and "added_tokens", an array or NULL. False: exit code 3, 5.
bool json_vocabulary_init(JsonVocabulary *v, json_t *vocab, const json_t *added, Error *error);

// Copies it into `tokenizer`. False: exit code 3 (a gap), 5.
bool json_vocabulary_finish(const JsonVocabulary *v, Tokenizer *tokenizer, Error *error);
void json_vocabulary_free(JsonVocabulary *v);

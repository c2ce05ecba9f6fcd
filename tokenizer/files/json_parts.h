// The parts of a tokenizer.json: its pipeline (normalizer, pre_tokenizer, decoder, post_processor)
// and its vocabulary. Unknown steps of the pipeline are refused by name, since ignoring one would
// change ids silently.
#pragma once

#include "base/json.h"
#include "tokenizer/bpe/spm.h"
#include "tokenizer/split/pretokenize.h"

// ---- json_pipeline.c ----

typedef struct JsonPipeline {
    bool byte_level;         // the pre_tokenizer has ByteLevel
    bool replaces;           // the normalizer replaces spaces; Metaspace does so behind it
    SplitRule rule;          // if byte_level: NFC and the patterns
    FallbackOptions options; // otherwise: the treatment of spaces
    const char *first_token; // the post_processor puts it before a text; borrowed from the JSON
} JsonPipeline;

// False: exit code 3, the message names the part and the unknown step.
bool json_pipeline_read(JsonPipeline *pipeline, const json_t *root, Error *error);

// False, exit code 3: an added token of the list (or NULL) has "normalized", so that it is looked
// for in the text that the normalizer makes, and it would not be found in the same places before.
bool json_pipeline_check_added(const JsonPipeline *pipeline, const json_t *added, Error *error);

// ---- json_vocabulary.c ----

// The vocabulary of a JSON tokenizer, from "vocab" and "added_tokens". The ids must be 0 .. n - 1,
// each used once, and added tokens that are not in "vocab" must come behind it in their order: the
// library tokenizers numbers them so, whatever their "id" is.
//
//     bool good = json_vocabulary_init(&v, vocab, added, &error) &&
//                 json_vocabulary_finish(&v, tokenizer, &error);
//     json_vocabulary_free(&v);
typedef struct JsonVocabulary {
    TextSpan *tokens;  // (n_tokens) borrowed from the JSON; text NULL: not set yet
    uint8_t *types;    // (n_tokens)
    AddedToken *added; // (n_added)
    size_t n_tokens, n_added;
} JsonVocabulary;

// Reads "vocab", an object of ids, and "added_tokens", an array or NULL. False: exit code 3, 5.
bool json_vocabulary_init(JsonVocabulary *v, json_t *vocab, const json_t *added, Error *error);

// Copies it into `tokenizer`. False: exit code 3 (a gap), 5.
bool json_vocabulary_finish(const JsonVocabulary *v, Tokenizer *tokenizer, Error *error);
void json_vocabulary_free(JsonVocabulary *v);

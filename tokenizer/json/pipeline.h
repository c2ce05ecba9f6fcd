// What stands around the model in a tokenizer.json: normalizer, pre_tokenizer, decoder and
// post_processor. A known set of types and patterns is understood; anything else is refused by
// name, since a step left out would give other ids in silence.
#pragma once

#include "base/json.h"
#include "tokenizer/bpe/fallback_bpe.h"
#include "tokenizer/split/pretokenize.h"

typedef struct JsonPipeline {
    bool byte_level;         // the pre_tokenizer writes bytes in the byte alphabet
    SplitRule rule;          // byte level: how a text is cut
    FallbackOptions options; // otherwise: what is done to spaces
    const char *first_token; // that the post_processor puts before a text; borrowed from the JSON
} JsonPipeline;

// False: exit code 3 naming the part and what is not known there.
bool json_pipeline_read(JsonPipeline *pipeline, const json_t *root, Error *error);

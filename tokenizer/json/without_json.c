// In place of tokenizer_json.c where the build has no jansson.
#include "tokenizer/kinds.h"

bool tokenizer_json_open(Tokenizer *tokenizer, TextSpan json, TextSpan merges,
                         const char *pretokenizer, Error *error) {
    (void)tokenizer, (void)json, (void)merges, (void)pretokenizer;
    return error_set(error, ERROR_FILE,
                     "a JSON tokenizer: this build has no jansson (build with JSON=1)");
}

// Replaces the files that need PCRE2, jansson or the sentencepiece library in builds without it:
// each function fails with a message that names the library. The Makefile defines WITHOUT_*.
//
// Opening is what fails, with exit code 3. The other functions are there for the linker, or get
// NULL.
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"
#include "tokenizer/split/pretokenize.h"

#include <stdio.h>

#ifdef WITHOUT_PCRE2

Pretokenizer *pretokenizer_open(const SplitRule *rule, Error *error) {
    error_set(error, ERROR_FILE,
              "byte-level BPE, pattern %s: this build has no PCRE2 (build with PCRE2=1)",
              split_rule_name(rule));
    return NULL;
}

void pretokenizer_reserve(void) {}

void pretokenizer_close(Pretokenizer *pretokenizer) {
    (void)pretokenizer;
}

bool pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t length,
                        WordVisitor visit, void *context, Error *error) {
    (void)pretokenizer, (void)text, (void)length, (void)visit, (void)context;
    return error_set(error, ERROR_FILE, "this build has no PCRE2");
}

// For added tokens with single_word, which only a tokenizer.json has; it needs PCRE2 as well.
bool starts_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

bool ends_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

#endif

#ifdef WITHOUT_JSON

bool tokenizer_json_open(Tokenizer *tokenizer, TextSpan json, TextSpan merges,
                         const char *pretokenizer, Error *error) {
    (void)tokenizer, (void)json, (void)merges, (void)pretokenizer;
    return error_set(error, ERROR_FILE,
                     "a JSON tokenizer: this build has no jansson (build with JSON=1)");
}

#endif

// BPE models that do not rewrite characters, such as Llama 2's, are encoded by spm_bpe.c and do not
// need the library.
#ifdef WITHOUT_SENTENCEPIECE

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

#endif

// Replaces the files that need PCRE2 or jansson in builds without it: each function fails with a
// message that names the library. The Makefile defines WITHOUT_*.
//
// Opening is what fails, with exit code 3. The other functions are there for the linker, or get
// NULL.
#include "tokenizer/internal.h"
#include "tokenizer/split/pretokenize.h"

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

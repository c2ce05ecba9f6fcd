// In place of pretokenize.c where the build has no PCRE2: byte-level vocabularies are refused.
#include "tokenizer/split/pretokenize.h"

Pretokenizer *pretokenizer_open(const SplitRule *rule, Error *error) {
    error_set(error, ERROR_FILE,
              "byte-level BPE, pattern %s: this build has no PCRE2 (build with PCRE2=1)",
              split_rule_name(rule));
    return NULL;
}

void pretokenizer_close(Pretokenizer *pretokenizer) {
    (void)pretokenizer;
}

bool pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t length,
                        WordVisitor visit, void *context, Error *error) {
    (void)pretokenizer, (void)text, (void)length, (void)visit, (void)context;
    return error_set(error, ERROR_FILE, "this build has no PCRE2");
}

// Only tokenizer.json, which such a build does not read, has tokens that ask for this.
bool starts_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

bool ends_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

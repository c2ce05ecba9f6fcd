// The pre-tokenizer of byte-level BPE: splits a text into words with the patterns that the models
// were trained with. The patterns are constants in rules.c; a file selects one by name or by its
// text, and never supplies one.
//
//     split_rule_find(&rule, NULL, "llama3", &error);
//     Pretokenizer *p = pretokenizer_open(&rule, &error);
//     pretokenizer_split(p, text, length, take_word, context, &error);
//
// Any bytes are accepted. An invalid byte is a word of its own, and the text before and after it is
// split separately.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pretokenizer Pretokenizer;

enum { LIMIT_PASSES = 4 };

// A sequence of Split steps with behaviour "Isolated": each pass splits every piece from the pass
// before into its matches and the text between them.
typedef struct SplitRule {
    int passes[LIMIT_PASSES]; // indices of patterns in rules.c
    int n_passes;             // 0: the text is one word
    bool nfc;                 // normalise to NFC first
    // Defaults that go with the name, for GGUFs, which do not store them:
    bool ignore_merges; // a word that is a token becomes that token without merging
    bool adds_bos;
} SplitRule;

// ---- rules.c: the tables ----

// The index of the pattern with exactly this text in a tokenizer.json, or -1: unknown.
int split_pattern_find(const char *regex);
// The pattern as published.
const char *split_pattern_regex(int pattern);

// Whether each character of any text is in a match, so that the matches alone are the text.
bool split_pattern_covers(int pattern);

// Finds a rule by name: `asked` (from the user) or, if that is NULL, `name` (from the file). Names
// are "gpt2", "smollm", "llama3", ..., and the other values of tokenizer.ggml.pre. False: unknown;
// exit code 2 (asked) or 3, the message has the value and the known names.
bool split_rule_find(SplitRule *rule, const char *asked, const char *name, Error *error);

// The value of tokenizer.ggml.pre for a rule with these passes, NFC and ignore_merges; NULL: none.
const char *split_rule_gguf_name(const SplitRule *rule, bool ignore_merges);

// The name of a rule's passes, for descriptions.
const char *split_rule_name(const SplitRule *rule);

// ---- pretokenize.c (without_libraries.c refuses) ----

// Before the sandbox, in which no memory can be made executable: PCRE2 keeps the 64 KiB that it
// takes here for the code of the patterns, which need 20 at most. Without them it interprets
// patterns, with the same result.
void pretokenizer_reserve(void);

// NULL: exit code 5, or 3 where this build has no PCRE2.
Pretokenizer *pretokenizer_open(const SplitRule *rule, Error *error);
void pretokenizer_close(Pretokenizer *pretokenizer); // NULL is fine

// Calls `visit` with each word in order; together they are the (normalised) text. A word is never
// empty, and borrowed during the call. False: `visit` returned false, or exit code 5.
typedef bool (*WordVisitor)(void *context, const char *word, size_t length, Error *error);
bool pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t length,
                        WordVisitor visit, void *context, Error *error);

// Whether text[0 .. length) begins or ends with a word character (\w).
bool starts_with_word(const char *text, size_t length);
bool ends_with_word(const char *text, size_t length);

// ---- nfc.c ----

// Unicode normalisation form C of valid UTF-8, in O(n log n) for any sequence of combining marks.
// *out is `text` itself if no character of it can change, else malloced. False: exit code 5.
//
// The Unicode version is utf8proc's. The Rust library tokenizers has Unicode 9: it does not reorder
// the 108 combining marks added since, such as U+08CC and U+08D2. So ids differ from that library's
// where a text has such a mark next to another one and the two are not in canonical order.
bool nfc(char **out, size_t *out_length, const char *text, size_t length, Error *error);

// Cutting a text into words before byte-level BPE, with exactly the patterns that the models were
// trained with. The patterns are constants of pretokenize.c; a file only names one.
//
//     split_rule_find(&rule, NULL, "llama3", &error);
//     Pretokenizer *p = pretokenizer_open(&rule, &error);
//     pretokenizer_split(p, text, length, take_word, context, &error);
//
// Any bytes may come. A byte that is no part of a valid UTF-8 character is a word of its own, and
// the text on either side of it is cut by itself.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pretokenizer Pretokenizer;

enum { LIMIT_PASSES = 4 };

// How a text is cut: each pass cuts its matches out of the pieces that the one before left, and
// matches and what stands between them are the pieces of the next.
typedef struct SplitRule {
    int passes[LIMIT_PASSES]; // numbers of patterns
    int n_passes;             // 0: the text is one word
    bool nfc;                 // bring the text into normalisation form C first
    // What a name also says where the file does not (GGUF):
    bool ignore_merges; // a word that is a token is that token
    bool adds_bos;
} SplitRule;

// ---- split_rules.c: the tables ----

// The number of the pattern that a tokenizer.json spells like this, or -1: unknown.
int split_pattern_find(const char *regex);
// The pattern as published.
const char *split_pattern_regex(int pattern);

// The rule with the name that the user `asked` for, or where that is NULL the one that the file
// names: "gpt2", "smollm", "llama3", ..., or another value of tokenizer.ggml.pre. False: unknown,
// exit code 2 (asked) or 3, naming the value and the known names.
bool split_rule_find(SplitRule *rule, const char *asked, const char *name, Error *error);

// What tokenizer.ggml.pre says for a rule with these passes and normalisation, where a word that is
// a token is that token or not; NULL: there is no such name.
const char *split_rule_gguf_name(const SplitRule *rule, bool ignore_merges);

// The name of a rule's passes, for descriptions.
const char *split_rule_name(const SplitRule *rule);

// ---- pretokenize.c (without_pcre2.c refuses) ----

// NULL: exit code 5, or 3 where this build has no PCRE2.
Pretokenizer *pretokenizer_open(const SplitRule *rule, Error *error);
void pretokenizer_close(Pretokenizer *pretokenizer); // NULL is fine

// Calls `visit` with each word in order; together they are the (normalised) text. A word is never
// empty and borrowed during the call. False when `visit` says so, or on exit code 5.
typedef bool (*WordVisitor)(void *context, const char *word, size_t length, Error *error);
bool pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t length,
                        WordVisitor visit, void *context, Error *error);

// Whether text[0 .. length) begins, ends with a word character (\w).
bool starts_with_word(const char *text, size_t length);
bool ends_with_word(const char *text, size_t length);

// ---- nfc.c ----

// Normalisation form C, in time O(n log n) whatever marks stand in a row.
//
// It is that of utf8proc's Unicode, as Python's (the slow Qwen tokenizer) is that of a like
// version. The library that runs tokenizer.json files elsewhere knows Unicode 9: the 108 marks that
// came later, such as U+08CC and U+08D2, have no class there and stay where they stand. So the ids
// differ where a text has one of those beside another mark, the two not in canonical order.
//
// The form C of valid UTF-8: *out is `text` itself where that is plainly in form C, else malloced.
// False: exit code 5.
bool nfc(char **out, size_t *out_length, const char *text, size_t length, Error *error);

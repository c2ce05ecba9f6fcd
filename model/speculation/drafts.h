// Drafts: guesses of the next tokens of a text, from the text itself or from a small model. Which
// of them are verified, and whether that pays, is speculate.h's.
#pragma once

#include "model/model.h"
#include "model/sampler.h"

// ---- lookup: where the end of the text stood before, and so what may come next (lookup.c) ----

// A text that repeats itself, or its prompt, is drafted from there: prompt lookup, n-gram
// speculation.
enum {
    LOOKUP_LONGEST = 64, // tokens of a match that are compared
    LOOKUP_PLACES = 512, // earlier places of the last token that are looked at, the newest first
};

typedef struct Lookup {
    int vocab_size, capacity, count;
    int32_t *text;     // (capacity) the tokens so far
    int32_t *previous; // (capacity) where the same token stood before; -1: nowhere
    int32_t *newest;   // (vocab_size) where each token stood last; -1: nowhere
} Lookup;

// For a text of at most `capacity` tokens below vocab_size. False: exit code 5.
bool lookup_init(Lookup *lookup, int vocab_size, int capacity, Error *error);
void lookup_free(Lookup *lookup); // zeroed or half-built is fine

void lookup_push(Lookup *lookup, int32_t token); // while count < capacity
void lookup_truncate(Lookup *lookup, int count); // keeps the first `count` tokens

// The longest stretch before the end of the text that equals the text's end, of those that end in
// one of LOOKUP_PLACES places; of equally long ones the newest. Returns its length in tokens, 0
// where there is none; *next: the place behind it, below count.
int lookup_find(const Lookup *lookup, int *next);

// out[n] = what followed there. Where that reaches the end of the text it goes on with what it has
// just written: a text that runs in a circle is continued for as long as wanted.
void lookup_copy(const Lookup *lookup, int next, int32_t *out, int n);

// ---- draft: a small model of the same vocabulary, its cache following the text (draft.c) ----

typedef struct Draft {
    Model *model;   // borrowed
    float *uniform; // (1) device memory of the model
    int followed;   // tokens of the text that the cache holds
    int32_t *ahead; // (capacity) the drafts that it holds behind them
    int n_ahead;
    Error failure; // of a pass; then there are no more drafts
} Draft;

// Seconds, as far as they were measured; else 0.
typedef struct DraftTime {
    double guess;   // of each draft
    double reading; // of the tokens that are long in the text, all together
    int n_read;
} DraftTime;

// For at most `capacity` drafts at a time; the model has one sequence and an empty cache. False:
// exit code 5 or 6.
bool draft_init(Draft *draft, Model *model, int capacity, Error *error);
void draft_free(Draft *draft); // zeroed or half-built is fine

void draft_truncate(Draft *draft, int count); // the text has no more than `count` tokens now

// out[0 .. n-1] = guesses of what follows text (count), sampled as `sampler` will sample the tokens
// there: by its rule and with its next numbers of the generator, so that a draft of the same
// distribution is the same token; NULL: greedy. Returns how many: fewer than n where the draft's
// context ends, a guess is not below vocab_size, or a pass fails.
int draft_propose(Draft *draft, const int32_t *text, int count, const Sampler *sampler,
                  int vocab_size, int32_t *out, int n, DraftTime *time);

// Reads `n` of the tokens that draft_propose would have to read first, so that their time is known.
void draft_read(Draft *draft, const int32_t *text, int count, int n, DraftTime *time);

// Tokens of a text of `count` that are to be read first, 0 where they are the newest ones that
// belong to any proposal.
int draft_behind(const Draft *draft, int count);

// Speculation: guesses of the next tokens of a text (drafts), which a Decoder verifies together in
// one pass, and the measurement of whether that pays.
//
//     SpeculationOptions options = {.vocab_size = v, .context = c};
//     Speculation *s = speculation_open(&options, &error);
//     speculation_text(s, 0, prompt, n);   // before decoder_begin, which gets .speculation = s
//     SpeculationCounts counts = speculation_counts(s);
//     speculation_close(s);
//
// It changes no result: a draft is kept where it is the token that the sampler takes from the
// verified logits (model/decoder.h). Only the time differs, and with it how many drafts there are:
// their number depends on measured times, so it is not the same in every run.
//
// When it pays. A pass of one row takes t seconds, each row more r, a draft q (0 for a lookup), all
// measured while running. A draft is kept with probability p, measured for each length of match.
// k drafts bring 1 + p + p^2 + .. + p^k tokens in t + k (r + q) seconds: the k with the most tokens
// a second is taken, and none where that is not 5 % more than 1 / t. Where none pays, one pass is
// tried again after 16 declined ones, then after 32, .. and at most 512.
//
// A draft model has to read what the text has become since its last drafts, which takes time
// whether they are right or not; how long is known from the first 32. It is tried where all trials,
// with that reading, stay below 5 % of the time; and where drafts pay, it reads what they win back
// in as many tokens as were taken so far.
#pragma once

#include "model/model.h"
#include "model/sampler.h"

enum { SPECULATION_MAX = 15 }; // drafts of one pass

typedef struct SpeculationOptions {
    int vocab_size; // of the model that verifies
    int context;    // tokens of the longest text
    Model *draft;   // borrowed; with one sequence and an empty cache. NULL: lookup in the text
    int fixed;      // so many drafts whether it pays or not; 0: measured
} SpeculationOptions;

typedef struct SpeculationCounts {
    uint64_t drafted, accepted; // drafts that were verified, and of these, that became tokens
    uint64_t passes;            // that verified drafts
    uint64_t declined;          // proposals that were not worth their time
    bool beyond_draft;          // the text has passed the end of the draft's context
} SpeculationCounts;

typedef struct Speculation Speculation;

// NULL: exit code 5 or 6.
Speculation *speculation_open(const SpeculationOptions *options, Error *error);
void speculation_close(Speculation *speculation); // NULL is fine

// The text is now its first `keep` tokens and `ids` (count) behind them. More than it has: all anew
// from `ids`. `ids` are below vocab_size.
void speculation_text(Speculation *speculation, int keep, const int32_t *ids, int count);
SpeculationCounts speculation_counts(const Speculation *speculation); // since speculation_open
// Why the draft model is used no more; its code is 0 where it is. Borrowed.
const Error *speculation_failure(const Speculation *speculation);

// ---- for a Decoder ----

int speculation_length(const Speculation *speculation); // tokens of the text

// out[0 .. n-1] = drafts of what follows the text, n <= most; returns n. `sampler`: as for
// draft_propose.
int speculation_propose(Speculation *speculation, const Sampler *sampler, int32_t *out, int most);
void speculation_measure(Speculation *speculation, int rows, double seconds); // of a pass
void speculation_take(Speculation *speculation, int32_t token); // it was sampled: the text's next

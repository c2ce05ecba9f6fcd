// What perplexity computes: which tokens of a text are scored, how well the model predicts them,
// and how much the predictions of two runs differ.
//
// Windows. A text longer than the model's context is fed in windows of `window` tokens, which begin
// at 0, stride, 2 stride ... The window that begins at b is fed tokens b .. b+window-1 and predicts
// b+1 .. b+window. Scored are those that no earlier window has scored:
//
//   stride = window      |bbbb|          every token but the text's first is scored once
//                             |bbbb|
//   stride < window      |bbbb|
//                           |..bb|       . fed again as context, b scored
//
// second_half is what llama.cpp's perplexity does: whole windows that do not overlap, of which the
// tokens after the middle are scored, each with at least half a window of context.
//
//   second_half          |..bb|..bb|     b+window/2+1 .. b+window-1; an incomplete last one is left
//   out
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TextWindows {
    size_t window, stride; // stride = window where second_half
    size_t max_windows;    // 0: as many as the text has
    bool second_half;
} TextWindows;

typedef struct TextWindow {
    size_t begin, end;   // ids[begin .. end) are fed
    size_t first, after; // ids[first .. after) are scored, each by the row before it
} TextWindow;

// The i-th window of a text of `count` tokens; false after the last.
bool text_window(TextWindow *window, const TextWindows *windows, size_t count, size_t i);

// How many tokens all windows score; *used: how many tokens of the text they read.
size_t text_windows_scored(const TextWindows *windows, size_t count, size_t *used);

// ---- perplexity ----
//
//   nll(t) = -log p(token t | the tokens before it in its window)        nats
//   perplexity = e^(mean nll), its standard error = perplexity * deviation(nll) / sqrt(count)

typedef struct Score {
    uint64_t count, top1;    // tokens scored; those that the model found likeliest
    double sum, sum_squares; // of nll
    uint64_t bytes;          // of the scored tokens; 0: unknown, or a part of the text
} Score;

typedef struct Figures {
    double mean, perplexity,
        error;   // error: the standard error of the perplexity; NaN for one token
    double bits; // per byte of the text; NaN: unknown
    double top1; // share of tokens that the model found likeliest
} Figures;

// Adds one token: its id, and the logits (vocab_size) that predict it. Returns its nll.
double score_add(Score *score, const float *logits, int vocab_size, int32_t id);
Figures score_figures(const Score *score);

// ---- divergence ----
//
//   KL(P || Q) = sum_i p_i (log p_i - log q_i)      nats; P the saved run, Q this one
//
//     Divergence d = {0};
//     divergence_init(&d, rows, &error);
//     divergence_add(&d, exact, got, vocab_size); // once per row
//     DivergenceSummary s = divergence_summary(&d);
//     divergence_free(&d);

typedef struct Divergence {
    double *kl; // (room) owned; one per row
    size_t count, room;
    uint64_t same_top;
    double largest_error, sum_squares; // of logits; the sum of the mean square of each row
} Divergence;

typedef struct DivergenceSummary {
    double kl_mean, kl_p99, kl_max; // p99: the 99th percentile
    double top1_agreement;          // share of rows with the same likeliest token
    double max_logit_error, rms_logit_error;
} DivergenceSummary;

bool divergence_init(Divergence *divergence, size_t rows, Error *error); // false: exit code 5
void divergence_free(Divergence *divergence);

// One row of logits (vocab_size) of each run, all finite; at most as many as `rows` said. Returns
// the row's divergence.
double divergence_add(Divergence *divergence, const float *exact, const float *got, int vocab_size);

// Sorts the rows. All NaN without rows.
DivergenceSummary divergence_summary(Divergence *divergence);

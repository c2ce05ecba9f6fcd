// HeadRanking: how much worse the model predicts a text when one head at a time is silenced.
//
// Several heads are silenced side by side, each in a sequence of its own, so that the weights are
// read once for all of them. A row has the same bits whatever shares its pass, so the loss of a
// head is that of `perplexity --ablate` for it alone.
//
//     HeadRanking r = {0};
//     good = ranking_open(&r, config, &error) && ... open the model with RANKING_SEQUENCES ... &&
//            ranking_run(&r, &session, &text, &error);
//     ranking_print(&r, options);
//     ranking_free(&r);
#pragma once

#include "commands/perplexity/windows.h"

// Sequences of one pass, and the tokens of each: together as many rows of logits as fit in memory.
enum { RANKING_SEQUENCES = 8, RANKING_ROWS = 16 };

typedef struct HeadLoss {
    int layer, head; // -1: no head is silenced, what the others are compared with
    Score score;
} HeadLoss;

typedef struct HeadRanking {
    HeadLoss *heads; // (count) owned; the first is that of the whole model
    int count;
} HeadRanking;

bool ranking_open(HeadRanking *ranking, const Config *config, Error *error); // false: exit code 5
void ranking_free(HeadRanking *ranking);                                     // zeroed is fine

// False: the error of a pass, or exit code 130.
bool ranking_run(HeadRanking *ranking, const Session *session, const WindowedText *text,
                 Error *error);

// The heads, those whose loss matters most first: a table, or with --csv or --json all of them.
void ranking_print(HeadRanking *ranking, const Options *options);

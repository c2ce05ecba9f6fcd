// PatternTable: one text scored under several attention patterns side by side, each in a sequence
// of its own, so that the logits of the first are there to compare with.
//
//     PatternTable t = {0};
//     good = patterns_parse(&t, "causal,local:64+global:4", &error) && ... the model is opened ...
//            patterns_open(&t, model, scored, chunk_rows, &error);
//     good = patterns_score(&t, &session, &chunk, &error);      // for each chunk of each window
//     patterns_print(&t, options, &windows);
//     patterns_free(&t);
#pragma once

#include "commands/perplexity/windows.h"

enum { PATTERN_NAME_SIZE = 80 };

typedef struct PatternRow {
    char name[PATTERN_NAME_SIZE];
    KeyPattern pattern;
    Score score;
    Divergence divergence; // from the first pattern
    double seconds;        // of the forward passes
    double kv_bytes;       // of the keys and values that all tokens together saw
} PatternRow;

typedef struct PatternTable {
    PatternRow rows[OPTIONS_MAX_LIST];
    int count;    // 0: no table is wanted
    size_t fed;   // tokens, by each pattern
    float *first; // (chunk_rows, vocab_size) owned: logits of the first pattern
} PatternTable;

// Patterns separated by commas. False: exit code 2.
bool patterns_parse(PatternTable *table, const char *list, Error *error);

// For a text of which `scored` tokens are scored, at most chunk_rows in a chunk. False: exit code
// 5.
bool patterns_open(PatternTable *table, const Model *model, size_t scored, int chunk_rows,
                   Error *error);
void patterns_free(PatternTable *table); // zeroed is fine

// Every pattern in its own sequence, at most the chunk_rows of patterns_open.
bool patterns_score(PatternTable *table, const Session *session, const TextChunk *chunk,
                    Error *error);

// A table, or with --csv or --json its rows.
void patterns_print(PatternTable *table, const Options *options, const TextWindows *windows);

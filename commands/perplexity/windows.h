// A text through a model in windows (scoring.h), a chunk of rows at a time: what perplexity,
// --ablate-each and convert's --importance and --check have in common.
//
//     TextWindows windows = {.window = windows_default(context), ...};
//     WindowedText text = {ids, count, &windows, -1};
//     good = windows_feed(&text, score, &run, &(WindowsShow){"perplexity", quiet}, &error);
#pragma once

#include "commands/perplexity/scoring.h"
#include "commands/shared/session.h"

// Rows of a chunk, and so of logits in memory: 25 MB for a vocabulary of 49,152.
enum { CHUNK_ROWS = 128 };

// A window of 1024 tokens, or the model's context: longer ones predict slightly better and cost
// more.
size_t windows_default(int context);

// A text and how it is cut; `ids` is changed meanwhile where `bos` replaces a window's first token.
typedef struct WindowedText {
    int32_t *ids;
    size_t count;
    const TextWindows *windows;
    int32_t bos; // with second_half: in place of the first token of every window; -1: none
} WindowedText;

// n tokens ids[0 .. n-1] of a window; where wants[i], ids[i + 1] is scored.
typedef struct TextChunk {
    int n; // at most CHUNK_ROWS
    const int32_t *ids;
    const bool *wants;
    bool begins; // the first of its window: caches are to be emptied
} TextChunk;

// What is done with a chunk. False: the error ends windows_feed.
typedef bool ChunkFunction(void *context, const TextChunk *chunk, Error *error);

typedef struct WindowsShow {
    const char *label; // of the progress bar
    bool quiet;
} WindowsShow;

bool windows_feed(const WindowedText *text, ChunkFunction *function, void *context,
                  const WindowsShow *show, Error *error);

// Empties the caches of all sequences where the chunk begins a window.
void windows_begin(const Session *session, const TextChunk *chunk);
// That, and the chunk through the model in sequence 0.
bool windows_forward(const Session *session, const TextChunk *chunk, Error *error);

// StopText: watches a stream of bytes for the texts that end it (--stop), and holds back only what
// could still become one of them.
#pragma once

#include "commands/shared/options.h"

typedef struct StopText {
    const TextList *stops; // borrowed; the caller sets it
    char *held;
    size_t length, capacity, released;
} StopText;

// Appends bytes. *out, *out_length: what can be shown now, borrowed until the next call. *found:
// a stop text is complete; what comes before it is in *out, and nothing more will come. False:
// exit code 5.
bool stop_text_push(StopText *stop, const char *bytes, size_t length, const char **out,
                    size_t *out_length, bool *found, Error *error);
// What is still held: no stop text came of it.
void stop_text_flush(StopText *stop, const char **out, size_t *out_length);
void stop_text_free(StopText *stop);

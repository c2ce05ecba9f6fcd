// StopText: searches a stream of bytes for the texts that end it (--stop). It holds back only bytes
// that may be the beginning of one.
#pragma once

#include "commands/shared/options.h"

typedef struct StopText {
    const TextList *stops;   // borrowed; the caller sets it
    char *held;              // owned: bytes that may begin a stop text, after those just released
    size_t length, capacity; // of held
    size_t released;         // bytes of held that the last push gave out
} StopText;

// Appends bytes. *out, *out_length: what can be shown now, borrowed until the next call. *found: a
// stop text is complete, and *out ends before it. False: exit code 5.
bool stop_text_push(StopText *stop, const char *bytes, size_t length, const char **out,
                    size_t *out_length, bool *found, Error *error);
// At the end of the stream: the bytes still held.
void stop_text_flush(StopText *stop, const char **out, size_t *out_length);
void stop_text_free(StopText *stop);

// A stop text may be spread over several tokens, so bytes that could begin one are held back until
// the next bytes decide. For --stop "END":
//
//   push "the EN"     out "the "     held "EN"
//   push "D."         found; the text ends before "END"        or
//   push "T"          out "ENT"      held ""
//
// `held` begins with what the last push released, which stays valid for the caller until the next.
#include "commands/shared/stop_text.h"

#include <stdlib.h>
#include <string.h>

// Offset of the first stop text in `held`, or `length`.
static size_t first_match(const StopText *stop) {
    size_t first = stop->length;
    for (int i = 0; i < stop->stops->count; i++) {
        const char *text = stop->stops->texts[i];
        const char *at = memmem(stop->held, stop->length, text, strlen(text));
        if (at && (size_t)(at - stop->held) < first) first = (size_t)(at - stop->held);
    }
    return first;
}

// Length of the longest suffix of `held` that is a prefix of a stop text.
static size_t undecided(const StopText *stop) {
    size_t longest = 0;
    for (int i = 0; i < stop->stops->count; i++) {
        const char *text = stop->stops->texts[i];
        size_t n = strlen(text) - 1;
        if (n > stop->length) n = stop->length;
        while (n > longest && memcmp(stop->held + stop->length - n, text, n))
            n--;
        if (n > longest) longest = n;
    }
    return longest;
}

// Moves what is still held to the front.
static void drop_released(StopText *stop) {
    memmove(stop->held, stop->held + stop->released, stop->length - stop->released);
    stop->length -= stop->released;
    stop->released = 0;
}

bool stop_text_push(StopText *stop, const char *bytes, size_t length, const char **out,
                    size_t *out_length, bool *found, Error *error) {
    *out = "";
    *out_length = 0;
    *found = false;
    if (!length) return true;
    if (stop->released) drop_released(stop);
    if (stop->length + length > stop->capacity) {
        size_t capacity = 2 * (stop->length + length) + 64;
        char *grown = realloc(stop->held, capacity);
        if (!grown) return error_set(error, ERROR_MEMORY, "text: out of memory");
        stop->held = grown;
        stop->capacity = capacity;
    }
    memcpy(stop->held + stop->length, bytes, length);
    stop->length += length;
    // Searched anew from the front: a match can begin only in bytes that were held back or have
    // just come.
    size_t match = first_match(stop);
    *found = match < stop->length;
    *out = stop->held;
    *out_length = *found ? match : stop->length - undecided(stop);
    stop->released = *found ? stop->length : *out_length;
    return true;
}

void stop_text_flush(StopText *stop, const char **out, size_t *out_length) {
    *out = stop->length ? stop->held + stop->released : "";
    *out_length = stop->length - stop->released;
    stop->released = stop->length;
}

void stop_text_free(StopText *stop) {
    free(stop->held);
    *stop = (StopText){.stops = stop->stops};
}

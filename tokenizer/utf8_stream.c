// Utf8Stream: a token of a byte-level vocabulary may end inside a UTF-8 character; printed text may
// not. The buffer holds the bytes released last, then up to three bytes of an incomplete character.
//
//     buffer   | released: printed by the caller | pending: 0 .. 3 bytes |
//
// The next push moves `pending` to the front, so what a push returned is gone then.
#include "base/text.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

// Grows by half, so that a long text is copied a few times only. False: exit code 5.
static bool stream_reserve(Utf8Stream *stream, size_t need, Error *error) {
    if (need <= stream->capacity) return true;
    size_t capacity = need < 64 ? 64 : need + need / 2;
    char *buffer = capacity < need ? NULL : realloc(stream->buffer, capacity);
    if (!buffer) return error_set(error, ERROR_MEMORY, "out of memory for %zu bytes of text", need);
    stream->buffer = buffer;
    stream->capacity = capacity;
    return true;
}

// Whether the bytes are the beginning of an incomplete character. Its missing bytes are
// continuation bytes, 80 .. BF; the ranges that UTF-8 allows behind a first byte include at least
// one end of that, so trying both ends, 80 and BF, finds every beginning.
static bool is_incomplete(const char *text, size_t length) {
    if (length >= 4) return false;
    for (int fill = 0x80; fill <= 0xbf; fill += 0x3f) {
        char whole[4];
        uint32_t codepoint;
        memset(whole, fill, sizeof whole);
        memcpy(whole, text, length);
        if (utf8_decode(whole, sizeof whole, &codepoint) > length) return true;
    }
    return false;
}

// The number of bytes that can be released: complete characters, and bytes that are invalid
// whatever follows.
static size_t releasable(const char *text, size_t length) {
    size_t end = 0;
    while (end < length) {
        uint32_t codepoint;
        size_t step = utf8_decode(text + end, length - end, &codepoint);
        // An invalid byte that nothing can complete is released as it is.
        if (!step && is_incomplete(text + end, length - end)) break;
        end += step ? step : 1;
    }
    return end;
}

bool utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t length, const char **out,
                      size_t *out_length, Error *error) {
    *out = stream->buffer ? stream->buffer : "";
    *out_length = 0;
    if (length > SIZE_MAX / 2 || !stream_reserve(stream, stream->pending + length + 1, error))
        return error_set(error, ERROR_MEMORY, "out of memory for %zu bytes of text", length);
    memmove(stream->buffer, stream->buffer + stream->released, stream->pending);
    if (length) memcpy(stream->buffer + stream->pending, bytes, length);
    size_t held = stream->pending + length;
    stream->released = releasable(stream->buffer, held);
    stream->pending = held - stream->released;
    *out = stream->buffer;
    *out_length = stream->released;
    return true;
}

// What is incomplete at the end of the text is released as it is.
void utf8_stream_flush(Utf8Stream *stream, const char **out, size_t *out_length) {
    *out = stream->buffer ? stream->buffer + stream->released : "";
    *out_length = stream->pending;
    stream->released += stream->pending;
    stream->pending = 0;
}

void utf8_stream_free(Utf8Stream *stream) {
    free(stream->buffer);
    *stream = (Utf8Stream){0};
}

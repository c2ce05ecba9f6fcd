// Text goes through three steps: bytes to whole characters, characters to the token that their
// first byte belongs to, runs of one colour to standard output.
#include "commands/generate/surprise.h"

#include "base/text.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

// The scale: 12 bits is a probability of 1 / 4096.
static const Picture BITS = {.low = 0, .high = 12};

double surprise_bits(const Surprise *s, const float *logits, int32_t id) {
    double bits = (log_sum_exp(logits, s->vocab_size) - (double)logits[id]) / M_LN2;
    return bits > 0 ? bits : 0; // below 0 by rounding only
}

bool surprise_push(Surprise *s, double bits, size_t length, Error *error) {
    if (s->first == s->count) s->first = s->count = 0;
    if (s->count == s->capacity) {
        size_t capacity = 2 * s->capacity + 64;
        SurpriseSpan *grown = realloc(s->spans, capacity * sizeof *grown);
        if (!grown) return error_set(error, ERROR_MEMORY, "text: out of memory");
        s->spans = grown;
        s->capacity = capacity;
    }
    s->spans[s->count++] = (SurpriseSpan){length, picture_shade(&BITS, (float)bits)};
    if (isnan(bits)) return true;
    s->bits += bits;
    s->tokens++;
    return true;
}

// The shade of the next `length` bytes, which begin in the first span that is left, and takes them
// away.
static int take_bytes(Surprise *s, size_t length) {
    int shade = -1;
    for (bool begun = false; length && s->first < s->count;) {
        SurpriseSpan *span = &s->spans[s->first];
        if (!begun && span->length) shade = span->shade, begun = true;
        size_t part = span->length < length ? span->length : length;
        span->length -= part;
        length -= part;
        s->first += !span->length;
    }
    return shade;
}

static void set_shade(const Surprise *s, int *current, int shade) {
    Buffer escape = {0};
    if (*current == shade) return;
    picture_set_text(&escape, s->colors, shade);
    output_bytes(escape.bytes, escape.size);
    buffer_free(&escape);
    *current = shade;
}

static void put_characters(Surprise *s, const char *bytes, size_t length) {
    int current = -1;
    size_t begin = 0; // of the run with the present colour
    for (size_t at = 0, n; at < length; at += n) {
        uint32_t character = 0;
        n = utf8_decode(bytes + at, length - at, &character);
        if (!n) n = 1; // a byte that is part of no character
        int shade = take_bytes(s, n);
        if (bytes[at] == '\n') shade = -1;
        if (shade == current) continue;
        output_text(bytes + begin, at - begin);
        begin = at;
        set_shade(s, &current, shade);
    }
    output_text(bytes + begin, length - begin);
    set_shade(s, &current, -1);
    output_flush();
}

bool surprise_show(Surprise *s, const char *bytes, size_t length, Error *error) {
    const char *out = NULL;
    size_t count = 0;
    if (!utf8_stream_push(&s->characters, bytes, length, &out, &count, error)) return false;
    put_characters(s, out, count);
    return true;
}

void surprise_end(Surprise *s) {
    const char *out = NULL;
    size_t count = 0;
    utf8_stream_flush(&s->characters, &out, &count);
    put_characters(s, out, count);
}

// The scale is drawn where standard error shows colours; elsewhere its ends are named.
void surprise_print_legend(const Surprise *s) {
    Buffer scale = {0};
    note("background: surprise, -log2 p of each token in the model's own distribution (temperature "
         "1, before penalties and cuts); mean %.2f bits over %zu tokens",
         s->tokens ? s->bits / (double)s->tokens : 0, s->tokens);
    picture_legend(&scale, &BITS, s->colors);
    buffer_zeros(&scale, 1);
    if (scale.failed || !error_is_terminal())
        note("from dark blue, 0 bits, to yellow, 12 bits and more");
    else
        fprintf(stderr, "%s: %s bits and more\n", program_name(), (const char *)scale.bytes);
    buffer_free(&scale);
}

void surprise_free(Surprise *s) {
    free(s->spans);
    utf8_stream_free(&s->characters);
    *s = (Surprise){0};
}

bool surprise_check(const Options *o, Error *error) {
    if (o->color != COLOR_SURPRISE) return true;
    if (o->mode == MODE_CHAT)
        return error_set(error, ERROR_USAGE, "--color surprise is of generate, not of chat");
    if (o->ids || o->json || option_given(o, OPTION_LOGPROBS))
        return error_set(error, ERROR_USAGE,
                         "--color surprise colours text, not --ids, --json and --logprobs");
    return true;
}

#include "commands/shared/writer.h"
#include "base/utf8.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quoted(const char *bytes, size_t length) {
    output_bytes("\"", 1);
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)bytes[i];
        uint32_t character = 0;
        size_t n = utf8_decode(bytes + i, length - i, &character);
        if (!n)
            output_print("\\ufffd");
        else if (c == '"' || c == '\\')
            output_print("\\%c", c);
        else if (c == '\n')
            output_print("\\n");
        else if (c == '\t' || is_active_character(character))
            output_print("\\u%04x", character);
        else
            output_bytes(bytes + i, n);
        i += n ? n : 1;
    }
    output_bytes("\"", 1);
}

static void start(JsonWriter *w, const char *key) {
    if (w->comma) output_bytes(",", 1);
    w->comma = true;
    if (!key) return;
    quoted(key, strlen(key));
    output_bytes(":", 1);
}

void writer_begin(JsonWriter *w, const char *key, char bracket) {
    start(w, key);
    output_bytes(&bracket, 1);
    w->comma = false;
}

void writer_end(JsonWriter *w, char bracket) {
    output_bytes(&bracket, 1);
    w->comma = true;
}

void writer_text(JsonWriter *w, const char *key, const char *bytes, size_t length) {
    start(w, key);
    quoted(bytes, length);
}

void writer_string(JsonWriter *w, const char *key, const char *text) {
    start(w, key);
    if (text)
        quoted(text, strlen(text));
    else
        output_bytes("null", 4);
}

// With 6, 9 or 17 digits: the first that reads back as the same double.
void writer_number(JsonWriter *w, const char *key, double value) {
    static const int DIGITS[] = {6, 9, 17};
    char text[40] = "null";
    start(w, key);
    for (int i = 0; i < 3 && isfinite(value); i++) {
        snprintf(text, sizeof text, "%.*g", DIGITS[i], value);
        if (strtod(text, NULL) == value) break;
    }
    output_bytes(text, strlen(text));
}

void writer_integer(JsonWriter *w, const char *key, int64_t value) {
    start(w, key);
    output_print("%" PRId64, value);
}

void writer_bool(JsonWriter *w, const char *key, bool value) {
    start(w, key);
    output_print("%s", value ? "true" : "false");
}

void writer_ids(JsonWriter *w, const char *key, const int32_t *ids, size_t count) {
    writer_begin(w, key, '[');
    for (size_t i = 0; i < count; i++)
        writer_integer(w, NULL, ids[i]);
    writer_end(w, ']');
}

void writer_line(JsonWriter *w) {
    output_bytes("\n", 1);
    w->comma = false;
}

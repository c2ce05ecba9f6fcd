// JsonWriter: prints one JSON value to standard output, on one line, without building a tree.
//
//     JsonWriter w = {0};
//     writer_begin(&w, NULL, '{');
//     writer_integer(&w, "tokens", 200);
//     writer_end(&w, '}');          // and writer_line(&w) for the newline
//
// The order of keys is the order of the calls. `key` is NULL inside an array. Each byte that is not
// valid UTF-8 becomes U+FFFD; a number that is not finite becomes null.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct JsonWriter {
    bool comma; // the next value is not the first of its object or array
} JsonWriter;

void writer_begin(JsonWriter *w, const char *key, char bracket);
void writer_end(JsonWriter *w, char bracket);
void writer_text(JsonWriter *w, const char *key, const char *bytes, size_t length);
void writer_string(JsonWriter *w, const char *key, const char *text); // NULL: null
void writer_number(JsonWriter *w, const char *key, double value);
void writer_integer(JsonWriter *w, const char *key, int64_t value);
void writer_bool(JsonWriter *w, const char *key, bool value);
void writer_ids(JsonWriter *w, const char *key, const int32_t *ids, size_t count);
void writer_line(JsonWriter *w);

// Arrays that grow. Buffer: bytes for what is written to a file: headers, JSON, little-endian
// numbers. IdList: token ids.
//
//     Buffer b = {0};
//     buffer_u32(&b, 3);
//     buffer_quote(&b, name, strlen(name));
//     if (b.failed) ...                       // sticky: one check at the end is enough
//     buffer_free(&b);
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Buffer {
    uint8_t *bytes; // owned
    size_t size, room;
    bool failed; // out of memory
} Buffer;        // zero it first

// Each appends at the end. Nothing is written to a Buffer that has failed.
void buffer_put(Buffer *b, const void *bytes, size_t size);
void buffer_zeros(Buffer *b, size_t count);
void buffer_u32(Buffer *b, uint32_t value);
void buffer_u64(Buffer *b, uint64_t value);
void buffer_f32(Buffer *b, float value);
void buffer_print(Buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Text that is UTF-8: every byte that is not is written as \xNN.
void buffer_put_text(Buffer *b, const char *text, size_t length);
// A JSON string with its quotes; U+FFFD stands for every byte that is not UTF-8.
void buffer_quote(Buffer *b, const char *text, size_t length);
// Text of an XML or HTML element or of an attribute in double quotes; U+FFFD stands for every byte
// that is not UTF-8, and for characters that XML does not have.
void buffer_markup(Buffer *b, const char *text, size_t length);
void buffer_free(Buffer *b);

// ---- token ids ----

// Owned by the caller: zero it first, then id_list_free it.
typedef struct IdList {
    int32_t *ids; // (capacity), the first `count` are set
    size_t count, capacity;
} IdList;

// False: exit code 5; the list stays as it was.
bool id_list_push(IdList *list, int32_t id, Error *error);
void id_list_free(IdList *list);

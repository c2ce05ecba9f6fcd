// Arrays that double when they are full, so that appending n bytes costs O(n) in all. Numbers are
// written byte by byte in little-endian order, whatever the machine's.
//
// After the first failed allocation a Buffer takes nothing more and keeps what it has: callers look
// at `failed` once, at the end.
#include "base/buffer.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Room for `more` bytes behind the last; NULL: no memory.
static uint8_t *grow(Buffer *b, size_t more) {
    if (b->failed) return NULL;
    if (more > b->room - b->size) {
        size_t room = b->room;
        while (room - b->size < more && room <= SIZE_MAX / 4)
            room = room ? room * 2 : 1024;
        uint8_t *bytes = room - b->size < more ? NULL : realloc(b->bytes, room);
        b->failed = !bytes;
        if (!bytes) return NULL;
        b->bytes = bytes;
        b->room = room;
    }
    return b->bytes + b->size;
}

void buffer_put(Buffer *b, const void *bytes, size_t size) {
    if (!size) return; // no bytes of an empty buffer are no pointer to add to
    uint8_t *at = grow(b, size);
    if (!at) return;
    memcpy(at, bytes, size);
    b->size += size;
}

void buffer_zeros(Buffer *b, size_t count) {
    if (!count) return;
    uint8_t *at = grow(b, count);
    if (!at) return;
    memset(at, 0, count);
    b->size += count;
}

void buffer_u32(Buffer *b, uint32_t value) {
    uint8_t bytes[4];
    for (size_t i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    buffer_put(b, bytes, sizeof bytes);
}

void buffer_u64(Buffer *b, uint64_t value) {
    buffer_u32(b, (uint32_t)value);
    buffer_u32(b, (uint32_t)(value >> 32));
}

void buffer_f32(Buffer *b, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    buffer_u32(b, bits);
}

void buffer_print(Buffer *b, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    // Formatted twice: once for the length, once into the room that was made. The NUL needs room
    // too, but is no part of the text.
    char *at = length < 0 ? NULL : (char *)grow(b, (size_t)length + 1);
    if (at) {
        vsnprintf(at, (size_t)length + 1, format, again);
        b->size += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void buffer_put_text(Buffer *b, const char *text, size_t length) {
    for (size_t i = 0, n; i < length; i += n ? n : 1) {
        uint32_t character;
        n = utf8_decode(text + i, length - i, &character);
        if (n)
            buffer_put(b, text + i, n);
        else
            buffer_print(b, "\\x%02X", (unsigned)(uint8_t)text[i]);
    }
}

void buffer_quote(Buffer *b, const char *text, size_t length) {
    buffer_put(b, "\"", 1);
    for (size_t i = 0; i < length;) {
        // Quotes, backslashes and control characters are escaped, as JSON demands (RFC 8259,
        // section 7).
        uint32_t c = 0;
        size_t n = utf8_decode(text + i, length - i, &c);
        if (!n)
            buffer_put(b, "\ufffd", 3);
        else if (c == '"' || c == '\\')
            buffer_print(b, "\\%c", (int)c);
        else if (c < 0x20 || c == 0x7f)
            buffer_print(b, "\\u%04x", c);
        else
            buffer_put(b, text + i, n);
        i += n ? n : 1;
    }
    buffer_put(b, "\"", 1);
}

// Of the control characters XML has \t, \n and \r alone.
static bool is_xml_character(uint32_t c) {
    return c >= 0x20 ? c != 0xfffe && c != 0xffff : c == '\t' || c == '\n' || c == '\r';
}

void buffer_markup(Buffer *b, const char *text, size_t length) {
    for (size_t i = 0, n; i < length; i += n) {
        uint32_t character = 0;
        n = utf8_decode(text + i, length - i, &character);
        if (!n || !is_xml_character(character)) {
            buffer_print(b, "\xef\xbf\xbd");
            if (!n) n = 1;
            continue;
        }
        switch (character) {
        case '&': buffer_print(b, "&amp;"); break;
        case '<': buffer_print(b, "&lt;"); break;
        case '>': buffer_print(b, "&gt;"); break;
        case '"': buffer_print(b, "&quot;"); break;
        default: buffer_put(b, text + i, n);
        }
    }
}

void buffer_free(Buffer *b) {
    free(b->bytes);
    *b = (Buffer){0};
}

// ---- token ids ----

bool id_list_push(IdList *list, int32_t id, Error *error) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *grown = capacity > SIZE_MAX / sizeof *grown
                             ? NULL
                             : realloc(list->ids, capacity * sizeof *grown);
        if (!grown) return error_set(error, ERROR_MEMORY, "out of memory for %zu ids", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return true;
}

void id_list_free(IdList *list) {
    free(list->ids);
    *list = (IdList){0};
}

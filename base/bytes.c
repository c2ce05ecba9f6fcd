// The bounded reader. Every number is put together byte by byte, so alignment and the machine's
// byte order do not matter; compilers make one load of it. All reads go through bytes_take, the one
// place that compares a length with what is left.
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

Bytes bytes_over(const void *base, size_t size, Error *error) {
    return (Bytes){.base = base, .size = size, .error = error};
}

Bytes bytes_of_file(Mapping *file, Error *error) {
    return (Bytes){.base = file->data, .size = file->size, .error = error, .file = file};
}

bool bytes_fail(Bytes *b, size_t offset, const char *format, ...) {
    if (!b->failed) {
        char text[ERROR_MESSAGE_SIZE];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        error_set(b->error, ERROR_FILE, "offset %zu: %s", offset, text);
    }
    b->failed = true;
    return false;
}

// Has the file's bytes in front of `end` copied into memory of our own, so that what was checked
// cannot change before it is used. False: exit code 3 (more metadata than the limit), 4 or 5; the
// reader has failed.
static bool load(Bytes *b, size_t end) {
    if (!b->file || end <= b->file->loaded) return true;
    if (end > LIMIT_METADATA)
        return bytes_fail(b, b->pos, "more than %d bytes of metadata", LIMIT_METADATA);
    b->failed = !mapping_load(b->file, end, b->error);
    return !b->failed;
}

void bytes_lack(Bytes *b, uint64_t count) {
    uint64_t end;
    if (add_ok(b->pos, count, &end) && end <= LIMIT_METADATA) b->wanted = end;
}

bool bytes_incomplete(const Bytes *b) {
    char text[150];
    if (!b->wanted) return false;
    snprintf(text, sizeof text,
             "the file is incomplete: %zu of at least %llu bytes (is it a download that was "
             "interrupted?)",
             b->size, (unsigned long long)b->wanted);
    return error_prefix(b->error, text);
}

const uint8_t *bytes_take(Bytes *b, uint64_t count, const char *what) {
    if (b->failed) return NULL;
    if (count > bytes_left(b)) {
        bytes_lack(b, count);
        bytes_fail(b, b->pos, "truncated: %s wants %llu bytes, %zu are left", what,
                   (unsigned long long)count, bytes_left(b));
        return NULL;
    }
    if (!load(b, b->pos + (size_t)count)) return NULL;
    const uint8_t *at = b->base + b->pos;
    b->pos += (size_t)count;
    return at;
}

uint8_t bytes_u8(Bytes *b, const char *what) {
    const uint8_t *p = bytes_take(b, 1, what);
    return p ? *p : 0;
}

uint16_t bytes_u16(Bytes *b, const char *what) {
    const uint8_t *p = bytes_take(b, 2, what);
    return p ? load_u16(p) : 0;
}

uint32_t bytes_u32(Bytes *b, const char *what) {
    const uint8_t *p = bytes_take(b, 4, what);
    return p ? load_u32(p) : 0;
}

uint64_t bytes_u64(Bytes *b, const char *what) {
    const uint8_t *p = bytes_take(b, 8, what);
    return p ? load_u64(p) : 0;
}

TextSpan bytes_string(Bytes *b, const char *what) {
    uint64_t length = bytes_u64(b, what);
    const uint8_t *text = bytes_take(b, length, what);
    return (TextSpan){(const char *)text, text ? (size_t)length : 0};
}

float bytes_f32(Bytes *b, const char *what) {
    const uint8_t *p = bytes_take(b, 4, what);
    return p ? load_f32(p) : 0.0f;
}

bool bytes_align(Bytes *b, size_t alignment, const char *what) {
    uint64_t aligned;
    // align_ok fails only within `alignment` bytes of 2^64, which no file reaches.
    if (b->failed) return false;
    if (!align_ok(b->pos, alignment, &aligned))
        return bytes_fail(b, b->pos, "%s: no room for padding", what);
    return bytes_take(b, aligned - b->pos, what) != NULL;
}

uint16_t load_u16(const void *p) {
    const uint8_t *b = p;
    return (uint16_t)((uint32_t)b[0] | (uint32_t)b[1] << 8);
}

uint32_t load_u32(const void *p) {
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t load_u64(const void *p) {
    const uint8_t *b = p;
    return (uint64_t)load_u32(b) | (uint64_t)load_u32(b + 4) << 32;
}

float load_f32(const void *p) {
    uint32_t bits = load_u32(p);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool align_ok(uint64_t a, uint64_t alignment, uint64_t *out) {
    uint64_t up;
    if (!add_ok(a, alignment - 1, &up)) return false;
    *out = up - up % alignment;
    return true;
}

// Text: spans of borrowed bytes, sorted indices of names, UTF-8 one character at a time, and white
// space. No byte is trusted; what needs more of Unicode uses a library.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TextSpan { // untrusted bytes, not terminated; borrowed
    const char *text;
    size_t length;
} TextSpan;

bool span_equals(TextSpan span, const char *text);

bool ends_with(const char *text, const char *end);

int span_compare(TextSpan a, TextSpan b); // as memcmp; a span sorts behind its beginnings
// Copies the text with `to` in place of each `from`, into `out`, which has room; returns the
// length.
size_t span_replace(char *out, TextSpan text, TextSpan from, TextSpan to);
size_t span_common_prefix(TextSpan a, TextSpan b); // in bytes
void spans_sort(TextSpan *spans, size_t count);
// Sorts indices of spans by what they stand for, those of equal spans by themselves.
void spans_sort_indices(uint32_t *indices, size_t count, const TextSpan *spans);
// The length of the longest of the sorted spans that text[0 .. length) begins with; 0: none.
size_t spans_longest_prefix(const TextSpan *spans, size_t count, const char *text, size_t length);

// Reads the decimal digits that text[0 .. length) begins with; returns how many. 0: there are none,
// or they are more than *out can hold.
size_t decimal_take(const char *text, size_t length, uint64_t *out);

// ---- misspelt words ----

// The least number of letters put in, left out, replaced, or exchanged with their neighbour, that
// makes `b` of `a`. Of a word of more than 63 bytes: the length of the longer.
size_t edit_distance(TextSpan a, TextSpan b);
// How many of these a word of that length may be off another and still be meant for it.
static inline size_t misspellings(size_t length) {
    return length < 4 ? 1 : length < 8 ? 2 : 3;
}

// ---- names: an index with numbers, O(n log n) for any names ----

typedef struct NameEntry {
    TextSpan name;
    uint32_t item;
} NameEntry;

typedef struct NameIndex {
    NameEntry *entries; // sorted by name; borrowed
    size_t count;
} NameIndex;

// Sorts `entries` in place. False where two are equal: exit code 3, `what` ("key", "tensor") and
// the name in the message.
bool names_index(NameIndex *index, NameEntry *entries, size_t count, const char *what,
                 Error *error);
// The item of a name, or -1.
int64_t names_find(const NameIndex *index, const char *name);

// ---- text that stands for something else ----

// True, with exit code 3 and what it is, where the file is a Git LFS pointer in place of `what`
// ("model"), text in UTF-16, or text behind a byte order mark. Its first 32 bytes are enough.
bool text_is_foreign(const void *bytes, size_t size, const char *what, Error *error);

// ---- allocated text: a path has no limit, and one on the stack is a frame of 4 KiB ----

// As printf, into a text that the caller frees. NULL: exit code 5.
char *text_print(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The path of `name` in the directory of the file `path` ("./" where that names none); "" is the
// directory itself, with its slash. The caller frees it. NULL: exit code 5.
char *path_beside(const char *path, const char *name, Error *error);

// ---- names with dots ----

// Does the pattern, one of a shell's whose * crosses dots, match the whole name or a part of it
// from a dot to the end? "q_proj", "layers.3.*", "*attn*".
bool name_matches(const char *pattern, const char *name);

// ---- UTF-8 ----

// Length (1 to 4) of the valid UTF-8 character that text[0 .. length) begins with, and the
// character in *codepoint; 0: the first byte begins none (cut short, overlong, a surrogate, beyond
// U+10FFFF).
size_t utf8_decode(const char *text, size_t length, uint32_t *codepoint);

// Writes the character (a valid one) to out[4] and returns its length.
size_t utf8_encode(char *out, uint32_t codepoint);

// White_Space of Unicode: what \s means to the reference tokenizers.
bool is_white_space(uint32_t codepoint);

// Bytes of white space that text[0 .. length) begins, ends with.
size_t leading_space(const char *text, size_t length);
size_t trailing_space(const char *text, size_t length);

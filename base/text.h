// TextSpan: borrowed bytes of text with a length; and NameIndex: a sorted list of names with
// numbers, O(n log n) whatever the names are.
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

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

bool span_equals(TextSpan span, const char *text) {
    return span.length == strlen(text) && !memcmp(span.text, text, span.length);
}

bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static int span_compare(TextSpan a, TextSpan b) {
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common ? memcmp(a.text, b.text, common) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int entry_compare(const void *a, const void *b) {
    return span_compare(((const NameEntry *)a)->name, ((const NameEntry *)b)->name);
}

bool names_index(NameIndex *index, NameEntry *entries, size_t count, const char *what,
                 Error *error) {
    *index = (NameIndex){entries, count};
    if (count) qsort(entries, count, sizeof *entries, entry_compare);
    for (size_t i = 1; i < count; i++) {
        TextSpan name = entries[i].name;
        if (!span_compare(entries[i - 1].name, name))
            return error_set(error, ERROR_FILE, "%s \"%.*s\" stands there twice", what,
                             (int)(name.length < 200 ? name.length : 200), name.text);
    }
    return true;
}

int64_t names_find(const NameIndex *index, const char *name) {
    NameEntry wanted = {.name = {name, strlen(name)}};
    const NameEntry *found =
        index->count ? bsearch(&wanted, index->entries, index->count, sizeof wanted, entry_compare)
                     : NULL;
    return found ? (int64_t)found->item : -1;
}

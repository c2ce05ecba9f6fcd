// Byte strings with a length, which files hold without a NUL, and UTF-8 as RFC 3629 defines it. All
// functions take any bytes.
#include "base/text.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool span_equals(TextSpan span, const char *text) {
    return span.length == strlen(text) && !memcmp(span.text, text, span.length);
}

bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

size_t decimal_take(const char *text, size_t length, uint64_t *out) {
    uint64_t value = 0;
    size_t n = 0;
    for (; n < length && text[n] >= '0' && text[n] <= '9'; n++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[n] - '0'), &value))
            return 0;
    if (n) *out = value;
    return n;
}

int span_compare(TextSpan a, TextSpan b) {
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common ? memcmp(a.text, b.text, common) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int spans_compare(const void *a, const void *b) {
    return span_compare(*(const TextSpan *)a, *(const TextSpan *)b);
}

void spans_sort(TextSpan *spans, size_t count) {
    if (count) qsort(spans, count, sizeof *spans, spans_compare);
}

size_t span_replace(char *out, TextSpan text, TextSpan from, TextSpan to) {
    size_t length = 0;
    for (size_t i = 0; i < text.length;) {
        bool found =
            text.length - i >= from.length && !memcmp(text.text + i, from.text, from.length);
        memcpy(out + length, found ? to.text : text.text + i, found ? to.length : 1);
        length += found ? to.length : 1;
        i += found ? from.length : 1;
    }
    return length;
}

size_t span_common_prefix(TextSpan a, TextSpan b) {
    size_t most = a.length < b.length ? a.length : b.length, i = 0;
    while (i < most && a.text[i] == b.text[i])
        i++;
    return i;
}

static int compare_indices(const void *a, const void *b, void *context) {
    const TextSpan *spans = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = span_compare(spans[x], spans[y]);
    return order ? order : (x > y) - (x < y);
}

void spans_sort_indices(uint32_t *indices, size_t count, const TextSpan *spans) {
    if (count) qsort_r(indices, count, sizeof *indices, compare_indices, (void *)(uintptr_t)spans);
}

// The first of spans[low .. high) whose byte at `depth` is >= wanted. All share the bytes before
// `depth`; one that ends there sorts first.
static size_t lower_bound(const TextSpan *spans, size_t low, size_t high, size_t depth,
                          int wanted) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int byte = spans[middle].length > depth ? (uint8_t)spans[middle].text[depth] : -1;
        if (byte < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t spans_longest_prefix(const TextSpan *spans, size_t count, const char *text, size_t length) {
    size_t low = 0, high = count, longest = 0;
    // spans[low .. high) are those that agree with the text on `depth` bytes. They are neighbours,
    // since the list is sorted; two binary searches narrow them by one more byte.
    for (size_t depth = 0; low < high; depth++) {
        if (spans[low].length == depth) longest = depth;
        if (depth == length) break;
        int byte = (uint8_t)text[depth];
        low = lower_bound(spans, low, high, depth, byte);
        high = lower_bound(spans, low, high, depth, byte + 1);
    }
    return longest;
}

// Optimal string alignment: row i of the table holds the distances between a[0 .. i) and every
// beginning of b; a row follows from the two before it.
size_t edit_distance(TextSpan a, TextSpan b) {
    enum { MOST = 64 };
    size_t rows[3][MOST];
    if (a.length >= MOST || b.length >= MOST) return a.length > b.length ? a.length : b.length;
    for (size_t i = 0; i <= a.length; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b.length; j++) {
            if (!i) {
                row[j] = j;
                continue;
            }
            size_t best = above[j - 1] + (a.text[i - 1] != b.text[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool exchanged =
                i > 1 && j > 1 && a.text[i - 1] == b.text[j - 2] && a.text[i - 2] == b.text[j - 1];
            if (exchanged && second[j - 2] + 1 < best) best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a.length % 3][b.length];
}

static int entry_compare(const void *a, const void *b) {
    return span_compare(((const NameEntry *)a)->name, ((const NameEntry *)b)->name);
}

// Sorted and not hashed: equal names become neighbours, and no choice of names is slow.
bool names_index(NameIndex *index, NameEntry *entries, size_t count, const char *what,
                 Error *error) {
    *index = (NameIndex){entries, count};
    if (count) qsort(entries, count, sizeof *entries, entry_compare);
    for (size_t i = 1; i < count; i++) {
        TextSpan name = entries[i].name;
        if (!span_compare(entries[i - 1].name, name))
            return error_set(error, ERROR_FILE, "%s \"%.*s\" appears twice", what,
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

// ---- allocated text ----

char *text_print(Error *error, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length >= 0) return text;
    error_set(error, ERROR_MEMORY, "out of memory for a text");
    return NULL;
}

char *path_beside(const char *path, const char *name, Error *error) {
    const char *slash = strrchr(path, '/');
    if (!slash) return text_print(error, "./%s", name);
    return text_print(error, "%.*s%s", (int)(slash - path + 1), path, name);
}

// ---- text that stands for something else ----

// ASCII in UTF-16: every second byte is 0. Four bytes, since a binary file may begin with two such.
// With a byte order mark, or with the bracket that JSON begins with.
static bool is_utf16(const uint8_t *b, size_t size) {
    if (size < 4) return false;
    bool little = b[0] == 0xff && b[1] == 0xfe && (b[2] || b[3]);
    bool big = b[0] == 0xfe && b[1] == 0xff;
    bool json_little = (b[0] == '{' || b[0] == '[') && !b[1] && b[2] && !b[3];
    bool json_big = !b[0] && (b[1] == '{' || b[1] == '[') && !b[2] && b[3];
    return little || big || json_little || json_big;
}

bool text_is_foreign(const void *bytes, size_t size, const char *what, Error *error) {
    static const char POINTER[] = "version https://git-lfs", MARK[] = "\xef\xbb\xbf";
    if (size >= sizeof POINTER - 1 && !memcmp(bytes, POINTER, sizeof POINTER - 1))
        return !error_set(error, ERROR_FILE,
                          "this is a Git LFS pointer, not the %s: fetch the real file", what);
    if (is_utf16(bytes, size))
        return !error_set(error, ERROR_FILE, "this is text in UTF-16, wanted UTF-8: convert it");
    if (size >= sizeof MARK - 1 && !memcmp(bytes, MARK, sizeof MARK - 1))
        return !error_set(error, ERROR_FILE,
                          "this is text behind a byte order mark (EF BB BF): remove these bytes");
    return false;
}

// ---- names with dots ----

bool name_matches(const char *pattern, const char *name) {
    for (const char *end = name; end; end = strchr(end, '.')) {
        end += *end == '.';
        if (!fnmatch(pattern, end, 0)) return true;
    }
    return false;
}

// ---- UTF-8 ----

size_t utf8_decode(const char *text, size_t length, uint32_t *codepoint) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    // By length: a smaller character would have a shorter encoding (overlong), which is not valid.
    //
    //   bytes  first byte   characters
    //   1      0xxxxxxx     U+0000  .. U+007F
    //   2      110xxxxx     U+0080  .. U+07FF        c0 and c1 are always overlong
    //   3      1110xxxx     U+0800  .. U+FFFF        without the surrogates d800 .. dfff
    //   4      11110xxx     U+10000 .. U+10FFFF      f5 .. ff are above
    if (!length) return 0;
    uint8_t first = (uint8_t)text[0];
    if (first < 0x80) {
        *codepoint = first;
        return 1;
    }
    size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || n > length) return 0;
    uint32_t c = first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        uint8_t byte = (uint8_t)text[i];
        if ((byte & 0xc0) != 0x80) return 0;
        c = c << 6 | (byte & 0x3f);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *codepoint = c;
    return n;
}

size_t utf8_encode(char *out, uint32_t c) {
    static const uint8_t mark[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(mark[n] | c);
    return n;
}

bool is_white_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t leading_space(const char *text, size_t length) {
    size_t i = 0;
    for (uint32_t c; i < length;) {
        size_t n = utf8_decode(text + i, length - i, &c);
        if (!n || !is_white_space(c)) break;
        i += n;
    }
    return i;
}

size_t trailing_space(const char *text, size_t length) {
    size_t i = length;
    // Backwards: the first byte of the last character is at most 3 continuation bytes away.
    for (uint32_t c; i;) {
        size_t n = 1;
        while (n < 4 && n < i && ((uint8_t)text[i - n] & 0xc0) == 0x80)
            n++;
        if (utf8_decode(text + i - n, n, &c) != n || !is_white_space(c)) break;
        i -= n;
    }
    return length - i;
}

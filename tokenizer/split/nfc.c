// Normalisation form C. utf8proc decomposes and composes. Combining marks are sorted here, since
// utf8proc takes quadratic time on a long run of them.
//
//     decompose    each character into its canonical parts       U+00E9 -> e, U+0301
//     sort_marks   each run of marks by combining class, stable
//     compose      by utf8proc: joins what has a composed form   e, U+0301 -> U+00E9
//
// This is the definition of Unicode Standard Annex 15. Why the order of marks matters: a dot below
// and an acute above are the same letter in either order, and become one order here.
#include "tokenizer/split/pretokenize.h"

#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <utf8proc.h>

enum { LONGEST_DECOMPOSITION = 4 }; // of one character, canonical: U+1F82 and its like

// Characters below U+0300 are in form C, and only compose with characters from U+0300 on.
// 0xcc is the first UTF-8 byte of U+0300: text in Latin-1 and its extensions ends here.
static bool is_plain(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)text[i] >= 0xcc) return false;
    return true;
}

// `text` is valid UTF-8, so utf8_decode never gives 0. out has room for LONGEST_DECOMPOSITION each.
static size_t decompose(utf8proc_int32_t *out, const char *text, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c = 0;
        i += utf8_decode(text + i, length - i, &c);
        int last = 0;
        utf8proc_ssize_t written =
            utf8proc_decompose_char((utf8proc_int32_t)c, out + n, LONGEST_DECOMPOSITION,
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &last);
        n += (size_t)written;
    }
    return n;
}

// 0: a letter, which begins a new run.
static uint64_t mark_class(utf8proc_int32_t c) {
    return (uint64_t)utf8proc_get_property(c)->combining_class;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Sorts each run of combining marks by combining class; the sort is stable. A key is
// [class: 8][index in the run: 35][character: 21].
static void sort_marks(utf8proc_int32_t *c, size_t n, uint64_t *keys) {
    for (size_t i = 0, run; i < n; i += run + 1) {
        bool ordered = true;
        for (run = 0; i + run < n; run++) {
            uint64_t class = mark_class(c[i + run]);
            if (!class) break;
            keys[run] = class << 56 | (uint64_t)run << 21 | (uint64_t)c[i + run];
            ordered = ordered && (!run || keys[run] > keys[run - 1]);
        }
        if (ordered) continue;
        qsort(keys, run, sizeof *keys, compare_keys);
        for (size_t j = 0; j < run; j++)
            c[i + j] = (utf8proc_int32_t)(keys[j] & 0x1fffff);
    }
}

static size_t encode(char *out, const utf8proc_int32_t *c, size_t n) {
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += utf8_encode(out + length, (uint32_t)c[i]);
    return length;
}

bool nfc(char **out, size_t *out_length, const char *text, size_t length, Error *error) {
    *out = (char *)(uintptr_t)text;
    *out_length = length;
    if (is_plain(text, length)) return true;
    size_t room = LONGEST_DECOMPOSITION * length; // characters, at least one byte each
    utf8proc_int32_t *c = malloc(room * sizeof *c);
    uint64_t *keys = malloc(room * sizeof *keys);
    bool good = c && keys;
    if (good) {
        size_t n = decompose(c, text, length);
        sort_marks(c, n, keys);
        n = (size_t)utf8proc_normalize_utf32(c, (utf8proc_ssize_t)n,
                                             UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        *out = malloc(4 * n + 1);
        good = *out != NULL;
        if (good) *out_length = encode(*out, c, n);
    }
    free(c);
    free(keys);
    return good || error_set(error, ERROR_MEMORY, "out of memory for %zu bytes of text", length);
}

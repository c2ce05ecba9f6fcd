// A precompiled charsmap: the normalizer's rules that replace characters (mostly NFKC).
//
//     uint32 size of the trie in bytes
//     trie: units of 32 bits, a double array in the layout of Darts-clone
//     replacement texts, each terminated by a NUL
//
//     unit   31      30 .. 10      9       8         7 .. 0
//            leaf?   offset        scale   has leaf  label        offset <<= 8 where scale is set
//
// From the unit at `pos`, base = pos ^ offset. The child for byte c is the unit at base ^ c, if
// bits 31 and 7..0 of that unit equal c. If "has leaf" is set, a rule ends here, and the low 31
// bits of the unit at base are the offset of its replacement among the texts. A text is looked up
// without bounds checks: so when a model is opened, every unit that can be reached is visited, and
// all indices must be inside.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

enum {
    LIMIT_RULE = 256,        // bytes of the text that a rule replaces: the depth of the trie
    LIMIT_REPLACEMENT = 64,  // bytes that replace it: a text must not grow without end; NFKC: 33
    SMALLEST_TRIE = 256 * 4, // one block of units
};

static const uint32_t LABEL = 0x800000ff; // of a unit, with the bit that says "leaf"

typedef struct Trie {
    const uint8_t *units; // (n_units) of four bytes
    size_t n_units;
    const char *texts; // the replacements
    size_t texts_size;
    uint8_t *states; // (n_units) of the walk
    Error *error;
} Trie;

enum { NOT_VISITED, ON_PATH, VISITED }; // ON_PATH: between the root and where the walk is

typedef struct Visit {
    uint32_t pos;
    uint16_t next; // next byte to try
} Visit;

// Little-endian in the file, at any alignment.
static uint32_t unit_at(const Trie *trie, size_t pos) {
    return load_u32(trie->units + 4 * pos);
}

// pos ^ offset; the scale bit (9) becomes a shift by 8.
static size_t base_of(const Trie *trie, size_t pos) {
    uint32_t unit = unit_at(trie, pos);
    return pos ^ ((size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6));
}

static bool has_leaf(const Trie *trie, size_t pos) {
    return pos && (unit_at(trie, pos) >> 8 & 1); // Darts-clone does not read the root's bit
}

// Checks what following the unit at `pos` would read: all 256 units that its children may be at,
// and the replacement if a rule ends here. XOR with a byte changes the low eight bits only, so the
// highest of them is base | 255.
static bool enter(const Trie *trie, size_t pos, Visit *visit) {
    size_t base = base_of(trie, pos);
    if ((base | 255) >= trie->n_units)
        return error_set(trie->error, ERROR_FILE, "charsmap: unit %zu leads to unit %zu of %zu",
                         pos, base | 255, trie->n_units);
    uint32_t text = unit_at(trie, base) & 0x7fffffff;
    if (has_leaf(trie, pos) && text >= trie->texts_size)
        return error_set(trie->error, ERROR_FILE, "charsmap: replacement at %u of %zu bytes", text,
                         trie->texts_size);
    if (has_leaf(trie, pos) &&
        strnlen(trie->texts + text, trie->texts_size - text) > LIMIT_REPLACEMENT)
        return error_set(trie->error, ERROR_FILE, "charsmap: a replacement of more than %d bytes",
                         LIMIT_REPLACEMENT);
    trie->states[pos] = ON_PATH;
    *visit = (Visit){.pos = (uint32_t)pos};
    return true;
}

// The next child of a unit; false: there are no more.
static bool next_child(const Trie *trie, Visit *visit, size_t *child) {
    size_t base = base_of(trie, visit->pos);
    while (visit->next < 256) {
        uint32_t byte = visit->next++;
        *child = base ^ byte;
        if ((unit_at(trie, *child) & LABEL) == byte) return true;
    }
    return false;
}

// Depth-first search without recursion. Units may be shared: each is entered once.
//
// stack[0 .. depth) is the current path; a child that is on it closes a cycle.
static bool walk(const Trie *trie) {
    Visit stack[LIMIT_RULE + 1] = {{0}};
    size_t depth = 1, child;
    if (!enter(trie, 0, &stack[0])) return false;
    while (depth) {
        Visit *top = &stack[depth - 1];
        if (!next_child(trie, top, &child)) {
            trie->states[top->pos] = VISITED;
            depth--;
        } else if (trie->states[child] == ON_PATH) {
            return error_set(trie->error, ERROR_FILE, "charsmap: a cycle through unit %zu", child);
        } else if (trie->states[child] == VISITED) {
            continue;
        } else if (depth > LIMIT_RULE) {
            return error_set(trie->error, ERROR_FILE, "charsmap: a rule of more than %d bytes",
                             LIMIT_RULE);
        } else if (!enter(trie, child, &stack[depth++])) {
            return false;
        }
    }
    return true;
}

static Trie trie_of(TextSpan charsmap) {
    return (Trie){.units = (const uint8_t *)charsmap.text + 4,
                  .n_units = load_u32(charsmap.text) / 4};
}

// Follows the bytes of the text down the trie and remembers the last place where a rule ended.
// Units may be shared, so a path can be longer than the walk has seen: it is followed for
// LIMIT_RULE bytes.
size_t charsmap_longest(TextSpan charsmap, const char *text, size_t length, TextSpan *replacement) {
    if (!charsmap.length) return 0;
    Trie trie = trie_of(charsmap);
    size_t pos = 0, longest = 0;
    for (size_t i = 0; i < length && i < LIMIT_RULE; i++) {
        uint8_t byte = (uint8_t)text[i];
        pos = base_of(&trie, pos) ^ byte;
        if ((unit_at(&trie, pos) & LABEL) != byte) break;
        if (!has_leaf(&trie, pos)) continue;
        longest = i + 1;
        size_t at = unit_at(&trie, base_of(&trie, pos)) & 0x7fffffff;
        replacement->text = (const char *)trie.units + 4 * trie.n_units + at;
    }
    if (longest) replacement->length = strlen(replacement->text);
    return longest;
}

// The header first: sizes must fit, and the last text must end, so that strlen stays inside.
bool charsmap_check(TextSpan charsmap, Error *error) {
    if (!charsmap.length) return true;
    if (charsmap.length < 4)
        return error_set(error, ERROR_FILE, "charsmap: %zu bytes (at least 4)", charsmap.length);
    uint32_t trie_size = load_u32(charsmap.text);
    size_t rest = charsmap.length - 4;
    if (trie_size % 4 || trie_size < SMALLEST_TRIE || trie_size >= rest)
        return error_set(error, ERROR_FILE, "charsmap: a trie of %u bytes in %zu", trie_size, rest);
    if (charsmap.text[charsmap.length - 1])
        return error_set(error, ERROR_FILE,
                         "charsmap: the last replacement has no terminating NUL");
    Trie trie = {.units = (const uint8_t *)charsmap.text + 4,
                 .n_units = trie_size / 4,
                 .texts = charsmap.text + 4 + trie_size,
                 .texts_size = rest - trie_size,
                 .states = calloc(trie_size / 4, 1),
                 .error = error};
    if (!trie.states) return error_set(error, ERROR_MEMORY, "out of memory for the charsmap");
    bool good = walk(&trie);
    free(trie.states);
    return good;
}

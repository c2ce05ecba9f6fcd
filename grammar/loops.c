// Which characters leave a state as it is: inside a string nearly all do. Where a token, and all
// that begin like it, have no others, they need not be read.
//
//     [^"\\]*   at "hello":  h e l l o return to the state, and so does all below this node of
//               the trie but what has a quote or a backslash
#include "grammar/masks.h"

// How the characters beyond ASCII begin in UTF-8; `rest` bytes 80 .. BF follow.
static const struct {
    uint8_t low, high, second_low, second_high, rest;
} BEGINNINGS[] = {{0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1},
                  {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
                  {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
                  {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};

// Bytes of a class do the same, so one of each neighbours' run is tried. *all: every byte low ..
// high, and `rest` continuation bytes behind it, lead from `from` to `to`.
static bool lead_to(Automaton *m, uint32_t from, int low, int high, int rest, uint32_t to,
                    bool *all, Error *error) {
    for (int byte = low, last = -1; *all && byte <= high; byte++) {
        uint32_t next;
        if (m->grammar->classes[byte] == last) continue;
        last = m->grammar->classes[byte];
        if (!automaton_move(m, from, (uint8_t)byte, &next, error)) return false;
        *all = rest ? next != STATE_DEAD : next == to;
        if (*all && rest && !lead_to(m, next, 0x80, 0xbf, rest - 1, to, all, error)) return false;
    }
    return true;
}

static bool others_lead_back(Automaton *m, uint32_t state, bool *all, Error *error) {
    *all = true;
    for (size_t i = 0; *all && i < sizeof BEGINNINGS / sizeof *BEGINNINGS; i++)
        for (int byte = BEGINNINGS[i].low, last = -1; *all && byte <= BEGINNINGS[i].high; byte++) {
            uint32_t next;
            if (m->grammar->classes[byte] == last) continue;
            last = m->grammar->classes[byte];
            if (!automaton_move(m, state, (uint8_t)byte, &next, error) ||
                !lead_to(m, next, BEGINNINGS[i].second_low, BEGINNINGS[i].second_high,
                         BEGINNINGS[i].rest, state, all, error))
                return false;
        }
    return true;
}

bool masks_loops(Automaton *m, uint32_t state, uint64_t *loops, Error *error) {
    uint64_t leaves = 0;
    bool all;
    for (int byte = 0; byte < 0x80; byte++) {
        uint32_t next;
        if (!automaton_move(m, state, (uint8_t)byte, &next, error)) return false;
        if (next != state) leaves |= (uint64_t)1 << trie_kind((uint8_t)byte);
    }
    if (!others_lead_back(m, state, &all, error)) return false;
    if (!all) leaves |= TRIE_OTHERS;
    *loops = ~(leaves | TRIE_CUT);
    return true;
}

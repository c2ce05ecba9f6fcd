// Cuts runs of unknown characters short before the library sees them.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000, KEPT = 16, REPLACEMENT = 0xfffd };

struct KnownCharacters {
    uint8_t bits[CODE_POINTS / 8];
};

static bool is_known(const KnownCharacters *known, uint32_t c) {
    return known->bits[c / 8] >> (c % 8) & 1;
}

static void set_known(KnownCharacters *known, uint32_t c) {
    known->bits[c / 8] |= (uint8_t)(1u << (c % 8));
}

// The next character and its length. An invalid byte counts as U+FFFD, as in the library.
static size_t next_character(const char *text, size_t length, uint32_t *c) {
    size_t n = utf8_decode(text, length, c);
    if (n) return n;
    *c = REPLACEMENT;
    return 1;
}

// Tries all characters. If no rule begins with the first bytes of one, all characters with these
// first bytes are skipped.
static void add_rules(KnownCharacters *known, TextSpan charsmap) {
    for (uint32_t c = 0, step; c < CODE_POINTS; c += step) {
        char bytes[4];
        size_t n = utf8_encode(bytes, c), shared = 1;
        while (shared <= n && charsmap_begins(charsmap, bytes, shared))
            shared++;
        step = 1;
        if (shared > n) {
            set_known(known, c);
        } else {
            step = 1u << 6 * (n - shared);
            step -= c % step;
        }
    }
}

KnownCharacters *known_characters(const SentencePieceModel *model, Error *error) {
    KnownCharacters *known = calloc(1, sizeof *known);
    if (!known) {
        error_set(error, ERROR_MEMORY, "out of memory for a table of characters");
        return NULL;
    }
    set_known(known, ' ');
    set_known(known, 0x2581);
    for (size_t i = 0; i < model->n_pieces; i++) {
        uint32_t c;
        TextSpan piece = model->pieces[i];
        for (size_t at = 0; at < piece.length; set_known(known, c))
            at += next_character(piece.text + at, piece.length - at, &c);
    }
    if (model->normalizer.charsmap.length) add_rules(known, model->normalizer.charsmap);
    return known;
}

// Only complete characters are removed, so no new character forms where two parts meet.
size_t shorten_unknown_runs(char *out, const char *text, size_t length,
                            const KnownCharacters *known) {
    size_t used = 0, run = 0;
    for (size_t at = 0, n; at < length; at += n) {
        uint32_t c;
        n = next_character(text + at, length - at, &c);
        run = is_known(known, c) ? 0 : run + 1;
        if (run > KEPT) continue;
        memcpy(out + used, text + at, n);
        used += n;
    }
    return used;
}

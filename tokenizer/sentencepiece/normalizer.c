// The normalizer of SentencePiece. The text is read in steps: at each place the longest
// user-defined piece, else the longest rule of the charsmap, else one character.
//
//     "Ｈi\xff  you "   ->   "▁Hi\ufffd▁you"     NFKC, dummy prefix, extra white space removed
//
// Source: sentencepiece's normalizer.cc, version 0.1.97.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/bytes.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

// What a step reads, and what it gives.
typedef struct Step {
    size_t length;
    TextSpan gives;
} Step;

// A byte that is no UTF-8 gives U+FFFD. In a model with byte tokens it stays as it is, so that
// decoding gives it back, as with a GGUF of that model; the library makes U+FFFD of it all the
// same.
static Step next_step(const Normalizer *n, const char *text, size_t length) {
    uint32_t codepoint;
    Step step = {.length = piece_trie_longest(n->user_defined, text, length)};
    step.gives = (TextSpan){text, step.length};
    if (step.length) return step;
    step.length = charsmap_longest(n->spec.charsmap, text, length, &step.gives);
    if (step.length) return step;
    step.length = utf8_decode(text, length, &codepoint);
    bool valid = step.length;
    if (!valid) step.length = 1;
    step.gives =
        valid || n->keeps_bytes ? (TextSpan){text, step.length} : (TextSpan){"\xef\xbf\xbd", 3};
    return step;
}

static TextSpan space_of(const Normalizer *n) {
    return n->spec.escape_whitespaces ? (TextSpan){SPM_SPACE, SPM_SPACE_LENGTH}
                                      : (TextSpan){" ", 1};
}

static void put_space(const Normalizer *n, Buffer *out) {
    TextSpan space = space_of(n);
    buffer_put(out, space.text, space.length);
}

static void put_escaped(const Normalizer *n, Buffer *out, TextSpan text) {
    if (!memchr(text.text, ' ', text.length)) {
        buffer_put(out, text.text, text.length);
        return;
    }
    for (size_t i = 0; i < text.length; i++)
        if (text.text[i] == ' ')
            put_space(n, out);
        else
            buffer_put(out, text.text + i, 1);
}

// How much of the text is in front of the first step that gives anything but one space.
static size_t leading_spaces(const Normalizer *n, const char *text, size_t length) {
    size_t at = 0;
    for (Step step; at < length; at += step.length) {
        step = next_step(n, text + at, length - at);
        if (!span_equals(step.gives, " ")) break;
    }
    return at;
}

static size_t longest_normalised(size_t length) {
    if (length >= LIMIT_NORMALISED / LIMIT_EXPANSION) return LIMIT_NORMALISED;
    return length * LIMIT_EXPANSION + SPM_SPACE_LENGTH; // the dummy prefix
}

// With remove_extra_whitespaces what a step gives loses its leading spaces where a space is before
// it. A step that gives nothing leaves that as it was.
static bool put_steps(const Normalizer *n, Buffer *out, const char *text, size_t length,
                      Error *error) {
    bool removes = n->spec.remove_extra_whitespaces, after_space = removes;
    size_t most = longest_normalised(length), left = length;
    for (Step step; left; text += step.length, left -= step.length) {
        step = next_step(n, text, left);
        TextSpan gives = step.gives;
        for (; after_space && gives.length && *gives.text == ' '; gives.length--)
            gives.text++;
        if (!gives.length) continue;
        put_escaped(n, out, gives);
        if (out->size > most)
            return error_set(error, ERROR_FILE,
                             "a text of %zu bytes has more than %zu when normalised (--limits)",
                             length, most);
        after_space = removes && gives.text[gives.length - 1] == ' ';
    }
    return true;
}

static void remove_trailing_spaces(const Normalizer *n, Buffer *out) {
    TextSpan space = space_of(n);
    while (out->size >= space.length &&
           !memcmp(out->bytes + out->size - space.length, space.text, space.length))
        out->size -= space.length;
}

// A text of spaces alone gives nothing, not even the dummy prefix.
bool normalizer_apply(const Normalizer *n, Buffer *out, const char *text, size_t length,
                      Error *error) {
    bool removes = n->spec.remove_extra_whitespaces;
    size_t at = removes ? leading_spaces(n, text, length) : 0;
    if (at == length) return true;
    if (n->spec.add_dummy_prefix && !n->space_is_suffix) put_space(n, out);
    if (!put_steps(n, out, text + at, length - at, error)) return false;
    if (removes) remove_trailing_spaces(n, out);
    if (n->spec.add_dummy_prefix && n->space_is_suffix) put_space(n, out);
    return !out->failed ||
           error_set(error, ERROR_MEMORY, "out of memory for a text of %zu bytes", length);
}

bool normalizer_open(Normalizer *n, const SentencePieceModel *model, const PieceTrie *user_defined,
                     Error *error) {
    TextSpan charsmap = model->normalizer.charsmap;
    *n = (Normalizer){.spec = model->normalizer,
                      .space_is_suffix = model->space_is_suffix,
                      .keeps_bytes = model->byte_fallback,
                      .user_defined = user_defined};
    char *copy = malloc(charsmap.length + 1);
    n->spec.charsmap.text = copy;
    if (!copy) return error_set(error, ERROR_MEMORY, "out of memory for a charsmap");
    if (charsmap.length) memcpy(copy, charsmap.text, charsmap.length);
    return true;
}

void normalizer_close(Normalizer *n) {
    free((char *)(uintptr_t)n->spec.charsmap.text);
    *n = (Normalizer){0};
}

// SentencePiece vocabularies: spaces, byte tokens, decoding, added tokens, unknown characters.
//
//     "▁the"     decodes to " the"; at the start of a text to "the"
//     "<0x0A>"   a byte token, decodes to that byte
#include "tokenizer/bpe/spm.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool spm_byte_spelling(TextSpan spelling, uint8_t *byte) {
    const char *s = spelling.text;
    if (spelling.length != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return false;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    if (high < 0 || low < 0) return false;
    *byte = (uint8_t)(high << 4 | low);
    return true;
}

// Copies `from` with a space for each U+2581 and returns the length of the copy, which is never
// longer than `from`.
static size_t copy_unescaped(char *out, TextSpan from) {
    return span_replace(out, from, (TextSpan){SPM_SPACE, SPM_SPACE_LENGTH}, (TextSpan){" ", 1});
}

const char *spm_piece(Tokenizer *t, int32_t id, bool first, size_t *length) {
    TextSpan spelling = t->tokens[id];
    char *out = vocabulary_piece_buffer(t, spelling.length + PIECE_MARGIN);
    *length = 0;
    if (!out) return "";
    uint8_t byte;
    if (t->types[id] == TOKEN_UNKNOWN) { // U+2047, as the sentencepiece library decodes it
        memcpy(out, " \xe2\x81\x87 ", 5);
        *length = 5;
    } else if (t->types[id] == TOKEN_BYTE && spm_byte_spelling(spelling, &byte)) {
        out[0] = (char)byte;
        *length = 1;
    } else {
        *length = copy_unescaped(out, spelling);
        // The space that encoding has put in front of the text. A spelling with a real space keeps
        // it.
        if (first && t->prefixes_space && *length && out[0] == ' ' && spelling.text[0] != ' ') {
            --*length;
            return out + 1;
        }
    }
    return out;
}

// One allocation for the list and the texts; added_set makes copies.
bool spm_added_tokens(Tokenizer *t, bool user_defined, Error *error) {
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        count += t->types[i] == TOKEN_CONTROL || t->types[i] == TOKEN_USER_DEFINED;
        bytes += t->tokens[i].length;
    }
    if (!count) return true;
    AddedToken *list = malloc(count * sizeof *list + bytes);
    if (!list) return error_set(error, ERROR_MEMORY, "out of memory for %zu added tokens", count);
    memset(list, 0, count * sizeof *list);
    char *text = (char *)(list + count);
    count = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        bool control = t->types[i] == TOKEN_CONTROL;
        if (!control && !(user_defined && t->types[i] == TOKEN_USER_DEFINED)) continue;
        // Of two tokens with the same spelling only the lower id can be found; skip empty ones.
        TextSpan spelling = t->tokens[i];
        if (!spelling.length) continue;
        if (vocabulary_find(t, spelling.text, spelling.length) != (int32_t)i) continue;
        size_t length = spelling.length;
        if (control)
            memcpy(text, spelling.text, length);
        else
            length = copy_unescaped(text, spelling);
        list[count++] = (AddedToken){.text = {text, length}, .id = (int32_t)i, .control = control};
        text += length;
    }
    bool good = added_set(t, list, count, error);
    free(list);
    return good;
}

// ---- output ----

// The first byte token of each byte, and the first unknown token.
void spm_unknown_set(SpmUnknown *unknown, const Tokenizer *t) {
    memset(unknown, -1, sizeof *unknown);
    for (size_t i = t->n_tokens; i-- > 0;) {
        uint8_t byte;
        if (t->types[i] == TOKEN_BYTE && spm_byte_spelling(t->tokens[i], &byte))
            unknown->bytes[byte] = (int32_t)i;
        if (t->types[i] == TOKEN_UNKNOWN) unknown->id = (int32_t)i;
    }
}

// Byte fallback for each byte; without a byte token the unknown token, once for a run.
static bool put_unknown(SpmOutput *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        int32_t id = out->unknown->bytes[(uint8_t)text[i]];
        bool unknown = id < 0;
        if (unknown && !out->after_unknown) id = out->unknown->id;
        out->after_unknown = unknown;
        if (id >= 0 && !id_list_push(out->ids, id, out->error)) return false;
    }
    return true;
}

bool spm_put(SpmOutput *out, int32_t id, const char *text, size_t length) {
    if (id < 0) return put_unknown(out, text, length);
    out->after_unknown = false;
    return id_list_push(out->ids, id, out->error);
}

#include "tokenizer/bpe/byte_alphabet.h"

#include "base/utf8.h"

// The gaps between the bytes that stand for themselves: 0-32, 127-160, 173.
size_t alphabet_letter(char *out, uint8_t byte) {
    uint32_t letter = byte;
    if (byte <= 32)
        letter = 256u + byte;
    else if (byte >= 127 && byte <= 160)
        letter = 256u + 33 + (byte - 127u);
    else if (byte == 173)
        letter = 256u + 67;
    return utf8_encode(out, letter);
}

int alphabet_byte(uint32_t c) {
    if (c >= 256) {
        if (c <= 256 + 32) return (int)c - 256;
        if (c <= 256 + 66) return (int)c - 256 - 33 + 127;
        return c == 256 + 67 ? 173 : -1;
    }
    return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : (int)c;
}

ptrdiff_t alphabet_decode(char *out, const char *spelling, size_t length) {
    ptrdiff_t n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c;
        size_t step = utf8_decode(spelling + i, length - i, &c);
        int byte = step ? alphabet_byte(c) : -1;
        if (byte < 0) return -1;
        if (out) out[n] = (char)byte;
        n++;
        i += step;
    }
    return n;
}

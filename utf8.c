#include "utf8.h"

size_t utf8_decode(const char *text, size_t length, uint32_t *codepoint) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
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

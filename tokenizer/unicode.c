#include "tokenizer/unicode.h"

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
    for (uint32_t c; i;) {
        size_t n = 1;
        while (n < 4 && n < i && ((uint8_t)text[i - n] & 0xc0) == 0x80)
            n++;
        if (utf8_decode(text + i - n, n, &c) != n || !is_white_space(c)) break;
        i -= n;
    }
    return length - i;
}

#include "tokenizer/utf8.h"

#include <stdint.h>

// RFC 3629, section 4: what may follow each first byte. Only the second byte's range varies; it is
// there that overlong forms, surrogates and numbers above U+10FFFF are told apart.
typedef struct LeadRange {
    uint8_t first, last; // first byte of the character
    uint8_t low, high;   // second byte
    uint8_t length;
} LeadRange;

static const LeadRange LEADS[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

int utf8_length(const char *text, size_t length) {
    const uint8_t *byte = (const uint8_t *)text;
    if (byte[0] < 0x80) return 1;
    for (size_t i = 0; i < sizeof LEADS / sizeof *LEADS; i++) {
        const LeadRange *lead = &LEADS[i];
        if (byte[0] < lead->first || byte[0] > lead->last) continue;
        if (length > 1 && (byte[1] < lead->low || byte[1] > lead->high)) return -1;
        for (size_t j = 2; j < lead->length && j < length; j++) {
            if (byte[j] < 0x80 || byte[j] > 0xbf) return -1;
        }
        return length < lead->length ? 0 : lead->length;
    }
    return -1;
}

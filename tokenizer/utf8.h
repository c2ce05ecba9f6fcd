// UTF-8, as little of it as a tokenizer needs: where a character ends, and what is none.
#pragma once

#include <stddef.h>

// Bytes of the well-formed character that `text` begins with: 1 to 4. 0 where the `length` bytes at
// hand begin one that is cut short, -1 where no character begins with them (a stray continuation
// byte, an overlong form, a surrogate, above U+10FFFF; RFC 3629). length > 0.
int utf8_length(const char *text, size_t length);

// UTF-8: a character at a time, nothing taken on trust; and white space, which is what of Unicode
// needs no library.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Length (1 to 4) of the valid UTF-8 character that text[0 .. length) begins with, and the
// character in *codepoint; 0: the first byte begins none (cut short, overlong, a surrogate, beyond
// U+10FFFF).
size_t utf8_decode(const char *text, size_t length, uint32_t *codepoint);

// Writes the character (a valid one) to out[4] and returns its length.
size_t utf8_encode(char *out, uint32_t codepoint);

// White_Space of Unicode: what \s means to the reference tokenizers.
bool is_white_space(uint32_t codepoint);

// Bytes of white space that text[0 .. length) begins, ends with.
size_t leading_space(const char *text, size_t length);
size_t trailing_space(const char *text, size_t length);

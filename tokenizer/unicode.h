// The little of Unicode that needs no library: white space, and by utf8.h its characters.
#pragma once

#include "utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// White_Space of Unicode: what \s means to the reference tokenizers.
bool is_white_space(uint32_t codepoint);

// Bytes of white space that text[0 .. length) begins, ends with.
size_t leading_space(const char *text, size_t length);
size_t trailing_space(const char *text, size_t length);

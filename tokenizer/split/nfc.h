// Normalisation form C, in time O(n log n) whatever marks stand in a row.
//
// It is that of utf8proc's Unicode, as Python's (the slow Qwen tokenizer) is that of a like
// version. The library that runs tokenizer.json files elsewhere knows Unicode 9: the 108 marks that
// came later, such as U+08CC and U+08D2, have no class there and stay where they stand. So the ids
// differ where a text has one of those beside another mark, the two not in canonical order.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// The form C of valid UTF-8: *out is `text` itself where that is plainly in form C, else malloced.
// False: exit code 5.
bool nfc(char **out, size_t *out_length, const char *text, size_t length, Error *error);

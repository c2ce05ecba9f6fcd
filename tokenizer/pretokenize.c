#include "tokenizer/pretokenize.h"

bool starts_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

bool ends_with_word(const char *text, size_t length) {
    (void)text, (void)length;
    return false;
}

#include "tests/fuzz/use_tokenizer.h"

#include <stdlib.h>

void fuzz_use_tokenizer(Tokenizer *t, const char *text, size_t length) {
    IdList ids = {0};
    Error error = {0};
    for (int special = 0; special < 2; special++) {
        ids.count = 0;
        if (!tokenizer_encode(t, &ids, text, length, special, &error)) {
            if (!error.code) abort();
            break;
        }
        for (size_t i = 0; i < ids.count; i++) {
            size_t n;
            if (ids.ids[i] < 0 || ids.ids[i] >= tokenizer_size(t)) abort();
            const char *piece = tokenizer_piece(t, ids.ids[i], i == 0, special, &n);
            volatile char sum = 0;
            for (size_t j = 0; j < n; j++)
                sum = (char)(sum + piece[j]); // every byte is there
        }
    }
    int32_t stops[LIMIT_STOPS];
    if (tokenizer_stops(t, stops, LIMIT_STOPS) > LIMIT_STOPS) abort();
    id_list_free(&ids);
}

#include "tests/support/files/made_vocabulary.h"

#include <stdio.h>
#include <string.h>

void made_vocabulary_add(MadeVocabulary *made, const char *text, size_t length, TokenType type) {
    size_t i = made->vocabulary.n_tokens++;
    made->tokens[i] = (TextSpan){text, length};
    made->types[i] = (uint8_t)type;
}

void made_vocabulary(MadeVocabulary *made, const char *pre, const char *const *merges) {
    *made = (MadeVocabulary){0};
    made->vocabulary = VOCABULARY_ABSENT;
    made->vocabulary.model = "gpt2";
    made->vocabulary.pre = pre;
    made->vocabulary.tokens = made->tokens;
    made->vocabulary.types = made->types;
    made->vocabulary.merges = made->merges;
    for (int byte = 0; byte < 256; byte++) {
        size_t n = alphabet_letter(made->letters[byte], (uint8_t)byte);
        made_vocabulary_add(made, made->letters[byte], n, TOKEN_NORMAL);
    }
    for (size_t i = 0; merges[i]; i++) {
        const char *space = strchr(merges[i] + 1, ' ');
        int n = snprintf(made->wholes[i], sizeof *made->wholes, "%.*s%s", (int)(space - merges[i]),
                         merges[i], space + 1);
        made_vocabulary_add(made, made->wholes[i], (size_t)n, TOKEN_NORMAL);
        made->merges[made->vocabulary.n_merges++] = (TextSpan){merges[i], strlen(merges[i])};
    }
}

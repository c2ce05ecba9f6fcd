#include "tests/support/made_vocabulary.h"

#include <stdio.h>
#include <string.h>

void made_vocabulary_add(MadeVocabulary *made, const char *text, size_t length, TokenType type) {
    size_t i = made->vocabulary.n_tokens++;
    made->tokens[i] = (TextSpan){text, length};
    made->types[i] = (uint8_t)type;
}

void made_vocabulary(MadeVocabulary *made, const char *pre, const char *const *merges) {
    *made = (MadeVocabulary){0};
    made->vocabulary = (Vocabulary){.model = "gpt2",
                                    .pre = pre,
                                    .tokens = made->tokens,
                                    .types = made->types,
                                    .merges = made->merges,
                                    .bos_id = -1,
                                    .eos_id = -1,
                                    .eot_id = -1,
                                    .eom_id = -1,
                                    .unk_id = -1,
                                    .pad_id = -1,
                                    .add_bos = -1,
                                    .add_eos = -1,
                                    .add_space_prefix = -1};
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

#include "tokenizer/json/export.h"

#include "tokenizer/kinds.h"

#include <string.h>

bool tokenizer_export(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    *out = VOCABULARY_ABSENT;
    out->n_tokens = t->n_tokens;
    out->tokens = t->tokens;
    out->types = t->types;
    out->scores = t->scores;
    out->bos_id = t->bos_id;
    out->add_bos = t->adds_bos;
    for (size_t i = 0; i < t->n_tokens && out->unk_id < 0; i++)
        if (t->types[i] == TOKEN_UNKNOWN) out->unk_id = (int)i;
    Error cause = {0};
    if (t->kind->describe(t, out, arena, &cause)) return true;
    return error_set(error, cause.code, "%s", cause.message);
}

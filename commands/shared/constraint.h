// Constraint: keeps a text inside --grammar or --json-schema, token by token.
//
//     Constraint *c = NULL;
//     good = constraint_open(&c, &session, &error);        // c stays NULL without these options
//     Generation g = {.constraint = c, ...};               // which calls the rest
//     constraint_close(c);
//
//     file -> grammar/ -> states -> masks -> model/sampler.h, sampler_allow
//
//     for each token   constraint_next -> a mask of the vocabulary, which the sampler gets
//                      constraint_accept -> the bytes of the sampled token
//
// What ends a text is allowed where the grammar has the text as it is. Control tokens have no
// bytes, and are never allowed else. The mask is a part of sampling: logits, and what is computed
// of them for --logprobs and --json, are those of the model.
#pragma once

#include "commands/shared/session.h"
#include "model/sampler.h"

typedef struct Constraint Constraint;

// Reads the file that the options name; the session has its tokenizer. False: exit code 2 (both
// options), 3 (no grammar, or one beyond a limit; no tokenizer), 4, 5.
bool constraint_open(Constraint **constraint, const Session *session, Error *error);
void constraint_close(Constraint *constraint); // NULL is fine

// A text begins; the sampler is masked from here to constraint_end. `first`: as for
// tokenizer_piece, of its first token. False: exit code 3, 5, 130.
bool constraint_begin(Constraint *constraint, Sampler *sampler, bool first, Error *error);
void constraint_end(Constraint *constraint);

// What the next token may be. *ended: nothing but the end of the text. False: exit code 2 where
// nothing may come and the text may not end, or 3, 5, 130.
bool constraint_next(Constraint *constraint, bool *ended, Error *error);
// The token that was sampled, none that ends a text. False: exit code 2 where it is one that the
// grammar does not allow, since all others have probability 0; or as above.
bool constraint_accept(Constraint *constraint, int32_t id, Error *error);

// The text so far is one of the grammar's; also behind constraint_end, until another begins.
bool constraint_complete(const Constraint *constraint);

// Drafting: what --speculate lookup and --draft MODEL open beside a session's model.
//
//     Drafting *drafting = NULL;
//     good = drafting_open(&drafting, &session, &error) && ... session_open_model, with
//            .max_logit_rows = drafting_rows(drafting) ... &&
//            drafting_begin(drafting, &session, &error);
//     generation.speculation = drafting_speculation(drafting);
//     drafting_close(drafting);         // before the session
//
// The guesses are made in model/speculation/:
//
//   --speculate lookup   guesses from the text so far (lookup.c)
//   --draft MODEL        guesses of a smaller model (draft.c)
//   --draft-tokens N     always N guesses a pass; else as many as pay (speculate.h)
//
// The draft model is a session of its own, with the options of the other but for those that are
// about the other file, or that change the model.
#pragma once

#include "commands/shared/session.h"
#include "model/speculation/speculate.h"

typedef struct Drafting Drafting;

// Whether the options go together; before anything is opened. False: exit code 2.
bool drafting_check(const Options *options, Error *error);

// NULL where no drafts are asked for, or where they are off with another option, which is noted.
// Opens the draft's file and compares its vocabulary with the session's, id by id. False: exit code
// 2 (they differ, with the first token that does), 3, 4 or 5.
bool drafting_open(Drafting **drafting, const Session *session, Error *error);
void drafting_close(Drafting *drafting); // NULL is fine

// Rows of logits that the session's model keeps of a pass. 1 for NULL.
int drafting_rows(const Drafting *drafting);

// Behind session_open_model: the draft's weights, and the Speculation for texts of the session's
// context. A device that drafts cannot be used with is noted. False: exit code 3, 5 or 6.
bool drafting_begin(Drafting *drafting, const Session *session, Error *error);

// Borrowed; NULL: there are no drafts.
Speculation *drafting_speculation(const Drafting *drafting);

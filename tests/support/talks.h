// Conversations for tests of chat templates, rendered as text.
#pragma once

#include "tests/support/files/byte_tokenizer.h"
#include "tests/test.h"
#include "tokenizer/template/formats.h"

#define SAY(role, text)                                                                            \
    { role, text, sizeof text - 1 }

typedef struct Talk {
    ChatMessage messages[5]; // as many as have a text
} Talk;

extern const Talk TALK_ONE, TALK_MODES; // one message of the user; /no_think in the system message

// In the format of that name, on 3 February 2025.
bool talk_render(const char *name, Tokenizer *t, IdList *ids, const Talk *talk, Error *error);
void talk_check(const char *name, Tokenizer *t, const Talk *talk, const char *wanted);

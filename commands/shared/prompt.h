// Prompt: what a command was given to read: -i TEXT, -f FILE, standard input, or ids.
#pragma once

#include "commands/shared/session.h"

typedef struct Text { // any bytes, NUL included
    char *bytes;      // owned
    size_t length;
} Text;

// The whole of -i, else -f ("-" is standard input), else standard input where it is no terminal,
// else nothing. False: exit code 4 (naming the file) or 5.
bool text_read(Text *text, const Options *options, Error *error);
void text_free(Text *text);

// Ids separated by commas, blanks or newlines, brackets ignored ("[1, 2]" too). False: exit code 2
// where something else is among them; `what` names the source.
bool ids_parse(IdList *ids, const char *text, size_t length, const char *what, Error *error);

// The prompt of a session as ids: --prompt-ids as they are, or a text with BOS in front where the
// model's prompts begin with one; an empty text is BOS alone. False: exit code 2, 3, 4 or 5.
bool prompt_check(const Options *options, Error *error); // one source at most; before it is opened
bool prompt_encode(IdList *ids, Session *session, Error *error);

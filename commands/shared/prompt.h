// Prompt: the input of a command: -i TEXT, -f FILE, standard input, or ids.
#pragma once

#include "commands/shared/session.h"

typedef struct Text { // any bytes, NUL included
    char *bytes;      // owned
    size_t length, capacity;
} Text; // zero it first

// How long a text may be. It is looked at while the text is read.
typedef struct TextLimit {
    size_t bytes;
    int context; // tokens that it follows from; 0: it does not
} TextLimit;

TextLimit text_limit(void);                     // of any text: LIMIT_TEXT
TextLimit prompt_limit(const Session *session); // of a prompt, which the context has to hold

// The whole of -i, else -f ("-" is standard input), else standard input where it is no terminal,
// else nothing. False: exit code 2 (longer than the limit), 4 (naming the file) or 5.
bool text_read(Text *text, const Options *options, const TextLimit *limit, Error *error);
// A prompt: text_read, but where it comes from -f or standard input one newline at its end is
// dropped, as in llama.cpp, since editors and echo write it; not with --keep-newline.
bool prompt_read(Text *text, const Options *options, const TextLimit *limit, Error *error);
// The next line of standard input without its newline. *ended: there is none. False: as text_read.
bool text_read_line(Text *line, const TextLimit *limit, bool *ended, Error *error);
void text_free(Text *text);

// Ids separated by commas, blanks or newlines, brackets ignored ("[1, 2]" too). False: exit code 2
// where it holds anything else; `what` names the source.
bool ids_parse(IdList *ids, const char *text, size_t length, const char *what, Error *error);

// Notes on standard error where the text is not UTF-8; `what` names it. Not with --quiet.
void text_note_encoding(const Text *text, const char *what, const Options *options);

// Appends a text as ids, with BOS in front where the tokenizer adds one: that of prompt_read, whose
// BOS comes also where it is empty, or that of text_read. Noted where it is not UTF-8. *length:
// bytes of the text. False: exit code 2, 3, 4 or 5.
bool text_encode(IdList *ids, const Session *session, bool is_prompt, const TextLimit *limit,
                 size_t *length, Error *error);

// Exit code 2 where the options name more than one source of the prompt.
bool check_prompt(const Options *options, Error *error);

// The prompt of a session as ids: --prompt-ids as they are, or the text of prompt_read; an empty
// text is BOS alone. False: exit code 2, 3, 4 or 5.
bool prompt_encode(IdList *ids, const Session *session, Error *error);

// ---- labels of tokens, for tables and pictures ----

// The text of every token, for people: a space is shown as U+2423, a newline as "\n", control
// characters and invalid UTF-8 as U+FFFD; without a tokenizer the id. One block of memory that the
// caller frees; NULL with exit code 5.
//
//     char **labels = token_labels(&session, &ids, &error); // labels[i] of ids.ids[i]
//     free(labels);
char **token_labels(const Session *session, const IdList *ids, Error *error);

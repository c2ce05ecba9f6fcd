// The table of all options: the name of each, the kind of its value, the commands that take it. The
// parser in options.c reads it; what an option does is up to its command.
#pragma once

#include "commands/shared/options.h"

typedef enum OptionKind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_TEXTS,    // may be given several times
    KIND_INTEGER,  // low .. high
    KIND_UNSIGNED, // the whole of uint64
    KIND_NUMBER,   // low .. high
    KIND_LIST,     // integers low .. high, separated by commas
    KIND_CHOICE,   // one of `choices`, separated by |; the value is its index
} OptionKind;

typedef struct OptionRow {
    OptionId id;
    const char *name;
    char short_name; // 0: none
    OptionKind kind;
    size_t offset; // of the field in Options
    unsigned commands;
    unsigned one_of_list; // KIND_LIST: the commands that take one integer, and no list of them
    double low, high;
    const char *choices;
    const char *meaning; // of the flag or of a value; appended to the error message
} OptionRow;

// Ends with a row without a name. Two names of one option are two rows with one id.
const OptionRow *option_rows(void);
enum { MOST_OPTION_ROWS = 160 };

// ---- options that a command does not have (unknown_options.c) ----

typedef struct ForeignOption {
    const char *names; // "-a|--ab"
    int refused_by;    // bits of the commands; the others skip the option with a note
    enum { FOREIGN_FLAG, FOREIGN_VALUE, FOREIGN_SWITCH } value; // a switch: on, off, or nothing
    const char *answer;                                         // what limpid has instead
} ForeignOption;

// The option of another program that `word`, of a command line, is; NULL: none.
const ForeignOption *foreign_option(const char *word, CommandBit command);
// How many words of the command line it takes, 1 or 2; `next` is the following one or NULL.
int foreign_words(const ForeignOption *option, const char *word, const char *next);

// Fills the error for an argument that begins with '-' and is no option: the names that it may be
// short for, or the nearest one. False.
bool refuse_unknown(const char *argument, CommandBit command, Error *error);

// Fills the error for a word of one dash and three letters or more, which is no option, where it is
// near to the name of one, ours or another program's. False: it is not.
bool refuse_misspelt(const char *argument, CommandBit command, Error *error);

// Prints a command and its options in lines for completions (commands/help/option_list.c).
void options_list(const char *command, CommandBit bit, const char *summary);

// Parses `text` as the row says and writes it to the row's field, whose type follows from the kind.
// A text is borrowed. typed: the option as the user spelled it, "-p" or "--top-p", which begins the
// message; NULL: nothing does. False: exit code 2.
bool option_store(Options *options, const OptionRow *row, const char *typed, const char *text,
                  CommandBit command, Error *error);

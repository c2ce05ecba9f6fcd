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
    double low, high;
    const char *choices;
    const char *meaning; // of the flag or of a value; appended to the error message
} OptionRow;

// Ends with a row without a name. Two names of one option are two rows with one id.
const OptionRow *option_rows(void);
enum { MOST_OPTION_ROWS = 128 };

// Parses `text` as the row says and writes it to the row's field, whose type follows from the kind.
// A text is borrowed. False: exit code 2.
bool option_store(Options *options, const OptionRow *row, const char *text, Error *error);

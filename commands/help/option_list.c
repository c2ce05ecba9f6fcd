// `run --options`: what the completions of the shells (scripts/completion) ask for, so that none
// has a list of its own. A line each, with tabs between: command, word, what may follow.
//
//   generate <tab> <tab> text from a prompt (the default)      a command
//   generate <tab> --kv <tab> f32|f16|bf16                     one of these
//   generate <tab> --ids <tab>                                 nothing
//   generate <tab> -i <tab> TEXT                               a text, perhaps a file name
//   generate <tab> -t <tab> NUMBER                             a number, or several
//   <tab> --version <tab>                                      in place of a command
#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"

// An option that may be a flag for one command and take a value for another has a row for each.
static const char *value_of(const OptionRow *row) {
    switch (row->kind) {
    case KIND_FLAG: return "";
    case KIND_CHOICE: return row->choices;
    case KIND_TEXT:
    case KIND_TEXTS: return "TEXT";
    case KIND_INTEGER:
    case KIND_UNSIGNED:
    case KIND_NUMBER:
    case KIND_LIST: return "NUMBER";
    }
    return "";
}

// Both names of the row: a short one is completed by what follows it alone.
static void print_option(const char *command, const OptionRow *row) {
    const char *value = value_of(row);
    output_print("%s\t--%s\t%s\n", command, row->name, value);
    if (row->short_name) output_print("%s\t-%c\t%s\n", command, row->short_name, value);
}

// The command's own line comes first, so that a reader knows all commands by the lines without a
// word.
void options_list(const char *command, CommandBit bit, const char *summary) {
    output_print("%s\t\t%s\n", command, summary);
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (row->commands & bit) print_option(command, row);
}

// The commands. Each reads its Options, prints its result through output.h, and returns false with
// an Error if it failed.
//
// Only a command prints; what it calls returns false and fills the Error. One .c file a command,
// its parts in a folder of the same name, what several commands need in shared/.
#pragma once

#include "commands/shared/options.h"
#include "limpid.h"

typedef struct Command {
    const char *name;
    CommandBit bit;
    bool (*run)(const Options *options, Error *error);
    const char *summary; // one line
    const char *help;    // fits a screen, shows an example
} Command;

bool generate_command(const Options *options, Error *error);
bool chat_command(const Options *options, Error *error);
bool bench_command(const Options *options, Error *error);
bool perplexity_command(const Options *options, Error *error);
bool tokenize_command(const Options *options, Error *error);
bool convert_command(const Options *options, Error *error);
bool inspect_command(const Options *options, Error *error);
bool trace_command(const Options *options, Error *error);
bool diff_command(const Options *options, Error *error);
bool attention_command(const Options *options, Error *error);
bool cost_command(const Options *options, Error *error);
bool lens_command(const Options *options, Error *error);
bool mask_command(const Options *options, Error *error);
bool replay_command(const Options *options, Error *error);
bool view_command(const Options *options, Error *error);
bool selftest_command(const Options *options, Error *error);
bool merge_command(const Options *options, Error *error);

// The command of this name; NULL: there is none.
const Command *command_find(const char *name);
// The name that a misspelt one is nearest to; NULL: none is near.
const char *command_nearest(const char *word);

// help.c

void help_program(void);                   // run --help
void help_command(const Command *command); // run COMMAND --help
void help_version(void);
void help_limits(void);  // run --limits
void help_options(void); // run --options: for completions

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

// ranks/serve.c: a command whose model may be on several ranks (model/ranks.h), `mpirun -n 3 ./run
// MODEL ...` in a program of `make MPI=1`. Every rank is started with the same words. Rank 0 runs
// the command; the others open the model's file and serve passes. Other programs and commands run
// in each process by themselves.

// Runs the command in its sandbox, on rank 0 of several; the other ranks serve it. False: exit code
// of the command; 6 where another rank failed.
bool ranks_run(const Command *command, const Options *options, Error *error);

// Whether this process is one of several, before they have met.
bool ranks_started(void);

// The command, before its options are read: whether their errors are those of all ranks.
void ranks_expect(const Command *command);

// Whether this process is to print that line and end with its code. What is wrong with the words of
// a command whose layers are shared is told once, by rank 0, since all ranks have the same: mpirun
// would end rank 0 when another rank ends with a code. Another rank waits three seconds: if it
// still runs then, only its own command line is wrong, and it prints the line.
bool ranks_tell(const Error *error);

// After the last line has been printed: this rank is done. After a failure of a rank all end.
void ranks_end(const Error *error);

// The program with calls that fail, or at which it is killed: tests/faults/faults.c makes them.
#pragma once

#include "tests/support/program.h"

typedef struct Fault {
    const char *kind;       // "memory", "files", "threads", "kill", "interrupt", "again" or "short"
    long at;                // the call; 0: none
    bool for_ever;          // all later ones too
    const char *then;       // "memory" or "files": these fail as well from then on; NULL: none
    int error;              // errno of a file call; 0: what suits the call
    const char *except;     // a library whose allocations do not fail; NULL: none
    int signal;             // of "interrupt"; 0: SIGINT
    int plain;              // 1, 2: a file system that lacks much: tests/faults/faults.c
    const char *input;      // standard input; NULL: empty
    const char *count_path; // where the number of calls is left; NULL: nowhere
} Fault;

void need_faults(void); // skips the test where there is no library, or where sanitizers forbid it
TestRun run_with_fault(const Fault *fault, const char *const *argv);
// The same on a pseudo-terminal, as program_job.
TestRun typed_with_fault(const Fault *fault, const char *line, const TypedKeys *keys, size_t count);
// How many calls a run without faults makes, which must end with that code.
long count_calls(const Fault *fault, const char *const *argv, int usual_code);

// ---- each call in turn ----

// A command whose calls fail one after the other.
typedef struct Walk {
    const char *kind; // as in Fault, but those that end the program
    const char *const *argv;
    const char *input; // standard input; NULL: empty
    const char *then;  // as in Fault
    int usual_code;    // of the undisturbed run
    int other_code;    // a code besides 5 that a failure may have; 0: none
    bool varies;       // two runs print different numbers: only how it ends is looked at
    bool survives;     // no failure is accepted
    TestRun wanted;    // the undisturbed run, filled in
} Walk;

// Lets each call of that kind fail, once alone and once with all later ones; where there are more
// than a hundred, without LIMPID_ALL_FAULTS in the environment, three from each place in the
// program: the first, the second and the last. Every run must print what it prints without faults;
// or end with the right exit code and one error line, after a beginning of the usual output.
void walk_through(Walk *walk);

#define WALK(kind_, other_, ...)                                                                   \
    do {                                                                                           \
        const char *const argv_[] = {TEST_RUN, __VA_ARGS__, NULL};                                 \
        walk_through(&(Walk){.kind = kind_, .argv = argv_, .other_code = other_});                 \
    } while (0)

// The smallest models, as temporary files: valid until the test ends.
const char *fault_gguf(void);
const char *fault_directory(void);
// A run without faults that must succeed, for what it writes. Skips the test as need_faults does.
void prepare(const char *const *argv);
#define PREPARE(...) prepare((const char *const[]){TEST_RUN, __VA_ARGS__, NULL})

// Skips the test where this build reads no JSON, as `command` of `path` shows.
void need_fault_json(const char *command, const char *path);

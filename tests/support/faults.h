// The program with calls that fail, or at which it is killed: tests/faults/faults.c makes them.
#pragma once

#include "tests/test.h"

typedef struct Fault {
    const char *kind;       // "memory", "files", "kill" or "interrupt"
    long at;                // the call; 0: none
    bool for_ever;          // all later ones too
    int error;              // errno of a file call; 0: what suits the call
    bool plain;             // a file system that lacks much: tests/faults/faults.c
    const char *input;      // standard input; NULL: empty
    const char *count_path; // where the number of calls is left; NULL: nowhere
} Fault;

void need_faults(void); // skips the test where there is no library, or where sanitizers forbid it
TestRun run_with_fault(const Fault *fault, const char *const *argv);
// How many calls a run without faults makes, which must succeed.
long count_calls(const Fault *fault, const char *const *argv);

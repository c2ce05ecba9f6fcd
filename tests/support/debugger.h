// gdb in batch mode with limpid's commands, on a small model: for tests that compare what the
// commands print with what the program computes.
#pragma once

#include "tests/support/program.h"

// The prompt of debugged_line: "Once upon a time" to the built-in model.
#define DEBUGGED_IDS 1, 435, 462, 262, 410

// Skips the test where gdb is absent, may not trace, or finds no names in the program.
void need_debugger(void);
bool debugger_calls(void); // also: whether it can call the program's functions
void need_calls(void);     // skips the test where it cannot (need_calls of limpid_program.py)

// gdb over a script, on the program with a command line (its words separated by blanks).
TestRun debugger(const char *script, const char *line);

// The model with that prompt: two greedy tokens in float32, by one thread.
const char *debugged_line(void);

// Standard output has `wanted`, and no traceback of Python is anywhere.
void check_prints(const TestRun *run, const char *wanted);
void check_good(const TestRun *run); // exit code 0

// Lines of a script that run each command; where one fails, "refused: REASON" is printed instead.
// Borrowed until the fourth call after this one.
const char *attempts(const char *const commands[], size_t count);

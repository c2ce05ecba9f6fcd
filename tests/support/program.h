// The program as a child process, for tests of the command line.
#pragma once

#include "tests/test.h"

// Runs the program with the words of a formatted line, separated by |.
TestRun program(const char *format, ...) __attribute__((format(printf, 1, 2)));
TestRun program_input(const char *line, const char *input, size_t size); // with that on stdin
// Runs a line of shell in which $RUN is the program and $MODEL that small_model().
TestRun program_shell(const char *script);
// The same with standard output on a pseudo-terminal: `out` is what the screen got.
TestRun program_terminal(const char *line);

// The same, with `keys` typed: each as soon as the text before it has appeared since the last.
typedef struct TypedKeys {
    // keys "": waits alone; "$ COMMAND": runs it in a shell; NULL: program_job's signal.
    const char *after, *keys;
} TypedKeys;
TestRun program_typed(const char *line, const TypedKeys *typed, size_t count);
// The same as a job of a shell, which continues it where it is stopped. Each time the screen gets
// "[stopped N, terminal back]" or "[ended N, terminal back]": it echoes and collects lines.
TestRun program_job(const char *line, const TypedKeys *typed, size_t count, int number);
// Sends SIGINT as soon as `after` has appeared; `out` has standard output and standard error.
TestRun program_interrupted(const char *line, const char *after);

void need_builtin(void);       // skips the test where the program has no model of its own
const char *small_model(void); // the file of the built-in model; every clone has it
// One of random weights with a window of 8 in 5 of 6 layers, whose rings have 528 positions: the
// window, and 512 rows of a pass. A byte is a token. Made by tests/random_model.
const char *windowed_model(void);
const char *public_model(void); // stories260K.gguf; skips the test where it is absent

void check_status(const TestRun *run, int wanted);
// Exit code, nothing on stdout, exactly one line on stderr that contains `because`; frees it.
void check_refused(TestRun *run, int status, const char *because);
// The same of another program, whose name the line begins with.
void check_refused_by(const char *program, TestRun *run, int status, const char *because);

// The text after "key": in one line of JSON, up to the comma or bracket that ends it; returns out.
const char *json_value(char out[4000], const char *json, const char *key);

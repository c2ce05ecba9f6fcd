// Error: what went wrong, in one line, with the exit code that the program ends with.
//
// Library code never prints and never exits. A function that can fail takes an Error that the
// caller owns, fills it with error_set and returns false or NULL; only run.c prints it.
//
//     Error error = {0};
//     if (!checkpoint_open(&checkpoint, path, &error)) return error.code;
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The exit codes of the program; an Error carries one of them. They are part of its interface.
typedef enum ErrorCode {
    ERROR_NONE = 0,
    ERROR_ANSWER_NO = 1,     // diff over budget, selftest failed
    ERROR_USAGE = 2,         // wrong command line
    ERROR_FILE = 3,          // bad or unsupported file
    ERROR_IO = 4,            // open, read, write, full disk, closed stdout
    ERROR_MEMORY = 5,        // out of memory
    ERROR_DEVICE = 6,        // the backend failed
    ERROR_NONFINITE = 7,     // NaN or infinity in the model's numbers
    ERROR_INTERRUPTED = 130, // SIGINT, or another signal that asks it to end
} ErrorCode;

enum { ERROR_MESSAGE_SIZE = 384 }; // with "run: " and the newline below 400 bytes

typedef struct Error {
    ErrorCode code;
    char message[ERROR_MESSAGE_SIZE]; // printable ASCII, no newline
} Error;

// Fills `error` unless it already holds an earlier failure (the first cause is the one worth
// telling), and returns false, so that `return error_set(...)` reads well. `error` may be NULL.
// The message is always printable ASCII on one line: other bytes become \xNN, and a text that is
// too long is cut and ends in "...".
bool error_set(Error *error, ErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// True while *stop is 0, or `stop` NULL; else false with ERROR_INTERRUPTED. A signal handler may
// set it.
bool not_stopped(const int *stop, Error *error);

// Sets `error` to the failure in `cause`, by the rules of error_set. Returns false.
bool error_copy(Error *error, const Error *cause);

// Puts "prefix: " before the message: a file's name, say, that the inner function did not know.
// A message that already begins with that prefix stays as it is. Returns false.
bool error_prefix(Error *error, const char *prefix);

// Writes `count` untrusted bytes as printable ASCII (others as \xNN) into out[size], cut with
// "..." where they do not fit. Returns `out`. For names inside messages and tables.
const char *escape_bytes(char *out, size_t size, const void *bytes, size_t count);

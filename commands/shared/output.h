// Output: the program's standard output, written through checks. What a token says reaches a
// terminal only as harmless text; into a pipe or a file its bytes go as they are.
//
// The first failed write is kept: output_close tells it (exit code 4). A pipe that nobody reads any
// more ends the program quietly, by SIGPIPE, as the shell expects.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Opens /dev/null where descriptor 0, 1 or 2 is closed, so that no file that is opened later is
// taken for it. A closed output is opened for reading, so that writing to it fails as it should.
// And a limit on file sizes (SIGXFSZ) becomes a failed write.
void output_guard(void);

bool output_is_terminal(void);
bool error_is_terminal(void); // standard error, with TERM not "dumb"

// A piece of a model's text: whole characters, as utf8_stream_push gives them.
void output_text(const char *bytes, size_t length);
// The program's own words. Names from files are escaped by the caller.
void output_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_bytes(const void *bytes, size_t length);
void output_flush(void);

// False once a write has failed.
bool output_good(void);
// Flushes and closes. False with exit code 4 where anything was lost.
bool output_close(Error *error);

// Does a terminal act on it? Control characters (but \n and \t), C1, DEL, bidirectional overrides.
bool is_active_character(uint32_t character);
// Bytes as a terminal may have them, into out[3 * length]: active characters and invalid UTF-8
// become U+FFFD. Returns the length.
size_t terminal_filter(char *out, const char *bytes, size_t length);

// Notes on standard error: one line, after which the program goes on. "run: " comes in front.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

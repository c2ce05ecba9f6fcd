// Output: the only way to standard output, and to standard error while the program runs. Text of a
// model is filtered before it reaches a terminal; a pipe or a file gets its bytes unchanged.
//
// The first failed write is kept, and output_close reports it (exit code 4). A closed pipe ends the
// program by SIGPIPE, without a message, as the shell expects.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "pictures/picture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Opens /dev/null where descriptor 0, 1 or 2 is closed, so that no file opened later gets its
// number. A limit on file sizes becomes a failed write in place of SIGXFSZ. False: exit code 4,
// where standard output is closed; no command does its work when its result or its end could not be
// told.
bool output_guard(Error *error);

bool output_is_terminal(void);
bool error_is_terminal(void); // standard error, with TERM not "dumb"

// Part of a model's text: whole characters, as utf8_stream_push gives them.
void output_text(const char *bytes, size_t length);
// The program's own text. The caller escapes names from files.
void output_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_bytes(const void *bytes, size_t length);
void output_flush(void);

// From now on a closed pipe ends the program by SIGPIPE only at output_close, not at the write that
// fails: there is something to keep.
void output_outlive_readers(void);

// False once a write has failed.
bool output_good(void);
// Flushes and closes. False if anything was lost: exit code 4, or 5 (no memory to format it).
bool output_close(Error *error);

// Would a terminal act on it? Control characters except \n and \t, C1, DEL, bidirectional
// overrides.
bool is_active_character(uint32_t character);
// Copies text to out[3 * length] with active characters and invalid UTF-8 replaced by U+FFFD.
// Returns the length.
size_t terminal_filter(char *out, const char *bytes, size_t length);

// The window of standard output and its colours, by --color (a Color), NO_COLOR, TERM and
// COLORTERM. Where it is no terminal the window has 80 columns and any number of lines.
Terminal output_window(int color);

// ---- JSON ----

// JsonWriter: prints one JSON value to standard output, or appends it to a Buffer, on one line,
// without building a tree.
//
//     JsonWriter w = {0};
//     writer_begin(&w, NULL, '{');
//     writer_integer(&w, "tokens", 200);
//     writer_end(&w, '}');          // and writer_line(&w) for the newline
//
// The order of keys is the order of the calls. `key` is NULL inside an array. Each byte that is not
// valid UTF-8 becomes U+FFFD; a number that is not finite becomes null. In a Buffer the text may
// stand inside a <script> of a page: '<', U+2028 and U+2029 are escaped.
typedef struct JsonWriter {
    bool comma;  // the next value is not the first of its object or array
    Buffer *out; // borrowed; NULL: standard output
} JsonWriter;

void writer_begin(JsonWriter *w, const char *key, char bracket);
void writer_end(JsonWriter *w, char bracket);
void writer_text(JsonWriter *w, const char *key, const char *bytes, size_t length);
void writer_string(JsonWriter *w, const char *key, const char *text); // NULL: null
void writer_number(JsonWriter *w, const char *key, double value);
// With 6 or 9 digits, which read back as the same float32; "nan", "inf" or "-inf".
void writer_float(JsonWriter *w, const char *key, float value);
void writer_integer(JsonWriter *w, const char *key, int64_t value);
void writer_bool(JsonWriter *w, const char *key, bool value);
void writer_ids(JsonWriter *w, const char *key, const int32_t *ids, size_t count);
void writer_floats(JsonWriter *w, const char *key, const float *values, size_t count);
void writer_line(JsonWriter *w);

// ---- standard error ----

// The name that the program was called by, without its folder: "run", and "limpid" once installed.
// Before the first note the caller sets it; the text is borrowed.
void set_program_name(const char *path);
const char *program_name(void);

// The rest of a line of standard error, from `column` on, and its newline. In a window it wraps at
// words, to lines that begin with `indent` blanks.
void error_print(const char *text, int column, int indent);

// The line of an error: the program's name and the message, whose commands (`run diff A B`) are
// called by that name too.
void error_tell(const char *message);

// One line after "run: ", the program's name, with commands as above; a window narrower than it
// wraps it at words. Printable ASCII: other bytes become \xNN, as in Error.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A progress bar: shown only on a terminal, and only if the work takes a while. It has the time
// left, and fits a window of any width.
typedef struct Progress {
    const char *label;     // "loading"
    bool enabled;          // on a terminal, and without --quiet
    int width;             // in columns, of what is on the screen; 0: nothing
    double started, drawn; // seconds
} Progress;

void progress_begin(Progress *progress, const char *label, bool quiet);
void progress_update(void *progress, double share); // 0 .. 1; fits ModelOptions.progress
void progress_end(Progress *progress);              // erases the bar

// What the bar looks like at `share`, after that many seconds, in fewer than `columns` columns:
// "loading [#####.....]  50 %, 0:03 left". The number of columns.
int progress_line(char *out, size_t size, const char *label, double share, double seconds,
                  int columns);

// LineEditor: lines typed at a terminal, with cursor keys, a history over sessions, and a paste of
// several lines as one. line_editor.c has it by libedit; without_libedit.c never opens one, and the
// caller reads lines as a terminal gives them.
//
//     good = line_editor_open(&editor, color, history_path(path, sizeof path), &error);
//     good = line_editor_read(editor, "> ", &line, most_bytes, &end, &error);
//     line_editor_remember(editor, text, length);
//     line_editor_hush(editor);    // while something else writes to the terminal
//     line_editor_close(editor);
#pragma once

#include "base/buffer.h"

#include <wchar.h>

typedef enum LineEnd {
    LINE_READ,
    LINE_CLEARED, // Ctrl-C: what was typed is gone; `length` says whether there was anything
    LINE_ENDED,   // Ctrl-D, or the terminal is gone
} LineEnd;

typedef struct LineEditor LineEditor;

// Standard input and standard output are terminals. `history`: a file, or NULL for none; one that
// cannot be read or written is no error. *editor stays NULL where there is no editor: in a program
// built without libedit, and on a terminal without cursor movements (TERM=dumb). False: exit code
// 5.
bool line_editor_open(LineEditor **editor, bool color, const char *history, Error *error);
void line_editor_close(LineEditor *editor); // the terminal is as it was; NULL is fine

// The next line, UTF-8 without its newline, in `line`, which is emptied first. A pasted text keeps
// its own newlines. `mark` is what stands before the line. False: exit code 2 (more than
// `most` bytes) or 5.
bool line_editor_read(LineEditor *editor, const char *mark, Buffer *line, size_t most, LineEnd *end,
                      Error *error);

// Adds a message to the history, now and for later sessions.
void line_editor_remember(LineEditor *editor, const char *text, size_t length);

// Before work that Ctrl-C may end: a first Ctrl-C gives the terminal back, since a second one ends
// the program at once. Between two lines keys are neither shown nor lost: they begin the next line.
// NULL is fine.
void line_editor_hush(LineEditor *editor);

// ---- the history ----

// $XDG_STATE_HOME/limpid/history, else ~/.local/state/limpid/history; NULL where there is neither
// directory in the environment, or it does not fit.
const char *history_path(char *out, size_t size);

// Calls `each` with each of the newest messages of the file, the oldest first. Nothing where it
// cannot be read.
void history_load(const char *path, void (*each)(void *context, const char *text, size_t length),
                  void *context);
// Appends a message, unless it is the last one already; makes the file (0600) and its directories
// (0700) where they are absent.
void history_append(const char *path, const char *text, size_t length);

// ---- lines that are drawn anew (wide_line.c) ----

// What the next key belongs to.
typedef enum LineKey {
    KEY_ALONE,
    KEY_AFTER_ESCAPE,
    KEY_OF_SEQUENCE,
    KEY_AFTER_PREFIX,
    KEY_OF_SEARCH,
    KEY_OF_PASTE,
} LineKey;

typedef struct LineKeys { // zero it for each line
    LineKey next;
    size_t drawn; // characters of the line when a key was last waited for
} LineKeys;

enum { LINE_REDRAW = 037 }; // ^_, the key that redraws

// The rows between the first one of a line begin .. cursor, behind a mark of `width` columns, and
// the cursor's, in a window of so many columns.
size_t line_rows(const wchar_t *begin, const wchar_t *cursor, size_t width, size_t columns);

// Most terminals break their lines anew where the window has another width. Whether this one is
// known not to: xterm, GNU screen and the Linux console.
bool line_keeps_rows(void);

void line_note_key(LineKeys *keys, wchar_t key);

// Before a key is waited for: whether the line begin .. end, behind a mark of `width` columns, has
// changed so that it needs to be drawn anew. inside: the cursor is not at its end.
bool line_wants_redraw(LineKeys *keys, const wchar_t *begin, const wchar_t *end, bool inside,
                       size_t width);

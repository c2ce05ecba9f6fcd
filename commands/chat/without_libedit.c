// In place of line_editor.c in a program without libedit: no editor ever opens, and chat reads
// lines as the terminal gives them.
#include "commands/chat/line_editor.h"

bool line_editor_open(LineEditor **editor, bool color, const char *history, Error *error) {
    (void)color;
    (void)history;
    (void)error;
    *editor = NULL;
    return true;
}

// There is nothing to give back.
void line_editor_close(LineEditor *editor) {
    (void)editor;
}

// Never called: there is no editor to give it.
bool line_editor_read(LineEditor *editor, const char *mark, Buffer *line, size_t most, LineEnd *end,
                      Error *error) {
    (void)editor;
    (void)mark;
    (void)most;
    (void)error;
    line->size = 0;
    *end = LINE_ENDED;
    return true;
}

// Nor are these.
void line_editor_remember(LineEditor *editor, const char *text, size_t length) {
    (void)editor;
    (void)text;
    (void)length;
}

// Keys that are typed during an answer are shown where they are typed.
void line_editor_hush(LineEditor *editor) {
    (void)editor;
}

// libedit leaves blanks where a line of several rows with wide characters changes in its middle. So
// it is drawn anew then, by a key that no terminal sends by itself; but not where the next key is
// part of something, such as an escape sequence or a search.
#include "commands/chat/line_editor.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ESCAPE = 033 };
#define PREFIXES L"\026\030"           // ^V, ^X
#define SEARCH L'\022'                 // ^R
#define KEYS_OF_SEARCH L"\022\023\010" // ^R, ^S, erase

static LineKey next_of(LineKey now, wchar_t key) {
    switch (now) {
    case KEY_AFTER_ESCAPE: return key == L'[' || key == L'O' ? KEY_OF_SEQUENCE : KEY_ALONE;
    case KEY_OF_SEQUENCE: return key >= 0x40 && key <= 0x7e ? KEY_ALONE : now;
    case KEY_OF_SEARCH: return key < L' ' && !wcschr(KEYS_OF_SEARCH, key) ? KEY_ALONE : now;
    case KEY_OF_PASTE: return now;
    default: break;
    }
    if (now == KEY_ALONE && wcschr(PREFIXES, key)) return KEY_AFTER_PREFIX;
    return now == KEY_ALONE && key == SEARCH ? KEY_OF_SEARCH : KEY_ALONE;
}

void line_note_key(LineKeys *keys, wchar_t key) {
    bool begins = key == ESCAPE && keys->next != KEY_OF_PASTE && keys->next != KEY_AFTER_PREFIX;
    keys->next = begins ? KEY_AFTER_ESCAPE : next_of(keys->next, key);
}

size_t line_rows(const wchar_t *begin, const wchar_t *cursor, size_t width, size_t columns) {
    enum { TAB = 8 };
    size_t rows = 0, column = width;
    for (; begin < cursor; begin++) {
        int of_character = wcwidth(*begin);
        size_t wide = *begin == L'\t'     ? TAB - column % TAB
                      : of_character >= 0 ? (size_t)of_character
                                          : 2; // ^A
        if (*begin == L'\n' || column + wide > columns) {
            rows++;
            column = 0;
        }
        if (*begin != L'\n') column += wide;
    }
    return rows + column / columns;
}

bool line_keeps_rows(void) {
    const char *term = getenv("TERM");
    return getenv("XTERM_VERSION") || (getenv("STY") && !getenv("TMUX")) ||
           (term && !strcmp(term, "linux"));
}

static bool key_waits(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

bool line_wants_redraw(LineKeys *keys, const wchar_t *begin, const wchar_t *end, bool inside,
                       size_t width) {
    struct winsize window;
    bool changed = (size_t)(end - begin) != keys->drawn, wide = false;
    if (keys->next != KEY_ALONE) return false;
    keys->drawn = (size_t)(end - begin);
    if (!changed || !inside || ioctl(STDOUT_FILENO, TIOCGWINSZ, &window)) return false;
    for (; begin < end; begin++) {
        int columns = wcwidth(*begin);
        wide |= columns > 1;
        width += columns > 0 ? (size_t)columns : 1;
    }
    return wide && width > window.ws_col && !key_waits();
}

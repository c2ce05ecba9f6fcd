// An answer on a terminal: lines break between words, at the width that the window has now.
//
//   held back:  spaces and the word after them, until it ends or fills a line
//   "the quick " | " brown" in 12 columns:   "the quick"  newline  "brown"
//
// Spaces at the beginning of a line are the text's own and stay; those at a break are left out.
// Between characters two columns wide (Chinese, Japanese, emoji) a line may break anywhere.
#include "commands/chat/chat.h"

#include "base/text.h"
#include "commands/shared/output.h"

#include <string.h>
#include <wchar.h>

enum { TAB = 8 };

static void new_line(Wrap *wrap) {
    output_bytes("\n", 1);
    wrap->column = 0;
    wrap->spaces = 0;
}

// Shows the spaces and the word that were held back, on this line or on the next.
static void show_word(Wrap *wrap, int width) {
    if (!wrap->word.size) return;
    if (wrap->column && wrap->column + wrap->spaces + wrap->width > width) new_line(wrap);
    wrap->column += wrap->spaces + wrap->width;
    for (; wrap->spaces; wrap->spaces--)
        output_bytes(" ", 1);
    output_text((const char *)wrap->word.bytes, wrap->word.size);
    wrap->word.size = 0;
    wrap->width = 0;
}

static void add_blank(Wrap *wrap, uint32_t c, int width) {
    show_word(wrap, width);
    if (c == '\n')
        new_line(wrap);
    else if (c == '\t')
        wrap->spaces += TAB - (wrap->column + wrap->spaces) % TAB;
    else
        wrap->spaces++;
}

void wrap_text(Wrap *wrap, const char *bytes, size_t length) {
    int width = output_window(COLOR_NEVER).columns;
    for (size_t i = 0, n; i < length; i += n) {
        uint32_t c = 0;
        n = utf8_decode(bytes + i, length - i, &c);
        if (!n) n = 1; // never: the text is whole characters
        if (c == ' ' || c == '\n' || c == '\t') {
            add_blank(wrap, c, width);
            continue;
        }
        int columns = wcwidth((wchar_t)c);
        if (columns < 0) columns = 1; // what is shown in its place
        if (columns > 1 || wrap->width + columns > width) show_word(wrap, width);
        buffer_put(&wrap->word, bytes + i, n);
        wrap->width += columns;
    }
    if (wrap->word.failed) wrap->word = (Buffer){0};
    output_flush();
}

void wrap_end(Wrap *wrap) {
    show_word(wrap, output_window(COLOR_NEVER).columns);
    buffer_free(&wrap->word);
    *wrap = (Wrap){0};
}

// Facts and totals as text. Short, so that inspect fits a terminal of 24 lines of 80 columns: a row
// that belongs to the one before it is put behind it where there is room, an author's text is cut
// to a line, other long values go on in the next line. With --all: nothing is cut or joined.
#include "commands/inspect/inspect.h"
#include "commands/shared/output.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, INDENT = 13, VALUE_SIZE = 512 };

// How many of `length` characters go into a line of `room`: up to a comma or semicolon in its
// second half, else up to a space. A word that is longer than the line is left whole.
static size_t line_length(const char *text, size_t length, size_t room) {
    size_t space = 0;
    if (length <= room) return length;
    for (size_t i = room; i > 0; i--) {
        if (text[i] != ' ') continue;
        if (!space) space = i;
        if (i >= room / 2 && strchr(",;", text[i - 1])) return i;
    }
    const char *later = memchr(text + room, ' ', length - room);
    return space ? space : later ? (size_t)(later - text) : length;
}

// Prints `text` (printable ASCII) in lines of which all but the first are indented, as the first
// is by what was printed before it. Returns the number of lines.
static int print_lines(const char *text, size_t indent) {
    int lines = 0;
    for (size_t length = strlen(text); length || !lines; lines++) {
        size_t here = line_length(text, length, COLUMNS - indent);
        output_print("%*s%.*s\n", lines ? (int)indent : 0, "", (int)here, text);
        while (here < length && text[here] == ' ')
            here++;
        text += here;
        length -= here;
    }
    return lines;
}

// An author's text: what fits of its first line.
static void cut_to_line(char out[VALUE_SIZE], const char *text, size_t length) {
    const size_t room = COLUMNS - INDENT + 1;
    const char *stop = memchr(text, '\n', length);
    if (!stop) {
        escape_bytes(out, room, text, length);
        return;
    }
    escape_bytes(out, room - 3, text, (size_t)(stop - text));
    size_t used = strlen(out);
    if (used < 3 || strcmp(out + used - 3, "...")) memcpy(out + used, "...", 4);
}

// Names and texts come from the file: they are escaped for a terminal.
static void short_value(char out[VALUE_SIZE], const Facts *f, int i) {
    if (f->rows[i].is_text)
        cut_to_line(out, fact_text(f, i), f->rows[i].length);
    else
        escape_bytes(out, VALUE_SIZE, fact_text(f, i), f->rows[i].length);
}

static int print_short(const Facts *f) {
    int lines = 0;
    for (int i = 0; i < f->count;) {
        char line[VALUE_SIZE + COLUMNS], more[VALUE_SIZE];
        short_value(line, f, i);
        output_print("%-*s ", INDENT - 1, f->rows[i].name);
        for (i++; i < f->count && f->rows[i].joins; i++) {
            size_t used = strlen(line), name = strlen(f->rows[i].name) + strlen(";  ");
            short_value(more, f, i);
            if (INDENT + used + name + strlen(more) > COLUMNS) break;
            snprintf(line + used, sizeof line - used, "; %s %s", f->rows[i].name, more);
        }
        lines += print_lines(line, INDENT);
    }
    return lines;
}

static void print_whole(const char *name, const char *text, size_t length) {
    for (size_t begin = 0, end; begin < length || !begin; begin = end + 1) {
        char escaped[VALUE_SIZE];
        const char *line = text + begin, *stop = memchr(line, '\n', length - begin);
        end = stop ? (size_t)(stop - text) : length;
        output_print("%-*s %s\n", INDENT - 1, begin ? "" : name,
                     escape_bytes(escaped, sizeof escaped, line, end - begin));
    }
}

int facts_print(const Facts *f, bool all) {
    if (!all) return print_short(f);
    for (int i = 0; i < f->count; i++)
        print_whole(f->rows[i].name, fact_text(f, i), f->rows[i].length);
    return f->count;
}

void totals_print(const char *text) {
    print_lines(text, 0);
}

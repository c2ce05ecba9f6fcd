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
// is by what was printed before it. Returns the number of lines; without `show` that is all.
static int print_lines(const char *text, size_t indent, bool show) {
    int lines = 0;
    for (size_t length = strlen(text); length || !lines; lines++) {
        size_t here = line_length(text, length, COLUMNS - indent);
        if (show) output_print("%*s%.*s\n", lines ? (int)indent : 0, "", (int)here, text);
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

// An author's text in a line of its own.
static bool can_be_left_out(const Facts *f, int i) {
    return f->rows[i].is_text && !f->rows[i].joins;
}

// Without the last `left_out` of the authors' texts.
static int print_rows(const Facts *f, int left_out, bool show) {
    int lines = 0, texts = 0;
    for (int i = 0; i < f->count; i++)
        texts += can_be_left_out(f, i);
    for (int i = 0; i < f->count;) {
        char line[VALUE_SIZE + COLUMNS], more[VALUE_SIZE];
        if (can_be_left_out(f, i) && texts-- <= left_out) {
            i++;
            continue;
        }
        short_value(line, f, i);
        if (show) output_print("%-*s ", INDENT - 1, f->rows[i].name);
        for (i++; i < f->count && f->rows[i].joins; i++) {
            size_t used = strlen(line), name = strlen(f->rows[i].name) + strlen(";  ");
            short_value(more, f, i);
            if (INDENT + used + name + strlen(more) > COLUMNS) break;
            snprintf(line + used, sizeof line - used, "; %s %s", f->rows[i].name, more);
        }
        lines += print_lines(line, INDENT, show);
    }
    return lines;
}

static int print_short(const Facts *f, int most) {
    int left_out = 0, texts = 0;
    for (int i = 0; i < f->count; i++)
        texts += can_be_left_out(f, i);
    while (left_out < texts && print_rows(f, left_out, false) + (left_out > 0) > most)
        left_out++;
    int lines = print_rows(f, left_out, true);
    if (!left_out) return lines;
    output_print("%-*s %d of the authors' texts: see --all\n", INDENT - 1, "more", left_out);
    return lines + 1;
}

// Each byte by itself, so that any length fits.
static void print_escaped(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char escaped[5];
        output_print("%s", escape_bytes(escaped, sizeof escaped, text + i, 1));
    }
}

static void print_whole(const char *name, const char *text, size_t length) {
    for (size_t begin = 0, end; begin < length || !begin; begin = end + 1) {
        const char *line = text + begin, *stop = memchr(line, '\n', length - begin);
        end = stop ? (size_t)(stop - text) : length;
        output_print("%-*s ", INDENT - 1, begin ? "" : name);
        print_escaped(line, end - begin);
        output_print("\n");
    }
}

int facts_print(const Facts *f, bool all, int most) {
    if (!all) return print_short(f, most);
    for (int i = 0; i < f->count; i++)
        print_whole(f->rows[i].name, fact_text(f, i), f->rows[i].length);
    return f->count;
}

int totals_print(const char *text, bool show) {
    return print_lines(text, 0, show);
}

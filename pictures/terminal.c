// Pictures as text. One matrix that fits is drawn with its labels, a cell two columns wide; others
// are drawn with half blocks, two rows of cells to a line and one column to a cell.
//
//   labelled          0    5            half blocks     one character is two cells:
//           0 The     ##                                foreground  the upper cell, U+2580
//           1 cat     ####                              background  the lower cell
//
// Without colours a character of RAMP stands for a shade, and half blocks are not used: one row a
// line. A column of a terminal is about half as wide as a line is high, so with colours both forms
// have square cells.
#include "base/text.h"
#include "pictures/picture.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { LABEL_COLUMNS = 14, GAP = 2, SMALL_PANEL = 24, MARK_EVERY = 5 };
// LABEL_COLUMNS of a token's text; GAP between panels; SMALL_PANEL: columns that a panel should
// have where several are side by side; MARK_EVERY so many columns of the matrix a number stands.
// From little ink to much. Shade s is character s * 8 / (PICTURE_SHADES - 1).
static const char RAMP[] = ".:-=+*#%@"; // without colours

typedef struct Canvas {
    Buffer *out;
    ColorDepth colors;
    int foreground, background; // shades that are set; -1: the terminal's own
} Canvas;

// ---- text ----

// Columns that a character takes. The table is libc's, and needs a locale of UTF-8. C.UTF-8 is set
// for this thread and this call only: the program itself keeps the locale "C". 1 where the table
// does not know the character.
static int character_columns(uint32_t character) {
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) return 1;
    locale_t before = uselocale(utf8);
    int columns = wcwidth((wchar_t)character);
    uselocale(before);
    return columns < 0 ? 1 : columns;
}

// Decodes the first character of text[0 .. length): its bytes, 1 where they are no character.
static size_t next_character(const char *text, size_t length, int *columns) {
    uint32_t character = 0;
    size_t n = utf8_decode(text, length, &character);
    *columns = character_columns(n ? character : 0xfffd);
    return n ? n : 1;
}

static int text_columns(const char *text) {
    int width = 0, columns = 0;
    for (size_t length = strlen(text), at = 0; at < length; width += columns)
        at += next_character(text + at, length - at, &columns);
    return width;
}

void picture_prepare(void) {
    character_columns('a');
}

int picture_put_text(Buffer *out, const char *text, int columns) {
    size_t length = strlen(text), end = 0, cut = 0;
    // `cut` is where the text ends if the ellipsis follows: one column is left for that.
    int width = 0, cut_width = 0;
    for (int more = 0; end < length && width <= columns;) {
        end += next_character(text + end, length - end, &more);
        width += more;
        if (width < columns) cut = end, cut_width = width;
    }
    bool whole = width <= columns;
    buffer_put(out, text, whole ? length : cut);
    if (!whole) buffer_print(out, "\u2026");
    return whole ? width : cut_width + 1;
}

// The same, and blanks until `columns` are full.
static void put_padded(Buffer *out, const char *text, int columns) {
    for (int i = picture_put_text(out, text, columns); i < columns; i++)
        buffer_put(out, " ", 1);
}

// ---- colours ----

// Select Graphic Rendition of ECMA-48, and its extension by terminals, for base 30 (foreground) or
// 40 (background):
//
//   ESC [ 38 ; 2 ; r ; g ; b m    24 bits          ESC [ 38 ; 5 ; n m    one of 256
//   ESC [ 39 m                    the terminal's own

static void put_color(Buffer *out, ColorDepth colors, Rgb c, int base) {
    if (colors == COLORS_24_BIT)
        buffer_print(out, "\x1b[%d;2;%d;%d;%dm", base + 8, c.red, c.green, c.blue);
    else // the cube of 6 x 6 x 6 colours that begins at 16
        buffer_print(out, "\x1b[%d;5;%dm", base + 8,
                     16 + 36 * ((c.red * 5 + 127) / 255) + 6 * ((c.green * 5 + 127) / 255) +
                         (c.blue * 5 + 127) / 255);
}

static void put_own_color(Buffer *out, int base) {
    buffer_print(out, "\x1b[%dm", base + 9);
}

// Nothing is written for the colour that is set already, which makes the text several times
// shorter.
static void set_color(Canvas *canvas, int *current, int shade, int base) {
    if (*current == shade || canvas->colors == COLORS_NONE) return;
    *current = shade;
    if (shade < 0)
        put_own_color(canvas->out, base);
    else
        put_color(canvas->out, canvas->colors, shade_color(shade), base);
}

void picture_set_text(Buffer *out, ColorDepth colors, int shade) {
    if (colors == COLORS_NONE) return;
    if (shade < 0) {
        put_own_color(out, 30);
        put_own_color(out, 40);
        return;
    }
    Rgb c = shade_color(shade), black = {0, 0, 0}, white = {255, 255, 255};
    // Luma of ITU-R BT.709.
    bool light = 2126 * c.red + 7152 * c.green + 722 * c.blue > 10000 * 110;
    put_color(out, colors, c, 40);
    put_color(out, colors, light ? black : white, 30);
}

static void set_foreground(Canvas *canvas, int shade) {
    set_color(canvas, &canvas->foreground, shade, 30);
}

static void set_background(Canvas *canvas, int shade) {
    set_color(canvas, &canvas->background, shade, 40);
}

static void reset_colors(Canvas *canvas) {
    set_foreground(canvas, -1);
    set_background(canvas, -1);
}

static char ramp_character(int shade) {
    return shade < 0 ? ' ' : RAMP[shade * (int)(sizeof RAMP - 2) / (PICTURE_SHADES - 1)];
}

// ---- one matrix with labels ----

// One cell as blanks on its colour, or as characters.
static void put_cell(Canvas *canvas, int shade, int columns) {
    char character = canvas->colors == COLORS_NONE ? ramp_character(shade) : ' ';
    set_background(canvas, shade);
    for (int i = 0; i < columns; i++)
        buffer_put(canvas->out, &character, 1);
}

static int number_columns(size_t count) {
    return snprintf(NULL, 0, "%zu", count ? count - 1 : 0);
}

static int label_columns(const Picture *p) {
    return number_columns(p->rows) + 1 + (p->row_labels ? LABEL_COLUMNS + 1 : 0);
}

// The numbers of every fifth column, above it; of the original where columns were merged.
static void put_column_numbers(Buffer *out, const Picture *p, size_t cell, size_t step) {
    for (int i = 0; i < label_columns(p); i++)
        buffer_put(out, " ", 1);
    for (size_t c = 0; c < p->cols; c += MARK_EVERY) {
        size_t cells = p->cols - c < MARK_EVERY ? p->cols - c : MARK_EVERY;
        char number[24];
        snprintf(number, sizeof number, "%zu", c * step);
        if (strlen(number) <= cell * cells) put_padded(out, number, (int)(cell * cells));
    }
    buffer_put(out, "\n", 1);
}

// Cells are `cell` columns wide.
static void put_labelled(Canvas *canvas, const Picture *p, size_t cell, size_t step) {
    Buffer *out = canvas->out;
    if (p->panels->title) buffer_print(out, "%s\n", p->panels->title);
    put_column_numbers(out, p, cell, step);
    for (size_t r = 0; r < p->rows; r++) {
        buffer_print(out, "%*zu ", number_columns(p->rows), r);
        if (p->row_labels) {
            put_padded(out, p->row_labels[r], LABEL_COLUMNS);
            buffer_put(out, " ", 1);
        }
        for (size_t c = 0; c < p->cols; c++)
            put_cell(canvas, picture_shade(p, p->panels->values[r * p->cols + c]), (int)cell);
        reset_colors(canvas);
        buffer_put(out, "\n", 1);
    }
}

// ---- half blocks ----

// Two cells, one above the other.
// -1 is a cell without a value: there the terminal's own background shows, so a lower half block
// (U+2584) draws the other cell.
static void put_half_blocks(Canvas *canvas, int above, int below) {
    if (above < 0 && below < 0) {
        set_background(canvas, -1);
        buffer_put(canvas->out, " ", 1);
    } else if (above < 0) {
        set_background(canvas, -1);
        set_foreground(canvas, below);
        buffer_print(canvas->out, "\u2584");
    } else {
        set_background(canvas, below);
        set_foreground(canvas, above);
        buffer_print(canvas->out, "\u2580");
    }
}

// -1 below the last row: an odd number of rows leaves half of the last line empty.
static int shade_at(const Picture *p, const Panel *panel, size_t row, size_t col) {
    return row < p->rows ? picture_shade(p, panel->values[row * p->cols + col]) : -1;
}

// One line of one panel: rows `row` and, with colours, row + 1.
static void put_line(Canvas *canvas, const Picture *p, const Panel *panel, size_t row) {
    for (size_t c = 0; c < p->cols; c++) {
        int above = shade_at(p, panel, row, c);
        char character = ramp_character(above);
        if (canvas->colors == COLORS_NONE)
            buffer_put(canvas->out, &character, 1);
        else
            put_half_blocks(canvas, above, shade_at(p, panel, row + 1, c));
    }
    reset_colors(canvas);
}

// Of the longest title; 0: there are none.
static int title_columns(const Picture *p) {
    int title = 0;
    for (size_t i = 0; i < p->n_panels; i++) {
        int length = p->panels[i].title ? text_columns(p->panels[i].title) : 0;
        if (length > title) title = length;
    }
    return title;
}

static int panel_columns(const Picture *p) {
    int title = title_columns(p);
    return (int)p->cols > title ? (int)p->cols : title;
}

// `across` panels side by side, their titles in a line above; the lines of neighbours are
// interleaved, so that each panel is walked once for every line. The last panel of a row gets no
// blanks behind it.
static void put_panels(Canvas *canvas, const Picture *p, size_t across) {
    int width = panel_columns(p) + GAP;
    size_t step = canvas->colors == COLORS_NONE ? 1 : 2;
    for (size_t first = 0; first < p->n_panels; first += across) {
        size_t end = first + across < p->n_panels ? first + across : p->n_panels;
        for (size_t i = first; title_columns(p) && i < end; i++)
            put_padded(canvas->out, p->panels[i].title ? p->panels[i].title : "",
                       i + 1 < end ? width : width - GAP);
        if (title_columns(p)) buffer_put(canvas->out, "\n", 1);
        for (size_t row = 0; row < p->rows; row += step) {
            for (size_t i = first; i < end; i++) {
                put_line(canvas, p, &p->panels[i], row);
                if (i + 1 < end) put_padded(canvas->out, "", width - (int)p->cols);
            }
            buffer_put(canvas->out, "\n", 1);
        }
    }
}

// ---- the whole ----

void picture_legend(Buffer *out, const Picture *p, ColorDepth colors) {
    Canvas canvas = {out, colors, -1, -1};
    buffer_print(out, "%.3g ", (double)p->low);
    for (int i = 0; i < PICTURE_SHADES; i += 4) {
        char character = colors == COLORS_NONE ? ramp_character(i) : ' ';
        set_background(&canvas, i);
        buffer_put(out, &character, 1);
    }
    reset_colors(&canvas);
    buffer_print(out, " %.3g", (double)p->high);
}

// The last line: the colour scale, and what a cell stands for where the picture was shrunk.
static void put_legend(const Canvas *canvas, const Shrunk *s) {
    Buffer *out = canvas->out;
    bool scale = !s->picture.two_valued, steps = s->row_step > 1 || s->col_step > 1;
    if (scale) picture_legend(out, &s->picture, canvas->colors);
    if (steps)
        buffer_print(out, "%sa cell is the largest of %zu x %zu", scale ? "   " : "", s->row_step,
                     s->col_step);
    if (scale || steps) buffer_put(out, "\n", 1);
}

// Whether a single panel fits with its labels and cells of `cell` columns. 3 lines: the column
// numbers, the legend, and the line with the prompt of the shell.
static bool fits_labelled(const Picture *p, const Terminal *t, size_t cell) {
    return p->n_panels == 1 && label_columns(p) + (int)(cell * p->cols) <= t->columns &&
           (int)p->rows + 3 <= t->lines;
}

// Whether it fits where columns may be merged: for the labels of its rows, and where rows and
// columns are not the same things, as in a matrix over tokens.
static bool fits_merged(const Picture *p, const Terminal *t) {
    enum { LEAST = 16 }; // columns that are left to cells
    Picture narrow = *p;
    if (narrow.cols > LEAST) narrow.cols = LEAST;
    return p->row_labels && p->rows != p->cols && fits_labelled(&narrow, t, 1);
}

// As many as fit unshrunk; where that is not even two, as many as fit when shrunk to SMALL_PANEL.
static size_t panels_across(const Picture *p, const Terminal *t) {
    size_t whole = (size_t)t->columns / ((size_t)panel_columns(p) + GAP);
    size_t small = (size_t)t->columns / (SMALL_PANEL + GAP), across = p->across;
    if (!across) across = whole > 1 ? whole : small;
    if (across > p->n_panels) across = p->n_panels;
    return across ? across : 1;
}

// False: no memory.
static bool put_picture(Canvas *canvas, Shrunk *s, const Picture *p, const Terminal *t) {
    size_t whole = (size_t)-1;
    if (fits_labelled(p, t, 2) || (p->row_labels && fits_labelled(p, t, 1)) || fits_merged(p, t)) {
        size_t cell = fits_labelled(p, t, 2) ? 2 : 1;
        if (!picture_shrink(s, p, whole, (size_t)(t->columns - label_columns(p)) / cell))
            return false;
        put_labelled(canvas, &s->picture, cell, s->col_step);
    } else {
        size_t across = panels_across(p, t);
        // What one panel may take. The window's lines hold one panel: several rows of them scroll.
        int columns = (t->columns + GAP) / (int)across - GAP;
        int lines = t->lines - 3, rows = canvas->colors == COLORS_NONE ? lines : 2 * lines;
        if (!picture_shrink(s, p, rows > 4 ? (size_t)rows : 4, columns > 4 ? (size_t)columns : 4))
            return false;
        put_panels(canvas, &s->picture, across);
    }
    put_legend(canvas, s);
    return true;
}

void picture_terminal(Buffer *out, const Picture *picture, const Terminal *terminal) {
    Canvas canvas = {out, terminal->colors, -1, -1};
    Shrunk shrunk = {0};
    if (!picture->n_panels || !picture->rows || !picture->cols) return;
    if (picture->title) buffer_print(out, "%s\n", picture->title);
    if (!put_picture(&canvas, &shrunk, picture, terminal)) out->failed = true;
    shrunk_free(&shrunk);
}

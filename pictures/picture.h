// Picture: matrices as heat maps with labels, drawn as text for a terminal, as SVG or as PNG. This
// room knows nothing of models.
//
//     Panel panel = {.title = "layer 3, head 1", .values = weights};
//     Picture picture = {.panels = &panel, .n_panels = 1, .rows = n, .cols = n,
//                        .row_labels = tokens, .col_labels = tokens, .high = 1};
//     Buffer out = {0};
//     picture_svg(&out, &picture);
//     ... out.failed, out.bytes, out.size ...
//     buffer_free(&out);
//
// Everything in a Picture is borrowed. Labels and titles are UTF-8, already free of control
// characters. A value of NaN is an empty cell: nothing is drawn there. Each drawing goes through
// the same steps:
//
//   value -> shade 0 .. 63, or -1 for NaN (picture_shade) -> colour (shade_color) -> characters,
//   paths or pixels; first shrunk where it is too large for the medium (picture_shrink)
#pragma once

#include "base/buffer.h"

typedef struct Panel {
    const char *title;   // NULL: none
    const float *values; // (rows, cols)
} Panel;

typedef struct Picture {
    const char *title;   // NULL: none
    const Panel *panels; // all of one shape, drawn side by side and in rows
    size_t n_panels, rows, cols;
    size_t across;                                     // panels in a row; 0: as many as fit
    const char *const *row_labels, *const *col_labels; // (rows), (cols); NULL: numbers from 0
    float low, high; // the ends of the colour scale; values beyond them have its end's colour
    bool two_valued; // cells have a value or none: no colour scale is drawn
} Picture;

typedef enum ColorDepth { COLORS_NONE, COLORS_256, COLORS_24_BIT } ColorDepth;

// The window that a picture has to fit.
typedef struct Terminal {
    int columns, lines;
    ColorDepth colors;
} Terminal;

// Appends the picture as lines of text. A single panel has its labels where they fit, with cells
// that are two columns wide, else one. A picture that is wider than the window is drawn smaller: a
// cell then has the largest value of the cells that it covers, which the last line says.
void picture_terminal(Buffer *out, const Picture *picture, const Terminal *terminal);
// Reads libc's table of the widths of characters, for when no file can be opened any more.
void picture_prepare(void);

// Appends text that takes at most so many columns of a terminal (1 or more): longer text ends in an
// ellipsis. The number of columns.
int picture_put_text(Buffer *out, const char *text, int columns);

// Appends the colour scale between its two ends, without a newline.
void picture_legend(Buffer *out, const Picture *picture, ColorDepth colors);

// Appends what makes the text that follows stand on a shade, in black or white, whichever reads
// better on it; shade -1: in the terminal's own colours. Nothing with COLORS_NONE.
void picture_set_text(Buffer *out, ColorDepth colors, int shade);

// Appends an SVG document. A single panel has its labels, as text; where more than 64 cells are
// drawn in a direction they are numbers instead, as labels of NULL are: of every fifth row or
// column where there are more than ten. More than 112 x 112 cells in all are drawn as fewer, which
// keeps a file below 100 KB.
void picture_svg(Buffer *out, const Picture *picture);

// False with exit code 2 in a program that was built without libpng: to say so before long work.
bool picture_has_png(Error *error);

// Appends `bytes` as a raw deflate stream (RFC 1951). False: the program was built without zlib,
// zlib had no memory, the stream has more than `most` bytes, or *stop is not 0, which a signal
// handler may set (`stop` is not NULL); `out` then holds no stream, and no more than `most` bytes.
bool deflate_bytes(Buffer *out, const void *bytes, size_t size, size_t most, const int *stop);

// Appends a PNG file of the cells alone, without labels and titles, of at most 8192 x 8192 pixels:
// cells are merged as in the terminal. False: exit code 5; 2 as above, or where there are more
// panels than pixels for them.
bool picture_png(Buffer *out, const Picture *picture, Error *error);

// ---- what the three share ----

typedef struct Rgb {
    uint8_t red, green, blue;
} Rgb;

enum { PICTURE_SHADES = 64 }; // of the colour scale

// The shade of a value, 0 .. PICTURE_SHADES - 1; -1 for an empty cell.
// Linear from `low` (0) to `high` (the last shade), rounded to the nearest.
int picture_shade(const Picture *picture, float value);

// The colour of a shade. Lightness rises with it, so that the order is seen on any screen and on
// paper without colour.
Rgb shade_color(int shade);

// A picture of `panels` over cells that cover row_step by col_step cells of the original: the
// largest value each, NaN where all are. Free it with shrunk_free.
typedef struct Shrunk {
    Picture picture;
    size_t row_step, col_step; // both 1: the picture is the original
    Panel *panels;
    float *values;
    const char **row_labels, **col_labels;
} Shrunk;

// Shrinks until there are at most max_rows rows and max_cols columns: by one step in both
// directions where the picture is square, so that a matrix over tokens stays so. False: out of
// memory.
bool picture_shrink(Shrunk *shrunk, const Picture *picture, size_t max_rows, size_t max_cols);
void shrunk_free(Shrunk *shrunk);

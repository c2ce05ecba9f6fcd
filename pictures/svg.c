// Pictures as SVG 1.1: one path for each shade of a panel, whose squares are runs of cells with
// that shade in a row. Labels are text, so that they can be searched and read aloud.
//
//   |left          |  title
//   |              |  panel title
//   |              |  column labels, turned by 60 degrees     above the cells: axis
//   |   row labels |  cells            |GAP| next panel
//   |              |  low [legend] high
//
// Labels are only of a single panel: its texts, or numbers where it has none or too many.
//
// A path of a shade is shorter than a rectangle for each cell: the colour is written once, and a
// run of n cells is "Mc rhnv1h-nz", in units of cells, which the panel's <g> scales to pixels.
#include "pictures/picture.h"

#include <stdio.h>
#include <string.h>

enum {
    FEWER_CELLS = 96, // of several panels, if these were one
    MAX_CELLS = 112,  // rows or columns that are drawn
    CELL = 12,
    SMALL_CELL = 3,    // pixels; of several panels at least
    SMALL_PANEL = 100, // width that each of several should have
    MAX_LABELS = 64,   // rows or columns that have texts as labels
    ALL_NUMBERED = 10, // rows or columns that have a number each
    MARK_EVERY = 5,    // of more, as in the terminal
    LINE = 18,
    GAP = 16,
    LEGEND_WIDTH = 160,
    LABEL_GAP = 4, // between labels and cells
    CHARACTER = 7, // of a text's width
    BOLD_CHARACTER = 8
};

// Where things are, in pixels. From the upper left corner; y grows downwards.
typedef struct Layout {
    const Picture *picture;
    const Shrunk *shrunk;
    int cell;
    size_t across, down;  // panels
    double left, top;     // of the first panel's cells
    double width, height; // of a panel with its gap
    double axis, right;   // labels of columns: above the cells, and beyond the last of them
} Layout;

static void put_text(Buffer *out, double x, double y, const char *more, const char *text) {
    buffer_print(out, "<text x=\"%g\" y=\"%g\"%s>", x, y, more);
    buffer_markup(out, text, strlen(text));
    buffer_print(out, "</text>\n");
}

// NaN has shade -1, so it is in no path: the grey rectangle behind the panel shows there.
static bool has_shade(const Picture *p, float value, int first, int count) {
    int shade = picture_shade(p, value);
    return shade >= first && shade < first + count;
}

// The cells of the shades from `shade` on, `count` of them, in the colour of the middle one.
static void put_shades(Buffer *out, const Picture *p, const Panel *panel, int shade, int count) {
    bool begun = false;
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols;) {
            size_t end = c;
            while (end < p->cols && has_shade(p, panel->values[r * p->cols + end], shade, count))
                end++;
            if (end == c) {
                c++;
                continue;
            }
            Rgb rgb = shade_color(shade + count / 2);
            if (!begun)
                buffer_print(out, "<path fill=\"#%02x%02x%02x\" d=\"", rgb.red, rgb.green,
                             rgb.blue);
            buffer_print(out, "M%zu %zuh%zuv1h-%zuz", c, r, end - c, end - c);
            begun = true;
            c = end;
        }
    if (begun) buffer_print(out, "\"/>\n");
}

// More labels than MAX_LABELS would be unreadable, and on several panels there is no room.
static bool has_row_labels(const Picture *p) {
    return p->n_panels == 1 && p->row_labels && p->rows <= MAX_LABELS;
}

static bool has_col_labels(const Picture *p) {
    return p->n_panels == 1 && p->col_labels && p->cols <= MAX_LABELS;
}

// About the width of a text, in pixels: browsers have their own fonts. Characters from U+3000 on,
// which are those of East Asia and emoji, take two columns.
static double text_width(const char *text, double of_character) {
    size_t count = 0;
    for (; text && *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if ((byte & 0xc0) != 0x80) count += byte >= 0xe3 ? 2 : 1; // it begins a UTF-8 character
    }
    return of_character * (double)count;
}

static double widest(const char *const *labels, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double width = text_width(labels[i], CHARACTER);
        if (width > most) most = width;
    }
    return most;
}

static const char *number_text(char text[24], size_t number) {
    snprintf(text, 24, "%zu", number);
    return text;
}

// Room for the labels of a single panel: texts where it has them, else the numbers of its rows and
// columns in the picture before it was shrunk.
static void lay_out_labels(Layout *l) {
    const Picture *p = l->picture;
    char last[24];
    number_text(last, (p->rows - 1) * l->shrunk->row_step);
    double rows = has_row_labels(p) ? widest(p->row_labels, p->rows) : text_width(last, CHARACTER);
    l->left = rows + LABEL_GAP + GAP / 2.0;
    l->axis = CELL;
    if (has_col_labels(p)) { // the sine and cosine of 60 degrees, and half a line
        double cols = widest(p->col_labels, p->cols);
        l->axis = LABEL_GAP + 0.866 * cols + LINE / 2.0;
        l->right = 0.5 * cols;
    }
}

// A panel is as wide as its title, so that the next one's stands beside it.
static double panel_width(const Picture *p, int cell) {
    double width = (double)p->cols * cell;
    for (size_t i = 0; i < p->n_panels; i++) {
        double title = text_width(p->panels[i].title, CHARACTER);
        if (title > width) width = title;
    }
    return width + GAP;
}

// Of one panel a cell is CELL pixels. Of several it is chosen so that a panel is about SMALL_PANEL
// wide, between SMALL_CELL and CELL. Panels without a given number in a row form about a square.
static Layout lay_out(const Shrunk *s) {
    const Picture *p = &s->picture;
    int small = (int)(SMALL_PANEL / p->cols);
    Layout l = {.picture = p, .shrunk = s, .left = GAP};
    l.cell = small > SMALL_CELL ? small : SMALL_CELL;
    if (p->n_panels == 1 || l.cell > CELL) l.cell = CELL;
    l.across = p->across ? p->across : 1;
    while (!p->across && l.across * l.across < p->n_panels)
        l.across++;
    if (l.across > p->n_panels) l.across = p->n_panels;
    l.down = (p->n_panels + l.across - 1) / l.across;
    if (p->n_panels == 1) lay_out_labels(&l);
    l.top = (p->title ? 2 : 1) * LINE + l.axis;
    l.width = panel_width(p, l.cell);
    l.height = (double)p->rows * l.cell + LINE + GAP / 2.0;
    return l;
}

// Every fifth number has room for 8 digits.
static size_t numbered_every(size_t count) {
    return count <= ALL_NUMBERED ? 1 : MARK_EVERY;
}

static void put_row_labels(Buffer *out, const Layout *l) {
    const Picture *p = l->picture;
    bool texts = has_row_labels(p);
    for (size_t r = 0; r < p->rows; r += texts ? 1 : numbered_every(p->rows)) {
        char number[24];
        number_text(number, r * l->shrunk->row_step);
        put_text(out, l->left - LABEL_GAP, l->top + l->cell * ((double)r + 0.8),
                 " text-anchor=\"end\"", texts ? p->row_labels[r] : number);
    }
}

static void put_col_labels(Buffer *out, const Layout *l) {
    const Picture *p = l->picture;
    bool texts = has_col_labels(p);
    double y = l->top - LABEL_GAP;
    for (size_t c = 0; c < p->cols; c += texts ? 1 : numbered_every(p->cols)) {
        char rotated[80], number[24];
        double x = l->left + l->cell * ((double)c + (texts ? 0.8 : 0.5));
        snprintf(rotated, sizeof rotated, " transform=\"rotate(-60 %g %g)\"", x, y);
        number_text(number, c * l->shrunk->col_step);
        put_text(out, x, y, texts ? rotated : " text-anchor=\"middle\"",
                 texts ? p->col_labels[c] : number);
    }
}

static void put_panel(Buffer *out, const Layout *l, size_t i) {
    const Picture *p = l->picture;
    double x = l->left + (double)(i % l->across) * l->width;
    double y = l->top + (double)(i / l->across) * l->height;
    double title = y - 5 - l->axis;
    if (p->panels[i].title) put_text(out, x, title, "", p->panels[i].title);
    buffer_print(out, "<g transform=\"translate(%g %g) scale(%d)\">\n", x, y, l->cell);
    buffer_print(out, "<rect width=\"%zu\" height=\"%zu\" fill=\"#8883\"/>\n", p->cols, p->rows);
    int count = p->n_panels > 9 ? 4 : 1; // a path for each shade is long
    for (int shade = 0; shade < PICTURE_SHADES; shade += count)
        put_shades(out, p, &p->panels[i], shade, count);
    buffer_print(out, "</g>\n");
}

// What a cell stands for where the picture was shrunk, behind `x`.
static void put_steps(Buffer *out, const Layout *l, double x, double y) {
    const Shrunk *s = l->shrunk;
    char text[100];
    if (s->row_step == 1 && s->col_step == 1) return;
    snprintf(text, sizeof text, "a cell is the largest of %zu x %zu", s->row_step, s->col_step);
    put_text(out, l->left + x, y + 10, "", text);
}

static void put_legend(Buffer *out, const Layout *l, double y) {
    // One rectangle for each shade, 0.2 wider than its share: no gaps where a viewer rounds.
    double each = (double)LEGEND_WIDTH / PICTURE_SHADES;
    char low[32], high[32];
    if (l->picture->two_valued) {
        put_steps(out, l, 0, y);
        return;
    }
    snprintf(low, sizeof low, "%.3g", (double)l->picture->low);
    snprintf(high, sizeof high, "%.3g", (double)l->picture->high);
    put_text(out, l->left, y + 10, "", low);
    for (int shade = 0; shade < PICTURE_SHADES; shade++) {
        Rgb c = shade_color(shade);
        buffer_print(out,
                     "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"10\" fill=\"#%02x%02x%02x\"/>",
                     l->left + 40 + shade * each, y, each + 0.2, c.red, c.green, c.blue);
    }
    buffer_print(out, "\n");
    put_text(out, l->left + 46 + LEGEND_WIDTH, y + 10, "", high);
    put_steps(out, l, 90 + LEGEND_WIDTH, y);
}

// The legend says where the picture was shrunk.
static void put_document(Buffer *out, const Shrunk *s) {
    const Picture *p = &s->picture;
    Layout l = lay_out(s);
    double legend = l.top + (double)l.down * l.height - LINE + GAP;
    double width = l.left + (double)l.across * l.width + l.right, least = l.left + 480;
    double title = 2 * GAP + text_width(p->title, BOLD_CHARACTER);
    if (width < least) width = least; // the legend
    if (width < title) width = title;
    buffer_print(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
                 "height=\"%g\" font-family=\"sans-serif\" font-size=\"11\" "
                 "shape-rendering=\"crispEdges\">\n"
                 "<style>text{fill:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}}"
                 "</style>\n",
                 width, legend + LINE, width, legend + LINE);
    if (p->title) {
        buffer_print(out, "<title>");
        buffer_markup(out, p->title, strlen(p->title));
        buffer_print(out, "</title>\n");
        put_text(out, GAP, LINE - 4, " font-weight=\"bold\"", p->title);
    }
    if (p->n_panels == 1) {
        put_row_labels(out, &l);
        put_col_labels(out, &l);
    }
    for (size_t i = 0; i < p->n_panels; i++)
        put_panel(out, &l, i);
    put_legend(out, &l, legend);
    buffer_print(out, "</svg>\n");
}

// The file grows with the cells of all panels together, and with the shades of each. One panel may
// have MAX_CELLS squared; several together FEWER_CELLS squared, since each panel adds paths of its
// own. At least 8, below which a panel says nothing.
static size_t cells_of_a_panel(const Picture *p) {
    size_t most = MAX_CELLS;
    while (p->n_panels > 1 && most > 8 && most * most * p->n_panels > FEWER_CELLS * FEWER_CELLS)
        most--;
    return most;
}

void picture_svg(Buffer *out, const Picture *picture) {
    Shrunk shrunk;
    size_t most = cells_of_a_panel(picture);
    if (picture_shrink(&shrunk, picture, most, most))
        put_document(out, &shrunk);
    else
        out->failed = true;
    shrunk_free(&shrunk);
}

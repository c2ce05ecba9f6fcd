// Pictures as text and SVG: small ones worked by hand, and what must hold for all: they fit the
// window, hidden cells stay empty, a file stays small.
#include "base/text.h"
#include "pictures/picture.h"
#include "tests/test.h"

static Picture picture_of(const Panel *panel, size_t rows, size_t cols) {
    return (Picture){.panels = panel, .n_panels = 1, .rows = rows, .cols = cols, .high = 1};
}

// NUL-terminated and malloced.
static char *drawn(const Picture *picture, Terminal terminal) {
    Buffer out = {0};
    picture_terminal(&out, picture, &terminal);
    buffer_zeros(&out, 1);
    CHECK(!out.failed, "no memory");
    return (char *)out.bytes;
}

static char *svg_of(const Picture *picture) {
    Buffer out = {0};
    picture_svg(&out, picture);
    buffer_zeros(&out, 1);
    CHECK(!out.failed, "no memory");
    return (char *)out.bytes;
}

// A causal matrix: row r has values in its columns 0 .. r.
static float *triangle(size_t n) {
    float *values = malloc(n * n * sizeof *values);
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < n; c++)
            values[r * n + c] = c > r ? NAN : (float)((r * 31 + c * 17) % 64) / 63.0f;
    return values;
}

// ---- shades ----

// Relative luminance (ITU-R BT.709) without gamma, which keeps the order.
static double lightness(int shade) {
    Rgb c = shade_color(shade);
    return 0.2126 * pow(c.red, 2.2) + 0.7152 * pow(c.green, 2.2) + 0.0722 * pow(c.blue, 2.2);
}

Test(pictures, lightness_rises_with_the_value) {
    for (int shade = 1; shade < PICTURE_SHADES; shade++)
        CHECK(lightness(shade) > lightness(shade - 1), "shade %d", shade);
}

Test(pictures, values_have_the_shade_of_their_share) {
    Picture p = {.low = -1, .high = 3};
    CHECK_INT(picture_shade(&p, -1), 0);
    CHECK_INT(picture_shade(&p, 3), PICTURE_SHADES - 1);
    CHECK_INT(picture_shade(&p, 1), 32); // half of 63, rounded up
    CHECK_INT(picture_shade(&p, -INFINITY), 0);
    CHECK_INT(picture_shade(&p, INFINITY), PICTURE_SHADES - 1);
    CHECK_INT(picture_shade(&p, NAN), -1);
    p.high = p.low; // all values are the same
    CHECK_INT(picture_shade(&p, -1), 0);
}

Test(pictures, a_smaller_picture_has_the_largest_values) {
    float values[] = {1, 2, 3, 4, 9, 5, NAN, 6, 7, NAN, 8, 0, NAN, NAN, NAN};
    const char *labels[] = {"a", "b", "c", "d", "e"};
    Panel panel = {"t", values};
    Picture p = picture_of(&panel, 3, 5);
    p.col_labels = labels;
    Shrunk s;
    CHECK(picture_shrink(&s, &p, 2, 3), "no memory");
    // 1 2|3 4|9    and   8 0|- -|-
    // 5 -|6 7|-
    CHECK(s.row_step == 2 && s.col_step == 2, "steps %zu, %zu", s.row_step, s.col_step);
    CHECK(s.picture.rows == 2 && s.picture.cols == 3, "%zu x %zu", s.picture.rows, s.picture.cols);
    const float wanted[] = {5, 7, 9, 8, NAN, NAN};
    for (int i = 0; i < 6; i++)
        CHECK(isnan(wanted[i]) ? isnan(s.values[i]) : s.values[i] == wanted[i], "[%d] %g", i,
              (double)s.values[i]);
    CHECK_STRING(s.picture.col_labels[2], "e");
    CHECK_STRING(s.picture.panels[0].title, "t");
    shrunk_free(&s);
}

// Rows that fit stay apart; a square picture stays square.
Test(pictures, directions_shrink_apart_unless_the_picture_is_square) {
    float values[] = {1, 2, 3, 4, 9, 5, NAN, 6, 7, NAN, 8, 0, NAN, NAN, NAN, 3};
    const float wanted[] = {2, 4, 9, 5, 7, NAN, 8, NAN, NAN};
    Panel panel = {NULL, values};
    Picture wide = picture_of(&panel, 3, 5), square = picture_of(&panel, 4, 4);
    Shrunk s;
    CHECK(picture_shrink(&s, &wide, 3, 3), "no memory");
    CHECK(s.row_step == 1 && s.col_step == 2, "steps %zu, %zu", s.row_step, s.col_step);
    for (int i = 0; i < 9; i++)
        CHECK(isnan(wanted[i]) ? isnan(s.values[i]) : s.values[i] == wanted[i], "[%d] %g", i,
              (double)s.values[i]);
    shrunk_free(&s);
    CHECK(picture_shrink(&s, &square, 4, 2), "no memory");
    CHECK(s.row_step == 2 && s.col_step == 2, "steps %zu, %zu", s.row_step, s.col_step);
    shrunk_free(&s);
}

// ---- the terminal ----

// Cells of one column where two do not fit; then columns are merged. The labels stay.
Test(pictures, a_wide_one_keeps_its_labels) {
    float values[40];
    const char *labels[] = {"one", "two"};
    Panel panel = {NULL, values};
    Picture p = picture_of(&panel, 2, 20);
    p.row_labels = labels;
    for (int i = 0; i < 40; i++)
        values[i] = i == 7 || i == 39;
    char *text = drawn(&p, (Terminal){40, 24, COLORS_NONE});
    CHECK_STRING(text, "                 0    5    10   15   \n"
                       "0 one            .......@............\n"
                       "1 two            ...................@\n"
                       "0 ..::--==++**##%% 1\n");
    free(text);
    text = drawn(&p, (Terminal){34, 24, COLORS_NONE});
    CHECK_STRING(text, "                 0    10   \n"
                       "0 one            ...@......\n"
                       "1 two            .........@\n"
                       "0 ..::--==++**##%% 1   a cell is the largest of 1 x 2\n");
    free(text);
}

// Cells that are there or not need no scale.
Test(pictures, two_values_have_no_scale) {
    float values[] = {1, NAN, 1, 1};
    Panel panel = {NULL, values};
    Picture p = picture_of(&panel, 2, 2);
    p.two_valued = true;
    char *text = drawn(&p, (Terminal){80, 24, COLORS_NONE});
    CHECK_STRING(text, "  0   \n0 @@  \n1 @@@@\n");
    free(text);
    text = svg_of(&p);
    CHECK(!strstr(text, "height=\"10\""), "a scale: %s", text);
    free(text);
}

// Titles of wide characters: two of them are four columns, and six bytes.
Test(pictures, panels_stand_below_titles_of_wide_characters) {
    float value = 1;
    Panel panels[] = {{"\u4e8c\u4e8c", &value}, {"\u4e8c\u4e8c", &value}};
    Picture p = picture_of(panels, 1, 1);
    p.n_panels = 2;
    char *text = drawn(&p, (Terminal){80, 24, COLORS_NONE});
    CHECK(strstr(text, "\u4e8c\u4e8c  \u4e8c\u4e8c\n@     @\n") == text, "%s", text);
    free(text);
}

Test(pictures, a_small_one_is_drawn_with_its_labels) {
    float values[] = {1, NAN, 0.5f, 0};
    const char *labels[] = {"one", "\xe4\xba\x8c\xe4\xba\x8c"}; // two wide characters: 4 columns
    Panel panel = {"layer 0", values};
    Picture p = picture_of(&panel, 2, 2);
    p.title = "weights";
    p.row_labels = labels;
    char *text = drawn(&p, (Terminal){80, 24, COLORS_NONE});
    CHECK_STRING(text, "weights\nlayer 0\n"
                       "                 0   \n"
                       "0 one            @@  \n"
                       "1 \xe4\xba\x8c\xe4\xba\x8c           ++..\n"
                       "0 ..::--==++**##%% 1\n");
    free(text);
}

Test(pictures, half_blocks_hold_two_rows) {
    float values[] = {1, NAN, NAN, 0};
    Panel panel = {NULL, values};
    Picture p = picture_of(&panel, 2, 2);
    char *text = drawn(&p, (Terminal){5, 24, COLORS_24_BIT}); // too narrow for labels
    // yellow above nothing; nothing above dark blue
    const char *wanted = "\x1b[38;2;250;235;90m\xe2\x96\x80"
                         "\x1b[38;2;13;13;43m\xe2\x96\x84\x1b[39m\n";
    CHECK(!strncmp(text, wanted, strlen(wanted)), "%s", text);
    free(text);
    text = drawn(&p, (Terminal){5, 24, COLORS_256});
    CHECK(strstr(text, "\x1b[38;5;228m\xe2\x96\x80"), "16 + 36 * 5 + 6 * 5 + 2: %s", text);
    free(text);
}

// Columns that a line without escapes takes, where every character takes one.
static size_t columns(const char *line, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\x1b')
            i += strcspn(line + i, "m");
        else
            n += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return n;
}

Test(pictures, fit_every_window) {
    static const int WIDTHS[] = {30, 40, 79, 80, 200}, SIZES[] = {1, 2, 9, 33, 64, 130};
    const char *labels[130];
    for (int i = 0; i < 130; i++)
        labels[i] = "a label that is far too long";
    for (int s = 0; s < 6; s++) {
        size_t n = (size_t)SIZES[s];
        float *values = triangle(n);
        Panel panels[7] = {{"head 0", values}};
        for (int i = 1; i < 7; i++)
            panels[i] = panels[0];
        for (int i = 0; i < 5 * 3 * 2; i++) {
            Terminal t = {WIDTHS[i % 5], 24, (ColorDepth)(i / 5 % 3)};
            Picture p = picture_of(panels, n, n);
            p.n_panels = i < 15 ? 1 : 7;
            p.row_labels = labels;
            char *text = drawn(&p, t), *end;
            int lines = 0;
            for (char *line = text; *line; line = end + 1, lines++) {
                end = strchr(line, '\n');
                bool legend = !end[1]; // may say how much smaller the picture is
                size_t width = columns(line, (size_t)(end - line));
                CHECK(legend || width <= (size_t)t.columns, "%zu of %d columns: %.*s", width,
                      t.columns, (int)(end - line), line);
            }
            CHECK(p.n_panels > 1 || lines <= t.lines, "%d lines", lines);
            free(text);
        }
        free(values);
    }
}

Test(pictures, empty_ones_draw_nothing) {
    Picture p = {.high = 1};
    char *text = drawn(&p, (Terminal){80, 24, COLORS_NONE});
    CHECK_STRING(text, "");
    free(text);
}

// ---- SVG ----

static size_t count_of(const char *text, const char *what) {
    size_t count = 0;
    while ((text = strstr(text, what))) {
        text += strlen(what);
        count++;
    }
    return count;
}

Test(pictures, svg_has_texts_as_text_and_a_run_as_one_square) {
    float values[] = {1, 1, 0, 1, NAN, 0};
    const char *rows[] = {"<b>&\"\xef\xbf\xbf", "r"}, *cols[] = {"x", "y", "z"};
    Panel panel = {"head 1", values};
    Picture p = picture_of(&panel, 2, 3);
    p.title = "t";
    p.row_labels = rows;
    p.col_labels = cols;
    char *text = svg_of(&p);
    CHECK(strstr(text, ">&lt;b&gt;&amp;&quot;\xef\xbf\xbd</text>") && !strstr(text, "<b>"), "%s",
          text);
    CHECK(strstr(text, "d=\"M0 0h2v1h-2zM0 1h1v1h-1z\""), "%s", text); // the ones
    CHECK(strstr(text, "d=\"M2 0h1v1h-1zM2 1h1v1h-1z\""), "%s", text); // the zeros
    CHECK_INT(count_of(text, "<path"), 2);
    CHECK_INT(count_of(text, "rotate(-60"), 3);
    CHECK(!strncmp(text, "<svg xmlns=", 11) && !strcmp(text + strlen(text) - 7, "</svg>\n"), "%s",
          text);
    free(text);
}

// The attributes and the text of the i-th <text> of a kind, which `mark` names.
static const char *text_at(const char *svg, const char *mark, size_t i, double *x, double *y) {
    const char *at = svg;
    for (size_t k = 0; at && k <= i; k++) {
        at = k ? strchr(at, '\n') : at;
        while ((at = at ? strstr(at, "<text x=") : NULL)) {
            const char *end = strchr(at, '\n'), *found = strstr(at, mark);
            if (found && found < end) break;
            at = end;
        }
    }
    if (!at || sscanf(at, "<text x=\"%lf\" y=\"%lf\"", x, y) != 2) return NULL;
    return strchr(at, '>') + 1;
}

// Labels of tokens have up to 44 bytes. Row labels end beside the cells, column labels rise to the
// right by 60 degrees.
Test(pictures, svg_has_room_for_the_longest_label) {
    enum { LENGTH = 40, WIDE = 14 };
    static const float VALUES[4] = {0, 1, 1, 0};
    static const char LONG[] = "a label that has all of forty characters"; // LENGTH characters
    static const char *const LABELS[] = {LONG, "b"};
    static const char *const EAST[] = {"b", "二二二二二二二二二二二二二二"}; // WIDE characters
    const Panel panel = {"head 1", VALUES};
    Picture p = picture_of(&panel, 2, 2);
    CHECK_INT(strlen(LONG), LENGTH);
    p.row_labels = p.col_labels = LABELS;
    char *text = svg_of(&p);
    double x, y, title, width;
    CHECK(text_at(text, "text-anchor=\"end\"", 0, &x, &y));
    CHECK(x >= LENGTH * 6, "a row label ends at %g", x);
    CHECK(text_at(text, ">head 1<", 0, &x, &title));
    CHECK(text_at(text, "rotate", 0, &x, &y));
    CHECK(title > 9 && y - title >= LENGTH * 6 * 0.866, "from the title %g to the cells %g", title,
          y);
    CHECK(sscanf(strstr(text, "width=\""), "width=\"%lf", &width) == 1);
    CHECK(width >= x + LENGTH * 6 * 0.5, "%g of %g pixels", x, width);
    free(text);
    p.row_labels = EAST;
    text = svg_of(&p);
    CHECK(text_at(text, "text-anchor=\"end\"", 1, &x, &y));
    CHECK(x >= WIDE * 11, "a row label of wide characters ends at %g", x);
    free(text);
}

// All of ten, every fifth of more; of the original where cells were merged. 300 columns: 3 each.
Test(pictures, svg_numbers_rows_and_columns_without_labels) {
    static float values[11 * 300];
    const Panel panel = {NULL, values};
    static const struct {
        size_t rows, cols, row_numbers, col_numbers;
        const char *last_row, *last_col;
    } CASES[] = {
        {1, 10, 1, 10, "0<", "9<"}, {11, 64, 3, 13, "10<", "60<"}, {10, 300, 10, 20, "9<", "285<"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const size_t rows = CASES[i].row_numbers, cols = CASES[i].col_numbers;
        const Picture p = picture_of(&panel, CASES[i].rows, CASES[i].cols);
        char *text = svg_of(&p);
        double x, y, before = -INFINITY;
        CHECK_INT(count_of(text, "text-anchor=\"end\""), rows);
        CHECK_INT(count_of(text, "text-anchor=\"middle\""), cols);
        const char *last = text_at(text, "\"end\"", rows - 1, &x, &y);
        CHECK(last && !strncmp(last, CASES[i].last_row, strlen(CASES[i].last_row)), "%s", text);
        last = text_at(text, "\"middle\"", cols - 1, &x, &y);
        CHECK(last && !strncmp(last, CASES[i].last_col, strlen(CASES[i].last_col)), "%s", text);
        for (size_t c = 0; c < cols; c++, before = x) {
            const char *number = text_at(text, "\"middle\"", c, &x, &y);
            CHECK(number && x - before >= 7.0 * (double)strcspn(number, "<") + 2, "at %g and %g",
                  before, x);
        }
        free(text);
    }
}

// Labels of more than 64 rows would be unreadable.
Test(pictures, svg_numbers_many_labels) {
    float *values = triangle(65);
    const char *labels[65];
    for (int i = 0; i < 65; i++)
        labels[i] = "label";
    const Panel panel = {NULL, values};
    Picture p = picture_of(&panel, 65, 65);
    p.row_labels = p.col_labels = labels;
    char *text = svg_of(&p);
    CHECK(!strstr(text, ">label<") && count_of(text, ">60</text>") == 2, "%s", text);
    free(text);
    free(values);
}

// A character is 6 pixels wide or more in the usual fonts at this size.
Test(pictures, svg_titles_do_not_run_into_each_other) {
    enum { LENGTH = 40, LEAST = 6 };
    static const char TITLE[] = "layer 0, mean of heads, of a small model"; // LENGTH characters
    static const float VALUES[2] = {0, 1};
    const Panel panels[] = {{TITLE, VALUES}, {TITLE, VALUES}};
    Picture picture = {.title = TITLE,
                       .panels = panels,
                       .n_panels = 2,
                       .rows = 1,
                       .cols = 2,
                       .across = 2,
                       .high = 1};
    Buffer out = {0};
    CHECK_INT(strlen(TITLE), LENGTH);
    picture_svg(&out, &picture);
    buffer_put(&out, "", 1);
    CHECK(!out.failed);
    double x[2], width;
    const char *at = (const char *)out.bytes;
    CHECK(sscanf(strstr(at, "width=\""), "width=\"%lf", &width) == 1);
    for (int i = 0; i < 2; i++, at++) {
        at = strstr(at, "<g transform=\"translate(");
        CHECK(at && sscanf(at, "<g transform=\"translate(%lf", &x[i]) == 1);
    }
    CHECK(x[1] - x[0] >= LENGTH * LEAST, "%g pixels", x[1] - x[0]);
    CHECK(width >= x[1] + LENGTH * LEAST, "%g pixels in all", width);
    buffer_free(&out);
}

Test(pictures, svg_stays_below_100_kb) {
    static const size_t SIZES[] = {30, 128, 300, 512}, PANELS[] = {1, 9, 64};
    for (int s = 0; s < 4; s++) {
        float *values = triangle(SIZES[s]);
        Panel panels[64];
        for (int i = 0; i < 64; i++)
            panels[i] = (Panel){"layer 3, head 12", values};
        for (int k = 0; k < 3; k++) {
            Picture p = picture_of(panels, SIZES[s], SIZES[s]);
            p.n_panels = PANELS[k];
            char *text = svg_of(&p);
            CHECK(strlen(text) < 100000, "%zu x %zu: %zu bytes", PANELS[k], SIZES[s], strlen(text));
            free(text);
        }
        free(values);
    }
}

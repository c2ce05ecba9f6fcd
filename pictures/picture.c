// The colour scale, and smaller pictures. How a picture is drawn is in terminal.c, svg.c and png.c.
#include "pictures/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// From dark blue by green to yellow; between these it is interpolated. The points are equally far
// apart on the scale. Each is lighter than the one before.
static const Rgb SCALE[] = {{13, 13, 43},   {35, 40, 105},  {33, 90, 140}, {30, 140, 140},
                            {70, 180, 115}, {160, 210, 75}, {250, 235, 90}};

Rgb shade_color(int shade) {
    int last = (int)(sizeof SCALE / sizeof *SCALE) - 1, at = shade * last;
    // In integers, so that every machine has the same colours: shade * last / (PICTURE_SHADES - 1)
    // is point i plus the fraction part / (PICTURE_SHADES - 1).
    int i = at / (PICTURE_SHADES - 1), part = at % (PICTURE_SHADES - 1);
    Rgb a = SCALE[i], b = SCALE[i < last ? i + 1 : last];
#define BETWEEN(channel)                                                                           \
    (uint8_t)(a.channel + (b.channel - a.channel) * part / (PICTURE_SHADES - 1))
    return (Rgb){BETWEEN(red), BETWEEN(green), BETWEEN(blue)};
}

int picture_shade(const Picture *picture, float value) {
    if (isnan(value)) return -1;
    float range = picture->high - picture->low;
    float share = range > 0 ? (value - picture->low) / range : 0.0f;
    if (!(share > 0)) return 0; // infinity - infinity too
    return share >= 1 ? PICTURE_SHADES - 1 : (int)(share * (PICTURE_SHADES - 1) + 0.5f);
}

// to (small->rows, small->cols) from `from` (p->rows, p->cols): each cell is the largest of
// row_step x col_step. The largest and not the mean, since a single strong weight is what a reader
// looks for; a mean would hide it. Cells at the right and lower edge cover fewer.
static void shrink_panel(float *to, const float *from, const Shrunk *s, const Picture *p) {
    const Picture *small = &s->picture;
    for (size_t i = 0; i < small->rows * small->cols; i++)
        to[i] = NAN;
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->cols; c++) {
            float value = from[r * p->cols + c];
            float *cell = &to[r / s->row_step * small->cols + c / s->col_step];
            if (isnan(*cell) || value > *cell) *cell = value;
        }
}

// The labels of the cells that remain: those of the first row or column that each covers. Owned by
// the caller, the texts stay borrowed. NULL: out of memory.
static const char **every(const char *const *labels, size_t count, size_t step) {
    const char **out = malloc((count + 1) * sizeof *out);
    for (size_t i = 0; out && i < count; i++)
        out[i] = labels[i * step];
    return out;
}

// Fills all of `s` for steps above 1. The + 1 of each size: malloc(0) may return NULL, which would
// look like a failure. False: out of memory; shrunk_free frees the rest.
static bool shrink(Shrunk *s, const Picture *p) {
    Picture *small = &s->picture;
    small->rows = (p->rows + s->row_step - 1) / s->row_step;
    small->cols = (p->cols + s->col_step - 1) / s->col_step;
    size_t cells = small->rows * small->cols;
    s->values = malloc((p->n_panels * cells + 1) * sizeof *s->values);
    s->panels = malloc((p->n_panels + 1) * sizeof *s->panels);
    if (!s->values || !s->panels) return false;
    for (size_t i = 0; i < p->n_panels; i++) {
        float *values = s->values + i * cells;
        shrink_panel(values, p->panels[i].values, s, p);
        s->panels[i] = (Panel){p->panels[i].title, values};
    }
    small->panels = s->panels;
    if (p->row_labels && !(s->row_labels = every(p->row_labels, small->rows, s->row_step)))
        return false;
    if (p->col_labels && !(s->col_labels = every(p->col_labels, small->cols, s->col_step)))
        return false;
    small->row_labels = s->row_labels;
    small->col_labels = s->col_labels;
    return true;
}

static size_t step_for(size_t count, size_t most) {
    return count > most ? (count + most - 1) / most : 1;
}

bool picture_shrink(Shrunk *s, const Picture *p, size_t max_rows, size_t max_cols) {
    size_t rows = step_for(p->rows, max_rows), cols = step_for(p->cols, max_cols);
    if (p->rows == p->cols) rows = cols = rows > cols ? rows : cols;
    *s = (Shrunk){.picture = *p, .row_step = rows, .col_step = cols};
    return (rows == 1 && cols == 1) || shrink(s, p);
}

void shrunk_free(Shrunk *s) {
    free(s->panels);
    free(s->values);
    free(s->row_labels);
    free(s->col_labels);
    *s = (Shrunk){0};
}

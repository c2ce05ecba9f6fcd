// Pictures as PNG with a palette: the shades, and one colour for what is empty. One byte for each
// pixel, so libpng writes an indexed image without a conversion.
//
//   panel 0  |GAP|  panel 1  |GAP|  panel 2       across = 3; a cell is cell x cell pixels
//   GAP
//   panel 3  |GAP|  panel 4                       gaps and cells without a value: EMPTY
//
// Without labels and legend: fonts are left to SVG.
#include "pictures/picture.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { EMPTY = PICTURE_SHADES, GAP = 4, LEAST_SIZE = 512, MAX_SIZE = 8192 }; // pixels

typedef struct Image {
    uint8_t *pixels; // (height, width)
    size_t width, height, cell;
    size_t across;
} Image;

// libpng's way to write: into the Buffer that png_set_write_fn was given. A failed allocation is
// kept in the Buffer.
static void append(png_structp png, png_bytep bytes, png_size_t size) {
    Buffer *out = png_get_io_ptr(png);
    buffer_put(out, bytes, size);
}

// NULL in its place would make libpng flush a FILE.
static void flush(png_structp png) {
    (void)png;
}

// Panels in a row: as given, else about as many as there are rows of panels.
static size_t panels_across(const Picture *p) {
    size_t across = p->across ? p->across : 1;
    while (!p->across && across * across < p->n_panels)
        across++;
    return across;
}

// Rows or columns that each of `count` panels side by side may have, of one pixel each. 0: they do
// not fit.
static size_t room_for_each(size_t count) {
    size_t each = (MAX_SIZE + GAP) / count;
    return each > GAP ? each - GAP : 0;
}

// Chooses the pixels of a cell: as many as keep the longer side within LEAST_SIZE, or 1. All pixels
// begin as EMPTY. False: no memory.
static bool make_image(Image *image, const Picture *p, size_t across) {
    size_t down = (p->n_panels + across - 1) / across;
    size_t largest = across * p->cols > down * p->rows ? across * p->cols : down * p->rows;
    image->across = across;
    image->cell = largest < LEAST_SIZE ? LEAST_SIZE / largest : 1;
    image->width = across * (p->cols * image->cell + GAP) - GAP;
    image->height = down * (p->rows * image->cell + GAP) - GAP;
    image->pixels = malloc(image->width * image->height);
    if (image->pixels) memset(image->pixels, EMPTY, image->width * image->height);
    return image->pixels;
}

// Panel i, at row i / across and column i % across of panels.
static void draw_panel(Image *image, const Picture *p, size_t i) {
    size_t x = i % image->across * (p->cols * image->cell + GAP);
    size_t y = i / image->across * (p->rows * image->cell + GAP);
    for (size_t r = 0; r < p->rows * image->cell; r++)
        for (size_t c = 0; c < p->cols; c++) {
            float value = p->panels[i].values[r / image->cell * p->cols + c];
            int shade = picture_shade(p, value);
            memset(image->pixels + (y + r) * image->width + x + c * image->cell,
                   shade < 0 ? EMPTY : shade, image->cell);
        }
}

// libpng returns by longjmp to setjmp here, so nothing that it needs afterwards is a local that
// changes.
static bool write_image(Buffer *out, const Image *image, png_structp png, png_infop info) {
    png_color palette[PICTURE_SHADES + 1] = {[EMPTY] = {128, 128, 128}};
    png_byte alpha[PICTURE_SHADES + 1];
    memset(alpha, 255, sizeof alpha);
    alpha[EMPTY] = 48;
    for (int i = 0; i < PICTURE_SHADES; i++) {
        Rgb c = shade_color(i);
        palette[i] = (png_color){c.red, c.green, c.blue};
    }
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_write_fn(png, out, append, flush);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(png, info, palette, PICTURE_SHADES + 1);
    png_set_tRNS(png, info, alpha, PICTURE_SHADES + 1, NULL);
    png_write_info(png, info);
    for (size_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->width);
    png_write_end(png, NULL);
    return true;
}

// Warnings of libpng would go to standard error, which is the commands' own.
static void no_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static bool write_png(Buffer *out, const Image *image) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, no_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool good = info && write_image(out, image, png, info);
    png_destroy_write_struct(&png, &info);
    return good;
}

bool picture_has_png(Error *error) {
    (void)error;
    return true;
}

bool picture_png(Buffer *out, const Picture *picture, Error *error) {
    Shrunk shrunk;
    Image image = {0};
    size_t across = panels_across(picture), down = (picture->n_panels + across - 1) / across;
    size_t max_cols = room_for_each(across), max_rows = room_for_each(down);
    if (!max_cols || !max_rows)
        return error_set(
            error, ERROR_USAGE,
            "a PNG of %zu x %zu panels is larger than %d x %d pixels, the most that is "
            "written: choose fewer panels",
            down, across, MAX_SIZE, MAX_SIZE);
    bool good = picture_shrink(&shrunk, picture, max_rows, max_cols) &&
                make_image(&image, &shrunk.picture, across);
    for (size_t i = 0; good && i < picture->n_panels; i++)
        draw_panel(&image, &shrunk.picture, i);
    good = good && write_png(out, &image) && !out->failed;
    free(image.pixels);
    shrunk_free(&shrunk);
    return good || error_set(error, ERROR_MEMORY, "no memory for a picture of %zu panels",
                             picture->n_panels);
}

// The library that libpng compresses with. Without header and checksum, as browsers' "deflate-raw".
bool deflate_bytes(Buffer *out, const void *bytes, size_t size, size_t most, const int *stop) {
    z_stream z = {0};
    uint8_t chunk[2048];
    enum { RAW_WINDOW = -15, MEMORY = 9 };
    // The best compression takes twice as long or more for half a percent.
    int state =
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, RAW_WINDOW, MEMORY, Z_DEFAULT_STRATEGY);
    if (state != Z_OK) return false;
    // Pieces that take some milliseconds each, for *stop; avail_in has 32 bits besides.
    const uint8_t *at = bytes;
    enum { PIECE = 1 << 16 };
    size_t left = size, room = most;
    while (state == Z_OK && !__atomic_load_n(stop, __ATOMIC_RELAXED)) {
        if (!z.avail_in && left) {
            z.next_in = (z_const Bytef *)at;
            z.avail_in = left < PIECE ? (uInt)left : PIECE;
            at += z.avail_in;
            left -= z.avail_in;
        }
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        state = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
        size_t made = sizeof chunk - z.avail_out;
        if (made > room) {
            state = Z_BUF_ERROR;
            break;
        }
        buffer_put(out, chunk, made);
        room -= made;
    }
    deflateEnd(&z);
    return state == Z_STREAM_END;
}

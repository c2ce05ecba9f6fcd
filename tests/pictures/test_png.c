// Pictures as PNG, read back by libpng.
#include "pictures/picture.h"
#include "tests/test.h"

#include <png.h>

// RGBA, malloced.
static uint8_t *read_back(const Buffer *file, png_image *image) {
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    CHECK(png_image_begin_read_from_memory(image, file->bytes, file->size), "%s", image->message);
    image->format = PNG_FORMAT_RGBA;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(*image));
    CHECK(png_image_finish_read(image, NULL, pixels, 0, NULL), "%s", image->message);
    return pixels;
}

Test(png, every_cell_is_a_square_of_its_colour) {
    float values[] = {1, NAN, 0.5f, 0};
    Panel panel = {NULL, values};
    Picture p = {.panels = &panel, .n_panels = 1, .rows = 2, .cols = 2, .high = 1};
    Buffer file = {0};
    Error error = {0};
    png_image image;
    CHECK(picture_png(&file, &p, &error), "%s", error.message);
    uint8_t *pixels = read_back(&file, &image);
    CHECK(image.width == 512 && image.height == 512, "%u x %u", image.width, image.height);
    for (uint32_t y = 0; y < 512; y++)
        for (uint32_t x = 0; x < 512; x++) {
            const uint8_t *got = pixels + 4 * (y * 512 + x);
            float value = values[y / 256 * 2 + x / 256];
            Rgb c = shade_color(picture_shade(&p, isnan(value) ? 0 : value));
            bool same = isnan(value) ? got[3] == 48
                                     : got[3] == 255 && got[0] == c.red && got[1] == c.green &&
                                           got[2] == c.blue;
            CHECK(same, "pixel %u, %u", x, y);
        }
    free(pixels);
    buffer_free(&file);
}

Test(png, panels_lie_in_a_square_with_gaps) {
    float values[600 * 600];
    for (int i = 0; i < 600 * 600; i++)
        values[i] = (float)(i % 64) / 63;
    Panel panels[] = {{NULL, values}, {NULL, values}, {NULL, values}};
    Picture p = {.panels = panels, .n_panels = 3, .rows = 600, .cols = 600, .high = 1};
    Buffer file = {0};
    Error error = {0};
    png_image image;
    CHECK(picture_png(&file, &p, &error), "%s", error.message);
    uint8_t *pixels = read_back(&file, &image);
    CHECK(image.width == 1204 && image.height == 1204, "%u x %u", image.width, image.height);
    CHECK_INT(pixels[4 * 601 + 3], 48);                  // the gap
    CHECK_INT(pixels[4 * (1203 * 1204 + 1203) + 3], 48); // the place without a panel
    CHECK_INT(pixels[4 * (1204 * 604 + 63) + 3], 255);
    CHECK_INT(pixels[4 * (1204 * 604 + 63)], 250); // the largest value
    free(pixels);
    buffer_free(&file);
}

// Neither side has more than 8192 pixels, whatever the shape; more panels than that are refused.
Test(png, the_image_has_bounds) {
    static const struct {
        size_t panels, across, rows, cols, height, width;
    } CASES[] = {
        {1, 1, 9000, 2, 4500, 2},   // each row of the picture is two of the matrix
        {1000, 1, 20, 20, 7996, 4}, // 4 x 4 cells and a gap of 4
        {1000, 1000, 20, 20, 4, 7996},
        {1500, 1, 3, 2, 7496, 2}, // one row a panel, both of its columns
    };
    float values[9000 * 2] = {0};
    Panel panels[2000];
    Error error = {0};
    png_image image;
    for (int i = 0; i < 2000; i++)
        panels[i] = (Panel){NULL, values};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Picture p = {.panels = panels,
                     .n_panels = CASES[i].panels,
                     .across = CASES[i].across,
                     .rows = CASES[i].rows,
                     .cols = CASES[i].cols,
                     .high = 1};
        Buffer file = {0};
        CHECK(picture_png(&file, &p, &error), "%s", error.message);
        free(read_back(&file, &image));
        CHECK(image.width == CASES[i].width && image.height == CASES[i].height, "%zu: %u x %u", i,
              image.width, image.height);
        buffer_free(&file);
    }
    Picture p = {.panels = panels, .n_panels = 2000, .across = 1, .rows = 1, .cols = 1, .high = 1};
    Buffer file = {0};
    CHECK(!picture_png(&file, &p, &error) && error.code == ERROR_USAGE, "%d", error.code);
    CHECK(strstr(error.message, "2000 x 1 panels is larger than 8192 x 8192"), "%s", error.message);
    buffer_free(&file);
}

// A megabyte that does not compress: stopped, little of it is out.
Test(png, deflate_ends_where_it_is_stopped) {
    enum { SIZE = 1 << 20 };
    static const int GO_ON = 0, STOP = 1;
    uint8_t *noise = malloc(SIZE);
    TestRandom random = {1};
    for (size_t i = 0; i < SIZE; i++)
        noise[i] = (uint8_t)test_random(&random);
    Buffer whole = {0}, part = {0};
    CHECK(deflate_bytes(&whole, noise, SIZE, SIZE_MAX, &GO_ON) && whole.size >= SIZE);
    CHECK(!deflate_bytes(&part, noise, SIZE, SIZE_MAX, &STOP) && part.size < SIZE / 8, "%zu",
          part.size);
    buffer_free(&whole);
    buffer_free(&part);
    free(noise);
}

// What does not fit is left when that is known; what fits to the byte is whole.
Test(png, deflate_ends_where_its_room_is_used_up) {
    enum { SIZE = 1 << 20, ROOM = 1 << 16 };
    static const int GO_ON = 0;
    uint8_t *noise = malloc(SIZE);
    TestRandom random = {1};
    for (size_t i = 0; i < SIZE; i++)
        noise[i] = (uint8_t)test_random(&random);
    Buffer whole = {0}, part = {0}, exact = {0}, short_of_one = {0};
    CHECK(!deflate_bytes(&part, noise, SIZE, ROOM, &GO_ON));
    CHECK(part.size <= ROOM && part.size > ROOM / 2, "%zu", part.size);
    CHECK(deflate_bytes(&whole, noise, SIZE, SIZE_MAX, &GO_ON));
    CHECK(deflate_bytes(&exact, noise, SIZE, whole.size, &GO_ON));
    CHECK(exact.size == whole.size && !memcmp(exact.bytes, whole.bytes, whole.size));
    CHECK(!deflate_bytes(&short_of_one, noise, SIZE, whole.size - 1, &GO_ON));
    buffer_free(&whole);
    buffer_free(&part);
    buffer_free(&exact);
    buffer_free(&short_of_one);
    free(noise);
}

// In place of png.c in a program without libpng and zlib.
#include "pictures/picture.h"

bool picture_png(Buffer *out, const Picture *picture, Error *error) {
    (void)out, (void)picture;
    return picture_has_png(error);
}

bool picture_has_png(Error *error) {
    return error_set(error, ERROR_USAGE,
                     "this program was built without libpng and writes no PNG (SVG it does)");
}

bool deflate_bytes(Buffer *out, const void *bytes, size_t size, size_t most, const int *stop) {
    (void)out, (void)bytes, (void)size, (void)most, (void)stop;
    return false;
}

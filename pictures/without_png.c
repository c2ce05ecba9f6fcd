// In place of png.c in a program without libpng.
#include "pictures/picture.h"

bool picture_png(Buffer *out, const Picture *picture, Error *error) {
    (void)out, (void)picture;
    return picture_has_png(error);
}

bool picture_has_png(Error *error) {
    return error_set(error, ERROR_USAGE,
                     "this program was built without libpng and writes no PNG (SVG it does)");
}

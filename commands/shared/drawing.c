#include "commands/shared/drawing.h"

#include "commands/shared/output.h"

#include <string.h>

bool picture_files_open(PictureFiles *f, const Options *o, Error *error) {
    *f = (PictureFiles){.svg = {.path = o->svg, .inputs = &f->inputs, .force = o->force},
                        .png = {.path = o->png, .inputs = &f->inputs, .force = o->force}};
    if (o->png && !picture_has_png(error)) return false;
    if (o->svg && o->png && output_files_same(o->svg, o->png))
        return error_set(error, ERROR_USAGE, "--svg and --png are the same file");
    return inputs_find(&f->inputs, o, error) && (!o->svg || inputs_check(&f->svg, o, error)) &&
           (!o->png || inputs_check(&f->png, o, error));
}

void picture_files_free(PictureFiles *files) {
    file_set_free(&files->inputs);
}

// Both are drawn before the first is written.
bool picture_files_write(const PictureFiles *files, const Picture *picture, Error *error) {
    Buffer svg = {0}, png = {0};
    bool good = true;
    if (files->svg.path) picture_svg(&svg, picture);
    if (svg.failed) good = error_set(error, ERROR_MEMORY, "no memory for the picture");
    if (good && files->png.path) good = picture_png(&png, picture, error);
    if (good && files->svg.path) good = file_write(&files->svg, svg.bytes, svg.size, error);
    if (good && files->png.path) good = file_write(&files->png, png.bytes, png.size, error);
    buffer_free(&svg);
    buffer_free(&png);
    return good;
}

bool picture_print(const Picture *picture, const Terminal *window, Error *error) {
    Buffer out = {0};
    picture_terminal(&out, picture, window);
    bool good = !out.failed || error_set(error, ERROR_MEMORY, "no memory for the picture");
    if (good) output_bytes(out.bytes, out.size);
    buffer_free(&out);
    return good;
}

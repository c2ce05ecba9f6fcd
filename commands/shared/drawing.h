// Drawing: a Picture to where the options want it: the screen, or the files of --svg and --png.
//
//     PictureFiles files = {0};
//     good = picture_files_open(&files, options, &error) && ... the work ... &&
//            picture_files_write(&files, &picture, &error);
//     picture_files_free(&files);
#pragma once

#include "commands/shared/inputs.h"
#include "pictures/picture.h"

typedef struct PictureFiles { // does not move once it is open
    FileSet inputs;
    OutputFile svg, png; // path NULL: not asked for
} PictureFiles;

// Before anything is computed: checks that both files may be written. False: exit code 2 (one file
// for both, a file that is there or is read, a program without libpng), 4 or 5.
bool picture_files_open(PictureFiles *files, const Options *options, Error *error);
void picture_files_free(PictureFiles *files);

static inline bool picture_files_wanted(const PictureFiles *files) {
    return files->svg.path || files->png.path;
}

// Writes those that are wanted, each whole or not at all. False: exit code 2, 4 or 5.
bool picture_files_write(const PictureFiles *files, const Picture *picture, Error *error);

// On standard output, as large as the window. False: exit code 5.
bool picture_print(const Picture *picture, const Terminal *window, Error *error);

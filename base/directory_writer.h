// DirectoryWriter: files that appear in a directory together, or not at all.
//
//     OutputDirectory out = {.path = path, .inputs = &inputs, .force = options->force,
//                            .owns = is_of_set, .set = "page.html", .last = "index.json"};
//     good = output_directory_check(&out, &error);   // before long work
//     DirectoryWriter *writer = directory_writer_open(&out, &error);
//     ... every file of the set, written to the path of directory_writer_file(writer, name) ...
//     good = directory_writer_finish(writer, &error);
//     directory_writer_close(writer);   // without finish nothing is left behind
//
// The files gather in a directory ".limpid-...". What finish does with it depends on what is there:
//
//   nothing            it is renamed (or, as in some overlays, where no directory can be renamed,
//                      a new one is filled as the next)
//   a directory        without files of the set: they are moved into it one by one, `last` at the
//                      end, so that an incomplete set lacks it
//   and with `force`   with files of the set: every other file of the directory is linked into the
//                      new one (its directories are made anew, with links inside), then the two are
//                      exchanged in one step (RENAME_EXCHANGE), then the old one is removed
//
// So at any moment, kill -9 included, the path leads to the old set or to the new one, whole (where
// there was no set: to no set, to one without `last`, or to the new one), and every file that is
// not of the set is there. A directory that is exchanged keeps its mode and, where that is allowed,
// its owner. A symbolic link to it is followed and stays; links inside it that are of the set are
// replaced, not followed. What cannot be exchanged is refused before anything is written: a mount
// point, the current directory or one above it (shells would stay in the old one), and one with
// more than DIRECTORY_WRITER_KEEPS other files.
//
// What a killed run leaves is a ".limpid-..." that the next run to the same path removes. It is
// locked while its run lasts.
#pragma once

#include "base/error.h"
#include "base/file_writer.h"

enum { DIRECTORY_WRITER_KEEPS = 4096 };

typedef struct DirectoryWriter DirectoryWriter;

typedef struct OutputDirectory {
    const char *path;      // its parent exists; all fields are borrowed until close
    const FileSet *inputs; // what this run reads, by any name
    bool force;            // replace files of the set
    bool (*owns)(const char *name, const void *context); // is a file of this name of the set?
    const void *context;
    const char *set;  // one file name that tells this set from others in the same directory
    const char *last; // the file that is put in its place last
} OutputDirectory;

// Whether the set may be put there, and files can be made there. False, with the path in the
// message: exit code 2 where a file of the set is one of `inputs`, or is there without `force`, or
// the directory cannot be exchanged; 4 where the path is no directory, cannot be looked at or
// cannot be written to; 5.
bool output_directory_check(const OutputDirectory *out, Error *error);

// Makes the directory in which the files gather, and tries an exchange where there will be one.
// NULL: as output_directory_check, exit code 2 also where the file system exchanges no directories,
// 4 where there is nothing to write to or a file has no second link.
DirectoryWriter *directory_writer_open(const OutputDirectory *out, Error *error);

// The path under which to write the file of this name; valid until close. NULL: exit code 5.
const char *directory_writer_file(DirectoryWriter *writer, const char *name, Error *error);

// Puts the files in their place. False: exit code 2, 4 or 5, and what was there is as it was; only
// the sync and the removal that come after that place them first, and the message says which
// failed.
bool directory_writer_finish(DirectoryWriter *writer, Error *error);
void directory_writer_close(DirectoryWriter *writer); // NULL is fine

// ---- internal: two directories that hold the same files under two names (directory_tree.c) ----

// Links everything in the directory `from` that is not of the set into the open directory `to`; its
// directories are made anew. False: exit code 4 (one that cannot be linked, a mount point, more
// than DIRECTORY_WRITER_KEEPS files) or 5, out->path in front.
bool tree_link(const char *from, int to, const OutputDirectory *out, Error *error);

// The files in the open directory `to` take the rights of those of the same names in `from`. False
// with errno.
bool tree_take_rights(int from, int to);

// Removes the directory at `path`: the files of the set, and all that the open directory `keeper`
// has too, under the same path and as the same file. Anything else is the only name of somebody's
// file: it is moved into `keeper`, or stays where there is another file of that name. keeper -1:
// none. False: the directory is still there, with errno.
bool tree_remove(const char *path, int keeper, const OutputDirectory *out);

// FileWriter: a file that appears whole or not at all.
//
//     OutputFile out = {.path = path, .inputs = &inputs, .force = options->force};
//     good = output_file_check(&out, &error);   // before long work
//     FileWriter *file = file_writer_open(&out, size, &error);
//     good = file && file_writer_put(file, offset, data, bytes, &error) && ... &&
//            file_writer_finish(file, &error);
//     file_writer_close(file);   // without finish nothing is left behind
//
// The bytes gather in a file without a name in the target's directory, which the kernel removes
// however the program ends; where the file system has no such thing, in one named ".limpid-...",
// which close removes. A target that is replaced keeps its old content until the rename. A named
// one is locked while its run lasts; what a killed run left is removed by the next that writes
// there.
//
// Nothing is lost that was there: a file that this run reads is never replaced, any other only with
// `force`. That is checked when the file is opened and again when it is put in its place.
#pragma once

#include "base/error.h"
#include "base/file_set.h"

#include <stdint.h>

typedef struct FileWriter FileWriter;

typedef struct OutputFile {
    const char *path;      // where it is put
    const char *shown;     // the path in messages; NULL: `path`
    const FileSet *inputs; // what this run reads, by any name; borrowed until close. NULL: nothing
    bool force;            // replace a file that is there
    bool grows;            // the caller opens the file itself and writes at its end
    // NULL, or what ends put and finish while it is not 0; a signal handler may set it.
    const int *stop;
} OutputFile;

// Whether the file may be put there, and can be: one is begun in its directory and given up. A
// symbolic link is followed: the file that it leads to is what is checked and replaced, and the
// link stays; one that leads nowhere is refused. False, with the path in the message: exit code 2
// where it is one of `inputs`, or is there without `force`, or is "-", which people write for
// standard output; 4 where it is no regular file, cannot be looked at, or, unless it grows in
// place, its directory is not there or takes no files; 5.
bool output_file_check(const OutputFile *out, Error *error);

// Whether two paths name one file to be written, which need not exist: links are followed, and
// other ways to its directory are the same.
bool output_files_same(const char *a, const char *b);

// Begins a file of `size` bytes and reserves space for it where the file system can. One that
// replaces another has its mode, and its owner where this user may give it. NULL: as
// output_file_check, and exit code 4 where there is no space.
FileWriter *file_writer_open(const OutputFile *out, uint64_t size, Error *error);

// data[bytes] at `offset`, in any order, inside `size`. False: exit code 4, or 130 (*stop).
bool file_writer_put(FileWriter *file, uint64_t offset, const void *data, uint64_t bytes,
                     Error *error);

// Syncs the file to disk and renames it to its path. Bytes never put are zeros. False: exit code 4,
// 130, or 2 where a file has appeared there that must not be replaced; the target is as it was, but
// where only syncing its directory failed: then the new file is in its place, and may be the old
// one again after a crash of the machine.
bool file_writer_finish(FileWriter *file, Error *error);

void file_writer_close(FileWriter *file); // NULL is fine

const char *file_writer_path(const FileWriter *file); // as messages have it

// All of these in one, for a file whose bytes are in memory. False: as open, put and finish.
bool file_write(const OutputFile *out, const void *bytes, uint64_t size, Error *error);

// For a file that grows in place and is begun anew: a new one with these bytes takes the place of
// the one that locked_file_open has opened, and of its descriptor, which then writes at the end;
// `force` is set. The old one is not written to, since it may have other names. False: as
// file_write, and the descriptor is the old one.
bool locked_file_replace(const OutputFile *out, const void *bytes, uint64_t size, int *descriptor,
                         Error *error);

// For files that grow in place: all of it where the descriptor's position is, or at the end. False:
// errno says why.
bool write_whole(int file, const void *bytes, size_t size);

// What takes the place of the file or directory at `path`, of which `there` is known, belongs to
// whom that does and is as open to others, by its mode or its access control list. What this user
// may not set is no reason to fail; a group that cannot be given gets no more than others. False:
// errno says what else has failed.
bool take_rights(int descriptor, const char *path, const struct stat *there);

// The refusals, exit code 2, for other writers: of a file that this run reads, and of one that is
// there. False.
bool refuse_input(const char *path, Error *error);
bool refuse_existing(const char *path, Error *error);

// Names of what is not in its place yet, and of what a killed run left.
#define TEMPORARY_PREFIX ".limpid-"
bool is_temporary(const char *name); // a name, or a path that begins with one

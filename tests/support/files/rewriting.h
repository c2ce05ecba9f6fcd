// Files that another program rewrites in place (a download, rsync --inplace) while they are read.
//
// The reader is stopped at each of its calls that allocate or touch a file, since its passes over
// the file lie between them, and the file is rewritten there. A program that uses this is linked
// with --wrap for these calls (REWRITING in the Makefile).
#pragma once

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

// Reads what is to be read and sets *print, a hash of all that it understood. False: refused.
typedef bool ReadFile(const char *path, uint64_t *print, Error *error);

typedef struct Rewriting {
    ReadFile *read;
    const char *path; // what is read: `file`, or the directory that it is in
    const char *file; // what is rewritten; holds the content that is read well
    // It is read in more than one call: where even its time of modification stays what it was, the
    // result may be of both contents.
    bool in_steps;
} Rewriting;

typedef struct Content {
    const void *bytes;
    size_t size;
} Content;

// Rewrites the file, with `hostile` and with contents that are wrong for every format, wherever the
// reader can be stopped. The result must be that of the first content alone, that of the other one
// alone, or an error. Fails the test otherwise, and where the undisturbed file is refused. Skips it
// where this build reads no such file.
void rewriting_check(const Rewriting *rewriting, const Content *hostile, size_t count);

// The same of a reader of bytes in memory, which nobody changes in fact: each of its passes must
// stop at what the one before has counted all the same. Results or errors: ASan sees what counts.
typedef bool ReadBytes(const uint8_t *bytes, size_t size, Error *error);
void rewriting_check_bytes(ReadBytes *read, Content first, const Content *hostile, size_t count);

// A thread rewrites and cuts the file, as fast as it can, while it is read again and again for
// `seconds`. Results or errors: what counts is that nothing worse comes of it.
void rewriting_race(const Rewriting *rewriting, const Content *hostile, size_t count,
                    double seconds);

// Writes to the file as it is, the same inode.
void rewrite_in_place(const char *file, const void *bytes, size_t size);

// Prints of what the usual readers understand. That of a model leaves out the weights, which may
// change, but reads every byte of them.
uint64_t print_tokenizer(Tokenizer *tokenizer);
uint64_t print_checkpoint(const Checkpoint *checkpoint);
ReadFile read_tokenizer, read_checkpoint;

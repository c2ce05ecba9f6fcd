// Models to be converted, `limpid convert` as a child process, and what it left.
#pragma once

#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "weights/checkpoint.h"

#include <stdbool.h>

// Files of this name, borrowed as test_temporary's.
const char *conversion_gguf(const char *name, GgufFile *file); // frees the file
const char *conversion_tiny(const char *name);                 // gguf_tiny_llama
const char *conversion_bin(const char *name, const BinShape *shape);

// The vocabulary of the built-in model as a tokenizer.bin of llama2.c, and a .bin of random numbers
// that goes with it; both in a directory that the name says.
const char *conversion_tokenizer_bin(const char *name);
const char *conversion_bin_of_words(const char *name, int version);

// `format` holds the arguments, separated by |, with %s for the model and %s for the output.
void convert(const char *format, const char *from, const char *to);
void check_no_conversion(const char *format, const char *from, const char *to, int status,
                         const char *because);

bool exists(const char *path); // a link that leads nowhere too
Checkpoint *open_converted(const char *path);

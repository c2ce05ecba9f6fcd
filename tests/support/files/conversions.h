// Models to convert, `limpid convert` as a child process, and checks of its outputs.
#pragma once

#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "weights/checkpoint.h"

#include <stdbool.h>

// Files of this name in the temporary directory.
const char *conversion_gguf(const char *name, GgufFile *file); // frees the file
const char *conversion_tiny(const char *name);                 // gguf_tiny_llama
const char *conversion_endless(void); // the same with so long a context that a text takes minutes
const char *conversion_bin(const char *name, const BinShape *shape);

// The vocabulary of the built-in model as llama2.c's tokenizer.bin, and a random .bin model with as
// many tokens.
const char *conversion_tokenizer_bin(const char *name);
const char *conversion_bin_of_words(const char *name, int version);

// `format` holds the arguments, separated by |, with %s for the model and %s for the output.
void convert(const char *format, const char *from, const char *to);
void check_no_conversion(const char *format, const char *from, const char *to, int status,
                         const char *because);

bool exists(const char *path); // a link that leads nowhere too
Checkpoint *open_converted(const char *path);

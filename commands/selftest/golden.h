// Golden results: what public model files give for three prompts in three precisions, as hashes of
// logits and of texts. `selftest --golden` computes them again, so that anybody can see whether a
// machine, a compiler or a build has the numbers that limpid promises. docs/golden.md is printed
// from the same table.
#pragma once

#include "commands/shared/options.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GOLDEN_PROMPTS = 3,
    GOLDEN_PRECISIONS = 3, // f32, a16, a8, as in Precision
    GOLDEN_TOKENS = 16,    // new ones, greedy, the end of a text ignored
};

// FNV-1a of 64 bits: of the rows of logits that the new tokens were taken from, in order, as
// little-endian float32; and of the bytes of the new text. The cache is f16.
typedef struct GoldenHash {
    uint64_t logits, text;
} GoldenHash;

typedef struct GoldenModel {
    const char *sha256; // of the file
    const char *name;
    const char *source; // where one gets it
    GoldenHash results[GOLDEN_PROMPTS][GOLDEN_PRECISIONS];
} GoldenModel;

extern const char *const GOLDEN_TEXTS[GOLDEN_PROMPTS];

// The rows of the table; *count of them.
const GoldenModel *golden_models(size_t *count);
const GoldenModel *golden_find(const char *sha256); // NULL: it is not in the table

// selftest --golden: the model file of the options, compared with its row. False: exit code 1 where
// it has no row or other results than that, else what opening or running it said.
bool golden_command(const Options *options, Error *error);
// --golden --markdown: the page docs/golden.md.
void golden_print_page(void);

// The table of golden results, its search, and docs/golden.md as it is printed from it. A new row:
// `run selftest --golden FILE --json` prints what stands in it.
#include "base/hash.h"
#include "commands/selftest/golden.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <string.h>

const char *const GOLDEN_TEXTS[GOLDEN_PROMPTS] = {
    "Once upon a time",
    "The capital of France is",
    "One day, a little girl named Lily found a key in the garden. She asked her mother what it was "
    "for, and her mother said that it was the key of an old house, in which nobody had lived for "
    "many years.",
};

// Columns of a row: sha256 of the file, its name, where one gets it; then per prompt the hashes of
// logits and text in f32, a16, a8.
static const GoldenModel MODELS[] = {
    {"70029e470bf39af4c1451227b042e2b000c9fe35ba93c3dcc62d9cd681d70e33",
     "built-in model",
     "in the program (weights/builtin.gguf)",
     {{{0x22005b6d558f9bc2, 0x2a501e2a25faf102},
       {0xbe6f76d44e2c8650, 0x2a501e2a25faf102},
       {0x6c53f82c97db7585, 0x2a501e2a25faf102}},
      {{0x9328319832d7f69d, 0x32dc757b44b9b07e},
       {0x967136da298156ee, 0x32dc757b44b9b07e},
       {0x1aab3369f6c784e7, 0x32dc757b44b9b07e}},
      {{0xba46f8a38d6bf34c, 0xfd654dd430d407a6},
       {0xfe8ccc40703eeee3, 0xfd654dd430d407a6},
       {0xa4cc93ad5f64a0d3, 0xfd654dd430d407a6}}}},
    {"270cba1bd5109f42d03350f60406024560464db173c0e387d91f0426d3bd256d",
     "stories260K.gguf",
     "https://huggingface.co/ggml-org/models, tinyllamas/stories260K.gguf (MIT)",
     {{{0x2d4c2635a889b0bb, 0x0005f34574e1d9e9},
       {0x2d4c2635a889b0bb, 0x0005f34574e1d9e9},
       {0x2d4c2635a889b0bb, 0x0005f34574e1d9e9}},
      {{0xfbb66b142b2b115d, 0xda89e20edb41fe95},
       {0xfbb66b142b2b115d, 0xda89e20edb41fe95},
       {0xfbb66b142b2b115d, 0xda89e20edb41fe95}},
      {{0x7965bf4e6511ddc7, 0x79090f36c9ab0e27},
       {0x7965bf4e6511ddc7, 0x79090f36c9ab0e27},
       {0x7965bf4e6511ddc7, 0x79090f36c9ab0e27}}}},
    {"b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     "SmolLM2-135M-Instruct, Q4_1",
     "`scripts/get_model smollm2` (Apache-2.0)",
     {{{0xadc08fc0af9c2245, 0xed2cb21186f837cf},
       {0xa9ad6c80a6d52c7d, 0xed2cb21186f837cf},
       {0x5012231e186f00ea, 0xed2cb21186f837cf}},
      {{0x818e1234590ea864, 0x95d0afad22749c58},
       {0xff4839ebd5abcc8a, 0x95d0afad22749c58},
       {0x27b8783ab64a5456, 0x95d0afad22749c58}},
      {{0x2547fad3ec8428c2, 0xbc48c1d1501b23f6},
       {0xbb8480024c36bfc5, 0xbc48c1d1501b23f6},
       {0x9e1fac7d085ab543, 0x5740687edf48a731}}}},
    {"a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     "Gemma 3 270M, Q4_K_M",
     "`scripts/get_model gemma3-270m --accept-gemma-terms` (Gemma Terms of Use)",
     {{{0x4c146ad469dd8cde, 0x6b1e0d3b16c509e5},
       {0xe4dc3988e2988684, 0x6b1e0d3b16c509e5},
       {0xe8104deee4b9ade4, 0xa3ec4d8e0758d779}},
      {{0x71e5ad14c854ffd0, 0x90530d7247daef74},
       {0xd28988e98677e01d, 0x90530d7247daef74},
       {0x736bf8dcaa11bdca, 0x9b91ff0f5685fa6d}},
      {{0xdaecd19321254e6f, 0xa37ceda1880f3095},
       {0x2ed3a96985e32c51, 0xa37ceda1880f3095},
       {0x0674a64c2e242a10, 0xa37ceda1880f3095}}}},
};

const GoldenModel *golden_models(size_t *count) {
    *count = sizeof MODELS / sizeof *MODELS;
    return MODELS;
}

const GoldenModel *golden_find(const char *sha256) {
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (!strcmp(MODELS[i].sha256, sha256)) return &MODELS[i];
    return NULL;
}

static const char PAGE_BEGIN[] =
    "# Golden results\n"
    "\n"
    "What public model files give in limpid: for three prompts and three precisions, %d new tokens "
    "each, greedy,\n"
    "with the end of a text ignored and the default cache, f16. `logits` is FNV-1a (64 bits) of "
    "the rows of logits\n"
    "that the tokens were taken from, in order, as little-endian float32; `text` is that of the "
    "new text's bytes.\n"
    "\n"
    "```sh\n"
    "./run selftest --golden MODEL        # without MODEL the built-in one; --json for scripts\n"
    "```\n"
    "\n"
    "computes them on your machine and compares: exit code 0 where all are equal, 1 where one is "
    "not, or where\n"
    "the file (by its sha256, which is then printed) has no row here. `make BACKEND=cpu`, the "
    "default, promises\n"
    "these bits: with any number of threads, on every instruction set (portable C, AVX2, AVX-512, "
    "AMX; "
    "on AArch64 NEON,\n"
    "dotprod, i8mm), from gcc and clang. `make BACKEND=reference` and `cuda` add in another order: "
    "there the\n"
    "command shows how many rows agree all the same, and promises nothing. Rotary tables come from "
    "the C library's\n"
    "`pow`, `sin` and `cos` in double, rounded to float32: a library that is off by more than its "
    "last digit could\n"
    "show here too.\n"
    "\n"
    "This page is printed by `run selftest --golden --markdown`.\n"
    "\n"
    "Prompts:\n"
    "\n";

void golden_print_page(void) {
    output_print(PAGE_BEGIN, GOLDEN_TOKENS);
    for (int p = 0; p < GOLDEN_PROMPTS; p++)
        output_print("%d. `%s`\n", p + 1, GOLDEN_TEXTS[p]);
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        const GoldenModel *m = &MODELS[i];
        output_print("\n## %s\n\n%s\n\nsha256 `%s`\n\n| prompt | precision | logits | text |\n"
                     "| --- | --- | --- | --- |\n",
                     m->name, m->source, m->sha256);
        for (int p = 0; p < GOLDEN_PROMPTS; p++)
            for (int precision = 0; precision < GOLDEN_PRECISIONS; precision++)
                output_print("| %d | %s | `%016" PRIx64 "` | `%016" PRIx64 "` |\n", p + 1,
                             precision_name((Precision)precision), m->results[p][precision].logits,
                             m->results[p][precision].text);
    }
}

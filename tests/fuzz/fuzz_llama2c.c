// llama2.c files in memory: opening, and reading every row of what was accepted.
// Exercises: weights/llama2c/ base/bytes.c
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static void read_rows(const Matrix *matrix) {
    float row[4096];
    if (!matrix->data || matrix->cols > 4096) return;
    for (size_t r = 0; r < matrix->rows; r++)
        matrix_row(row, matrix, r);
}

static void read_all(const Checkpoint *checkpoint) {
    const Weights *w = checkpoint_weights(checkpoint);
    read_rows(&w->token_embedding);
    read_rows(&w->head);
    for (int l = 0; l < checkpoint_config(checkpoint)->n_layers; l++) {
        const LayerWeights *layer = &w->layers[l];
        const Matrix *all[] = {&layer->wq,     &layer->wk,   &layer->wv,    &layer->wo,
                               &layer->w_gate, &layer->w_up, &layer->w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            read_rows(all[i]);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    uint8_t base[FUZZ_LLAMA2C];
    size_t base_size = fuzz_llama2c(base, (int)(seed % 3));
    return fuzz_mutate(data, size, room, seed, fuzz_walk_llama2c, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    uint8_t base[FUZZ_LLAMA2C];
    size_t size, base_size = fuzz_llama2c(base, count ? (data[0] >> 1) % 3 : 0);
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    if (!file) return 0;
    if (checkpoint_open_memory(&checkpoint, "fuzz.bin", file, size, &error))
        read_all(checkpoint);
    else if (!error.code || !error.message[0])
        abort();
    checkpoint_close(checkpoint);
    free(file);
    return 0;
}

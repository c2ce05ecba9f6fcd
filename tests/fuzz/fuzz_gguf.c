// GGUF files in memory: any bytes are a result or one error, and the rows of what was accepted can
// be read. (make fuzzers; fuzz_gguf -max_len=8192 -timeout=1 -malloc_limit_mb=64 CORPUS)
// Exercises: weights/gguf/ weights/roles.c weights/quant.c base/bytes.c
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/support/files/gguf_writer.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static uint8_t *base;
static size_t base_size;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    GgufFile *file = gguf_tiny_llama();
    base = gguf_write(file, &base_size);
    gguf_file_free(file);
    return 0;
}

// The first and the last row of a matrix are inside the file, whatever the file said.
static void touch(const Matrix *matrix) {
    if (!matrix->data || matrix->cols > 65536) return;
    float *row = malloc(matrix->cols * sizeof *row);
    if (!row) return;
    matrix_row(row, matrix, 0);
    matrix_row(row, matrix, matrix->rows - 1);
    free(row);
}

static void read_rows(const Checkpoint *checkpoint) {
    const Weights *weights = checkpoint_weights(checkpoint);
    touch(&weights->token_embedding);
    touch(&weights->head);
    for (int l = 0; l < checkpoint_config(checkpoint)->n_layers; l++) {
        const LayerWeights *layer = &weights->layers[l];
        const Matrix *all[] = {&layer->wq,     &layer->wk,   &layer->wv,    &layer->wo,
                               &layer->w_gate, &layer->w_up, &layer->w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            touch(all[i]);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_gguf, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *bytes = fuzz_patched(&size, data, count, base, base_size);
    if (!bytes) return 0;
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    if (checkpoint_open_memory(&checkpoint, "fuzz.gguf", bytes, size, &error))
        read_rows(checkpoint);
    else if (checkpoint || !error.code || !error.message[0])
        abort();
    checkpoint_close(checkpoint);
    free(bytes);
    return 0;
}

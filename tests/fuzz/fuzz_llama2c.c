// llama2.c files in memory: opening, and reading every row of what was accepted.
// Exercises: weights/llama2c/ base/bytes.c
#include "tests/fuzz/patch.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

// The smallest file of each version: dim 4, hidden_dim 4, 1 layer, 1 head on 1, 3 tokens,
// context 2. 12 floats of embedding, 12 of norms, 112 of matrices, in v0 8 of freq_cis; v2 in
// groups of 2.
static const int32_t SHAPE[7] = {4, 4, 1, 1, 1, 3, 2};
static const size_t SIZES[3] = {28 + 4 * 144, 256 + 4 * 136, 256 + 4 * 12 + 124 + 4 * 62};

static size_t base_file(uint8_t *file, int version) {
    memset(file, 1, SIZES[version]);
    memcpy(file + (version ? 8 : 0), SHAPE, sizeof SHAPE);
    if (version) {
        memcpy(file, "24ka\0\0\0\0", 8);
        file[4] = (uint8_t)version;
        file[36] = 1;
        memcpy(file + 37, "\2\0\0\0", 4);
    }
    return SIZES[version];
}

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    uint8_t base[1024];
    size_t size, base_size = base_file(base, count ? (data[0] >> 1) % 3 : 0);
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

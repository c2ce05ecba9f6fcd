// llama2.c files of every version for tests, laid out as its exporter writes them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct BinShape {
    int version; // 0, 1, 2
    bool tied;
    int32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
    int32_t group_size; // version 2
    bool rounded;       // matrices hold what version 2 keeps of them: groups of group_size rounded
} BinShape;

// 8 channels, 2 heads on 1, vocabulary of 6: less than 4 KB in every version.
BinShape bin_shape_tiny(int version, bool tied);

// Version 0, untied, two layers: every row is a whole number of blocks of 32.
BinShape bin_shape_blocks(void);

// The bytes of a file with this shape and random weights, malloced. The same seed gives the same
// weights in every version.
char *bin_bytes(size_t *size, const BinShape *shape, uint64_t seed);

// Where the tensors begin: 28 or 256.
size_t bin_start(const BinShape *shape);

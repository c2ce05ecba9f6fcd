// llama2.c's .bin files: what their reader (llama2c.c, which draws them) and their writer (out.c)
// share, and the writer.
//
//     TensorWriter *file = llama2c_writer_open(&place, &out, version, &error);
//     ... llama2c_put(file, i, first_row, count, rows, &error) ...
//     good = tensor_writer_finish(file, &error);
//     tensor_writer_close(file);
//
// The format knows Llama 2 alone: RMSNorm with epsilon 1e-5, RoPE with theta 10000 over whole
// heads, heads that make up dim, no biases, no windows. Tokenizers are files of their own.
#pragma once

#include "weights/out/outgoing.h"
#include "weights/out/write.h"

typedef struct Llama2cHeader {
    int version; // 0, 1, 2
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len;
    bool tied;
    int group_size; // v2
    size_t start;   // of the tensors
} Llama2cHeader;

enum { LLAMA2C_MAGIC = 0x616b3432, LLAMA2C_HEADER_BYTES = 256, LLAMA2C_V0_HEADER_BYTES = 28 };

// The tensors of a file in its order, with offsets, into the plan of `checkpoint`; *end: the size
// of the file. False: exit code 3 or 5.
bool llama2c_plan(Checkpoint *checkpoint, const Llama2cHeader *header, uint64_t *end, Error *error);

// ---- out ----

// `out` is planned for NAMES_META in F32. NULL: exit code 3 where the format cannot say what the
// model does, named; 2, 4 or 5.
TensorWriter *llama2c_writer_open(const OutputFile *place, const Outgoing *out, int version,
                                  Error *error);

// Rows first .. first + count of tensor i of `out`, float32: as they are, or in version 2 as int8
// groups, whose integers and scales lie apart. False: exit code 4, 5, or 7 where a number is not
// finite.
bool llama2c_put(TensorWriter *writer, const Outgoing *out, size_t i, uint64_t first,
                 uint64_t count, const uint8_t *rows, Error *error);

// A Hugging Face checkpoint as the GGUF that llama.cpp's converter would make of it: other names,
// another order of rows, 1 added to Gemma's norms, GPT-2's matrices transposed. Written from the
// converter's description, without code of weights/: so two independent readings of one model can
// be compared.
#pragma once

#include "tests/support/files/gguf_writer.h"

// The caller may add keys and tensors, then writes and frees it.
GgufFile *as_gguf(const char *architecture, const Checkpoint *from);

// A key below the architecture, "llama.block_count" from "block_count".
void as_gguf_number(GgufFile *file, const char *architecture, const char *key, int value);
void as_gguf_float(GgufFile *file, const char *architecture, const char *key, float value);

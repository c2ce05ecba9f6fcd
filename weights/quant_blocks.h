// One block of each type, both ways; quant.c loops over them. Internal to weights/.
#pragma once

#include "weights/quant.h"

// out[block elements] from one block. Q8_GROUP has none.
extern void (*const DEQUANTISE_BLOCK[DTYPE_COUNT])(float *out, const uint8_t *block);
// One block from in[block elements]; NULL for types without a quantiser.
extern void (*const QUANTISE_BLOCK[DTYPE_COUNT])(uint8_t *block, const float *in);

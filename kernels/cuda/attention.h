// The two ways of `attention`: split along the cache (attention.cu), and by tiles of queries on the
// tensor cores (attention_tiles.cu).
#pragma once

#include "kernels/cuda/kv.h"

// Whether tiles are for this call; if so, run_tiles does it, but for weights_out.
bool fits_tiles(const Device *device, const AttentionOperation *op);
void run_tiles(Device *device, const AttentionOperation *op);

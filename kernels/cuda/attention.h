// The two ways of `attention`: split along the cache (attention.cu), and by tiles of queries on the
// tensor cores (attention_tiles.cu).
#pragma once

#include "kernels/cuda/kv.h"

// Whether tiles are for n rows over such a cache; if so, run_tiles does it, but for weights_out.
bool fits_tiles(const Device *device, const KvShape *cache, int n);
void run_tiles(Device *device, const AttentionOperation *op);

// The query at `position` sees no key before it.
static __device__ __forceinline__ int first_seen(const KeyPattern &pattern, int position) {
    int first = 0;
    if (pattern.kind == PATTERN_CAUSAL && pattern.window) first = position - pattern.window + 1;
    if (pattern.kind == PATTERN_LOCAL) first = position - pattern.a / 2;
    if (pattern.kind == PATTERN_BLOCK) first = (position / pattern.a - 1) * pattern.a;
    return first < 0 ? 0 : first;
}

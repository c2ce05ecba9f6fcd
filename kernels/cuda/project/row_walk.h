// Which rows of weights a warp takes, one after another, where a row of x meets all of them in one
// launch; and what becomes of the sum of each. A block has a run of the rows, each of its warps
// every eighth of them.
#pragma once

#include "kernels/cuda/project/project.h"
#include "kernels/cuda/steps.h"

// Rows of weights that the blocks walk over: a row of gate and of up count as one.
static DEVICE_FUNCTION inline unsigned walked_rows(const ProjectWork &work) {
    return work.epilogue == EPILOGUE_ACTIVATE ? work.first_row[1] : work.first_row[work.count];
}

// An equal share of them for each block, of the first ones one row more where that is not whole.
struct Share {
    unsigned first, end;
};
static __device__ __forceinline__ Share share_of_block(const ProjectWork &work) {
    unsigned rows = walked_rows(work), each = rows / gridDim.x, more = rows % gridDim.x;
    unsigned first = blockIdx.x * each + (blockIdx.x < more ? blockIdx.x : more);
    return Share{first, first + each + (blockIdx.x < more)};
}

// The rows of a warp, one after another: of up and gate, which count as one row, both.
struct RowWalk {
    unsigned at, end; // in the list of all rows; of the block
    int p;            // the matrix

    __device__ __forceinline__ bool is_there() const {
        return at < end;
    }
    __device__ __forceinline__ size_t row(const ProjectWork &work) const {
        return at - (work.epilogue == EPILOGUE_ACTIVATE ? 0 : work.first_row[p]);
    }
    __device__ __forceinline__ void next(const ProjectWork &work) {
        if (work.epilogue == EPILOGUE_ACTIVATE) {
            at += p ? WARPS : 0, p ^= 1;
            return;
        }
        at += WARPS;
        while (p + 1 < work.count && at >= work.first_row[p + 1])
            p++;
    }
};

static __device__ __forceinline__ RowWalk first_rows(const ProjectWork &work, const Share &share) {
    unsigned at = share.first + threadIdx.x / WARP;
    bool is_pair = work.epilogue == EPILOGUE_ACTIVATE;
    return RowWalk{at, share.end, is_pair || at >= share.end ? 0 : matrix_of_row(work, at)};
}

static __device__ __forceinline__ float load_bias(const ProjectWork &work, const RowWalk &walk) {
    return work.bias[walk.p] ? work.bias[walk.p][walk.row(work)] : 0.0f;
}

// By lane 0. `bias`: load_bias. `residual`: what it is added to. `up`: the sum of the up row, when
// this is its gate row.
static __device__ __forceinline__ float store_sum(const ProjectWork &work, const RowWalk &walk,
                                                  float sum, float bias, float residual, float up) {
    if (threadIdx.x % WARP) return 0.0f;
    size_t row = walk.row(work);
    if (work.bias[walk.p]) sum += bias;
    bool is_gate = work.epilogue == EPILOGUE_ACTIVATE && walk.p;
    work.out[walk.p][row] = is_gate ? activation(sum, work.activation) * up : sum;
    if (work.epilogue == EPILOGUE_ADD) work.residual[row] = residual + sum;
    return sum;
}

// A kernel whose blocks wait for each other, and whose warps have rings of weights that bulk copies
// fill. nvcc's PTX of it is resident.ptx, which test_ptx_resident.c runs, and in which it exchanges
// lines by the numbers of their registers, so the text is kept:
//
//   nvcc -std=c++17 -I. -Ikernels/cuda -O3 -fmad=false -arch=compute_90 -ptx tests/ptx/resident.cu
#include "kernels/cuda/block.h"

enum { THREADS = 64, SLOTS = 2, CHUNKS = 4 };

struct Ring {
    CopyBarrier full[SLOTS];
    alignas(16) float weights[SLOTS][WARP];
};

static __device__ void grid_barrier(unsigned *counter, unsigned count) {
    __syncthreads();
    if (!threadIdx.x) {
        arrive(counter, 1);
        while (load_counter(counter) < count)
            continue;
    }
    __syncthreads();
}

static __device__ void fill_slot(Ring &ring, const float *weights, int chunk) {
    CopyBarrier *full = &ring.full[chunk % SLOTS];
    copies_expected(full, sizeof ring.weights[0]);
    copy_bulk(ring.weights[chunk % SLOTS], weights + chunk * WARP, sizeof ring.weights[0], full);
}

// out[b] = sums[b] of the other block, where it sums chunks of weights times x; x is what the other
// block has stored before: 1. All arrays (2, THREADS) but the weights (CHUNKS, WARP).
extern "C" __global__ void resident(float *out, float *x, float *sums, const float *weights,
                                    unsigned *counter) {
    Ring &ring = (&launched_memory<Ring>())[threadIdx.x / WARP];
    unsigned here = blockIdx.x * THREADS + threadIdx.x;
    unsigned other = (gridDim.x - 1 - blockIdx.x) * THREADS + threadIdx.x;
    unsigned lane = threadIdx.x % WARP;
    if (!lane) {
        for (int s = 0; s < SLOTS; s++)
            copy_barrier_init(&ring.full[s]);
        copy_barriers_made();
        for (int c = 0; c < SLOTS; c++)
            fill_slot(ring, weights, c);
    }
    __syncwarp();
    x[here] = 1.0f;
    grid_barrier(counter, gridDim.x);
    float sum = 0.0f, value = x[other];
    for (int c = 0; c < CHUNKS; c++) {
        wait_for_bulk(&ring.full[c % SLOTS], (unsigned)c / SLOTS % 2);
        sum += ring.weights[c % SLOTS][lane] * value;
        __syncwarp();
        if (!lane && c + SLOTS < CHUNKS) fill_slot(ring, weights, c + SLOTS);
    }
    sums[here] = sum;
    grid_barrier(counter, 2 * gridDim.x);
    out[here] = sums[other];
}

// One block per row: the sum of squares (and the mean before it), then the row again.
#include "kernels/cuda/steps.h"

struct NormMemory {
    float parts[NORM_THREADS / WARP];
};

// Thirty-two or so additions in float32 per thread and five butterflies: the error is that of a
// pairwise sum.
static __global__ void norm_kernel(NormOperation op, float *residual, InputParts parts) {
    NormMemory &memory = block_memory<NormMemory>();
    size_t dim = (size_t)op.dim, row = blockIdx.x * dim;
    const float *x = op.x + row;
    wait_for_earlier_kernels();
    // rmsnorm has mean 0. layernorm sums differences from the mean in a pass of its own: x^2 -
    // mean^2 would cancel.
    float mean = 0.0f;
    if (op.centred) {
        float sum = 0.0f;
        for (size_t j = threadIdx.x; j < dim; j += NORM_THREADS)
            sum += x[j];
        mean = block_sum<NORM_THREADS>(sum, memory.parts) / (float)op.dim;
    }
    // block_sum has barriers before and after, so `parts` serves both sums.
    float inverse = norm_factor(x, dim, mean, op.eps, memory.parts);
    // Each thread reads the elements that it writes, so out may be x; several of them before it
    // writes the first, so that their loads are on their way together.
    for (size_t first = threadIdx.x; first < dim; first += NORM_LOADS * NORM_THREADS) {
        float v[NORM_LOADS], weight[NORM_LOADS];
        UNROLL
        for (unsigned s = 0; s < NORM_LOADS; s++) {
            size_t j = first + s * NORM_THREADS;
            v[s] = j < dim ? x[j] : 0.0f, weight[s] = j < dim ? op.weight[j] : 0.0f;
        }
        UNROLL
        for (unsigned s = 0; s < NORM_LOADS; s++) {
            size_t j = first + s * NORM_THREADS;
            if (j >= dim) continue; // and no `break`, so that the loop unrolls
            float y = (v[s] - mean) * inverse * weight[s];
            if (op.bias) y += op.bias[j];
            if (op.out) op.out[row + j] = y;
            if (residual) residual[row + j] += y;
            store_input(parts, blockIdx.x * parts.stride + j, y);
        }
    }
    for (size_t j = dim + threadIdx.x; j < parts.stride; j += NORM_THREADS)
        store_input(parts, blockIdx.x * parts.stride + j, 0.0f);
}

// With `residual` it is two operations in one launch: the norm behind a block, and its addition
// (fused.cu).
void launch_norm(Device *device, const NormOperation *op, float *residual) {
    LAUNCH(device, norm_kernel, op->n, NORM_THREADS, *op, residual, InputParts{});
}

void launch_norm_parts(Device *device, const NormOperation *op, const InputParts &to, bool keep) {
    NormOperation norm = *op;
    if (!keep) norm.out = NULL;
    LAUNCH(device, norm_kernel, norm.n, NORM_THREADS, norm, (float *)NULL, to);
}

void run_norm(Device *device, const Operation *operation) {
    launch_norm(device, &operation->norm, NULL);
}

void rmsnorm(Device *device, float *out, const float *x, const float *weight, int n, int dim,
             float eps) {
    Operation operation = operation_of(OPERATION_NORM);
    NormOperation *norm = &operation.norm;
    norm->out = out, norm->x = x, norm->weight = weight;
    norm->n = n, norm->dim = dim, norm->eps = eps;
    perform(device, &operation);
}

void layernorm(Device *device, float *out, const float *x, const float *weight, const float *bias,
               int n, int dim, float eps) {
    Operation operation = operation_of(OPERATION_NORM);
    NormOperation *norm = &operation.norm;
    norm->out = out, norm->x = x, norm->weight = weight, norm->bias = bias;
    norm->n = n, norm->dim = dim, norm->eps = eps, norm->centred = true;
    perform(device, &operation);
}

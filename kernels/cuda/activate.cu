// Operations on single numbers (reference/activate.c says what they are for).
#include "kernels/cuda/steps.h"

enum { THREADS = 256 };

// One thread per element. All kernels read and write memory with next to no arithmetic, so
// all there is to do is to have neighbouring threads access neighbouring addresses.
static __global__ void activate_kernel(ActivateOperation op) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= op.count) return;
    wait_for_earlier_kernels();
    // activation is float32 arithmetic (steps.h); the reference computes it in double.
    op.gate[i] = activation(op.gate[i], op.kind) * (op.up ? op.up[i] : 1.0f);
}

// N neighbours, loaded or stored as one.
template <int N> struct alignas(sizeof(float) * N) NeighbourFloats { float v[N]; };
template <int N> struct alignas(sizeof(uint16_t) * N) NeighbourParts { uint16_t v[N]; };

// An activation whose result is a product's input: N neighbours of a row per thread.
struct ActivatePartsWork {
    ActivateOperation op;
    InputParts to;
    float *out;           // gate; NULL where nothing reads the floats
    size_t cols;          // of a row
    unsigned rows, units; // units of N columns per row of `to`
};

template <int N> static __global__ void activate_parts_kernel(ActivatePartsWork w) {
    unsigned at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= w.rows * w.units) return;
    size_t row = at / w.units, col = (size_t)(at % w.units) * N, from = row * w.cols + col;
    NeighbourFloats<N> x = {};
    wait_for_earlier_kernels();
    if (col < w.cols) { // zeros beyond
        x = *(const NeighbourFloats<N> *)(w.op.gate + from);
        NeighbourFloats<N> up = w.op.up ? *(const NeighbourFloats<N> *)(w.op.up + from) : x;
        for (int i = 0; i < N; i++)
            x.v[i] = activation(x.v[i], w.op.kind) * (w.op.up ? up.v[i] : 1.0f);
        if (w.out) *(NeighbourFloats<N> *)(w.out + from) = x;
    }
    for (int p = 0; p < MAX_PARTS; p++) {
        if (!w.to.parts[p]) continue;
        NeighbourParts<N> part;
        for (int i = 0; i < N; i++)
            part.v[i] = take_part(x.v[i]);
        *(NeighbourParts<N> *)(w.to.parts[p] + row * w.to.stride + col) = part;
    }
}

static __global__ void add_kernel(AddOperation op) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= op.count) return;
    wait_for_earlier_kernels();
    op.x[i] += op.y[i];
}

static __global__ void scale_kernel(ScaleOperation op) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= op.count) return;
    wait_for_earlier_kernels();
    op.x[i] *= op.factor;
}

static __global__ void softcap_kernel(SoftcapOperation op) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= op.count) return;
    wait_for_earlier_kernels();
    op.x[i] = bend(op.x[i], op.cap);
}

void run_activate(Device *device, const Operation *operation) {
    const ActivateOperation *op = &operation->activate;
    LAUNCH(device, activate_kernel, blocks_for(op->count, THREADS), THREADS, *op);
}

void launch_activate_parts(Device *device, const ActivateOperation *op, size_t cols,
                           const InputParts &to, bool keep) {
    ActivatePartsWork w = {*op, to, keep ? op->gate : NULL, cols, (unsigned)(op->count / cols), 0};
    // Four floats at a time where all rows begin at multiples of 16 bytes.
    bool fours = cols % 4 == 0 && ((uintptr_t)op->gate | (uintptr_t)op->up) % 16 == 0;
    w.units = (unsigned)to.stride / (fours ? 4 : 1);
    unsigned blocks = blocks_for((size_t)w.rows * w.units, THREADS);
    if (fours)
        LAUNCH(device, activate_parts_kernel<4>, blocks, THREADS, w);
    else
        LAUNCH(device, activate_parts_kernel<1>, blocks, THREADS, w);
}

void run_add(Device *device, const Operation *operation) {
    const AddOperation *op = &operation->add;
    LAUNCH(device, add_kernel, blocks_for(op->count, THREADS), THREADS, *op);
}

void run_scale(Device *device, const Operation *operation) {
    const ScaleOperation *op = &operation->scale;
    LAUNCH(device, scale_kernel, blocks_for(op->count, THREADS), THREADS, *op);
}

void run_softcap(Device *device, const Operation *operation) {
    const SoftcapOperation *op = &operation->softcap;
    LAUNCH(device, softcap_kernel, blocks_for(op->count, THREADS), THREADS, *op);
}

// A launch with no blocks would be an error, so nothing is recorded for no elements.
void activate(Device *device, float *gate, const float *up, size_t count, ActivationKind kind) {
    if (!count) return;
    Operation operation = operation_of(OPERATION_ACTIVATE);
    operation.activate.gate = gate, operation.activate.up = up;
    operation.activate.count = count, operation.activate.kind = kind;
    perform(device, &operation);
}

void add(Device *device, float *x, const float *y, size_t count) {
    if (!count) return;
    Operation operation = operation_of(OPERATION_ADD);
    operation.add.x = x, operation.add.y = y, operation.add.count = count;
    perform(device, &operation);
}

void scale(Device *device, float *x, size_t count, float factor) {
    if (!count) return;
    Operation operation = operation_of(OPERATION_SCALE);
    operation.scale.x = x, operation.scale.count = count, operation.scale.factor = factor;
    perform(device, &operation);
}

void softcap(Device *device, float *x, size_t count, float cap) {
    if (!count) return;
    Operation operation = operation_of(OPERATION_SOFTCAP);
    operation.softcap.x = x, operation.softcap.count = count, operation.softcap.cap = cap;
    perform(device, &operation);
}

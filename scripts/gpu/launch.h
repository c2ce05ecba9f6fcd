// What probes.cu and calibrate.cu share: the GPU that they run on, and how a kernel is launched
// there. Each defines failed, which says in its own words that a call of CUDA failed, and ends the
// program.
#pragma once

#include "kernels/cuda/device.h"

static cudaStream_t stream;
static bool programmatic; // launches, which GPUs have from sm_90 on

[[noreturn]] static void failed(cudaError_t error, const char *call);

#define MUST(call) must(call, #call)
static void must(cudaError_t error, const char *call) {
    if (error != cudaSuccess) failed(error, call);
}

// Device 0, its properties and a stream.
static void open_gpu(cudaDeviceProp *properties) {
    MUST(cudaSetDevice(0));
    MUST(cudaGetDeviceProperties(properties, 0));
    cudaError_t error;
    programmatic = has_programmatic_launches(properties, &error);
    must(error, "cudaFuncGetAttributes");
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

template <class... Wanted, class... Given>
static void run(bool overlaps, void (*kernel)(Wanted...), dim3 grid, unsigned threads,
                Given... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlaps && programmatic;
    MUST(cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(arguments)...));
}

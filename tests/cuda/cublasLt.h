// Stands in for cuBLASLt's header as cuda_runtime.h does for the runtime's. cublaslt.cpp has the
// functions, in plain loops. What it is told wrongly it finds: layouts that do not fit each other,
// a pointer less aligned than was promised, an algorithm that was chosen for other shapes, a
// workspace too small.
#pragma once

#define CUBLAS_VER_MAJOR 13
typedef enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 } cudaDataType_t;

#include "kernels/cuda/project/cublaslt.h"

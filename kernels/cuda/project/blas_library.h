// libcublasLt, opened by hand: its functions by name, their types from its header.
#pragma once

#include "kernels/cuda/machine.h"

#include <cublasLt.h>

struct BlasLibrary {
    void *handle; // NULL: not open
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtGetStatusName) status_name;
    decltype(&cublasLtGetStatusString) status_string;
    decltype(&cublasLtMatmulDescCreate) operation_create;
    decltype(&cublasLtMatmulDescDestroy) operation_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) operation_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmul) matmul;
};

// false where there is no such library, or an older one that lacks a function.
bool blas_library_open(BlasLibrary *library);
void blas_library_close(BlasLibrary *library); // one that is not open is fine

#include "kernels/cuda/project/blas_library.h"

#include <stdio.h>

static bool find_functions(BlasLibrary *l) {
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"cublasLtCreate", &l->create},
        {"cublasLtDestroy", &l->destroy},
        {"cublasLtGetStatusName", &l->status_name},
        {"cublasLtGetStatusString", &l->status_string},
        {"cublasLtMatmulDescCreate", &l->operation_create},
        {"cublasLtMatmulDescDestroy", &l->operation_destroy},
        {"cublasLtMatmulDescSetAttribute", &l->operation_set},
        {"cublasLtMatrixLayoutCreate", &l->layout_create},
        {"cublasLtMatrixLayoutDestroy", &l->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", &l->preference_create},
        {"cublasLtMatmulPreferenceDestroy", &l->preference_destroy},
        {"cublasLtMatmulPreferenceSetAttribute", &l->preference_set},
        {"cublasLtMatmulAlgoGetHeuristic", &l->heuristic},
        {"cublasLtMatmul", &l->matmul},
    };
    for (const auto &w : wanted) {
        void *symbol = library_symbol(l->handle, w.name);
        if (!symbol) return false;
        memcpy(w.to, &symbol, sizeof symbol);
    }
    return true;
}

// By the name that the loader knows, or where the toolkit installs it.
bool blas_library_open(BlasLibrary *library) {
    static const char *const DIRECTORIES[] = {"", "/usr/local/cuda/lib64/"};
    for (const char *directory : DIRECTORIES) {
        char path[64];
        snprintf(path, sizeof path, "%slibcublasLt.so.%d", directory, CUBLAS_VER_MAJOR);
        library->handle = library_open(path);
        if (library->handle && find_functions(library)) return true;
        blas_library_close(library);
    }
    return false;
}

void blas_library_close(BlasLibrary *library) {
    if (library->handle) library_close(library->handle);
    library->handle = NULL;
}

// What cuBLASLt does for kernels/cuda/project/blas.cu, column by column, in plain loops.
#include "cublasLt.h"

#include "tests/cuda/emulator.h"

#include <cmath>
#include <cstring>

struct cublasLtContext {
    int unused;
};
struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t transpose_a;
};
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
    uint64_t workspace;
    uint32_t alignments[4]; // of a, b, c, d
};

namespace {

// What the heuristic writes into an algorithm, and the product compares.
struct Choice {
    uint64_t m, n, k, type, workspace;
    uint32_t alignments[4];
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm has 64 bytes");

bool hidden;
long products;

cublasStatus_t made_to_fail() {
    cudaError_t error;
    if (!emulator::call_fails(&error)) return CUBLAS_STATUS_SUCCESS;
    return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <class T> cublasStatus_t create(T **object, T value) {
    cublasStatus_t status = made_to_fail();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    *object = new T(value);
    emulator::count_objects(1);
    return status;
}

template <class T> cublasStatus_t destroy(T *object) {
    emulator::count_objects(-1);
    delete object;
    return CUBLAS_STATUS_SUCCESS;
}

uint64_t inner(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a) {
    return op->transpose_a == CUBLAS_OP_T ? a->rows : a->cols;
}

bool fit(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    for (cublasLtMatrixLayout_t l : {a, b, c, d})
        if (!l->rows || !l->cols || l->ld < (int64_t)l->rows) return false;
    uint64_t m = op->transpose_a == CUBLAS_OP_T ? a->cols : a->rows;
    return op->compute == CUBLAS_COMPUTE_32F && op->scale == CUDA_R_32F && a->type == b->type &&
           c->type == CUDA_R_32F && d->type == CUDA_R_32F && inner(op, a) == b->rows &&
           d->rows == m && d->cols == b->cols && c->rows == d->rows && c->cols == d->cols &&
           c->ld == d->ld;
}

float element(const void *p, cudaDataType_t type, uint64_t at) {
    float value;
    if (type == CUDA_R_32F) {
        memcpy(&value, (const float *)p + at, sizeof value);
        return value;
    }
    uint32_t bits = (uint32_t)((const uint16_t *)p)[at] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool aligned(const void *p, uint32_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

} // namespace

extern "C" void emulator_hide_cublas(int hide) {
    hidden = hide != 0;
}

extern "C" long emulator_cublas_products(void) {
    emulator::finish();
    return products;
}

// ---- the loader ----

void *emulator::library_open(const char *path) {
    if (hidden || strcmp(path, "libcublasLt.so.13") != 0) return nullptr;
    count_objects(1);
    return &products; // any address
}

void emulator::library_close(void *) {
    count_objects(-1);
}

void *emulator::library_symbol(void *, const char *name) {
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"cublasLtGetStatusName", (void *)cublasLtGetStatusName},
        {"cublasLtGetStatusString", (void *)cublasLtGetStatusString},
        {"cublasLtCreate", (void *)cublasLtCreate},
        {"cublasLtDestroy", (void *)cublasLtDestroy},
        {"cublasLtMatmulDescCreate", (void *)cublasLtMatmulDescCreate},
        {"cublasLtMatmulDescDestroy", (void *)cublasLtMatmulDescDestroy},
        {"cublasLtMatmulDescSetAttribute", (void *)cublasLtMatmulDescSetAttribute},
        {"cublasLtMatrixLayoutCreate", (void *)cublasLtMatrixLayoutCreate},
        {"cublasLtMatrixLayoutDestroy", (void *)cublasLtMatrixLayoutDestroy},
        {"cublasLtMatmulPreferenceCreate", (void *)cublasLtMatmulPreferenceCreate},
        {"cublasLtMatmulPreferenceDestroy", (void *)cublasLtMatmulPreferenceDestroy},
        {"cublasLtMatmulPreferenceSetAttribute", (void *)cublasLtMatmulPreferenceSetAttribute},
        {"cublasLtMatmulAlgoGetHeuristic", (void *)cublasLtMatmulAlgoGetHeuristic},
        {"cublasLtMatmul", (void *)cublasLtMatmul},
    };
    for (const auto &f : functions)
        if (!strcmp(f.name, name)) return f.function;
    return nullptr;
}

// ---- descriptions ----

const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "?";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_ALLOC_FAILED ? "out of memory" : "an error made by a test";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    return create(handle, cublasLtContext{0});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
    return create(operation, cublasLtMatmulDescOpaque_t{compute, scale, CUBLAS_OP_N});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    return destroy(operation);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    cublasStatus_t status = made_to_fail();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (attribute != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof operation->transpose_a)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&operation->transpose_a, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    return create(layout, cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    return create(preference, cublasLtMatmulPreferenceOpaque_t{0, {256, 256, 256, 256}});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    cublasStatus_t status = made_to_fail();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    bool is_workspace = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    int index = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (bytes != (is_workspace ? sizeof(uint64_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(is_workspace ? (void *)&preference->workspace : &preference->alignments[index], value,
           bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- the product ----

// Two algorithms for everything; the second wants a workspace.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *found) {
    cublasStatus_t status = made_to_fail();
    *found = 0;
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!fit(operation, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
    for (; *found < 2 && *found < wanted; ++*found) {
        Choice choice = {d->rows, d->cols, b->rows, a->type, 0, {}};
        memcpy(choice.alignments, preference->alignments, sizeof choice.alignments);
        if (*found) choice.workspace = preference->workspace;
        results[*found] = cublasLtMatmulHeuristicResult_t{};
        memcpy(&results[*found].algo, &choice, sizeof choice);
        results[*found].workspaceSize = choice.workspace;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    cublasStatus_t status = made_to_fail();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    Choice choice;
    memcpy(&choice, algorithm, sizeof choice);
    const void *pointers[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (!aligned(pointers[i], choice.alignments[i])) return CUBLAS_STATUS_INVALID_VALUE;
    cublasLtMatmulDescOpaque_t op = *operation;
    cublasLtMatrixLayoutOpaque_t la = *a_layout, lb = *b_layout, lc = *c_layout, ld = *d_layout;
    if (!fit(&op, &la, &lb, &lc, &ld) || choice.m != ld.rows || choice.n != ld.cols ||
        choice.k != lb.rows || choice.type != (uint64_t)la.type ||
        choice.workspace > workspace_bytes || (choice.workspace && !workspace) || c != d)
        return CUBLAS_STATUS_INVALID_VALUE;
    float scale = *(const float *)alpha, old = *(const float *)beta;
    emulator::run_in(stream, [=] {
        products++;
        for (uint64_t j = 0; j < ld.cols; j++) {
            for (uint64_t i = 0; i < ld.rows; i++) {
                float sum = 0.0f, *out = (float *)d + j * (uint64_t)ld.ld + i;
                for (uint64_t k = 0; k < lb.rows; k++) {
                    uint64_t at = op.transpose_a == CUBLAS_OP_T ? i * (uint64_t)la.ld + k
                                                                : k * (uint64_t)la.ld + i;
                    sum = fmaf(element(a, la.type, at),
                               element(b, lb.type, j * (uint64_t)lb.ld + k), sum);
                }
                *out = scale * sum + (old != 0.0f ? old * *out : 0.0f);
            }
        }
    });
    return CUBLAS_STATUS_SUCCESS;
}

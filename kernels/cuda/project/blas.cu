// cuBLASLt: the library, one plan per shape, the product. Its matrices are column-major: our
// row-major w (m, k) is its A (k, m), transposed; x (n, k) its B (k, n); out (n, m) its C and D (m,
// n). Nothing is copied.
#include "kernels/cuda/project/blas.h"

#include "kernels/cuda/device.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PLANS = 64, MAX_ALGORITHMS = 8 };
constexpr size_t WORKSPACE_BYTES = 32 << 20; // what NVIDIA advises for Hopper
constexpr unsigned MAX_ALIGNMENT = 256;

// libcublasLt, opened at run time: its functions by name, their types from its header.
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

// All that the choice of an algorithm depends on.
// Alignments too: an algorithm chosen for 256 bytes may not be used with less.
struct PlanKey {
    BlasType type;
    int m, n, k;
    size_t w_stride, x_stride, out_stride;
    unsigned w_alignment, x_alignment, out_alignment; // bytes
};

struct Plan {
    PlanKey key;
    cublasLtMatrixLayout_t w, x, out; // owned
    cublasLtMatmulAlgo_t algorithm;
    uint64_t last_used;
};

enum BlasState { BLAS_UNOPENED, BLAS_OPEN, BLAS_ABSENT };

struct Blas {
    BlasState state;
    BlasLibrary library;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation; // w transposed, float32 sums
    void *workspace;                // device memory, WORKSPACE_BYTES
    Plan plans[MAX_PLANS];
    int n_plans;
    uint64_t products;
};

// `key`: of the product that the call is about; NULL where it is about none.
static bool blas_check(Device *device, cublasStatus_t status, const char *call,
                       const PlanKey *key) {
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    const BlasLibrary *l = &device->blas->library;
    char sizes[96] = "";
    if (key)
        snprintf(sizes, sizeof sizes, " for %d rows by %s weights (%d, %d)", key->n,
                 key->type == BLAS_BF16 ? "bf16" : "float32", key->m, key->k);
    device_fail(device, ERROR_DEVICE, "GPU: %s%s on %s: %s (%d %s)", call, sizes, device->name,
                l->status_string(status), (int)status, l->status_name(status));
    (void)cudaGetLastError(); // clears the runtime's error, which is reported above
    return false;
}

// ---- opening ----

// By name, as dlsym returns them; a library that lacks one counts as absent.
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

static void blas_library_close(BlasLibrary *library) {
    if (library->handle) library_close(library->handle);
    library->handle = NULL;
}

// By the name that the loader knows, or where the toolkit installs it; false where there is no such
// library, or an older one that lacks a function.
static bool blas_library_open(BlasLibrary *library) {
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

// Only a missing library is no failure: the description then says so and our own kernels do the
// work.
static BlasState blas_open(Device *device) {
    Blas *b = device->blas;
    if (!blas_library_open(&b->library)) {
        DeviceInfo *info = &device->info;
        size_t length = strlen(info->description);
        snprintf(info->description + length, sizeof info->description - length, ", no cuBLASLt");
        return BLAS_ABSENT;
    }
    cublasOperation_t transposed = CUBLAS_OP_T;
    blas_check(device, b->library.create(&b->handle), "cublasLtCreate", NULL) &&
        blas_check(device,
                   b->library.operation_create(&b->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "cublasLtMatmulDescCreate", NULL) &&
        blas_check(device,
                   b->library.operation_set(b->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed),
                   "cublasLtMatmulDescSetAttribute", NULL);
    return BLAS_OPEN; // or the device has failed, and no later call comes here
}

size_t blas_bytes(void) {
    return WORKSPACE_BYTES;
}

void blas_reserve(Device *device) {
    if (device->blas) return;
    device->blas = (Blas *)host_alloc(device, sizeof(Blas));
    if (device->blas) device->blas->workspace = device_alloc(device, WORKSPACE_BYTES);
}

bool blas_ready(Device *device) {
    Blas *b = device->blas;
    if (!device_ok(device) || !b) return false;
    if (b->state == BLAS_UNOPENED) b->state = blas_open(device);
    return b->state == BLAS_OPEN && device_ok(device);
}

static void plan_free(const Blas *b, Plan *plan) {
    for (cublasLtMatrixLayout_t layout : {plan->w, plan->x, plan->out})
        if (layout) b->library.layout_destroy(layout);
    *plan = Plan{};
}

// The struct and the workspace belong to the device's list.
void blas_close(Device *device) {
    Blas *b = device->blas;
    if (!b) return;
    for (int i = 0; i < b->n_plans; i++)
        plan_free(b, &b->plans[i]);
    if (b->operation) b->library.operation_destroy(b->operation);
    if (b->handle) b->library.destroy(b->handle);
    blas_library_close(&b->library);
    device->blas = NULL;
}

// ---- plans ----

// The largest power of two, up to 256, that divides the address.
static unsigned alignment_of(const void *p) {
    unsigned alignment = MAX_ALIGNMENT;
    while ((uintptr_t)p % alignment)
        alignment /= 2;
    return alignment;
}

static PlanKey key_of(const BlasProduct *p) {
    PlanKey key = {};
    key.type = p->type;
    key.m = p->m, key.n = p->n, key.k = p->k;
    key.w_stride = p->w_stride, key.x_stride = p->x_stride, key.out_stride = p->out_stride;
    key.w_alignment = alignment_of(p->w);
    key.x_alignment = alignment_of(p->x);
    key.out_alignment = alignment_of(p->out);
    return key;
}

static bool same_key(const PlanKey &a, const PlanKey &b) {
    return a.type == b.type && a.m == b.m && a.n == b.n && a.k == b.k && a.w_stride == b.w_stride &&
           a.x_stride == b.x_stride && a.out_stride == b.out_stride &&
           a.w_alignment == b.w_alignment && a.x_alignment == b.x_alignment &&
           a.out_alignment == b.out_alignment;
}

static bool make_layout(Device *device, const PlanKey *key, cublasLtMatrixLayout_t *layout,
                        cudaDataType_t type, int rows, int cols, size_t stride) {
    return blas_check(device,
                      device->blas->library.layout_create(layout, type, (uint64_t)rows,
                                                          (uint64_t)cols, (int64_t)stride),
                      "cublasLtMatrixLayoutCreate", key);
}

// Transposed as the head of the file says: k is the fast index of w and x, m that of out.
static bool make_layouts(Device *device, Plan *plan) {
    const PlanKey *key = &plan->key;
    cudaDataType_t type = key->type == BLAS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    return make_layout(device, key, &plan->w, type, key->k, key->m, key->w_stride) &&
           make_layout(device, key, &plan->x, type, key->k, key->n, key->x_stride) &&
           make_layout(device, key, &plan->out, CUDA_R_32F, key->m, key->n, key->out_stride);
}

// The limits within which cuBLASLt looks for algorithms.
static bool prefer(Device *device, cublasLtMatmulPreference_t preference, const PlanKey *key) {
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint64_t value; // little-endian: its first four bytes are the uint32_t of an alignment
        size_t bytes;
    } wanted[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, WORKSPACE_BYTES, 8},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->w_alignment, 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->x_alignment, 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->out_alignment, 4},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->out_alignment, 4},
    };
    for (const auto &w : wanted)
        if (!blas_check(
                device,
                device->blas->library.preference_set(preference, w.attribute, &w.value, w.bytes),
                "cublasLtMatmulPreferenceSetAttribute", key))
            return false;
    return true;
}

// Up to `wanted` algorithms, the best by cuBLASLt's own estimate first: how many; 0 after a
// failure.
static int find_algorithms(Device *device, const Plan *plan, cublasLtMatmulHeuristicResult_t *found,
                           int wanted) {
    const Blas *b = device->blas;
    const PlanKey *key = &plan->key;
    cublasLtMatmulPreference_t preference = NULL;
    int count = 0;
    if (!blas_check(device, b->library.preference_create(&preference),
                    "cublasLtMatmulPreferenceCreate", key))
        return 0;
    if (prefer(device, preference, key)) {
        cublasStatus_t status =
            b->library.heuristic(b->handle, b->operation, plan->w, plan->x, plan->out, plan->out,
                                 preference, wanted, found, &count);
        // Success with no algorithm would leave the caller without one.
        if (status == CUBLAS_STATUS_SUCCESS && !count) status = CUBLAS_STATUS_NOT_SUPPORTED;
        blas_check(device, status, "cublasLtMatmulAlgoGetHeuristic", key);
    }
    b->library.preference_destroy(preference);
    return device_ok(device) ? count : 0;
}

// The slot of a new plan: a free one, or that of the least recently used plan.
// 64 plans are enough for the shapes of a model at a few batch sizes; beyond that the oldest goes.
static Plan *plan_slot(Blas *b) {
    if (b->n_plans < MAX_PLANS) return &b->plans[b->n_plans++];
    Plan *oldest = b->plans;
    for (Plan &plan : b->plans)
        if (plan.last_used < oldest->last_used) oldest = &plan;
    plan_free(b, oldest);
    return oldest;
}

// NULL after a failure.
static Plan *find_plan(Device *device, const BlasProduct *product) {
    Blas *b = device->blas;
    PlanKey key = key_of(product);
    for (int i = 0; i < b->n_plans; i++)
        if (same_key(b->plans[i].key, key)) return &b->plans[i];
    Plan *plan = plan_slot(b);
    cublasLtMatmulHeuristicResult_t found = {};
    plan->key = key;
    if (!make_layouts(device, plan) || !find_algorithms(device, plan, &found, 1)) return NULL;
    plan->algorithm = found.algo;
    return plan;
}

// ---- products ----

static bool multiply(Device *device, const BlasProduct *p, const Plan *plan,
                     const cublasLtMatmulAlgo_t *algorithm) {
    const Blas *b = device->blas;
    // out = one * w x + old * out.
    float one = 1.0f, old = p->adds ? 1.0f : 0.0f;
    return blas_check(device,
                      b->library.matmul(b->handle, b->operation, &one, p->w, plan->w, p->x, plan->x,
                                        &old, p->out, plan->out, p->out, plan->out, algorithm,
                                        b->workspace, WORKSPACE_BYTES, device->stream),
                      "cublasLtMatmul", &plan->key);
}

void blas_product(Device *device, const BlasProduct *product) {
    if (!blas_ready(device)) return;
    Plan *plan = find_plan(device, product);
    if (plan && multiply(device, product, plan, &plan->algorithm))
        plan->last_used = ++device->blas->products;
}

// ---- measuring ----

// Numbers in -1 .. 1: multiplying zeros would cost less power, and so let the GPU run faster.
static __global__ void random_kernel(uint16_t *out, size_t count) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    uint32_t bits = (uint32_t)i * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    out[i] = bf16_bits((float)(int32_t)(bits ^ bits >> 13) * 0x1p-31f);
}

static void *random_bf16(Device *device, size_t count) {
    uint16_t *out = (uint16_t *)device_alloc(device, count * sizeof *out);
    if (out) LAUNCH(device, random_kernel, blocks_for(count, 256), 256, out, count);
    return out;
}

// Two events around all runs: nothing waits between them, so the host's launches and its own
// waiting are not in the time of products that take a few microseconds each. Three runs first: they
// load code and bring the GPU to its working clock.
static double time_algorithm(Device *device, const BlasProduct *product, const Plan *plan,
                             const cublasLtMatmulAlgo_t *algorithm, int runs, cudaEvent_t *events) {
    double ms = 0.0;
    for (int i = 0; i < 3; i++)
        multiply(device, product, plan, algorithm);
    if (!device_ok(device) || !CUDA_CHECK(device, cudaEventRecord(events[0], device->stream)))
        return 0.0;
    for (int i = 0; i < runs && device_ok(device); i++)
        multiply(device, product, plan, algorithm);
    if (!device_ok(device) || !CUDA_CHECK(device, cudaEventRecord(events[1], device->stream)) ||
        !elapsed(device, events[0], events[1], &ms))
        return 0.0;
    return ms * 1e-3 / runs;
}

// The best algorithm by a few runs each, then its time by all runs: the least of several short
// times would be a lucky one.
static double fastest(Device *device, const BlasProduct *product, int runs, cudaEvent_t *events) {
    enum { CHOOSING_RUNS = 10 };
    cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS] = {};
    const Plan *plan = find_plan(device, product);
    int count = plan ? find_algorithms(device, plan, found, MAX_ALGORITHMS) : 0, chosen = -1;
    double best = 0.0;
    for (int i = 0; i < count && device_ok(device); i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        int few = runs < CHOOSING_RUNS ? runs : CHOOSING_RUNS;
        double seconds = time_algorithm(device, product, plan, &found[i].algo, few, events);
        if (chosen < 0 || seconds < best) best = seconds, chosen = i;
    }
    if (chosen < 0 || !device_ok(device)) return 0.0;
    return time_algorithm(device, product, plan, &found[chosen].algo, runs, events);
}

static double timed(Device *device, const BlasProduct *product, int runs) {
    cudaEvent_t events[2] = {};
    double seconds = 0.0;
    if (CUDA_CHECK(device, cudaEventCreateWithFlags(&events[0], cudaEventDefault)) &&
        CUDA_CHECK(device, cudaEventCreateWithFlags(&events[1], cudaEventDefault)))
        seconds = fastest(device, product, runs, events);
    for (cudaEvent_t event : events)
        if (event) cudaEventDestroy(event);
    return seconds;
}

double blas_seconds(Device *device, int m, int n, int k, int runs) {
    blas_reserve(device);
    if (!blas_ready(device)) return device_ok(device) ? 0.0 : -1.0;
    // Rows of whole 16 bytes, as project_blas.cu gives them.
    size_t stride = ((size_t)k + 7) / 8 * 8;
    BlasProduct product = {};
    product.type = BLAS_BF16;
    product.m = m, product.n = n, product.k = k;
    product.w_stride = product.x_stride = stride;
    product.out_stride = (size_t)m;
    void *w = random_bf16(device, (size_t)m * stride);
    void *x = random_bf16(device, (size_t)n * stride);
    float *out = (float *)device_alloc(device, (size_t)m * (size_t)n * sizeof *out);
    product.w = w, product.x = x, product.out = out;
    double seconds = device_ok(device) ? timed(device, &product, runs) : 0.0;
    device_free(device, w);
    device_free(device, x);
    device_free(device, out);
    return device_ok(device) ? seconds : -1.0;
}

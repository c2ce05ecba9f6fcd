// What the files of `project` share: the work of one launch.
#pragma once

#include "kernels/cuda/project/matrix.h"
#include "kernels/cuda/steps.h"

enum { ROWS_PER_BLOCK = 8, PROJECT_THREADS = ROWS_PER_BLOCK * WARP }; // as many as NORM_THREADS

// What becomes of a sum W x.
enum Epilogue {
    EPILOGUE_STORE,    // out = sum (+ bias)
    EPILOGUE_ADD,      // out = sum (+ bias), residual += out
    EPILOGUE_ACTIVATE, // out of the second matrix = f(its sum) * sum of the first: gate and up
    EPILOGUE_HEADS,    // out = sum (+ bias): q, k, v; then norm_and_rotate_head of every head
};

// Matrices with the same columns, of one type; for few rows all quantised, or all float.
struct ProjectWork {
    Planes weights[MAX_PROJECTIONS];
    float *out[MAX_PROJECTIONS];
    const float *bias[MAX_PROJECTIONS];
    unsigned first_row[MAX_PROJECTIONS + 1]; // of each matrix in the list of all rows
    int count, n;
    bool nothing_ahead; // nothing is read ahead of the wait for earlier kernels
    const float *x;
    QuantisedRows z; // of x, where the launch does not make them itself

    // The launch for few rows (project_few.cu) may do its neighbours' work too.
    const float *norm_weight; // not NULL: x goes through rmsnorm first,
    float norm_eps;
    float *norm_out; // and what comes out is kept here, (n, cols)
    float *residual; // EPILOGUE_ADD: (n, rows)
    Epilogue epilogue;
    ActivationKind activation;
    HeadsWork heads;   // EPILOGUE_HEADS
    unsigned *arrived; // (heads of q, k and v, few_groups(n)) blocks of rows that are done: 0
                       // between launches
};

enum { MAX_HEAD_COUNTERS = 1024 };

// Fills the matrices from `first` on that one launch can take: returns the one after them.
int project_work(const Device *device, ProjectWork *work, const ProjectOperation *op, int first);

// Launches: for few rows of x (fits_few), which go in groups; and for any number, of matrices of
// one type, `work->z` made by quantise_rows.
bool fits_few(const Device *device, int n);
unsigned few_groups(int n);
void launch_few(Device *device, const ProjectWork *work);
void launch_many(Device *device, const ProjectWork *work);
void quantise_rows(Device *device, const float *x, int n, size_t cols);

// And for so many that cuBLASLt is worth it (project_blas.cu): fits_blas opens it when it is first
// needed, and is false where there is none; blas_split makes x ready for all matrices of the call.
bool fits_blas(Device *device, int n);
void blas_split(Device *device, const float *x, int n, size_t cols);
void launch_blas(Device *device, const ProjectWork *work);
int blas_products(const Device *device, DType dtype); // of bf16 for one of the model; 0: float32
void project_blas_reserve(Device *device);

static inline bool meets_integers(const Device *device, DType dtype) {
    return is_quantised(dtype) && device->precision != PRECISION_F32;
}

// Which matrix row `at` of the list of all rows belongs to.
static __device__ __forceinline__ int matrix_of_row(const ProjectWork &work, unsigned at) {
    int p = 0;
    while (p + 1 < work.count && at >= work.first_row[p + 1])
        p++;
    return p;
}

// The index of digit `at` in memory. Lanes read neighbouring groups, 16 bytes each, and shared
// memory serves eight lanes at once: the last four of them have the halves of their groups swapped,
// so that no two lanes access the same bank.
static __device__ __forceinline__ size_t swizzle_digit(size_t at) {
    return at ^ (at >> 3 & 16);
}

// ---- outliers (precision.h) ----

// A key for each element of a row: larger for larger |x|, and among equals for the lower column. 0
// for elements that cannot be outliers: 0.0, NaN, infinity.
static __device__ __forceinline__ uint64_t outlier_key(float x, size_t column) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t size = bits & 0x7fffffffu, rest = ~((uint32_t)column << 1 | bits >> 31);
    return size && size < 0x7f800000u ? (uint64_t)size << 32 | rest : 0;
}

static __device__ __forceinline__ Outlier outlier_of(uint64_t key) {
    Outlier outlier = {0, 0.0f};
    if (!key) return outlier;
    uint32_t rest = ~(uint32_t)key, bits = (uint32_t)(key >> 32) | rest << 31;
    outlier.column = rest >> 1;
    memcpy(&outlier.x, &bits, sizeof bits);
    return outlier;
}

// The OUTLIERS largest keys of all lanes, in order, for every lane. Each lane's own keys are in
// order; no two keys but 0 are equal.
static __device__ __forceinline__ void warp_outliers(uint64_t (&keys)[OUTLIERS]) {
    static_assert(OUTLIERS == 2, "they stand in line");
    uint64_t first = warp_largest(keys[0]);
    uint64_t second = warp_largest(keys[0] == first ? keys[1] : keys[0]);
    keys[0] = first, keys[1] = second;
}

// A number for every warp's outliers, by row of x: shared memory.
constexpr unsigned OUTLIER_KEYS = PROJECT_THREADS / WARP * OUTLIERS;
typedef uint64_t OutlierKeys[OUTLIER_KEYS];

// outliers (n, OUTLIERS) of n rows, x(i, j) for j < cols, by all threads of a block, which all see
// them afterwards. Both arrays are shared memory; n is at most the number of warps.
template <class X>
static __device__ __forceinline__ void find_outliers(Outlier *outliers, OutlierKeys *shared,
                                                     size_t n, size_t cols, const X &x) {
    static_assert(OUTLIER_KEYS <= (unsigned)WARP, "a lane for each");
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (size_t i = 0; i < n; i++) {
        uint64_t keys[OUTLIERS] = {0, 0};
        for (size_t j = threadIdx.x; j < cols; j += PROJECT_THREADS) {
            uint64_t key = outlier_key(x(i, j), j);
            bool is_first = key > keys[0];
            if (is_first || key > keys[1]) keys[1] = is_first ? keys[0] : key;
            if (is_first) keys[0] = key;
        }
        warp_outliers(keys);
        if (lane < OUTLIERS) shared[i][warp * OUTLIERS + lane] = lane ? keys[1] : keys[0];
    }
    __syncthreads();
    if (warp < n) { // a warp for each row: of the warps' outliers those of the block
        uint64_t keys[OUTLIERS] = {lane < OUTLIER_KEYS ? shared[warp][lane] : 0, 0};
        warp_outliers(keys);
        if (lane < OUTLIERS)
            outliers[warp * OUTLIERS + lane] = outlier_of(lane ? keys[1] : keys[0]);
    }
    __syncthreads();
}

static __device__ __forceinline__ bool is_outlier(const Outlier *outliers, size_t j) {
    bool left = false;
    for (int o = 0; o < OUTLIERS; o++)
        left |= outliers[o].column == j && outliers[o].x != 0.0f;
    return left;
}

// ---- activations as integers ----

// One group of 32 activations as integers (precision.h), by the 32 lanes of a warp. `at`: of
// this lane's number; `group`: of the group.
static __device__ __forceinline__ void quantise_group(const QuantisedRows &out, float value,
                                                      size_t at, size_t group, int levels) {
    float amax = warp_max(fabsf(value));
    bool finite = !__ballot_sync(ALL_LANES, !isfinite(value));
    float d = finite ? amax / (float)levels : NAN;
    bool usable = d >= 1.17549435e-38f; // FLT_MIN; false for NaN too
    int z = usable ? (int)rintf(value * (1.0f / d)) : 0;
    int low = (int)(int8_t)(z & 255), sum = z;
    size_t index = swizzle_digit(at);
    out.low[index] = (int8_t)low;
    if (out.high) out.high[index] = (int8_t)((z - low) / 256);
    for (int bits = 8; bits; bits /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, bits);
    int other = __shfl_xor_sync(ALL_LANES, sum, 16);
    if (threadIdx.x % WARP) return;
    out.scales[group] = usable || !finite ? d : 0.0f;
    out.sums[group] = int2{sum, other};
}

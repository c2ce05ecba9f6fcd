// What the files of `project` share: the work of one launch.
#pragma once

#include "kernels/cuda/project/matrix.h"
#include "kernels/cuda/steps.h"

#include <assert.h>

enum { ROWS_PER_BLOCK = 8, PROJECT_THREADS = ROWS_PER_BLOCK * WARP }; // as many as NORM_THREADS
enum { WARPS = PROJECT_THREADS / WARP };

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
    bool nothing_ahead; // no weights are read ahead of the wait for earlier kernels
    const float *x;
    QuantisedRows z; // of x, where the launch does not make them itself

    // A launch for few rows (project_few.cu, project_one.cu) may do its neighbours' work too.
    const float *norm_weight; // not NULL: x goes through rmsnorm first,
    float norm_eps;
    float *norm_out; // and what comes out is kept here, (n, cols)
    float *residual; // EPILOGUE_ADD: (n, rows)
    Epilogue epilogue;
    ActivationKind activation;
    HeadsWork heads;   // EPILOGUE_HEADS
    unsigned *arrived; // (heads of q, k and v, few_groups) rows of each that are done: 0 between
                       // launches
};

enum { MAX_HEAD_COUNTERS = 1024 };

// Fills the matrices from `first` on that one launch can take: returns the one after them.
int project_work(const Device *device, ProjectWork *work, const ProjectOperation *op, int first);

// Launches: for few rows of x (fits_few), which go in groups; and for any number, of matrices of
// one type, `work->z` made by quantise_rows.
bool fits_few(const Device *device, int n);
unsigned few_groups(const Device *device, const ProjectWork *work);
void launch_few(Device *device, const ProjectWork *work);
bool chain_project(Device *device, const ProjectWork *work); // by launch_few; true: it runs later
bool launch_one(Device *device, const ProjectWork *work);    // by launch_few; false: not launched
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

// ---- few rows of x: how many columns of them a block has room for, and in which form ----

// Columns of x that a block has room for, all rows together. A kernel may declare 48 KiB of shared
// memory, and a processor has at least 100 KB of it: for three blocks with one row of x, or for two
// with several (blocks_per_processor).
//
//     floats     32 KiB for one row, 46 KiB for several
//     integers   of two digits, with their scales and sums: 28.5 KiB, 45.1 KiB
constexpr size_t float_room(int n) {
    return n == 1 ? 8192 : 11776;
}
constexpr size_t integer_room(int n) {
    return n == 1 ? 12288 : 19456;
}

// Float weights of every type are loaded eight at a time where a row has a multiple of 8 columns,
// else one at a time: a bfloat16 matrix and its float32 copy give the same bits.
enum { FLOAT_LOAD = 8 };

// In which form weights are multiplied by x; what shared memory holds follows from it.
enum InputForm {
    FLOAT_SCALAR, // float weights, one column at a time
    FLOAT_VECTOR, // float weights, eight columns at a time
    DEQUANTISED,  // quantised weights and x in float32, or
    ONE_DIGIT,    // as integers of one signed byte,
    TWO_DIGITS,   // or of two
};
DEVICE_FUNCTION constexpr int digits_of(InputForm m) {
    return m > DEQUANTISED ? m - DEQUANTISED : 0;
}
DEVICE_FUNCTION constexpr bool accepts(InputForm m, DType dtype) {
    return is_quantised(dtype) == (m >= DEQUANTISED);
}

static inline InputForm form_of(const Device *device, const ProjectWork *work) {
    if (!is_quantised(work->weights[0].dtype))
        return work->weights[0].cols % FLOAT_LOAD ? FLOAT_SCALAR : FLOAT_VECTOR;
    if (device->precision == PRECISION_F32) return DEQUANTISED;
    return device->precision == PRECISION_A8 ? ONE_DIGIT : TWO_DIGITS;
}

// ---- reading rows of x ----
//
// Four columns at a time, and several of those loads before the first one is waited for: what is
// done to x before the products is otherwise a chain of latencies.

enum { QUAD = 4, QUADS = 4 }; // columns of a load; loads of a thread in flight

static inline bool is_aligned(const float *x) {
    return (uintptr_t)x % sizeof(float4) == 0; // NULL is
}

// A row of x as it is.
struct PlainRow {
    const float *x; // on 16 bytes
    typedef float4 Loaded;
    __device__ __forceinline__ Loaded load(unsigned j) const {
        return *(const float4 *)(x + j);
    }
    __device__ __forceinline__ float4 value(const Loaded &loaded) const {
        return loaded;
    }
};

// use(quads, j, is_inside) of WIDTH columns from j on, for every WIDTHth j of first .. end - 1, by
// all threads of a block; `first` and `end` are multiples of WIDTH; a lane has rising columns.
// Warps are whole in `use`: lanes past the end come with the last columns again, and is_inside
// false. COUNT loads of a thread are in flight.
template <unsigned WIDTH, unsigned COUNT, class Row, class Use>
static __device__ __forceinline__ void for_columns(const Row &row, unsigned first, unsigned end,
                                                   const Use &use) {
    constexpr unsigned STEP = PROJECT_THREADS * WIDTH, AT_ONCE = COUNT * QUAD / WIDTH;
    unsigned lane = threadIdx.x % WARP * WIDTH;
    for (unsigned start = first + threadIdx.x / WARP * WARP * WIDTH; start < end;
         start += AT_ONCE * STEP) {
        typename Row::Loaded loaded[AT_ONCE][WIDTH / QUAD];
        UNROLL
        for (unsigned s = 0; s < AT_ONCE; s++) {
            unsigned j = start + s * STEP + lane;
            UNROLL
            for (unsigned q = 0; q < WIDTH / QUAD; q++) // no branch: it would wait
                loaded[s][q] = row.load((j < end ? j : end - WIDTH) + q * QUAD);
        }
        UNROLL
        for (unsigned s = 0; s < AT_ONCE; s++) {
            unsigned j = start + s * STEP + lane;
            if (j - lane >= end) continue; // the whole warp; and no `break`, so that loops unroll
            float4 quads[WIDTH / QUAD];
            UNROLL
            for (unsigned q = 0; q < WIDTH / QUAD; q++)
                quads[q] = row.value(loaded[s][q]);
            use(quads, j, j < end);
        }
    }
}

// use(columns j .. j + 3, j, is_inside)
template <unsigned COUNT = QUADS, class Row, class Use>
static __device__ __forceinline__ void for_quads(const Row &row, unsigned first, unsigned end,
                                                 const Use &use) {
    for_columns<QUAD, COUNT>(
        row, first, end,
        [&](const float4(&quads)[1], unsigned j, bool is_inside) { use(quads[0], j, is_inside); });
}

static __device__ __forceinline__ uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static __device__ __forceinline__ float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

enum : uint32_t {
    MAGNITUDE_BITS = 0x7fffffffu,
    INFINITE = 0x7f800000u
}; // of |x|; NaNs are above it

// ---- outliers (precision.h) ----

// The OUTLIERS largest |x| that a lane has met. Bits of |x| compare as the numbers do.
struct Largest {
    uint32_t magnitude[OUTLIERS], column[OUTLIERS]; // bits of |x|, 0: none yet
};

// Columns rise, so among equals the lower one stays. 0 cannot be an outlier.
static __device__ __forceinline__ void meet(Largest &largest, uint32_t magnitude, uint32_t column) {
    static_assert(OUTLIERS == 2, "they stand in line");
    bool is_first = magnitude > largest.magnitude[0], is_second = magnitude > largest.magnitude[1];
    largest.column[1] = is_first ? largest.column[0] : is_second ? column : largest.column[1];
    largest.column[0] = is_first ? column : largest.column[0];
    uint32_t less = magnitude < largest.magnitude[0] ? magnitude : largest.magnitude[0];
    largest.magnitude[1] = less > largest.magnitude[1] ? less : largest.magnitude[1];
    largest.magnitude[0] = is_first ? magnitude : largest.magnitude[0];
}

static __device__ __forceinline__ uint32_t largest_of(const uint32_t *values, unsigned count) {
    uint32_t largest = values[0];
    UNROLL
    for (unsigned b = 1; b < count; b++)
        largest = values[b] > largest ? values[b] : largest;
    return largest;
}

static __device__ __forceinline__ void meet_quad(Largest &largest, const float4 &x,
                                                 uint32_t column) {
    uint32_t magnitudes[QUAD] = {bits_of(x.x) & MAGNITUDE_BITS, bits_of(x.y) & MAGNITUDE_BITS,
                                 bits_of(x.z) & MAGNITUDE_BITS, bits_of(x.w) & MAGNITUDE_BITS};
    // What is not finite cannot be one.
    if (largest_of(magnitudes, QUAD) >= INFINITE) {
        UNROLL
        for (unsigned b = 0; b < QUAD; b++)
            magnitudes[b] = magnitudes[b] >= INFINITE ? 0 : magnitudes[b];
    }
    UNROLL
    for (unsigned b = 0; b < QUAD; b++)
        meet(largest, magnitudes[b], column + b);
}

// A key for an element: larger for larger |x|, and among equals for the lower column. 0: none.
static __device__ __forceinline__ uint64_t outlier_key(const Largest &largest, int o) {
    uint32_t magnitude = largest.magnitude[o];
    return magnitude ? (uint64_t)magnitude << 32 | (uint32_t)~largest.column[o] : 0;
}

template <class Row>
static __device__ __forceinline__ Outlier outlier_of(const Row &row, uint64_t key) {
    Outlier outlier = {0, 0.0f};
    if (!key) return outlier;
    outlier.column = ~(uint32_t)key;
    unsigned among = outlier.column % QUAD;
    const float4 quad = row.value(row.load(outlier.column - among));
    outlier.x = among & 2 ? among & 1 ? quad.w : quad.z : among & 1 ? quad.y : quad.x;
    return outlier;
}

// The OUTLIERS largest keys of all lanes, in order, for every lane. Each lane's own keys are in
// order; no two keys but 0 are equal.
static __device__ __forceinline__ void warp_outliers(uint64_t (&keys)[OUTLIERS]) {
    uint64_t first = warp_largest(keys[0]);
    uint64_t second = warp_largest(keys[0] == first ? keys[1] : keys[0]);
    keys[0] = first, keys[1] = second;
}

// A number for every warp's outliers, by row of x: shared memory.
constexpr unsigned OUTLIER_KEYS = PROJECT_THREADS / WARP * OUTLIERS;
typedef uint64_t OutlierKeys[OUTLIER_KEYS];

// outliers (n, OUTLIERS) of n rows, row_of(i) of them with `cols` columns, by all threads of a
// block, which all see them afterwards. Both arrays are shared memory; n is at most the number of
// warps.
template <class RowOf>
static __device__ __forceinline__ void find_outliers(Outlier *outliers, OutlierKeys *shared,
                                                     unsigned n, unsigned cols,
                                                     const RowOf &row_of) {
    static_assert(OUTLIER_KEYS <= (unsigned)WARP, "a lane for each");
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (unsigned i = 0; i < n; i++) {
        Largest largest = {};
        for_quads(row_of(i), 0, cols, [&](const float4 &x, unsigned j, bool is_inside) {
            if (is_inside) meet_quad(largest, x, j);
        });
        uint64_t keys[OUTLIERS] = {outlier_key(largest, 0), outlier_key(largest, 1)};
        warp_outliers(keys);
        if (lane < OUTLIERS) shared[i][warp * OUTLIERS + lane] = lane ? keys[1] : keys[0];
    }
    __syncthreads();
    if (warp < n) { // a warp for each row: of the warps' outliers those of the block
        uint64_t keys[OUTLIERS] = {lane < OUTLIER_KEYS ? shared[warp][lane] : 0, 0};
        warp_outliers(keys);
        if (lane < OUTLIERS)
            outliers[warp * OUTLIERS + lane] = outlier_of(row_of(warp), lane ? keys[1] : keys[0]);
    }
    __syncthreads();
}

// ---- activations as integers ----

// A row of x on its way to integers: from which columns its outliers were taken.
struct OutlierColumns {
    uint32_t columns[OUTLIERS]; // UINT32_MAX: none
};

static __device__ __forceinline__ OutlierColumns outlier_columns(const Outlier *outliers) {
    OutlierColumns taken;
    UNROLL
    for (int o = 0; o < OUTLIERS; o++)
        taken.columns[o] = outliers[o].x != 0.0f ? outliers[o].column : UINT32_MAX;
    return taken;
}

enum { EIGHT = 8 }; // columns of a lane

static __device__ __forceinline__ void without_outliers(float (&x)[EIGHT], unsigned j,
                                                        const OutlierColumns &taken) {
    UNROLL
    for (unsigned o = 0; o < OUTLIERS; o++) {
        if (taken.columns[o] - j >= EIGHT) continue; // below j too: it wraps around
        UNROLL
        for (unsigned b = 0; b < EIGHT; b++)
            if (taken.columns[o] == j + b) x[b] = 0.0f;
    }
}

// The bits of the largest |x| of a group, whose four lanes all have it.
static __device__ __forceinline__ uint32_t group_magnitude(const float (&x)[EIGHT]) {
    uint32_t magnitudes[EIGHT];
    UNROLL
    for (unsigned b = 0; b < EIGHT; b++)
        magnitudes[b] = bits_of(x[b]) & MAGNITUDE_BITS;
    uint32_t largest = largest_of(magnitudes, EIGHT);
    UNROLL
    for (int lanes = 2; lanes; lanes /= 2) {
        uint32_t other = __shfl_xor_sync(ALL_LANES, largest, lanes);
        largest = other > largest ? other : largest;
    }
    return largest;
}

// The digits of eight integers, four to a word.
struct Digits {
    uint32_t low[2], high[2];
};

// Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the lower bits:
//     z + 0x4b400000 = .. | high, less one where low is negative | low
static __device__ __forceinline__ Digits digits_of_eight(const float (&x)[EIGHT], float inverse) {
    Digits digits;
    UNROLL
    for (unsigned q = 0; q < 2; q++) {
        uint32_t z[QUAD], above[QUAD];
        UNROLL
        for (unsigned b = 0; b < QUAD; b++) {
            z[b] = bits_of(x[q * QUAD + b] * inverse + 12582912.0f);
            above[b] = (z[b] + 128) >> 8;
        }
        digits.low[q] = first_bytes(z), digits.high[q] = first_bytes(above);
    }
    return digits;
}

static __device__ __forceinline__ int sum_of_digits(const uint32_t (&words)[2]) {
    constexpr int ONES = 0x01010101;
    return dot4((int)words[0], ONES, dot4((int)words[1], ONES, 0));
}

// Eight of the 32 activations of a group as integers (precision.h), by four neighbouring lanes of a
// whole warp. `quads`: columns j .. j + 7 of their row; `at`: of the first integer; `is_stored`:
// false for lanes that come along for the shuffles alone.
static __device__ __forceinline__ void quantise_eight(const QuantisedRows &out,
                                                      const float4 (&quads)[2], unsigned j,
                                                      const OutlierColumns &taken, size_t at,
                                                      int levels, bool is_stored) {
    float x[EIGHT] = {quads[0].x, quads[0].y, quads[0].z, quads[0].w,
                      quads[1].x, quads[1].y, quads[1].z, quads[1].w};
    without_outliers(x, j, taken);
    uint32_t magnitude = group_magnitude(x);
    bool is_finite = magnitude < INFINITE;
    float d = is_finite ? float_of(magnitude) / (float)levels : NAN;
    bool usable = d >= 1.17549435e-38f; // FLT_MIN; false for NaN too
    Digits digits = digits_of_eight(x, usable ? 1.0f / d : 0.0f);
    if (!is_finite) digits = Digits{};
    int sum = sum_of_digits(digits.low) + 256 * sum_of_digits(digits.high);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    int other = __shfl_xor_sync(ALL_LANES, sum, 2);
    if (!is_stored) return;
    size_t index = swizzle_digit(at);
    *(uint64_t *)(out.low + index) = digits.low[0] | (uint64_t)digits.low[1] << 32;
    if (out.high) *(uint64_t *)(out.high + index) = digits.high[0] | (uint64_t)digits.high[1] << 32;
    if (at % CHUNK) return;
    out.scales[at / CHUNK] = usable || !is_finite ? d : 0.0f;
    out.sums[at / CHUNK] = int2{sum, other};
}

// Columns first .. end - 1 of a row, by all threads of a block, from integer `at` on. `also`: what
// is done with each eight besides.
template <class Row, class Also>
static __device__ __forceinline__ void
quantise_row(const QuantisedRows &out, const Row &row, unsigned first, unsigned end,
             const OutlierColumns &taken, size_t at, int levels, const Also &also) {
    for_columns<EIGHT, QUADS>(
        row, first, end, [&](const float4(&quads)[2], unsigned j, bool is_inside) {
            quantise_eight(out, quads, j, taken, at + (j - first), levels, is_inside);
            if (is_inside) also(quads, j);
        });
}

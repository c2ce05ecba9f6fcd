// Loops that do one thing as fast as this instruction set can: read, or multiply and add in
// registers. They are made of the operations of simd.h that the kernels multiply with, so no kernel
// is faster.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd.h"
#if defined(ISA_avx512) && defined(WITH_AMX)
#include "kernels/cpu/lanes/tiles.h"
#endif

// Sums that do not wait for each other: enough to hide the latency of the instruction, few enough
// to stay in registers beside its operands and products.
// An F32x16 is one register of 32 with AVX-512, two of 16 with AVX2, four of 32 with NEON and four
// of 16 with SSE.
#if defined(ISA_avx512)
enum { FLOAT_CHAINS = 12, INTEGER_CHAINS = 12 };
#elif defined(ISA_avx2)
enum { FLOAT_CHAINS = 6, INTEGER_CHAINS = 4 };
#elif defined(SIMD_NEON)
enum { FLOAT_CHAINS = 5, INTEGER_CHAINS = 4 };
#else
enum { FLOAT_CHAINS = 3, INTEGER_CHAINS = 2 };
#endif

// The same value, but the compiler does not know that: a product is not computed once for all.
ALWAYS_INLINE I16x32 unknown(I16x32 x) {
#if defined(ISA_avx512)
    __asm__ volatile("" : "+v"(x));
#elif defined(ISA_avx2)
    __asm__ volatile("" : "+x"(x.a), "+x"(x.b));
#elif defined(SIMD_NEON)
    __asm__ volatile("" : "+w"(x.a), "+w"(x.b), "+w"(x.c), "+w"(x.d));
#else
    __asm__ volatile("" : "+m"(x));
#endif
    return x;
}

// Takes a result, so that the loop before it is not left out.
ALWAYS_INLINE void use_integers(I32x16 x) {
    volatile int32_t result = i32_sum(x);
    (void)result;
}

// s = 0.999 s + 0.001 comes to rest near 1: it never overflows and never becomes subnormal, which
// could be slow.
static void peak_float32(long repetitions) {
    F32x16 sums[FLOAT_CHAINS], x = f32_set(0.999f), y = f32_set(1e-3f);
    for (int i = 0; i < FLOAT_CHAINS; i++)
        sums[i] = f32_set((float)i);
    for (long r = 0; r < repetitions; r++) {
        UNROLL(12)
        for (int i = 0; i < FLOAT_CHAINS; i++)
            sums[i] = f32_fma(sums[i], x, y);
    }
    for (int i = 1; i < FLOAT_CHAINS; i++)
        sums[0] = f32_add(sums[0], sums[i]);
    volatile float result = f32_sum(sums[0]);
    (void)result;
}

// `unknown` on an operand in every step: else all steps would have the same product, and one
// multiplication would do for the whole loop.
static void peak_int16(long repetitions) {
    I32x16 sums[INTEGER_CHAINS];
    I16x32 x = i16_set(1), y = unknown(x);
    for (int i = 0; i < INTEGER_CHAINS; i++)
        sums[i] = i32_zero();
    for (long r = 0; r < repetitions; r++) {
        UNROLL(12)
        for (int i = 0; i < INTEGER_CHAINS; i++) {
            sums[i] = i32_dot(sums[i], x, y);
            y = unknown(y);
        }
    }
    for (int i = 1; i < INTEGER_CHAINS; i++)
        sums[0] = i32_add(sums[0], sums[i]);
    use_integers(sums[0]);
}

static void peak_int8(long repetitions) {
    ByteSums sums[INTEGER_CHAINS];
    I16x32 x = i16_set(0x0101), y = unknown(x);
    for (int i = 0; i < INTEGER_CHAINS; i++)
        sums[i] = byte_sums_zero();
    for (long r = 0; r < repetitions; r++) {
        UNROLL(12)
        for (int i = 0; i < INTEGER_CHAINS; i++) {
            sums[i] = byte_sums_add(sums[i], x, y);
            y = unknown(y);
        }
    }
    for (int i = 0; i < INTEGER_CHAINS; i++)
        use_integers(byte_sums_i32(sums[i]));
}

// Four sums, so that the loads and not a chain of additions set the pace; 256 bytes for each turn.
static void read_linear(const void *bytes, size_t size) {
    I32x16 sums[4] = {i32_zero(), i32_zero(), i32_zero(), i32_zero()};
    const int32_t *p = bytes, *end = p + size / sizeof *p;
    for (; p < end; p += 4 * 16) {
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            sums[i] = i32_add(sums[i], i32_load(p + 16 * i));
    }
    use_integers(i32_add(i32_add(sums[0], sums[1]), i32_add(sums[2], sums[3])));
}

// Two vectors of each quarter in turn: 128 bytes of it, two cache lines.
ALWAYS_INLINE void read_quarters(const void *bytes, size_t size, const bool prefetch) {
    I32x16 sums[4] = {i32_zero(), i32_zero(), i32_zero(), i32_zero()};
    const size_t quarter = size / 4 / sizeof(int32_t);
    const int32_t *p = bytes, *end = p + quarter;
    for (; p < end; p += 2 * 16) {
        UNROLL(4)
        for (size_t i = 0; i < 4; i++) {
            const int32_t *at = p + i * quarter;
            if (prefetch) prefetch_l1((const uint8_t *)at + 512, 128);
            if (prefetch) prefetch_l2((const uint8_t *)at + 1536, 128);
            sums[i] = i32_add(sums[i], i32_add(i32_load(at), i32_load(at + 16)));
        }
    }
    use_integers(i32_add(i32_add(sums[0], sums[1]), i32_add(sums[2], sums[3])));
}

static void read_streams(const void *bytes, size_t size) {
    read_quarters(bytes, size, false);
}

// The fastest of the three on a Xeon with AMX: one thread reads memory at 14, 16 and 20 GB/s.
static void read_ahead(const void *bytes, size_t size) {
    read_quarters(bytes, size, true);
}

#if defined(ISA_avx512) && defined(WITH_AMX)
// Four sums of 16 rows by 16 columns, of two tiles of inputs and two of weights. Of 32 products
// each: the instruction takes as long for 64, but no scale group of weights has them.
static void peak_int8_tiles(long repetitions) {
    tiles_configure(TILE_ROWS, CELL_COLS);
    for (long r = 0; r < repetitions; r++) {
        tile_multiply(SUMS_0, LEFT_0, RIGHT_0);
        tile_multiply(SUMS_1, LEFT_0, RIGHT_1);
        tile_multiply(SUMS_2, LEFT_1, RIGHT_0);
        tile_multiply(SUMS_3, LEFT_1, RIGHT_1);
    }
    tiles_release();
}
#endif

// 16 float32, 32 int16 or 64 bytes to an operation, two operations to a multiply-add.
#define LIMITS(...)                                                                                \
    {                                                                                              \
        .reads = {read_linear, read_streams, read_ahead}, .peaks = {                               \
            [PEAK_FLOAT32] = {peak_float32, 2.0 * 16 * FLOAT_CHAINS},                              \
            [PEAK_INT16] = {peak_int16, 2.0 * 32 * INTEGER_CHAINS},                                \
            [PEAK_INT8] = {peak_int8, 2.0 * 64 * INTEGER_CHAINS},                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
extern const LimitKernels ISA_NAME(limit_kernels);
const LimitKernels ISA_NAME(limit_kernels) = LIMITS();
#if defined(ISA_avx512) && defined(WITH_AMX)
extern const LimitKernels limit_kernels_amx;
const LimitKernels limit_kernels_amx =
    LIMITS([PEAK_INT8_TILES] = {peak_int8_tiles, 8.0 * (TILE_ROWS * PANEL_ROWS * CELL_COLS)});
#endif

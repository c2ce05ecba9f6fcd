// Every loop is written once over vectors of 64 bytes, in GCC's vector notation, and compiled for
// several instruction sets by inlining it into functions with a target; the compiler splits the
// vectors where the registers are narrower. The arithmetic loops need instructions that the
// notation cannot name, so each set has its own step.
#include "commands/bench/loops.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { CHAINS = 12, VECTOR = 64 }; // independent chains hide the latency of an instruction

typedef uint64_t Vector __attribute__((vector_size(VECTOR), aligned(VECTOR)));

static inline __attribute__((always_inline)) double sum_of(const Vector *v) {
    uint64_t lanes[VECTOR / 8], sum = 0;
    memcpy(lanes, v, sizeof lanes);
    for (int i = 0; i < VECTOR / 8; i++)
        sum += lanes[i];
    return (double)sum;
}

static inline __attribute__((always_inline)) double linear(const LoopWork *work) {
    Vector a = {0}, b = a, c = a, d = a;
    for (long r = 0; r < work->repetitions; r++) {
        const Vector *p = work->bytes, *end = p + work->size / VECTOR;
        for (; p < end; p += 4) {
            a += p[0];
            b += p[1];
            c += p[2];
            d += p[3];
        }
        __asm__ volatile("" ::: "memory"); // the next repetition reads again
    }
    a += b + c + d;
    return sum_of(&a);
}

static inline __attribute__((always_inline)) double streams(const LoopWork *work) {
    Vector a = {0}, b = a, c = a, d = a;
    size_t quarter = work->size / VECTOR / 4;
    for (long r = 0; r < work->repetitions; r++) {
        const Vector *p = work->bytes, *end = p + quarter;
        for (; p < end; p += 2) {
            a += p[0] + p[1];
            b += p[quarter] + p[quarter + 1];
            c += p[2 * quarter] + p[2 * quarter + 1];
            d += p[3 * quarter] + p[3 * quarter + 1];
        }
        __asm__ volatile("" ::: "memory");
    }
    a += b + c + d;
    return sum_of(&a);
}

static double linear_portable(const LoopWork *work) {
    return linear(work);
}

static double streams_portable(const LoopWork *work) {
    return streams(work);
}

// 8 floats (or 16 bytes) in each chain, as arrays: what the compiler makes of it is the peak.
static double fp32_portable(const LoopWork *work) {
    float chain[CHAINS][8], sum = 0;
    for (int i = 0; i < CHAINS; i++)
        for (int j = 0; j < 8; j++)
            chain[i][j] = (float)i;
    for (long r = 0; r < work->repetitions; r++)
        for (int i = 0; i < CHAINS; i++)
            for (int j = 0; j < 8; j++)
                chain[i][j] = chain[i][j] * 0.999f + 1e-3f;
    for (int i = 0; i < CHAINS; i++)
        sum += chain[i][0] + chain[i][7];
    return sum;
}

static double int8_portable(const LoopWork *work) {
    int32_t chain[CHAINS][8], sum = 0;
    int8_t a[32], b[32];
    memset(chain, 0, sizeof chain);
    memset(a, 3, sizeof a);
    memset(b, 5, sizeof b);
    for (long r = 0; r < work->repetitions; r++) {
        __asm__ volatile("" : "+m"(a), "+m"(b));
        for (int i = 0; i < CHAINS; i++)
            for (int j = 0; j < 32; j++)
                chain[i][j / 4] += a[j] * b[j];
    }
    for (int i = 0; i < CHAINS; i++)
        sum += chain[i][0] & 0xff;
    return sum;
}

#ifdef __x86_64__

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512vnni")))

static AVX2 double linear_avx2(const LoopWork *work) {
    return linear(work);
}

static AVX2 double streams_avx2(const LoopWork *work) {
    return streams(work);
}

static AVX512 double linear_avx512(const LoopWork *work) {
    return linear(work);
}

static AVX512 double streams_avx512(const LoopWork *work) {
    return streams(work);
}

// The empty asm makes x unknown again, so that no repetition can be left out.
static AVX2 double fp32_avx2(const LoopWork *work) {
    __m256 chain[CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = _mm256_set1_ps((float)i);
    for (long r = 0; r < work->repetitions; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            chain[i] = _mm256_fmadd_ps(chain[i], x, y);
        __asm__ volatile("" : "+x"(x));
    }
    for (int i = 1; i < CHAINS; i++)
        chain[0] = _mm256_add_ps(chain[0], chain[i]);
    return (double)_mm256_cvtss_f32(chain[0]);
}

static AVX2 double int8_avx2(const LoopWork *work) {
    __m256i chain[CHAINS], x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = _mm256_set1_epi8((char)i);
    for (long r = 0; r < work->repetitions; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            __m256i products = _mm256_maddubs_epi16(x, chain[i]);
            chain[i] = _mm256_add_epi32(chain[i], _mm256_madd_epi16(products, ones));
        }
        __asm__ volatile("" : "+x"(x));
    }
    for (int i = 1; i < CHAINS; i++)
        chain[0] = _mm256_add_epi32(chain[0], chain[i]);
    return (double)_mm256_extract_epi32(chain[0], 0);
}

static AVX512 double fp32_avx512(const LoopWork *work) {
    __m512 chain[CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = _mm512_set1_ps((float)i);
    for (long r = 0; r < work->repetitions; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            chain[i] = _mm512_fmadd_ps(chain[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < CHAINS; i++)
        chain[0] = _mm512_add_ps(chain[0], chain[i]);
    return (double)_mm512_reduce_add_ps(chain[0]);
}

static AVX512 double int8_avx512(const LoopWork *work) {
    __m512i chain[CHAINS], x = _mm512_set1_epi32(0x01010101), y = _mm512_set1_epi32(0x02020202);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = _mm512_set1_epi32(i);
    for (long r = 0; r < work->repetitions; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            chain[i] = _mm512_dpbusd_epi32(chain[i], x, y);
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < CHAINS; i++)
        chain[0] = _mm512_add_epi32(chain[0], chain[i]);
    return (double)_mm512_reduce_add_epi32(chain[0]);
}

static int level(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni")) return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

Loop *loop_of(LoopId id) {
    static Loop *const LOOPS[3][LOOP_COUNT] = {
        {linear_portable, streams_portable, fp32_portable, int8_portable},
        {linear_avx2, streams_avx2, fp32_avx2, int8_avx2},
        {linear_avx512, streams_avx512, fp32_avx512, int8_avx512},
    };
    return LOOPS[level()][id];
}

#else

static int level(void) {
    return 0;
}

Loop *loop_of(LoopId id) {
    static Loop *const LOOPS[LOOP_COUNT] = {linear_portable, streams_portable, fp32_portable,
                                            int8_portable};
    return LOOPS[id];
}

#endif

double loop_operations(LoopId id) {
    int bytes = level() == 2 ? 64 : 32; // of a register; portable chains are as wide as AVX2's
    if (id == LOOP_FP32) return 2.0 * CHAINS * bytes / 4;
    if (id == LOOP_INT8) return 2.0 * CHAINS * bytes;
    return 0;
}

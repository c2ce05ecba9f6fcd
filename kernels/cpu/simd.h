// Sixteen lanes: the few vector operations that every kernel in lanes/ is written with.
//
// A kernel file is compiled once per instruction set (portable; avx2, avx512; neon, dotprod, i8mm);
// each set implements the same operations in one header, and every operation gives the same bits in
// all of them. So a kernel is one algorithm with one result, and a machine without AVX-512 still
// tests it.
//
//     F32x16  sixteen floats          I32x16  sixteen int32
//     I16x32  thirty-two int16: for the dot products, two neighbours per lane of an I32x16
//     Mask16  one truth value per lane
//
// f32_max and f32_min return their second operand where either is NaN, as the x86 instructions do.
// f32_sum and f32_largest fold in halves: lane i with i + 8, then + 4, + 2, + 1.
//
// A vector is four groups of four lanes; a0 .. a3 are one of them:
//
//     f32_interleave_low(a, b)     a0 b0 a1 b1
//     f32_interleave_high(a, b)    a2 b2 a3 b3
//     f32_transpose_groups(x)       of four vectors: group j of x[i] becomes group i of x[j]
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

// Before a loop over registers of at most n iterations, so that every iteration has registers of
// its own. Clang needs "full": a count makes it unroll too late for arrays to become registers. In
// portable C a lane operation is itself a loop and is not unrolled.
#define UNROLL_PRAGMA_(text) _Pragma(#text)
#if defined(ISA_portable)
#define UNROLL(n)
#elif defined(__clang__)
#define UNROLL(n) UNROLL_PRAGMA_(clang loop unroll(full))
#else
#define UNROLL(n) UNROLL_PRAGMA_(GCC unroll n)
#endif

#if defined(ISA_avx512)
#include "kernels/cpu/simd_avx512.h"
#elif defined(ISA_avx2)
#include "kernels/cpu/simd_avx2.h"
#elif defined(ISA_neon) || defined(ISA_dotprod) || defined(ISA_i8mm)
#include "kernels/cpu/simd_neon.h"
#elif defined(ISA_portable)
#include "kernels/cpu/simd_portable.h"
#else
#error "compile lanes/*.c with -DISA=set -DISA_set=1"
#endif

// ISA_NAME(x): x_avx2 and so on: the name under which a lanes/ file exports its table.
#define ISA_PASTE_(name, isa) name##_##isa
#define ISA_PASTE(name, isa) ISA_PASTE_(name, isa)
#define ISA_NAME(name) ISA_PASTE(name, ISA)

// e^x for x <= 88: the bits of exp_float (kernels/precision.h), which says how.
static inline F32x16 f32_exp_below(F32x16 x) {
    F32x16 n = f32_round(f32_mul(x, f32_set(1.44269504f)));
    F32x16 r = f32_fma(n, f32_set(-0.693359375f), x);
    r = f32_fma(n, f32_set(2.12194440e-4f), r);
    F32x16 p = f32_set(1.9875691500e-4f);
    p = f32_fma(p, r, f32_set(1.3981999507e-3f));
    p = f32_fma(p, r, f32_set(8.3334519073e-3f));
    p = f32_fma(p, r, f32_set(4.1665795894e-2f));
    p = f32_fma(p, r, f32_set(1.6666665459e-1f));
    p = f32_fma(p, r, f32_set(5.0000001201e-1f));
    p = f32_add(f32_fma(p, f32_mul(r, r), r), f32_set(1.0f));
    F32x16 y = f32_mul(p, f32_power_of_2(f32_to_i32(n)));
    return f32_choose(f32_less(x, f32_set(-87.0f)), f32_zero(), y);
}

// e^x: the bits of exp_float.
static inline F32x16 f32_exp(F32x16 x) {
    return f32_choose(f32_less(f32_set(88.0f), x), f32_set(INFINITY), f32_exp_below(x));
}

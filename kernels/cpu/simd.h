// Sixteen lanes: the few vector operations that every kernel in lanes/ is written with.
//
// A kernel file is compiled once per instruction set (portable, avx2, avx512); each set implements
// the same operations in one header, and every operation gives the same bits in all of them. So a
// kernel is one algorithm with one result, and a machine without AVX-512 still tests it.
//
//     F32x16  sixteen floats          I32x16  sixteen int32
//     I16x32  thirty-two int16: for the dot products, two neighbours per lane of an I32x16
//     Mask16  one truth value per lane
//
// f32_max and f32_min return their second operand where either is NaN, as the x86 instructions do.
// f32_sum and f32_largest fold in halves: lane i with i + 8, then + 4, + 2, + 1.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(ISA_avx512)
#include "kernels/cpu/simd_avx512.h"
#elif defined(ISA_avx2)
#include "kernels/cpu/simd_avx2.h"
#elif defined(ISA_portable)
#include "kernels/cpu/simd_portable.h"
#else
#error "compile lanes/*.c with -DISA=set -DISA_set=1"
#endif

// ISA_NAME(x): x_avx2 and so on: the name under which a lanes/ file exports its table.
#define ISA_PASTE_(name, isa) name##_##isa
#define ISA_PASTE(name, isa) ISA_PASTE_(name, isa)
#define ISA_NAME(name) ISA_PASTE(name, ISA)

static inline F32x16 f32_abs(F32x16 x) {
    return f32_max(x, f32_sub(f32_zero(), x));
}

// e^x, error below 1 ulp or so: x = n ln 2 + r, |r| <= ln 2 / 2, a polynomial for e^r (Taylor to
// r^7, remainder 5e-9 relative), and 2^n in two factors, so that subnormal results round once.
// 0 below -104, infinity above 88.73, NaN stays NaN.
static inline F32x16 f32_exp(F32x16 x) {
    x = f32_min(f32_set(89.0f), f32_max(f32_set(-104.0f), x));
    F32x16 n = f32_round(f32_mul(x, f32_set(1.44269504088896341f)));
    F32x16 r = f32_fma(n, f32_set(-0.693359375f), x); // ln 2 in two parts, the first exact in n
    r = f32_fma(n, f32_set(2.12194440054690583e-4f), r);
    F32x16 p = f32_set(1.0f / 5040.0f);
    p = f32_fma(p, r, f32_set(1.0f / 720.0f));
    p = f32_fma(p, r, f32_set(1.0f / 120.0f));
    p = f32_fma(p, r, f32_set(1.0f / 24.0f));
    p = f32_fma(p, r, f32_set(1.0f / 6.0f));
    p = f32_fma(p, r, f32_set(0.5f));
    p = f32_fma(p, r, f32_set(1.0f));
    p = f32_fma(p, r, f32_set(1.0f));
    I32x16 whole = f32_to_i32(n), half = i32_shift_right(whole, 1);
    return f32_mul(f32_mul(p, f32_power_of_2(half)), f32_power_of_2(i32_sub(whole, half)));
}

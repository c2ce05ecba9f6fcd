// tanh and erf on sixteen lanes, the same bits on every instruction set. Coefficients: Lawson fits
// of our own in double precision, rounded to float.
#pragma once

#include "kernels/cpu/simd.h"

// `magnitude` with the sign of x.
static inline F32x16 f32_with_sign(F32x16 magnitude, F32x16 x) {
    return f32_choose(f32_less(x, f32_zero()), f32_sub(f32_zero(), magnitude), magnitude);
}

// Within 2 units in the last place. Near 0, x + x z P(z) with z = x^2; else 1 - 2 / (e^2|x| + 1).
static inline F32x16 f32_tanh(F32x16 x) {
    F32x16 size = f32_abs(x), z = f32_mul(x, x), one = f32_set(1.0f);
    // P, highest power first (Horner's scheme), in |x| < 0.625. Beyond, e^2|x| >= 3.49, so that the
    // difference from 1 loses no digits that count.
    F32x16 p = f32_set(-5.717036780e-3f);
    p = f32_fma(p, z, f32_set(2.065057866e-2f));
    p = f32_fma(p, z, f32_set(-5.374349654e-2f));
    p = f32_fma(p, z, f32_set(1.333149076e-1f));
    p = f32_fma(p, z, f32_set(-3.333328366e-1f));
    F32x16 small = f32_fma(f32_mul(x, z), p, x);
    F32x16 e = f32_exp(f32_add(size, size));
    F32x16 large = f32_sub(one, f32_div(f32_set(2.0f), f32_add(e, one)));
    return f32_choose(f32_less(size, f32_set(0.625f)), small, f32_with_sign(large, x));
}

// Within 2 units in the last place. Near 0, x + x P(x^2); else 1 - e^-(t + t Q(t)) with t = |x|,
// where t + t Q(t) = -log erfc(t).
static inline F32x16 f32_erf(F32x16 x) {
    // Beyond 4 erf(t) rounds to 1 in float32.
    F32x16 t = f32_min(f32_set(4.0f), f32_abs(x)), z = f32_mul(x, x);
    F32x16 p = f32_set(-5.886773579e-4f);
    p = f32_fma(p, z, f32_set(4.973116796e-3f));
    p = f32_fma(p, z, f32_set(-2.675333433e-2f));
    p = f32_fma(p, z, f32_set(1.128146648e-1f));
    p = f32_fma(p, z, f32_set(-3.761246204e-1f));
    p = f32_fma(p, z, f32_set(1.283791512e-1f));
    F32x16 small = f32_fma(p, x, x);
    F32x16 q = f32_set(1.076336048e-5f);
    q = f32_fma(q, t, f32_set(-3.180614731e-4f));
    q = f32_fma(q, t, f32_set(3.622925607e-3f));
    q = f32_fma(q, t, f32_set(-2.372019924e-2f));
    q = f32_fma(q, t, f32_set(1.061876267e-1f));
    q = f32_fma(q, t, f32_set(6.351814866e-1f));
    q = f32_fma(q, t, f32_set(1.286409646e-1f));
    F32x16 tail = f32_exp(f32_sub(f32_zero(), f32_fma(q, t, t)));
    F32x16 large = f32_with_sign(f32_sub(f32_set(1.0f), tail), x);
    return f32_choose(f32_less(t, f32_set(0.9375f)), small, large);
}

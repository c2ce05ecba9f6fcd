// The body of log_double (precision.h), apart from it for the same reason as exp_float.h. The C
// libraries of two machines, and that of a GPU, may round a logarithm to different neighbours, and
// typical_p sorts tokens by it.
//
// Products and sums are rounded one by one: there is no fma here, which a processor without the
// instruction would take a hundred times as long for, and no compiler may make one
// (-ffp-contract=off, nvcc's -fmad=false).
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef DEVICE_FUNCTION
#define DEVICE_FUNCTION
#endif

DEVICE_FUNCTION static inline double log_double_inline(double x) {
    if (!(x > 0.0)) return x == 0.0 ? -INFINITY : NAN;
    if (x > DBL_MAX) return x;
    int64_t k = 0, bits;
    if (x < DBL_MIN) x *= 0x1p54, k = -54;
    // The exponent is counted from sqrt(1/2), whose bits are taken away: what is left of them above
    // the mantissa is a whole number, also below 0.
    memcpy(&bits, &x, sizeof bits);
    int64_t above = bits - 0x3fe6a09e667f3bcd;
    int64_t exponent = (above - (above & 0xfffffffffffff)) / 0x10000000000000;
    bits -= exponent * 0x10000000000000;
    k += exponent;
    double m;
    memcpy(&m, &bits, sizeof m);
    // ln m = 2 artanh s = 2 s (1 + s^2/3 + s^4/5 + ..), and 2 s = f - s f: f is exact, and all that
    // is rounded is at most a sixth of it. s^2 is below 0.0295: the next term would be 2^-60 of R.
    double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double r = 2.0 / 21.0;
    r = r * z + 2.0 / 19.0;
    r = r * z + 2.0 / 17.0;
    r = r * z + 2.0 / 15.0;
    r = r * z + 2.0 / 13.0;
    r = r * z + 2.0 / 11.0;
    r = r * z + 2.0 / 9.0;
    r = r * z + 2.0 / 7.0;
    r = r * z + 2.0 / 5.0;
    r = r * z + 2.0 / 3.0;
    r = r * z;
    // ln 2 in two parts: the product of the first, of 40 bits, with k is exact.
    double high = (double)k * 0x1.62e42fefa2000p-1, low = (double)k * 0x1.9ef35793c7673p-41;
    return high + (f - (s * (f - r) - low));
}

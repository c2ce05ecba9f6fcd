// The arithmetic of the three precisions: what "the same bits" means. Shared by every backend.
//
// Weights with 32-element blocks (Q4_0 .. Q8_0) have one scale per 32, K-quants per 16 or 32.
//
// f32:      w is dequantised as weights/quant.h says, then acc = fmaf(w[k], x[k], acc) for k
//           ascending, acc starting at 0.
//           Float weights (F32, F16, BF16) do the same, in f32 and in a16.
// a16, a8:  first the OUTLIERS elements of the row x with the largest |x| (finite ones; the lowest
//           column among equals) are extracted, one by one, and replaced by 0: they would make the
//           quantisation steps of their neighbours coarse (Dettmers et al. 2022, LLM.int8(), arXiv
//           2208.07339). The row is then cut into groups of 32; of each group
//             amax = max |x|,  d = amax / LEVELS,  z = rint(x * (1 / d)) (ties to even)
//           with LEVELS 32639 (a16) or 127 (a8); all z are 0 where d is below FLT_MIN, and d is NaN
//           where any x is not finite. Then for every scale group of the weights (16 or 32
//           elements, in order), with isum = sum of q * z exact in int32 (q centred: Q4_0's q - 8,
//           Q5_0's q - 16, Q3_K's q - 4, Q6_K's q - 32):
//             acc = fmaf((float)isum, s * d, acc)
//           where s is the scale of the group in float32: the block's d, or d * sc (one product)
//           for K-quants. Affine types (Q4_1, Q5_1: + m; Q2_K, Q4_K, Q5_K: - dmin * sm) then also
//             acc = fmaf(m, d * (float)sum_z, acc)      m or -(dmin * sm), sum_z over the group.
//           The outliers come last, in the order in which they were extracted:
//             acc = fmaf(w, x, acc),   w = (float)q * s, of affine types fmaf((float)q, s, m).
// Q8_GROUP, whose scale groups have any size: one such step for every run of elements that share
// a scale of the weights and a scale of the activations.
// a8 with float weights: x is rounded to bf16 (nearest even), F32 and F16 weights too; then
//           acc = fmaf(w[k], x[k], acc) for k ascending, in float32. (A backend may be more exact.)
// cuda: the same steps, but each lane of a warp has every 32nd group, and their sums are added up.
// cuda, many rows of x at a time (project_blas.cu): float32 sums in the order of cuBLASLt, of
//           numbers in bf16 parts: of |w| |x| within 2^-7 in a8 and 3 * 2^-16 in a16. There no
//           outlier is extracted, and x meets F16 and BF16 weights in two bf16 parts.
// Bias comes last: acc + bias.
//
// z as an int16 is also two signed bytes, z = 256 h + l with l in -128 .. 127: |z| <= 32639 keeps h
// in -127 .. 127.
#pragma once

#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

// As options and files spell them: "f32", "a16", "a8"; "f32", "f16", "bf16".
const char *precision_name(Precision precision);
const char *kv_name(KvType type);

// A number of the cache: its bytes, and the types of 16 bits, rounded to nearest, ties to even.
size_t kv_element_bytes(KvType type);
uint16_t kv_narrow(KvType type, float x);
float kv_widen(KvType type, uint16_t bits);

enum { ACTIVATION_GROUP = 32, A16_LEVELS = 32639, A8_LEVELS = 127, OUTLIERS = 2 };

// An extracted element; column 0 and 0.0 where the rest of the row is zeros.
typedef struct Outlier {
    uint32_t column;
    float x;
} Outlier;

// z[count], per group of 32 (the last may be shorter) scale and sum of z, and outliers[OUTLIERS],
// as defined above.
void activation_quantise(int16_t *z, float *scales, int32_t *sums, Outlier *outliers,
                         const float *x, size_t count, int levels);

// e^x within 2 units in the last place, the same bits everywhere: what `sample` is defined by.
//   0 below -87, +infinity above 88, NaN stays NaN;   else with n = rint(x * log2(e)),
//   r = x - n ln 2 in two steps: (1 + r + r^2 P(r)) 2^n, P of degree 5 (Cephes), all by fmaf.
float exp_float(float x);

// ln x within 1.5 units in the last place, the same bits everywhere: what typical_p is defined by.
//   -infinity of 0, NaN of what is below, infinity and NaN stay;   else x = m 2^k with m in
//   sqrt(1/2) .. sqrt(2), f = m - 1, s = f / (2 + f):
//   k ln 2 + f - s (f - R),   R = 2/3 s^2 + 2/5 s^4 + .. + 2/21 s^20, in double without fma.
double log_double(double x);

// Conversions and functions on all of their inputs, beside double: tests/support/exhaustive.h says
// how it is called. All of it takes up to an hour on two cores.
//
// The wanted value comes from double, where it is exact or far more exact than float32, or from
// portable C where instruction sets are compared.
#define ISA portable
#define ISA_portable 1
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/precision.h"
#include "tests/support/exhaustive.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

static bool same_or_nan(float a, float b) {
    return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

// ---- 16-bit numbers ----

static double bf16_value(uint16_t h) {
    return (double)float_of_bits((uint32_t)h << 16);
}

// The nearest number with `bits` of mantissa and exponents from `least` on, ties to even; from
// `limit` on infinity.
static double nearest(float x, int bits, int least, double limit) {
    if (!isfinite(x) || x == 0) return (double)x;
    int exponent = ilogb((double)x);
    double unit = ldexp(1, (exponent < least ? least : exponent) - bits);
    double y = nearbyint((double)x / unit) * unit;
    return fabs(y) >= limit ? copysign((double)INFINITY, (double)x) : y;
}

static double differs(double got, double wanted) {
    bool same = isnan(wanted) ? isnan(got) : got == wanted && !signbit(got) == !signbit(wanted);
    return same ? 0 : 1;
}

static void to_half(Range r, Tally *t) {
    for (uint64_t b = r.first; b < r.end; b += r.every) {
        float x = float_of_bits((uint32_t)b);
        tally_take(t, differs(half_value(float_to_half(x)), nearest(x, 10, -14, 65536)), 0, x,
                   NULL);
    }
}

static void to_bf16(Range r, Tally *t) {
    for (uint64_t b = r.first; b < r.end; b += r.every) {
        float x = float_of_bits((uint32_t)b);
        tally_take(t, differs(bf16_value(float_to_bf16(x)), nearest(x, 7, -126, 0x1p128)), 0, x,
                   NULL);
    }
}

static void from_16_bits(Range r, Tally *t) {
    (void)r;
    for (int h = 0; h < 65536; h++) {
        double half = (double)half_to_float((uint16_t)h), bf16 = (double)bf16_to_float((uint16_t)h);
        tally_take(t, differs(half, half_value((uint16_t)h)), 0, (float)h, "half");
        tally_take(t, differs(bf16, bf16_value((uint16_t)h)), 0, (float)h, "bf16");
    }
}

// ---- functions, in units in the last place ----

static double ulps(float got, double wanted) {
    if (isnan(wanted)) return isnan(got) ? 0 : 1e9;
    if ((double)got == wanted) return 0;
    int exponent = wanted == 0 ? -126 : ilogb(wanted);
    return fabs((double)got - wanted) / ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
}

// Below -87 and above 88 exp_float is 0 and infinity by its definition.
static double defined_exp(double x) {
    return x < -87 ? 0 : x > 88 ? (double)INFINITY : exp(x);
}

// The next inputs of a range, up to 16, into x; returns their number, 0 at its end.
static int next_lanes(uint64_t *b, Range r, float *x) {
    int n = 0;
    for (; n < 16 && *b < r.end; *b += r.every)
        x[n++] = float_of_bits((uint32_t)*b);
    return n;
}

static void all_exp(Range r, Tally *t) {
    float x[16] = {0}, lanes[16];
    uint64_t b = r.first;
    for (int n; (n = next_lanes(&b, r, x));) {
        f32_store(lanes, f32_exp(f32_load(x)));
        for (int i = 0; i < n; i++) {
            float y = exp_float(x[i]);
            tally_take(t, ulps(y, defined_exp((double)x[i])), 2, x[i], "exp_float");
            tally_take(t, same_or_nan(lanes[i], y) ? 0 : 1e9, 2, x[i], "lanes");
        }
    }
}

static void beside_double(Range r, Tally *t, F32x16 (*lanes)(F32x16), double (*exact)(double)) {
    float x[16] = {0}, y[16];
    uint64_t b = r.first;
    for (int n; (n = next_lanes(&b, r, x));) {
        f32_store(y, lanes(f32_load(x)));
        for (int i = 0; i < n; i++)
            tally_take(t, ulps(y[i], exact((double)x[i])), 2, x[i], NULL);
    }
}

static void all_tanh(Range r, Tally *t) {
    beside_double(r, t, f32_tanh, tanh);
}

static void all_erf(Range r, Tally *t) {
    beside_double(r, t, f32_erf, erf);
}

// ---- the kernels of every instruction set ----

enum { RUN = 4096, WAYS = 5 }; // inputs of a call; activations and tanh

static void apply(const RowKernels *k, int way, float *x) {
    if (way < 4)
        k->activate(x, NULL, RUN, (ActivationKind)way);
    else
        k->softcap(x, RUN, 1); // tanh
}

// The bits of portable C, for all activations and tanh.
static void instruction_sets(Range r, Tally *t) {
    const CpuKernels *list[MOST_SETS];
    size_t count = supported_sets(list);
    float x[RUN], wanted[RUN], got[RUN];
    for (uint64_t b = r.first; b < r.end;) {
        int n = 0;
        memset(x, 0, sizeof x);
        for (; n < RUN && b < r.end; n++, b += r.every)
            x[n] = float_of_bits((uint32_t)b);
        for (int way = 0; way < WAYS; way++) {
            memcpy(wanted, x, sizeof x);
            apply(list[count - 1]->rows, way, wanted);
            for (size_t l = 0; l + 1 < count; l++) {
                memcpy(got, x, sizeof x);
                apply(list[l]->rows, way, got);
                bool equal = !memcmp(got, wanted, sizeof got);
                for (int i = 0; i < n; i++)
                    tally_take(t, equal || same_or_nan(got[i], wanted[i]) ? 0 : 1, 0, x[i],
                               list[l]->name);
            }
        }
    }
}

// What a cache gets: 16 values of one position, as attention's kernel writes them.
static void cached(const CpuKernels *isa, KvType type, const float *x, uint16_t *to) {
    Kv kv = {.shape = {.n_layers = 1,
                       .n_sequences = 1,
                       .n_kv_heads = 1,
                       .head_dim = 16,
                       .max_seq_len = 16,
                       .type = type},
             .element = 2,
             .value_dim = 16};
    unsigned char keys[16 * 16 * sizeof(uint16_t)], values[sizeof keys];
    isa->rows->attention->write(&kv, keys, values, 0, x, x);
    memcpy(to, values, 16 * sizeof *to);
}

static void cache_types(Range r, Tally *t) {
    const CpuKernels *list[MOST_SETS];
    size_t count = supported_sets(list);
    float x[16] = {0};
    uint64_t b = r.first;
    for (int n; (n = next_lanes(&b, r, x));) {
        uint16_t half[16], bf16[16];
        for (size_t l = 0; l < count; l++) {
            cached(list[l], KV_F16, x, half);
            cached(list[l], KV_BF16, x, bf16);
            for (int i = 0; i < n; i++) { // any NaN for a NaN
                bool nan = isnan(x[i]);
                bool good = nan ? isnan(half_value(half[i])) : half[i] == float_to_half(x[i]);
                good = good && (nan ? isnan(bf16_value(bf16[i])) : bf16[i] == float_to_bf16(x[i]));
                tally_take(t, good ? 0 : 1, 0, x[i], list[l]->name);
            }
        }
    }
}

// F16 and BF16 weights as each instruction set's kernels widen them: 65536 rows times 1.
static void weights_of_16_bits(Range r, Tally *t) {
    (void)r;
    static uint16_t all[65536];
    static float out[65536];
    const CpuKernels *list[MOST_SETS];
    size_t count = supported_sets(list);
    for (int h = 0; h < 65536; h++)
        all[h] = (uint16_t)h;
    for (size_t l = 0; l < count; l++) {
        for (DType dtype = DTYPE_F16; dtype <= DTYPE_BF16; dtype++) {
            setenv("LIMPID_ISA", list[l]->name, 1);
            Device *device = device_open(1, PRECISION_F32);
            Matrix matrix = {.dtype = dtype, .rows = 65536, .cols = 1, .data = all};
            float one = 1;
            Projection p = {.out = out, .weight = device_matrix(device, &matrix)};
            device_reserve(device, 1);
            project(device, &one, 1, &p, 1);
            for (int h = 0; h < 65536; h++) {
                double wanted =
                    dtype == DTYPE_F16 ? half_value((uint16_t)h) : bf16_value((uint16_t)h);
                bool good = isnan(wanted) ? isnan(out[h]) : (double)out[h] == wanted;
                tally_take(t, good ? 0 : 1, 0, (float)h, list[l]->name);
            }
            device_close(device);
        }
    }
}

static const Part PARTS[] = {
    {"half", "float32 to half is the nearest, ties to even", to_half, true},
    {"bf16", "float32 to bf16 is the nearest, ties to even", to_bf16, true},
    {"16-bits", "half and bf16 to float32 are exact", from_16_bits, false},
    {"weights", "so are they in the kernels of each set", weights_of_16_bits, false},
    {"cache", "and what each set's attention stores", cache_types, true},
    {"exp", "exp_float, units in the last place (2)", all_exp, true},
    {"tanh", "tanh, units in the last place (2)", all_tanh, true},
    {"erf", "erf, units in the last place (2)", all_erf, true},
    {"sets", "activations have the bits of portable C", instruction_sets, true},
};

int main(int argc, char **argv) {
    return exhaustive(argc, argv, PARTS, sizeof PARTS / sizeof *PARTS);
}

// The cpu backend's exp, tanh and erf in units in the last place against the C library in double,
// its norms against double loops, and the same bits of all of it from every instruction set.
#define ISA portable
#define ISA_portable 1
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/precision.h"
#include "tests/test.h"

// The distance in floats of the size of `wanted`.
static double ulps(float got, double wanted) {
    if (isnan(wanted) || isinf(wanted)) return isnan(got) == isnan(wanted) ? 0 : 1e9;
    float size = fmaxf(fabsf((float)wanted), 0x1p-126f);
    double unit = nextafterf(size, INFINITY) - size;
    return fabs(got - wanted) / unit;
}

static float one(F32x16 f(F32x16), float x) {
    return f(f32_set(x)).v[0];
}

static double worst_of(F32x16 f(F32x16), double wanted(double), float low, float high) {
    double worst = 0;
    for (int i = 0; i <= 400000; i++) {
        float x = low + (high - low) * (float)i / 400000;
        worst = fmax(worst, ulps(one(f, x), wanted((double)x)));
    }
    for (float x = 1e-38f; x < high; x *= 1.01f)
        worst = fmax(worst, ulps(one(f, x), wanted((double)x)));
    return worst;
}

Test(cpu_math, exp_is_within_two_units) {
    double worst = worst_of(f32_exp, exp, -86.9f, 87.9f);
    CHECK(worst <= 2, "%g", worst);
    CHECK(one(f32_exp, 0) == 1 && one(f32_exp, -INFINITY) == 0 && one(f32_exp, -88) == 0, "0");
    CHECK(one(f32_exp, INFINITY) == INFINITY && one(f32_exp, 89) == INFINITY, "infinity");
    CHECK(isnan(one(f32_exp, NAN)), "NaN");
}

Test(cpu_math, exp_has_the_bits_that_sampling_is_defined_by) {
    TestRandom random = {1};
    for (int i = 0; i < 300000; i++) {
        float x = test_random_float(&random, -90, 90), a = one(f32_exp, x), b = exp_float(x);
        CHECK(memcmp(&a, &b, sizeof a) == 0, "%.9g: %.9g, not %.9g", x, a, b);
    }
}

Test(cpu_math, tanh_is_within_two_units) {
    double worst = fmax(worst_of(f32_tanh, tanh, -12, 12), worst_of(f32_tanh, tanh, -1, 1));
    CHECK(worst <= 2, "%g", worst);
    CHECK(one(f32_tanh, INFINITY) == 1 && one(f32_tanh, -INFINITY) == -1, "infinity");
    CHECK(isnan(one(f32_tanh, NAN)) && one(f32_tanh, -0.0f) == 0, "NaN and -0");
}

Test(cpu_math, erf_is_within_two_units) {
    double worst = fmax(worst_of(f32_erf, erf, -5, 5), worst_of(f32_erf, erf, -1, 1));
    CHECK(worst <= 2, "%g", worst);
    CHECK(one(f32_erf, INFINITY) == 1 && one(f32_erf, -INFINITY) == -1, "infinity");
    CHECK(isnan(one(f32_erf, NAN)), "NaN");
}

// By hand: 2^31 - 128 is the largest float below 2^31; what AVX answers for those that do not fit.
Test(cpu_math, floats_become_the_nearest_integers_that_fit) {
    static const struct {
        float x;
        int32_t wanted;
    } CASES[] = {
        {0, 0},
        {-0.0f, 0},
        {2.5f, 2},
        {3.5f, 4},
        {-2.5f, -2},
        {16777217.0f, 16777216},
        {2147483520.0f, 2147483520},
        {-2147483520.0f, -2147483520},
        {2147483648.0f, INT32_MIN},
        {-2147483648.0f, INT32_MIN},
        {4e9f, INT32_MIN},
        {INFINITY, INT32_MIN},
        {-INFINITY, INT32_MIN},
        {NAN, INT32_MIN},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        CHECK_INT(f32_to_i32(f32_set(CASES[i].x)).v[0], CASES[i].wanted);
}

// ---- rows, on every instruction set ----

enum { COUNT = 3 * 1111, N_OUTPUTS = 11 };
typedef struct Outputs {
    float values[N_OUTPUTS][COUNT];
} Outputs;

// All operations on random rows: 3 rows of 1111, no multiple of anything.
static bool all_operations(const CpuKernels *isa, Outputs *o) {
    TestRandom random = {9};
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    for (int i = 0; i < COUNT; i++) {
        x[i] = 4 * test_random_normal(&random);
        y[i] = test_random_normal(&random);
    }
    x[5] = 0;
    x[6] = -0.0f;
    const RowKernels *k = isa->rows;
    memset(o, 0xff, sizeof *o);
    for (int i = 3; i < N_OUTPUTS; i++)
        memcpy(o->values[i], x, COUNT * sizeof *x);
    k->rmsnorm(o->values[0], x, y, 3, 1111, 1e-5f);
    k->layernorm(o->values[1], x, y, y + 1111, 3, 1111, 1e-5f);
    k->layernorm(o->values[2], x, y, NULL, 3, 1111, 1e-5f);
    for (int kind = ACTIVATE_SILU; kind <= ACTIVATE_RELU2; kind++)
        k->activate(o->values[3 + kind], kind % 2 ? y : NULL, COUNT, (ActivationKind)kind);
    k->add(o->values[7], y, COUNT);
    k->softcap(o->values[8], COUNT, 5);
    k->scale(o->values[10], COUNT, 0.22f);
    k->rope(o->values[9], y, y + 300, 13, 250, 206);
    free(x);
    free(y);
    return true;
}

Test(cpu_math, has_the_same_bits_on_every_instruction_set) {
    size_t count;
    const CpuKernels *const *list = isa_list(&count);
    Outputs *wanted = malloc(sizeof *wanted), *got = malloc(sizeof *got);
    all_operations(list[count - 1], wanted);
    for (size_t i = 0; i + 1 < count; i++) {
        if (!isa_supported(list[i])) continue;
        all_operations(list[i], got);
        for (int o = 0; o < N_OUTPUTS; o++)
            for (int j = 0; j < COUNT; j++)
                CHECK(memcmp(&got->values[o][j], &wanted->values[o][j], sizeof(float)) == 0,
                      "%s, output %d, element %d: %.9g, not %.9g", list[i]->name, o, j,
                      got->values[o][j], wanted->values[o][j]);
    }
    free(wanted);
    free(got);
}

Test(cpu_math, norms_of_any_width_are_the_definition) {
    Device *device = device_open(2, PRECISION_F32);
    TestRandom random = {3};
    float x[700], w[700], b[700], rms[700], layer[700];
    for (int dim = 1; dim <= 700; dim += dim < 140 ? 1 : 47) {
        double squares = 0, mean = 0, variance = 0;
        for (int i = 0; i < dim; i++) {
            x[i] = test_random_normal(&random) + 1;
            w[i] = test_random_normal(&random);
            b[i] = test_random_normal(&random);
            squares += (double)x[i] * x[i] / dim;
            mean += (double)x[i] / dim;
        }
        for (int i = 0; i < dim; i++)
            variance += (x[i] - mean) * (x[i] - mean) / dim;
        rmsnorm(device, rms, x, w, 1, dim, 1e-6f);
        layernorm(device, layer, x, w, b, 1, dim, 1e-2f);
        for (int i = 0; i < dim; i++) {
            CHECK_NEAR(rms[i], x[i] / sqrt(squares + 1e-6) * w[i], 1e-6 * (1 + fabs(rms[i])));
            CHECK_NEAR(layer[i], (x[i] - mean) / sqrt(variance + 1e-2) * w[i] + b[i], 2e-5);
        }
        rmsnorm(device, x, x, w, 1, dim, 1e-6f); // in place
        CHECK(memcmp(x, rms, (size_t)dim * sizeof *x) == 0, "in place, %d", dim);
    }
    device_close(device);
}

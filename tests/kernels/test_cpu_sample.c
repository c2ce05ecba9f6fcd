// argmax and sample of the cpu backend against their definition in kernels.h, by sorting
// everything; on every instruction set.
#include "kernels/cpu/cpu.h"
#include "kernels/precision.h"
#include "tests/test.h"

typedef struct Token {
    int id;
    float logit;
    uint64_t weight;
    double surprise;
} Token;

static int by_logit(const void *a, const void *b) {
    const Token *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

static int by_surprise(const void *a, const void *b) {
    const Token *x = a, *y = b;
    if (x->surprise != y->surprise) return x->surprise < y->surprise ? -1 : 1;
    return by_logit(a, b);
}

static int by_id(const void *a, const void *b) {
    return ((const Token *)a)->id - ((const Token *)b)->id;
}

static uint64_t sum_of(const Token *t, int n) {
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += t[i].weight;
    return sum;
}

static int prefix(const Token *t, int n, float share) {
    uint64_t total = sum_of(t, n);
    int kept = 1;
    while (kept < n && (double)sum_of(t, kept) < (double)share * (double)total)
        kept++;
    return kept;
}

// Everything that is left after the cuts, by id; returns how many.
static int cut(Token *t, const float *logits, int n, const SampleRule *rule) {
    float max = -INFINITY;
    int kept = 0;
    for (int i = 0; i < n; i++)
        max = fmaxf(max, logits[i]);
    for (int i = 0; i < n; i++) {
        float e = exp_float((logits[i] - max) / rule->temperature);
        t[i] = (Token){i, logits[i], (uint64_t)(e * 0x1p40f), 0};
    }
    qsort(t, (size_t)n, sizeof *t, by_logit);
    if (rule->top_k > 0 && rule->top_k < n) n = rule->top_k;
    if (rule->top_p < 1) n = prefix(t, n, rule->top_p);
    for (int i = 0; i < n; i++)
        if ((double)t[i].weight >= (double)rule->min_p * 0x1p40) t[kept++] = t[i];
    n = kept ? kept : 1;
    if (rule->typical_p < 1) {
        double total = (double)sum_of(t, n), entropy = 0;
        for (int i = 0; i < n; i++) {
            double p = (double)t[i].weight / total;
            if (p > 0) entropy -= p * log(p);
        }
        for (int i = 0; i < n; i++)
            t[i].surprise = fabs(-log((double)t[i].weight / total) - entropy);
        qsort(t, (size_t)n, sizeof *t, by_surprise);
        n = prefix(t, n, rule->typical_p);
    }
    qsort(t, (size_t)n, sizeof *t, by_id);
    return n;
}

static int expected(const Token *t, int n, float uniform) {
    uint64_t target =
        (uint64_t)((unsigned __int128)sum_of(t, n) * (uint64_t)(uniform * 0x1p24f) >> 24);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        if ((sum += t[i].weight) > target) return t[i].id;
    return -2;
}

// A device that knows of `vocab_size` logits.
static Device *open_for(const char *isa, int threads, int vocab_size) {
    setenv("LIMPID_ISA", isa, 1);
    Device *device = device_open(threads, PRECISION_F32);
    unsetenv("LIMPID_ISA");
    float *zeros = calloc((size_t)vocab_size, sizeof *zeros);
    Matrix head = {.dtype = DTYPE_F32, .rows = (size_t)vocab_size, .cols = 1, .data = zeros};
    device_matrix(device, &head);
    free(zeros);
    device_reserve(device, 4);
    return device;
}

static const SampleRule RULES[] = {
    // temperature, top_k, top_p, min_p, typical_p
    {1, 0, 1, 0, 1, 0},         {0.7f, 0, 1, 0, 1, 0},       {1, 40, 1, 0, 1, 0},
    {1, 1, 1, 0, 1, 0},         {1, 700, 1, 0, 1, 0},        {1, 100000, 1, 0, 1, 0},
    {1, 0, 0.9f, 0, 1, 0},      {2, 0, 0.9999f, 0, 1, 0},    {0.3f, 0, 1e-9f, 0, 1, 0},
    {1, 0, 1, 0.05f, 1, 0},     {1.5f, 0, 1, 1, 1, 0},       {1, 0, 1, 0, 0.9f, 0},
    {1, 40, 0.9f, 0.02f, 1, 0}, {1, 0, 0.95f, 0.01f, 1, 0},  {0.8f, 50, 0.95f, 0.01f, 0.8f, 0},
    {10, 0, 0.99f, 0, 0.5f, 0}, {1e-6f, 0, 1, 0, 1, 0},      {1000, 0, 0.5f, 0, 1, 0},
    {1000, 3, 1, 0, 1, 0},      {1, 0, 1, 1e-12f, 0.99f, 0}, {3, 299, 0.5f, 0.3f, 0.3f, 0},
};
enum { N_RULES = sizeof RULES / sizeof *RULES };

static void check_rules(Device *device, const float *logits, int n, const char *what) {
    Token *tokens = malloc((size_t)n * sizeof *tokens);
    for (int r = 0; r < N_RULES; r++) {
        int left = cut(tokens, logits, n, &RULES[r]);
        for (int u = 0; u <= 16; u++) {
            float uniform = u == 16 ? 1 - 0x1p-24f : (float)u / 16 + 0x1p-24f * (float)(u * u);
            int32_t token;
            sample(device, &token, logits, 1, n, &RULES[r], &uniform);
            CHECK(token == expected(tokens, left, uniform), "%s, rule %d, u %g: %d, not %d", what,
                  r, uniform, token, expected(tokens, left, uniform));
        }
    }
    free(tokens);
}

// Of all processors; those that this one lacks are passed over.
static const char *const ISAS[] = {"portable", "avx2", "avx512", "neon", "dotprod", "i8mm"};
enum { N_ISAS = sizeof ISAS / sizeof *ISAS };

Test(cpu_sample, is_the_definition_for_every_rule) {
    static const int sizes[] = {1, 2, 15, 256, 257, 1000, 5003};
    for (int i = 0; i < N_ISAS; i++) {
        for (int z = 0; z < 7; z++) {
            int n = sizes[z];
            Device *device = open_for(ISAS[i], 1 + i % 3, n);
            if (device_error(device)->code != ERROR_NONE) {
                device_close(device);
                continue;
            }
            TestRandom random = {(uint64_t)z};
            float *logits = malloc((size_t)n * sizeof *logits);
            for (int t = 0; t < n; t++)
                logits[t] = 4 * test_random_normal(&random);
            check_rules(device, logits, n, "normal");
            for (int t = 0; t < n; t++) // many equal ones, both zeros, some without weight
                logits[t] = test_random(&random) % 5 ? roundf(logits[t] / 4) : -INFINITY;
            logits[0] = 0;
            if (n > 1) logits[1] = -0.0f;
            check_rules(device, logits, n, "equal");
            free(logits);
            device_close(device);
        }
    }
}

Test(cpu_sample, finds_the_first_of_the_largest) {
    enum { N = 40001 };
    const SampleRule greedy = {.temperature = 0};
    float *logits = malloc(N * sizeof *logits);
    for (int i = 0; i < N_ISAS; i++) {
        Device *device = open_for(ISAS[i], 2, N);
        if (device_error(device)->code == ERROR_NONE) {
            TestRandom random = {5};
            int32_t token;
            for (int t = 0; t < N; t++)
                logits[t] = test_random_float(&random, -9, 9);
            for (int round = 0; round < 50; round++) {
                int a = (int)(test_random(&random) % N), b = (int)(test_random(&random) % N);
                float old_a = logits[a], old_b = logits[b];
                logits[a] = logits[b] = round % 2 ? 10 : 1e38f;
                sample(device, &token, logits, 1, N, &greedy, NULL);
                CHECK_INT(token, a < b ? a : b);
                logits[b] = NAN;
                sample(device, &token, logits, 1, N, &greedy, NULL);
                CHECK_INT(token, -1);
                logits[b] = old_b;
                logits[a] = old_a;
            }
            for (int t = 0; t < N; t++)
                logits[t] = -INFINITY;
            sample(device, &token, logits, 1, N, &greedy, NULL);
            CHECK_INT(token, 0);
        }
        device_close(device);
    }
    free(logits);
}

Test(cpu_sample, refuses_what_is_not_finite) {
    Device *device = open_for("", 1, 300);
    float logits[600];
    float uniform[2] = {0.5f, 0.5f};
    int32_t tokens[2];
    for (int r = 0; r < N_RULES; r++) {
        for (int t = 0; t < 600; t++)
            logits[t] = t < 300 ? (float)(t % 7) : -INFINITY;
        sample(device, tokens, logits, 2, 300, &RULES[r], uniform);
        CHECK(tokens[0] >= 0 && tokens[0] < 300, "%d", tokens[0]);
        CHECK_INT(tokens[1], 0);
        logits[3] = NAN;
        logits[590] = INFINITY;
        sample(device, tokens, logits, 2, 300, &RULES[r], uniform);
        CHECK_INT(tokens[0], -1);
        CHECK_INT(tokens[1], -1);
    }
    SampleRule greedy = {0, 0, 1, 0, 1, 0};
    logits[3] = 6.5f;
    sample(device, tokens, logits, 1, 300, &greedy, uniform);
    CHECK_INT(tokens[0], 3);
    device_close(device);
}

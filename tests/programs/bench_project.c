// How fast the projections of the cpu backend are, beside a plain read of the same bytes:
//
//     bench_project [TYPE [ROWS [COLS [N [THREADS]]]]]       LIMPID_ISA chooses the instruction set
//
// One thread: by the processor time of the process, so that neighbours count less. GB/s are stored
// bytes of the weights. For a developer of kernels; `run bench` measures whole models.
#include "kernels/kernels.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t read_all(const uint64_t *p, size_t count) {
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++)
            sum[j] ^= p[i + (size_t)j];
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

// Random bytes with every half and float in them small: the top bits of each byte are cleared.
static uint8_t *random_bytes(size_t bytes) {
    uint64_t *data = malloc(bytes + 8), state = 1;
    for (size_t i = 0; i <= bytes / 8; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (state ^ state >> 29) & 0x3f3f3f3f3f3f3f3f;
    }
    return (uint8_t *)data;
}

static void measure(Device *device, DType dtype, size_t rows, size_t cols, int n, int threads) {
    size_t bytes = rows * dtype_row_bytes(dtype, cols);
    uint8_t *data = random_bytes(bytes);
    Matrix matrix = {.dtype = dtype, .rows = rows, .cols = cols, .data = data};
    double start = seconds(CLOCK_MONOTONIC);
    DeviceMatrix *w = device_matrix(device, &matrix);
    double packing = seconds(CLOCK_MONOTONIC) - start;
    device_reserve(device, n);
    float *x = device_alloc(device, (size_t)n * cols * sizeof *x);
    float *out = device_alloc(device, (size_t)n * rows * sizeof *out);
    for (size_t i = 0; i < (size_t)n * cols; i++)
        x[i] = (float)(i % 97) - 48.0f;
    clockid_t clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    double best = 1e9, best_read = 1e9;
    size_t repeats = 1 + (size_t)(2e8 / ((double)bytes * (1 + n / 4)));
    uint64_t sink = 0;
    for (int round = 0; round < 7; round++) {
        start = seconds(clock);
        for (size_t i = 0; i < repeats; i++)
            project(device, x, n, &(Projection){.out = out, .weight = w}, 1);
        double time = (seconds(clock) - start) / (double)repeats;
        if (time < best) best = time;
        start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (size_t i = 0; i < repeats; i++) {
            sink += read_all((const uint64_t *)data, bytes / 8);
            __asm__ volatile("" ::: "memory");
        }
        time = (seconds(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)repeats;
        if (time < best_read) best_read = time;
    }
    double ops = 2.0 * (double)rows * (double)cols * n;
    printf("%-8s %6zu x %5zu, n %3d: %9.1f us %6.1f GB/s (read %5.1f) %6.1f Gop/s, packed in "
           "%.1f ms%s\n",
           dtype_info(dtype)->name, rows, cols, n, best * 1e6, (double)bytes / best * 1e-9,
           (double)bytes / best_read * 1e-9, ops / best * 1e-9, packing * 1e3,
           sink == 1 ? "." : "");
    free(data);
}

int main(int argc, char **argv) {
    size_t rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 49152;
    size_t cols = argc > 3 ? strtoul(argv[3], NULL, 10) : 1024;
    int n = argc > 4 ? atoi(argv[4]) : 1, threads = argc > 5 ? atoi(argv[5]) : 1;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const char *name = dtype_info((DType)t)->name;
        if (t == DTYPE_Q8_GROUP || (argc > 1 && strcmp(argv[1], "all") && strcmp(argv[1], name)))
            continue;
        if (cols % dtype_info((DType)t)->block) {
            printf("%-8s has blocks of %u columns\n", name, (unsigned)dtype_info((DType)t)->block);
            continue;
        }
        const char *precision = getenv("PRECISION");
        Device *device =
            device_open(threads, precision ? (Precision)atoi(precision) : PRECISION_A16);
        measure(device, (DType)t, rows, cols, n, threads);
        if (device_error(device)->code) fprintf(stderr, "%s\n", device_error(device)->message);
        device_close(device);
    }
    return 0;
}

// Samples of the machine's limits, one of each per round, and what is made of them: the median of
// the bandwidths, which other programs may disturb in both directions, and the largest of the
// peaks. The measurements themselves are the backend's (kernels/limits.h).
#include "commands/bench/bench.h"

#include <math.h>
#include <stdlib.h>

const char *peak_name(PeakKind kind) {
    static const char *const NAMES[PEAK_COUNT] = {
        [PEAK_FLOAT32] = "float32", [PEAK_FLOAT64] = "float64",       [PEAK_INT16] = "int16",
        [PEAK_INT8] = "int8",       [PEAK_INT8_TILES] = "int8 tiles", [PEAK_BF16] = "bf16",
    };
    return NAMES[kind];
}

Limits limits_begin(Device *device, size_t model_bytes) {
    return (Limits){.device = device, .model_bytes = model_bytes};
}

// A peak is what registers can do: other work on the machine can only hide it, so the most counts.
void limits_round(Limits *l) {
    if (l->rounds == LIMIT_MAX_ROUNDS) return;
    l->memory_read[l->rounds] = device_read_rate(l->device, 0);
    l->model_read[l->rounds] = device_read_rate(l->device, l->model_bytes);
    l->rounds++;
    for (int kind = 0; kind < PEAK_COUNT; kind++)
        l->peaks[kind] = fmax(l->peaks[kind], device_peak_rate(l->device, (PeakKind)kind));
}

// Rising; no sample is NaN.
static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int count) {
    if (!count) return NAN;
    qsort(values, (size_t)count, sizeof *values, compare);
    // With an even count the mean of the two in the middle.
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

LimitFigures limits_figures(Limits *l) {
    LimitFigures figures = {.memory_read = median_of(l->memory_read, l->rounds),
                            .model_read = median_of(l->model_read, l->rounds)};
    for (int kind = 0; kind < PEAK_COUNT; kind++)
        figures.peaks[kind] = l->peaks[kind];
    return figures;
}

// The index of the largest logit of every row; lanes/sample.c scans.
#include "kernels/cpu/cpu.h"

#include <math.h>

// The lowest index of the largest logit, -1 where a NaN is among them. Blocks are looked at in
// slabs, so that it needs no scratch.
static int argmax_row(const SampleKernels *kernels, const float *logits, size_t count) {
    enum { SLAB = 64 };
    float largest[SLAB], best = -INFINITY;
    size_t at = 0;
    for (size_t start = 0; start < count; start += SLAB * SAMPLE_BLOCK) {
        size_t rest = count - start, n = rest < SLAB * SAMPLE_BLOCK ? rest : SLAB * SAMPLE_BLOCK;
        if (!kernels->scan(largest, logits + start, n)) { // an infinity is in order, a NaN is not
            for (size_t i = start; i < start + n; i++)
                if (isnan(logits[i])) return -1;
        }
        for (size_t b = 0; b < blocks_of(n); b++) {
            if (!(largest[b] > best)) continue;
            best = largest[b];
            at = start + b * SAMPLE_BLOCK;
        }
    }
    while (logits[at] != best)
        at++;
    return (int)at;
}

typedef struct ArgmaxWork {
    const SampleKernels *kernels;
    int32_t *out;
    const float *logits; // (n, vocab_size)
    size_t vocab_size;
} ArgmaxWork;

static void argmax_task(void *context, size_t begin, size_t end, int thread) {
    const ArgmaxWork *w = context;
    for (size_t i = begin; i < end; i++)
        w->out[i] = argmax_row(w->kernels, w->logits + i * w->vocab_size, w->vocab_size);
    (void)thread;
}

void argmax(Device *device, int32_t *out, const float *logits, int n, int vocab_size) {
    if (!device_ok(device)) return;
    ArgmaxWork work = {device->kernels->rows->sample, out, logits, (size_t)vocab_size};
    device_run(device, argmax_task, &work, (size_t)n, work_chunk(2 * (size_t)vocab_size));
}

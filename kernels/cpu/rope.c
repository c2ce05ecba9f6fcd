// Rotary positions: rows shared out over the threads; lanes/rows.c has the arithmetic.
#include "kernels/cpu/cpu.h"

typedef struct RopeWork {
    const RowKernels *kernels;
    float *x; // (n, n_heads, head_dim)
    size_t n_heads, head_dim;
    const RopeTable *table;
    const int32_t *positions;
} RopeWork;

// Items are rows. All heads of a row have the same position, so a row needs one line of the cosines
// and sines, rope_dim / 2 of each.
static void rope_task(void *context, size_t begin, size_t end, int thread) {
    const RopeWork *w = context;
    size_t rope_dim = (size_t)w->table->rope_dim;
    for (size_t i = begin; i < end; i++) {
        size_t angle = (size_t)w->positions[i] * (rope_dim / 2);
        w->kernels->rope(w->x + i * w->n_heads * w->head_dim, w->table->cos + angle,
                         w->table->sin + angle, w->n_heads, w->head_dim, rope_dim);
    }
    (void)thread;
}

void rope(Device *device, float *x, int n_heads, int head_dim, const RopeTable *table,
          const Rows *rows) {
    if (!device_ok(device)) return;
    RopeWork work = {device->kernels->rows, x,     (size_t)n_heads,
                     (size_t)head_dim,      table, rows->positions};
    // Two products per rotated element.
    size_t cost = 2 * (size_t)n_heads * (size_t)table->rope_dim;
    device_run(device, rope_task, &work, (size_t)rows->n, work_chunk(cost));
}

// Packing weights for the GPU. Every unit is unpacked once, its scales with it; the work of a call
// is cut into one run of units per thread.
#include "kernels/cuda/project/matrix.h"
#include "kernels/cuda/project/pack.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "weights/quant.h"
}

enum { FLOAT_UNIT = 16, WORTH_A_THREAD = 1 << 18 }; // bytes

struct Worker {
    Packer *packer;
    pthread_t thread;
    float *row; // (cols) where rows are widened to F32, else NULL
};

// A call: packer_run writes to, first and count, then all threads pass the barrier, pack their
// shares, and pass it again. Between calls the workers wait at the first barrier.
struct Packer {
    Matrix matrix;
    PackedShape shape;
    Layout layout;
    Worker workers[PACK_MOST_THREADS]; // the first is the caller
    int n_workers;
    pthread_mutex_t starting; // held until n_workers is known
    pthread_barrier_t step;   // before a call's work, and behind it
    bool over;

    uint8_t *to; // of this call
    size_t first, count;
};

// ---- shapes ----

// llama2.c halves its groups until they divide the width of the model.
// A chunk of Q8_GROUP has one scale: groups that are no multiple of 32 do not fit, and are
// widened.
static DType packed_dtype(const Matrix *m) {
    bool odd_groups = m->dtype == DTYPE_Q8_GROUP && m->group_size % CHUNK != 0;
    return odd_groups ? DTYPE_F32 : m->dtype;
}

PackedShape packed_shape(const Matrix *m) {
    PackedShape s = {};
    s.dtype = packed_dtype(m);
    Layout layout = layout_of(s.dtype);
    if (layout.low_bits) {
        size_t chunks = layout.k ? SUPER_CHUNKS : 1;
        s.row_units = m->cols / (chunks * CHUNK);
        s.unit_bytes[0] = chunks * (size_t)low_bytes(layout);
        s.unit_bytes[1] = chunks * (size_t)high_bytes(layout);
        s.unit_bytes[2] = chunks * (size_t)scale_bytes(layout);
        s.unit_bytes[3] = (size_t)super_bytes(layout);
    } else {
        size_t size = s.dtype == DTYPE_F32 ? 4 : 2;
        s.row_units = (m->cols * size + FLOAT_UNIT - 1) / FLOAT_UNIT;
        s.unit_bytes[0] = FLOAT_UNIT;
    }
    s.units = m->rows * s.row_units;
    return s;
}

// ---- one unit ----

static const uint8_t *stored_row(const Matrix *m, size_t row) {
    return (const uint8_t *)m->data +
           matrix_stored_row(m, row) * dtype_row_bytes(m->dtype, m->cols);
}

// Where to write the next unit in each plane.
struct PlanePointers {
    uint8_t *low, *high, *scales, *supers;
};

// 32 elements, centred, into the low plane and the high plane.
static void pack_chunk(PlanePointers *to, const Layout &layout, const int8_t q[CHUNK]) {
    uint8_t u[CHUNK];
    for (int j = 0; j < CHUNK; j++)
        u[j] = (uint8_t)(q[j] + layout.centre);
    if (layout.low_bits == 8)
        memcpy(to->low, u, CHUNK);
    else
        for (int j = 0; j < 16; j++)
            to->low[j] = (uint8_t)((u[j] & 15) | (u[j + 16] & 15) << 4);
    uint32_t words[2] = {0, 0};
    // Byte b of `four` is element 4 w + b. Bits 4 and up of each go to bit w (one bit) or 2 (w % 4)
    // (two) of the same byte of the word: load_chunk shifts and masks four elements at once.
    for (int w = 0; layout.high_bits && w < 8; w++) { // elements 4 w .. 4 w + 3 at once
        uint32_t four;
        memcpy(&four, u + 4 * w, sizeof four);
        if (layout.high_bits == 1)
            words[0] |= (four >> 4 & 0x01010101u) << w;
        else
            words[w / 4] |= (four >> 4 & 0x03030303u) << (w % 4 * 2);
    }
    memcpy(to->high, words, (size_t)high_bytes(layout));
    to->low += low_bytes(layout);
    to->high += high_bytes(layout);
}

// K-quants: sc and sm of every group, d and dmin of the block.
static void pack_k_block(PlanePointers *to, const Layout &layout, const Matrix *m,
                         const uint8_t *block) {
    int8_t q[256];
    uint8_t sc[16], sm[16];
    uint16_t supers[2];
    unpack_scales(q, sc, sm, supers, m->dtype, block);
    for (int c = 0; c < SUPER_CHUNKS; c++) {
        pack_chunk(to, layout, q + c * CHUNK);
        for (int g = 0; g < layout.groups; g++) {
            to->scales[g] = sc[c * layout.groups + g];
            if (layout.affine) to->scales[layout.groups + g] = sm[c * layout.groups + g];
        }
        to->scales += scale_bytes(layout);
    }
    memcpy(to->supers, supers, (size_t)super_bytes(layout));
    to->supers += super_bytes(layout);
}

// Types with one scale per block of 32, as the block stores it: d, or d and m, come first.
static void pack_block(PlanePointers *to, const Layout &layout, const Matrix *m,
                       const uint8_t *block) {
    int8_t q[CHUNK];
    float scale, offset;
    unpack(q, &scale, &offset, m->dtype, block, CHUNK);
    pack_chunk(to, layout, q);
    memcpy(to->scales, block, (size_t)scale_bytes(layout));
    to->scales += scale_bytes(layout);
}

// Q8_GROUP's elements are as they should be; one scale per chunk.
static void pack_group(PlanePointers *to, const Layout &layout, const Matrix *m, size_t row,
                       size_t c) {
    size_t groups = m->cols / m->group_size;
    size_t group = matrix_stored_row(m, row) * groups + c * CHUNK / m->group_size;
    memcpy(to->low, stored_row(m, row) + c * CHUNK, CHUNK);
    memcpy(to->scales, (const uint8_t *)m->scales + 4 * group, 4);
    to->low += low_bytes(layout);
    to->scales += scale_bytes(layout);
}

// ---- runs of units ----

// Units at .. at + count - 1 of one row.
// A unit is a block of the file for all types but Q8_GROUP, whose scales are an array of their own.
static void pack_quantised(const Packer *p, PlanePointers *to, size_t row, size_t at,
                           size_t count) {
    const Matrix *m = &p->matrix;
    const uint8_t *data = stored_row(m, row);
    size_t bytes = dtype_info(m->dtype)->block_bytes;
    for (size_t i = at; i < at + count; i++) {
        if (p->layout.k)
            pack_k_block(to, p->layout, m, data + i * bytes);
        else if (p->layout.floats)
            pack_group(to, p->layout, m, row, i);
        else
            pack_block(to, p->layout, m, data + i * bytes);
    }
}

// The same of a row padded with zeros to whole loads of 16 bytes.
static void pack_floats(const Worker *w, PlanePointers *to, size_t row, size_t at, size_t count) {
    const Matrix *m = &w->packer->matrix;
    const uint8_t *from = stored_row(m, row);
    if (w->row) {
        matrix_row(w->row, m, row);
        from = (const uint8_t *)w->row;
    }
    size_t size = w->packer->shape.dtype == DTYPE_F32 ? 4 : 2;
    size_t bytes = count * FLOAT_UNIT, left = m->cols * size - at * FLOAT_UNIT;
    if (left < bytes) memset(to->low + left, 0, bytes - left);
    memcpy(to->low, from + at * FLOAT_UNIT, left < bytes ? left : bytes);
    to->low += bytes;
}

// This worker's part of the call.
static void pack_share(const Worker *w) {
    const Packer *p = w->packer;
    const PackedShape *s = &p->shape;
    size_t index = (size_t)(w - p->workers), n = (size_t)p->n_workers;
    size_t begin = p->count * index / n, end = p->count * (index + 1) / n;
    // The planes of the call lie behind each other in `to`; this worker begins in the middle of
    // each.
    uint8_t *at[N_PLANES], *plane = p->to;
    for (int i = 0; i < N_PLANES; plane += p->count * s->unit_bytes[i++])
        at[i] = plane + begin * s->unit_bytes[i];
    PlanePointers to = {at[0], at[1], at[2], at[3]};
    for (size_t i = begin, count; i < end; i += count) {
        // Row by row: a run of units of one row lies side by side in the file.
        size_t row = (p->first + i) / s->row_units, unit = (p->first + i) % s->row_units;
        count = s->row_units - unit < end - i ? s->row_units - unit : end - i;
        if (p->layout.low_bits)
            pack_quantised(p, &to, row, unit, count);
        else
            pack_floats(w, &to, row, unit, count);
    }
}

// ---- threads ----

static void *worker_main(void *argument) {
    Worker *w = (Worker *)argument;
    Packer *p = w->packer;
    pthread_mutex_lock(&p->starting);
    pthread_mutex_unlock(&p->starting);
    for (;;) {
        pthread_barrier_wait(&p->step);
        if (p->over) return NULL;
        pack_share(w);
        pthread_barrier_wait(&p->step);
    }
}

// Starting a thread takes time too, so each should have WORTH_A_THREAD bytes to
// pack.
static int threads_worth(const PackedShape *s) {
    cpu_set_t set;
    size_t bytes = 0, count = sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
    for (size_t unit : s->unit_bytes)
        bytes += s->units * unit;
    if (count > bytes / WORTH_A_THREAD + 1) count = bytes / WORTH_A_THREAD + 1;
    return count < PACK_MOST_THREADS ? (int)count : PACK_MOST_THREADS;
}

static bool add_worker(Packer *p) {
    Worker *w = &p->workers[p->n_workers];
    w->packer = p;
    if (p->shape.dtype != p->matrix.dtype) {
        w->row = (float *)malloc(p->matrix.cols * sizeof *w->row);
        if (!w->row) return false;
    }
    if (p->n_workers && pthread_create(&w->thread, NULL, worker_main, w) != 0) {
        free(w->row);
        return false;
    }
    p->n_workers++;
    return true;
}

Packer *packer_open(const Matrix *matrix, int threads) {
    Packer *p = (Packer *)calloc(1, sizeof *p);
    if (!p) return NULL;
    p->matrix = *matrix;
    p->shape = packed_shape(matrix);
    p->layout = layout_of(p->shape.dtype);
    if (!threads) threads = threads_worth(&p->shape);
    pthread_mutex_init(&p->starting, NULL);
    pthread_mutex_lock(&p->starting);
    // A thread that the system refuses ends the loop: those that exist share the work. No worker at
    // all, not even the caller, means no memory.
    while (p->n_workers < threads && p->n_workers < PACK_MOST_THREADS && add_worker(p))
        continue;
    if (p->n_workers) pthread_barrier_init(&p->step, NULL, (unsigned)p->n_workers);
    pthread_mutex_unlock(&p->starting);
    if (p->n_workers) return p;
    pthread_mutex_destroy(&p->starting);
    free(p);
    return NULL;
}

void packer_close(Packer *p) {
    if (!p) return;
    // The workers wait at the first barrier; behind it they see `over` and return.
    p->over = true;
    pthread_barrier_wait(&p->step);
    for (int i = 0; i < p->n_workers; i++) {
        if (i) pthread_join(p->workers[i].thread, NULL);
        free(p->workers[i].row);
    }
    pthread_barrier_destroy(&p->step);
    pthread_mutex_destroy(&p->starting);
    free(p);
}

void packer_run(Packer *p, uint8_t *to, size_t first, size_t count) {
    p->to = to;
    p->first = first;
    p->count = count;
    pthread_barrier_wait(&p->step);
    pack_share(&p->workers[0]);
    pthread_barrier_wait(&p->step);
}

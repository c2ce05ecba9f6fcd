#include "commands/bench/limits.h"
#include "commands/bench/loops.h"
#include "commands/shared/output.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_ROUNDS = 64, MAX_THREADS = 1024 };
static const size_t MEMORY_BYTES = (size_t)1 << 30, LEAST_BYTES = (size_t)1 << 26;
static const double SAMPLE_SECONDS = 0.03;

// What is measured: a loop over a buffer, or over none.
typedef enum Probe {
    MEMORY_LINEAR,
    MEMORY_STREAMS,
    MODEL_LINEAR,
    MODEL_STREAMS,
    FP32,
    INT8,
    HOST_PROBES,
    BF16 = HOST_PROBES, // with MODEL_LINEAR what a GPU is asked
    PROBES
} Probe;
static const LoopId LOOP_OF[HOST_PROBES] = {LOOP_READ_LINEAR,  LOOP_READ_STREAMS, LOOP_READ_LINEAR,
                                            LOOP_READ_STREAMS, LOOP_FP32,         LOOP_INT8};

struct Limits {
    Device *device; // NULL: the host is measured
    int product;    // rows, columns and rows of input of the large product
    int threads;
    char *memory; // mapped
    size_t memory_bytes, model_bytes;
    long repetitions[PROBES];
    double rates[PROBES][MAX_ROUNDS];
    int rounds;
};

// All threads begin together, and the clock stops when the last is done.
typedef struct Team {
    Loop *loop;
    atomic_int state; // 0: wait, 1: go, -1: nothing will come of it
} Team;

typedef struct Member {
    Team *team;
    LoopWork work;
    double result;
} Member;

static void *member_run(void *argument) {
    Member *member = argument;
    int state = 0;
    while (!(state = atomic_load(&member->team->state)))
        sched_yield();
    if (state > 0) member->result = member->team->loop(&member->work);
    return NULL;
}

// Seconds of one measurement; NaN where a thread cannot be made.
static double run_team(Loop *loop, const LoopWork *works, int threads) {
    pthread_t handles[MAX_THREADS];
    Member members[MAX_THREADS];
    Team team = {.loop = loop};
    for (int i = 0; i < threads; i++)
        members[i] = (Member){&team, works[i], 0};
    int made = 1; // this thread is one of them
    while (made < threads && !pthread_create(&handles[made], NULL, member_run, &members[made]))
        made++;
    atomic_store(&team.state, made == threads ? 1 : -1);
    double started = seconds_now();
    if (made == threads) member_run(&members[0]);
    for (int i = 1; i < made; i++)
        pthread_join(handles[i], NULL);
    return made == threads ? seconds_now() - started : NAN;
}

static size_t probe_bytes(const Limits *l, Probe probe) {
    if (probe >= FP32) return 0;
    return probe <= MEMORY_STREAMS ? l->memory_bytes : l->model_bytes;
}

// Seconds of `repetitions` of a probe, the buffer cut into one part per thread.
static double run_probe(const Limits *l, Probe probe, long repetitions, double *work_done) {
    LoopWork works[MAX_THREADS];
    size_t part = probe_bytes(l, probe) / (size_t)l->threads & ~(size_t)4095;
    for (int i = 0; i < l->threads; i++)
        works[i] = (LoopWork){l->memory + (size_t)i * part, part, repetitions};
    double each = part ? (double)part : loop_operations(LOOP_OF[probe]);
    *work_done = each * l->threads * (double)repetitions;
    return run_team(loop_of(LOOP_OF[probe]), works, l->threads);
}

// How many repetitions fill a sample. A single slow run says nothing on a busy machine: of two the
// faster counts.
static void calibrate(Limits *l, Probe probe) {
    double work = 0, seconds = 0;
    long repetitions = 1;
    for (; repetitions < (1L << 40); repetitions *= 4) {
        seconds = run_probe(l, probe, repetitions, &work);
        if (seconds < SAMPLE_SECONDS / 2) continue;
        seconds = fmin(seconds, run_probe(l, probe, repetitions, &work));
        if (!(seconds < SAMPLE_SECONDS / 2)) break;
    }
    double wanted = (double)repetitions * SAMPLE_SECONDS / seconds;
    l->repetitions[probe] = wanted > 1 ? (long)wanted : 1;
}

// ---- a GPU ----

// The largest product that is measured, or the first that takes so long.
static const int LARGEST_PRODUCT = 8192;
static const double PRODUCT_SECONDS = 5e-4;

static void open_device(Limits *l, Device *device, size_t model_bytes) {
    l->device = device;
    l->model_bytes = model_bytes;
    double seconds = 0;
    for (l->product = 64; l->product < LARGEST_PRODUCT; l->product *= 2) {
        seconds = device_product_seconds(device, l->product, l->product, l->product);
        if (!(seconds < PRODUCT_SECONDS)) break; // NaN where there is no library
    }
}

static void device_round(Limits *l) {
    double edge = l->product;
    l->rates[MODEL_LINEAR][l->rounds] = device_read_rate(l->device, l->model_bytes);
    l->rates[BF16][l->rounds] =
        2 * edge * edge * edge /
        device_product_seconds(l->device, l->product, l->product, l->product);
    l->rounds++;
}

// ---- the host ----

static bool open_host(Limits *l, int threads, size_t model_bytes, Error *error) {
    l->threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    l->memory_bytes = model_bytes > MEMORY_BYTES ? model_bytes : MEMORY_BYTES;
    l->memory = MAP_FAILED;
    for (; l->memory_bytes >= LEAST_BYTES; l->memory_bytes /= 2) {
        l->memory =
            mmap(NULL, l->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (l->memory != MAP_FAILED) break;
    }
    if (l->memory == MAP_FAILED)
        return error_set(error, ERROR_MEMORY,
                         "out of memory: %zu bytes to measure the read bandwidth", LEAST_BYTES);
    madvise(l->memory, l->memory_bytes, MADV_HUGEPAGE);
    memset(l->memory, 1, l->memory_bytes);
    l->model_bytes = model_bytes < l->memory_bytes ? model_bytes : l->memory_bytes;
    size_t least = (size_t)l->threads * 4096;
    if (l->model_bytes < least) l->model_bytes = least;
    for (int p = 0; p < HOST_PROBES; p++)
        calibrate(l, (Probe)p);
    return true;
}

static void host_round(Limits *l) {
    for (int p = 0; p < HOST_PROBES; p++) {
        double work = 0, seconds = run_probe(l, (Probe)p, l->repetitions[p], &work);
        l->rates[p][l->rounds] = work / seconds;
    }
    l->rounds++;
}

// ---- either ----

Limits *limits_open(Device *device, int threads, size_t model_bytes, Error *error) {
    Limits *l = calloc(1, sizeof *l);
    if (!l) {
        error_set(error, ERROR_MEMORY, "out of memory for the limits");
        return NULL;
    }
    for (int p = 0; p < PROBES; p++)
        for (int i = 0; i < MAX_ROUNDS; i++)
            l->rates[p][i] = NAN;
    if (isfinite(device_read_rate(device, model_bytes))) {
        open_device(l, device, model_bytes);
        return l;
    }
    if (open_host(l, threads, model_bytes, error)) return l;
    free(l);
    return NULL;
}

void limits_close(Limits *l) {
    if (!l) return;
    if (!l->device) munmap(l->memory, l->memory_bytes);
    free(l);
}

void limits_round(Limits *l) {
    if (l->rounds == MAX_ROUNDS) return;
    if (l->device)
        device_round(l);
    else
        host_round(l);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, int count) {
    if (!count) return NAN;
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double figure(const Limits *l, Probe probe) {
    double copy[MAX_ROUNDS];
    memcpy(copy, l->rates[probe], sizeof copy);
    return median_of(copy, l->rounds);
}

LimitFigures limits_figures(const Limits *l) {
    return (LimitFigures){
        .memory_read = fmax(figure(l, MEMORY_LINEAR), figure(l, MEMORY_STREAMS)),
        .model_read = fmax(figure(l, MODEL_LINEAR), figure(l, MODEL_STREAMS)),
        .fp32 = figure(l, FP32),
        .int8 = figure(l, INT8),
        .bf16 = figure(l, BF16),
    };
}

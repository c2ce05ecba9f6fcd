// The threads, the slices and the lines of programs that try all inputs.
#include "tests/support/exhaustive.h"
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31) size = mantissa ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -size : size;
}

size_t supported_sets(const CpuKernels **sets) {
    size_t count, kept = 0;
    const CpuKernels *const *list = isa_list(&count);
    for (size_t i = 0; i < count && kept < MOST_SETS; i++)
        if (isa_supported(list[i])) sets[kept++] = list[i];
    return kept;
}

void tally_take(Tally *t, double error, double bound, float x, const char *where) {
    t->inputs++;
    if (!(error <= bound)) {
        if (!t->wrong++) t->worst = 0; // the first one over the bound is the one to be shown
    } else if (t->wrong) {
        return;
    }
    if (!(error <= t->worst)) {
        t->worst = error;
        t->at = x;
        t->where = where;
    }
}

typedef struct Job {
    const Part *part;
    uint64_t every;
    atomic_uint *next; // of 1024 slices
    Tally tally;
} Job;

static void *work(void *context) {
    enum { SLICES = 1024 };
    Job *job = context;
    const uint64_t slice = ((uint64_t)1 << 32) / SLICES;
    for (unsigned i; (i = atomic_fetch_add(job->next, 1)) < SLICES;) {
        // The first multiple of `every` in the slice.
        uint64_t first = (i * slice + job->every - 1) / job->every * job->every;
        job->part->run((Range){first, (i + 1) * slice, job->every}, &job->tally);
    }
    return NULL;
}

static Tally run_part(const Part *part, uint64_t every, int threads) {
    enum { MOST = 64 };
    Tally all = {0};
    Job jobs[MOST];
    pthread_t ids[MOST];
    atomic_uint next = 0;
    if (threads > MOST) threads = MOST;
    if (!part->floats) {
        part->run((Range){0, 65536, 1}, &all);
        return all;
    }
    for (int i = 0; i < threads; i++) {
        jobs[i] = (Job){.part = part, .every = every, .next = &next};
        if (pthread_create(&ids[i], NULL, work, &jobs[i])) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        const Tally *t = &jobs[i].tally;
        if ((t->wrong && !all.wrong) || (!t->wrong == !all.wrong && t->worst > all.worst)) {
            all.worst = t->worst;
            all.at = t->at;
            all.where = t->where;
        }
        all.inputs += t->inputs;
        all.wrong += t->wrong;
    }
    return all;
}

static bool is_named(const Part *part, int argc, char **argv, int first) {
    for (int i = first; i < argc; i++)
        if (!strncmp(part->name, argv[i], strlen(argv[i]))) return true;
    return first >= argc;
}

int exhaustive(int argc, char **argv, const Part *parts, size_t n_parts) {
    bool sampled = argc > 2 && !strcmp(argv[1], "--every");
    uint64_t every = sampled ? strtoull(argv[2], NULL, 10) : 1;
    int passed = 0, failed = 0, threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (size_t i = 0; i < n_parts; i++) {
        const Part *part = &parts[i];
        if (!is_named(part, argc, argv, sampled ? 3 : 1)) continue;
        double began = seconds_now();
        Tally t = run_part(part, every ? every : 1, threads);
        printf("%-6s %-50s %11llu results", t.wrong ? "FAILED" : "ok", part->says,
               (unsigned long long)t.inputs);
        if (t.worst > 0)
            printf(", worst %.9g at %.9g%s%s", t.worst, (double)t.at, t.where ? ", " : "",
                   t.where ? t.where : "");
        if (t.wrong) printf(", %llu over the bound", (unsigned long long)t.wrong);
        printf("; %.1f s\n", seconds_now() - began);
        fflush(stdout);
        passed += !t.wrong;
        failed += t.wrong != 0;
    }
    printf("plain: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed || !passed; // no part has such a name
}

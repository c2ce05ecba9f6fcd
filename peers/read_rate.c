// read_rate: how fast this machine reads a buffer, in GB/s (1e9 bytes). The limit of decode, since
// every weight is read once for every token.
//
//     gcc -O3 -march=native -pthread peers/read_rate.c -o read_rate
//     ./read_rate --mb 94 --threads 2        a buffer as large as a model
//     ./read_rate --mb 1024 --threads 2      one that no cache holds
//
// The buffer is cut into one part per thread, as a weight matrix is; each thread is pinned to a CPU
// and reads its part again and again. Four loops are tried, since none is the fastest on every
// machine: one stream and four streams a quarter of the part from each other, each with and without
// software prefetches. The value printed is the best of them, as one line of JSON.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __AVX512F__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { MAX_THREADS = 64, STEP = 4, HUGE_PAGE = 2 << 20 };
enum { PREFETCH = 4096, STREAM_L1 = 512, STREAM_L2 = 1536 }; // bytes ahead

// One register, with AVX2 and with AVX-512.
typedef uint64_t Vector __attribute__((vector_size(8 * LANES)));

typedef struct Part {
    const Vector *data;
    size_t n; // vectors, a multiple of 4 * STEP; STEP of them are 128 bytes or more
} Part;

// Reads a part once. Returns a sum of all that was read, so that no load can be dropped.
typedef uint64_t Reader(Part part);

static uint64_t sum(const Vector *v) {
    uint64_t all = 0;
    for (int i = 0; i < LANES; i++)
        all += (*v)[i];
    return all;
}

static uint64_t read_one_stream(Part p) {
    Vector a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < p.n; i += STEP) {
        a += p.data[i];
        b += p.data[i + 1];
        c += p.data[i + 2];
        d += p.data[i + 3];
    }
    a += b + c + d;
    return sum(&a);
}

static uint64_t read_four_streams(Part p) {
    Vector a = {0}, b = {0}, c = {0}, d = {0};
    size_t quarter = p.n / 4;
    for (size_t i = 0; i < quarter; i++) {
        a += p.data[i];
        b += p.data[i + quarter];
        c += p.data[i + 2 * quarter];
        d += p.data[i + 3 * quarter];
    }
    a += b + c + d;
    return sum(&a);
}

static uint64_t read_with_prefetch(Part p) {
    Vector a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < p.n; i += STEP) {
        // Beyond the end of the buffer a prefetch does nothing.
        for (size_t k = 0; k < STEP; k++)
            __builtin_prefetch((const char *)(p.data + i + k) + PREFETCH);
        a += p.data[i];
        b += p.data[i + 1];
        c += p.data[i + 2];
        d += p.data[i + 3];
    }
    a += b + c + d;
    return sum(&a);
}

// 128 bytes of a stream in turn: where lines come in pairs, one at a time is slower.
static uint64_t read_four_with_prefetch(Part p) {
    enum { PAIR = 128 / sizeof(Vector) };
    Vector sums[PAIR] = {{0}};
    size_t quarter = p.n / 4;
    for (size_t i = 0; i < quarter; i += PAIR) {
        for (size_t k = 0; k < 4; k++) {
            const Vector *at = p.data + i + k * quarter;
            for (size_t line = 0; line < 128; line += 64) {
                __builtin_prefetch((const char *)at + STREAM_L1 + line);
                __builtin_prefetch((const char *)at + STREAM_L2 + line, 0, 2);
            }
            for (size_t v = 0; v < PAIR; v++)
                sums[v] += at[v];
        }
    }
    for (size_t v = 1; v < PAIR; v++)
        sums[0] += sums[v];
    return sum(&sums[0]);
}

static const struct {
    const char *name;
    Reader *read;
} LOOPS[] = {{"one stream", read_one_stream},
             {"four streams", read_four_streams},
             {"prefetch", read_with_prefetch},
             {"four streams, prefetch", read_four_with_prefetch}};
enum { N_LOOPS = sizeof LOOPS / sizeof *LOOPS };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- threads: all begin a sample together ----

typedef struct Worker {
    pthread_t thread;
    int cpu;
    Part part;
    uint64_t sum; // written, so that the compiler keeps the reads
} Worker;

static struct {
    Worker workers[MAX_THREADS];
    int n;
    pthread_barrier_t begin, end;
    Reader *read;
    long times;
    bool quit;
} team;

static void read_part(Worker *w) {
    for (long i = 0; i < team.times; i++)
        w->sum += team.read(w->part);
}

static void *work(void *argument) {
    Worker *w = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(w->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (;;) {
        pthread_barrier_wait(&team.begin);
        if (team.quit) return NULL;
        read_part(w);
        pthread_barrier_wait(&team.end);
    }
}

// Seconds in which every thread reads its part `times` times with a loop.
static double sample(Reader *read, long times) {
    team.read = read;
    team.times = times;
    // Before the barrier: behind it this thread may have to wait for a CPU while the others work.
    double begin = now();
    pthread_barrier_wait(&team.begin);
    pthread_barrier_wait(&team.end);
    return now() - begin;
}

static void start(int threads, const Vector *buffer, size_t part) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    pthread_barrier_init(&team.begin, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&team.end, NULL, (unsigned)threads + 1);
    for (int cpu = 0; team.n < threads && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        Worker *w = &team.workers[team.n];
        *w = (Worker){.cpu = cpu, .part = {buffer + (size_t)team.n * part, part}};
        team.n++;
        pthread_create(&w->thread, NULL, work, w);
    }
}

static void stop(void) {
    team.quit = true;
    pthread_barrier_wait(&team.begin);
    for (int i = 0; i < team.n; i++)
        pthread_join(team.workers[i].thread, NULL);
}

// The best of three samples, in GB/s.
static double rate(Reader *read, double bytes, double seconds) {
    long times = 1;
    double took;
    while ((took = sample(read, times)) < seconds / 8)
        times *= 4;
    times = 1 + (long)((double)times * seconds / took);
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double r = bytes * (double)times / sample(read, times) / 1e9;
        best = r > best ? r : best;
    }
    return best;
}

static int cpus(void) {
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int n = CPU_COUNT(&allowed);
    return n < MAX_THREADS ? n : MAX_THREADS;
}

int main(int argc, char **argv) {
    double mb = 1024, seconds = 0.2;
    int threads = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--mb"))
            mb = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads"))
            threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = atof(argv[i + 1]);
        else
            argc = 0;
    }
    if (argc % 2 == 0 || !(mb > 0 && mb < 1 << 20 && seconds > 0) || threads < 1 ||
        threads > cpus()) {
        fprintf(stderr, "usage: read_rate [--mb SIZE] [--threads 1..%d] [--seconds PER_SAMPLE]\n",
                cpus());
        return 2;
    }
    // A part is a whole number of steps for every loop: at least one of 1 KiB.
    size_t step = 4 * STEP;
    size_t part = (size_t)(mb * (1 << 20)) / sizeof(Vector) / (size_t)threads / step * step;
    part = part ? part : step;
    size_t bytes = part * (size_t)threads * sizeof(Vector);
    char *pages =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return perror("read_rate"), 5;
    char *buffer = (char *)(((uintptr_t)pages + HUGE_PAGE - 1) & ~((uintptr_t)HUGE_PAGE - 1));
    madvise(buffer, bytes, MADV_HUGEPAGE);
    memset(buffer, 1, bytes);

    start(threads, (const Vector *)buffer, part);
    double best = 0;
    const char *name = "";
    for (int i = 0; i < N_LOOPS; i++) {
        double r = rate(LOOPS[i].read, (double)bytes, seconds);
        if (r > best) best = r, name = LOOPS[i].name;
    }
    stop();
    printf("{\"value\":%.2f,\"unit\":\"GB/s\",\"loop\":\"%s\",\"bytes\":%zu,\"threads\":%d}\n",
           best, name, bytes, threads);
    return 0;
}

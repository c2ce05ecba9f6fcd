// What single things take on this GPU, of which the time of a decoded token is made. For GPUs
// alone, since an emulation has no times.
//
//   calibrate       a line each: name, value, unit, with tabs between
//
// All times are between two CUDA events around many repetitions, the least of five.
#include "scripts/gpu/launch.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

enum { TIMES = 5, KERNELS = 200, BLOCKS_PER_PROCESSOR = 3, THREADS = 256 };

static cudaEvent_t begun, ended;
static int processors;

static void failed(cudaError_t error, const char *call) {
    fprintf(stderr, "calibrate: %.60s: %s (%d)\n", call, cudaGetErrorString(error), (int)error);
    fflush(stdout);
    _Exit(1);
}

static void show(const char *name, double value, const char *unit) {
    printf("%s\t%.4g\t%s\n", name, value, unit);
    fflush(stdout); // what is known stays known if the next thing fails
}

// Microseconds of one call of `work`; the first is not timed.
template <class Work> static double least_time(Work work) {
    double least = 0.0;
    for (int i = 0; i <= TIMES; i++) {
        float ms = 0.0f;
        MUST(cudaEventRecord(begun, stream));
        work();
        MUST(cudaEventRecord(ended, stream));
        MUST(cudaEventSynchronize(ended));
        MUST(cudaEventElapsedTime(&ms, begun, ended));
        if (i == 1 || (i && (double)ms < least)) least = (double)ms;
    }
    return 1e3 * least;
}

// ---- an empty kernel: the gap between two ----

static __global__ void empty_kernel() {
    let_next_kernel_start();
    wait_for_earlier_kernels();
}

static void empty_kernels(bool overlaps) {
    for (int i = 0; i < KERNELS; i++)
        run(overlaps, empty_kernel, (unsigned)(processors * BLOCKS_PER_PROCESSOR), THREADS);
}

static double graph_time(bool overlaps) {
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    empty_kernels(overlaps);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&instance, graph, 0));
    double us = least_time([=] { MUST(cudaGraphLaunch(instance, stream)); }) / KERNELS;
    MUST(cudaGraphExecDestroy(instance));
    MUST(cudaGraphDestroy(graph));
    return us;
}

static void calibrate_launches() {
    show("an empty kernel, launched", least_time([] { empty_kernels(false); }) / KERNELS, "us");
    show("an empty kernel in a graph", graph_time(false), "us");
    if (programmatic) show("an empty kernel in a graph, programmatic", graph_time(true), "us");
}

// ---- latency: one thread that follows a chain of addresses ----

enum { HOPS = 4000, LINE_WORDS = 32 };

static __global__ void chase_kernel(const unsigned *next, unsigned *last) {
    unsigned at = 0;
    for (int i = 0; i < HOPS; i++)
        at = __ldcg(next + at); // past the L1 cache
    *last = at;
}

// One cycle over all lines of so many bytes, in steps that no prefetcher guesses.
static unsigned *make_chain(size_t bytes) {
    size_t lines = bytes / (LINE_WORDS * sizeof(unsigned)), step = lines * 5 / 8 | 1;
    std::vector<unsigned> next(lines * LINE_WORDS);
    for (size_t i = 0, at = 0; i < lines; i++, at = (at + step) % lines)
        next[at * LINE_WORDS] = (unsigned)((at + step) % lines * LINE_WORDS);
    unsigned *memory = nullptr;
    MUST(cudaMalloc((void **)&memory, bytes));
    MUST(cudaMemcpy(memory, next.data(), bytes, cudaMemcpyHostToDevice));
    return memory;
}

// The least of five runs; before each so many bytes of other memory are written, which leaves none
// of the chain in a smaller cache.
static double hop_ns(size_t bytes, size_t written, unsigned *last) {
    unsigned *chain = make_chain(bytes);
    void *other = nullptr;
    if (written) MUST(cudaMalloc(&other, written));
    double least = 0.0;
    for (int i = 0; i <= TIMES; i++) {
        float ms = 0.0f;
        if (written) MUST(cudaMemsetAsync(other, i, written, stream));
        MUST(cudaEventRecord(begun, stream));
        run(false, chase_kernel, 1, 1, chain, last);
        MUST(cudaEventRecord(ended, stream));
        MUST(cudaEventSynchronize(ended));
        MUST(cudaEventElapsedTime(&ms, begun, ended));
        if (i == 1 || (i && (double)ms < least)) least = (double)ms;
    }
    MUST(cudaFree(chain));
    if (written) MUST(cudaFree(other));
    return 1e6 * least / HOPS;
}

static void calibrate_latency(unsigned *last) {
    constexpr size_t MB = 1 << 20;
    show("latency of L2", hop_ns(MB, 0, last), "ns");
    show("latency of memory", hop_ns(256 * MB, 512 * MB, last), "ns");
}

// ---- what joins blocks ----

template <int KIND> static __global__ void fence_kernel(unsigned *cells) {
    unsigned *cell = cells + (blockIdx.x * THREADS + threadIdx.x);
    for (int i = 0; i < HOPS / 10; i++) {
        *(volatile unsigned *)cell = (unsigned)i;
        if (KIND == 1) __threadfence();
        if (KIND == 2 && threadIdx.x == 0) atomicAdd(cells + (size_t)gridDim.x * THREADS, 1u);
        if (KIND == 3) __syncthreads();
    }
}

static void calibrate_fences(unsigned *cells) {
    unsigned blocks = (unsigned)processors;
    double loop = least_time([=] { run(false, fence_kernel<0>, blocks, THREADS, cells); });
    const double runs = HOPS / 10;
    show("a store", 1e3 * loop / runs, "ns");
    show("a fence of the GPU, behind a store",
         1e3 * (least_time([=] { run(false, fence_kernel<1>, blocks, THREADS, cells); }) - loop) /
             runs,
         "ns");
    show("an atomic addition of every block to one counter",
         1e3 * (least_time([=] { run(false, fence_kernel<2>, blocks, THREADS, cells); }) - loop) /
             runs,
         "ns");
    show("a barrier of a block",
         1e3 * (least_time([=] { run(false, fence_kernel<3>, blocks, THREADS, cells); }) - loop) /
             runs,
         "ns");
}

// ---- small copies to the host ----

static __global__ void mapped_kernel(volatile int *mapped) {
    *mapped = 1;
}

static void calibrate_copies(const unsigned *cells) {
    int *pinned = nullptr;
    MUST(cudaMallocHost((void **)&pinned, 64));
    show("a copy of 4 bytes to the host",
         least_time([=] {
             for (int i = 0; i < KERNELS; i++)
                 MUST(cudaMemcpyAsync(pinned, cells, 4, cudaMemcpyDeviceToHost, stream));
         }) / KERNELS,
         "us");
    show("a kernel that writes 4 bytes of the host's memory",
         least_time([=] {
             for (int i = 0; i < KERNELS; i++)
                 run(false, mapped_kernel, 1, 1, pinned);
         }) / KERNELS,
         "us");
    MUST(cudaFreeHost(pinned));
}

// ---- reading ----

static __global__ void read_kernel(const int4 *memory, size_t count, unsigned *never) {
    enum { LOADS = 8 };
    size_t step = (size_t)gridDim.x * THREADS, i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    int all = 0;
    for (; i + (LOADS - 1) * step < count; i += LOADS * step) {
        int4 v[LOADS];
        for (int k = 0; k < LOADS; k++)
            v[k] = load_stream(memory + i + (size_t)k * step);
        for (int k = 0; k < LOADS; k++)
            all |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (all) *never = 1; // all words are the same
}

// From what one kernel of a small model reads to what all of a large one does.
static void calibrate_reading(unsigned *never) {
    for (size_t mb = 1; mb <= 4096; mb *= 4) {
        int4 *memory = nullptr;
        size_t bytes = mb << 20;
        if (cudaMalloc((void **)&memory, bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            return;
        }
        MUST(cudaMemsetAsync(memory, 0x5a, bytes, stream));
        unsigned blocks = (unsigned)(processors * 8);
        double us = least_time(
            [=] { run(false, read_kernel, blocks, THREADS, memory, bytes / 16, never); });
        char name[64];
        snprintf(name, sizeof name, "reading %zu MiB%s", mb,
                 mb < 64 ? " (in L2, where it fits)" : "");
        show(name, (double)bytes / us / 1e3, "GB/s");
        MUST(cudaFree(memory));
    }
}

int main(void) {
    cudaDeviceProp properties;
    open_gpu(&properties);
    processors = properties.multiProcessorCount;
    MUST(cudaEventCreate(&begun));
    MUST(cudaEventCreate(&ended));
    unsigned *cells = nullptr;
    size_t bytes = ((size_t)processors * THREADS + 64) * sizeof *cells;
    MUST(cudaMalloc((void **)&cells, bytes));
    MUST(cudaMemset(cells, 0, bytes));
    calibrate_launches();
    calibrate_fences(cells);
    calibrate_copies(cells);
    calibrate_reading(cells);
    calibrate_latency(cells);
    return 0;
}

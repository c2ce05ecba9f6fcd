// The host calls that kernels/cuda makes: memory, streams, events, graphs. Launches: launch.cpp.
#include "tests/cuda/emulator.h"

#include "tests/cuda/fibers.h"
#include "tests/cuda/schedule.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

struct EmulatorGraph {
    std::vector<std::function<void()>> nodes;
};
struct EmulatorStream {
    EmulatorGraph *capturing;
};
struct EmulatorEvent {
    long recorded, happened; // how often
    double seconds;          // of the host's clock, when it last happened
};

namespace {

long calls, failing_call, live_objects;
size_t memory_bytes = (size_t)1 << 34, memory_used;
std::unordered_map<void *, size_t> memory_blocks; // of the GPU
cudaError_t failing_with;
int driver_version = 13000, gpus = 1, capability = 90;

// Every host call passes here; the one that the test names fails.
bool fails(cudaError_t *error) {
    *error = ++calls == failing_call ? failing_with : cudaSuccess;
    return *error != cudaSuccess;
}

// Work of a stream runs as late as possible: when the host waits for it, or frees memory. So a host
// that reads too early, or overwrites what is still to be read, fails every time.
std::deque<std::function<void()>> pending;

void run_pending() {
    for (; !pending.empty(); pending.pop_front())
        pending.front()();
}

void run_next() {
    std::function<void()> work = pending.front();
    pending.pop_front();
    work();
}

template <class Work> cudaError_t enqueue(cudaStream_t stream, Work work) {
    if (stream && stream->capturing)
        stream->capturing->nodes.push_back(work);
    else if (stream)
        pending.push_back(work);
    else
        work();
    return cudaSuccess;
}

// All that was allocated, by where it begins: what a kernel may access.
std::map<uintptr_t, size_t> allocated;

// Memory of cudaMallocHost. A copy to any other memory of the host has been made when the call
// returns. One from there may have been, or may be made when the stream gets there: here it is as
// late as all other work.
std::map<const void *, size_t> pinned;

bool is_pinned(const void *p) {
    auto after = pinned.upper_bound(p);
    if (after == pinned.begin()) return false;
    --after;
    return (const char *)p < (const char *)after->first + after->second;
}

} // namespace

extern "C" void emulator_fail_call(long number, int error) {
    calls = 0;
    failing_call = number;
    failing_with = (cudaError_t)error;
}

extern "C" long emulator_calls(void) {
    return calls;
}

static unsigned processors_now = 2; // so that a grid's blocks walk over several rows

unsigned emulator::processors() {
    return processors_now;
}
extern "C" void emulator_processors(unsigned count) {
    processors_now = count;
}

extern "C" void emulator_memory(size_t bytes) {
    memory_bytes = bytes;
}

extern "C" void emulator_machine(int driver, int n_gpus, int compute_capability) {
    driver_version = driver, gpus = n_gpus, capability = compute_capability;
}

// The same for a program that runs as a child of a test: what these variables say when it starts.
__attribute__((constructor)) static void take_environment() {
    const char *machine = getenv("EMULATOR_MACHINE"), *fail = getenv("EMULATOR_FAIL");
    if (machine)
        sscanf(machine, "%d %d %d %zu", &driver_version, &gpus, &capability, &memory_bytes);
    long number = 0;
    int error = 0;
    if (fail && sscanf(fail, "%ld %d", &number, &error) == 2) emulator_fail_call(number, error);
}

extern "C" size_t emulator_memory_used(void) {
    return memory_used;
}

extern "C" long emulator_live_objects(void) {
    return live_objects;
}

bool emulator::call_fails(cudaError_t *error) {
    return fails(error);
}

void emulator::count_objects(long more) {
    live_objects += more;
}

void emulator::finish() {
    run_pending();
}

// What a GPU answers with a fault of its memory.
void emulator::store_for_host(uint64_t *p, uint64_t value) {
    if (!is_pinned(p)) {
        fprintf(stderr, "emulator: a kernel writes to %p, which is no pinned memory\n", (void *)p);
        abort();
    }
    if (has_to_wait()) die("a store for the host before wait_for_earlier_kernels");
    *p = value;
}

void emulator::run_in(cudaStream_t stream, std::function<void()> work) {
    enqueue(stream, work);
}

int emulator::compute_capability() {
    return capability;
}

bool emulator::is_capturing(cudaStream_t stream) {
    return stream && stream->capturing;
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorCooperativeLaunchTooLarge: return "cudaErrorCooperativeLaunchTooLarge";
    default: return "cudaErrorOther";
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error made by a test";
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t error;
    if (fails(&error)) return error; // the count stays unwritten, as on a machine without a driver
    if (driver_version < 13000) return cudaErrorInsufficientDriver;
    *count = gpus;
    return cudaSuccess;
}

// These two only tell: they are not made to fail.
cudaError_t cudaDriverGetVersion(int *version) {
    *version = driver_version;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int) {
    cudaError_t error;
    fails(&error);
    return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    cudaError_t error;
    if (fails(&error)) return error;
    *properties = cudaDeviceProp{};
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->totalGlobalMem = memory_bytes;
    properties->sharedMemPerBlockOptin = 99 << 10; // as sm_120 has it: small rings
    properties->multiProcessorCount = (int)emulator::processors();
    properties->major = capability / 10;
    properties->minor = capability % 10;
    return cudaSuccess;
}

// Messages and measurements alone ask: it is not made to fail. An L2 cache of 1000 bytes, too.
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 1000;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    cudaError_t error;
    if (fails(&error)) return error;
    *total_bytes = memory_bytes;
    *free_bytes = memory_bytes > memory_used ? memory_bytes - memory_used : 0;
    return cudaSuccess;
}

bool emulator::memory_at(uint64_t address, uint64_t *begin, uint64_t *end) {
    auto after = allocated.upper_bound((uintptr_t)address);
    if (after == allocated.begin()) return false;
    --after;
    *begin = after->first, *end = after->first + after->second;
    return address < *end;
}

// By the stream, and not by a kernel.
template <class Store> static void store(void *to, Store action) {
    emulator::watched_memory_open(to);
    action();
    emulator::watched_memory_close(to);
}

static cudaError_t allocate(void **memory, size_t bytes, bool watched) {
    cudaError_t error;
    if (fails(&error)) return error;
    if (watched)
        *memory = emulator::watched_memory_take(bytes);
    else if (posix_memalign(memory, 256, bytes))
        *memory = nullptr;
    if (!*memory) return cudaErrorMemoryAllocation;
    allocated[(uintptr_t)*memory] = bytes;
    store(*memory, [=] { emulator::fill(*memory, 0xff, bytes); });
    live_objects++;
    return cudaSuccess;
}

// Freeing and destroying never fails here: the backend ignores such failures.
cudaError_t cudaFreeHost(void *memory) {
    run_pending();
    live_objects -= memory != nullptr;
    pinned.erase(memory);
    allocated.erase((uintptr_t)memory);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    cudaError_t error = allocate(memory, bytes, false);
    if (error == cudaSuccess) pinned[*memory] = bytes;
    return error;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (memory_used + bytes > memory_bytes) return cudaErrorMemoryAllocation;
    cudaError_t error = allocate(memory, bytes, emulator::schedule() >= emulator::SIDE_BY_SIDE);
    if (error == cudaSuccess) memory_used += memory_blocks[*memory] = bytes;
    return error;
}

cudaError_t cudaFree(void *memory) {
    run_pending();
    memory_used -= memory_blocks[memory];
    memory_blocks.erase(memory);
    allocated.erase((uintptr_t)memory);
    if (!emulator::watched_memory_give(memory)) return cudaFreeHost(memory);
    live_objects--;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    return enqueue(stream, [=] { store(memory, [=] { emulator::fill(memory, value, bytes); }); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    enqueue(stream, [=] { store(to, [=] { memmove(to, from, bytes); }); });
    bool waits = kind == cudaMemcpyDeviceToHost && !is_pinned(to);
    if (waits && !(stream && stream->capturing)) run_pending();
    return cudaSuccess;
}

template <class T> static cudaError_t create(T **object) {
    cudaError_t error;
    if (fails(&error)) return error;
    *object = new T{};
    live_objects++;
    return cudaSuccess;
}

template <class T> static cudaError_t destroy(T *object) {
    live_objects -= object != nullptr;
    delete object;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    return create(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    run_pending();
    if (stream) destroy(stream->capturing);
    return destroy(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    if (stream && stream->capturing) return cudaErrorInvalidValue;
    run_pending();
    return cudaSuccess;
}

// The next piece of work has ended each time a host asks that goes on waiting.
cudaError_t cudaStreamQuery(cudaStream_t) {
    cudaError_t error;
    if (fails(&error)) return error;
    if (pending.empty()) return cudaSuccess;
    run_next();
    return cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    return create(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    run_pending();
    return destroy(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    event->recorded++;
    return enqueue(stream, [=] {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        event->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        event->happened++;
    });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    cudaError_t error;
    *milliseconds = (float)((to->seconds - from->seconds) * 1e3);
    fails(&error);
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error;
    if (fails(&error)) return error;
    while (event->happened < event->recorded) // and no further than that
        run_next();
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    return create(&stream->capturing);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error;
    *graph = nullptr;
    if (fails(&error)) {
        destroy(stream->capturing);
    } else {
        *graph = stream->capturing;
    }
    stream->capturing = nullptr;
    return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph, unsigned long long) {
    cudaError_t error = create(instance);
    if (error == cudaSuccess) (*instance)->nodes = graph->nodes;
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return destroy(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
    run_pending();
    return destroy(instance);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    return enqueue(stream, [=] {
        for (const std::function<void()> &node : instance->nodes)
            node();
    });
}

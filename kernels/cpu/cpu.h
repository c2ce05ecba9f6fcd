// What the files of the cpu backend share: the device, its threads, and the kernels of the
// instruction set that was chosen at start.
//
// Files here are compiled once and hold what is cheap: arguments, lists of work, memory. Files in
// lanes/ are compiled once per instruction set over simd.h and hold the loops; each exports one
// table of functions under ISA_NAME(...), and device_open picks a row of tables.
#pragma once

#include "kernels/cpu/pool.h"
#include "kernels/cpu/project_kernels.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/kernels.h"

// One instruction set: what lanes/*.c export for it.
typedef struct CpuKernels {
    const char *name;              // "avx2": what LIMPID_ISA calls it
    const char *features;          // for DeviceInfo.description
    const ProjectKernels *project; // lanes/project_*.c: packed matrices
    const RowKernels *rows;        // all other operations
    const LimitKernels *limits;    // for bench
} CpuKernels;

typedef struct Allocation Allocation; // device.c: a header before each block of device memory
typedef struct PanelChunk PanelChunk; // panel_memory.c: a mapping for packed matrices

struct Device {
    Error error;
    DeviceInfo info; // threads: 1 .. PROCESSORS_MOST
    Precision precision;
    const CpuKernels *kernels;
    Prefetch prefetch;  // PanelWork's
    Pool *pool;         // owned; NULL with one thread or after a failure
    int active_threads; // of these that device_run uses now: all, or 1
    PassThreads pass_threads;
    double pass_began;       // seconds_now
    StopFlag *stop;          // PassShape.stop between device_begin and device_end, else NULL
    size_t parts;            // into which one thread cuts an operation, to look at `stop`; 1: none
    Allocation *allocations; // all of device_alloc, freed by device_close
    PanelChunk *panel_chunks;
    size_t taken, planned; // bytes: of both, and of the matrices announced so far
    size_t packed;         // bytes of panel memory

    // Scratch, made by device_reserve. It grows with what the matrices need, so these are noted by
    // device_matrix.
    size_t max_cols;                   // of any matrix
    size_t max_matrix_rows;            // of any matrix: sampling takes that many logits
    bool needs_integers, needs_floats; // forms of the inputs that some matrix needs
    struct ProjectScratch *project;    // project.c: one call's inputs, unpacked panels
    struct SampleScratch *sampling;    // sample.c
    int max_rows;                      // as given to device_reserve
    int32_t sent[SEND_SLOTS];          // device_send

    uint8_t *read_buffer; // limits.c; NULL until it is asked for
    size_t read_buffer_bytes;
};

// Keeps the first failure, with exit code 6 (5: no memory).
void device_fail(Device *device, ErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool device_ok(const Device *device) {
    return device->error.code == ERROR_NONE;
}

// Runs task(context, begin, end, thread) over the items 0 .. n_items - 1 on the active threads of
// the device, one or several times `chunk` (>= 1) items at a time in any order; returns when all
// are done. No more than one chunk: on the caller's thread, without waking any other. Handing one
// over costs about half a microsecond, so it is worth at least as much. `thread` (0 .. threads - 1)
// names scratch, never results.
void device_run(Device *device, PoolTask *task, void *context, size_t n_items, size_t chunk);

// How many items make a chunk that is worth handing over (half a microsecond or more), when an item
// costs about `work` multiply-adds. A divided or exponentiated element counts as 8.
static inline size_t work_chunk(size_t work) {
    size_t items = 16384 / (work ? work : 1);
    return items ? items : 1;
}

// Parts of device_reserve; a failure goes into the device.
void project_reserve(Device *device, int max_rows); // project.c
void sample_reserve(Device *device);                // sample.c; kv_open makes attention's

// The bytes that these and kv_open allocate.
size_t project_needs(Device *device, int max_rows);
size_t sample_needs(const Device *device);
size_t kv_needs(const Device *device, const KvShape *shape);

// Zeroed memory for packed weights, aligned to 64 bytes; NULL after a failure, which is kept.
void *panel_memory(Device *device, size_t bytes);
size_t panel_memory_needs(size_t bytes); // `bytes` in whole lines of 64; SIZE_MAX: too many
void panel_memory_close(Device *device); // all of it

// Frees what measuring the limits took: limits.c.
void limits_close(Device *device);

// A thread's own row of at least max_cols floats, until the next project; so QUANTISE_SCRATCH of
// any matrix fits.
float *project_scratch_row(const Device *device, int thread);

// The instruction sets in this program, best first, the last one portable; *count of them.
const CpuKernels *const *isa_list(size_t *count);
bool isa_supported(const CpuKernels *kernels); // by the processor that this runs on

// How this processor reads a stream fastest (lanes/cells.h).
Prefetch isa_prefetch(void);

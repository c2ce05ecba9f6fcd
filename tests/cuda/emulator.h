// What tests of the emulated CUDA backend can ask of the emulator besides running kernels.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The host call with that number, counted from 1 from here on, fails with `error` (a cudaError_t);
// 0: none does.
void emulator_fail_call(long number, int error);

// Host calls since the last emulator_fail_call.
long emulator_calls(void);

// Kernels that have run since the program began, those of replayed graphs among them.
long emulator_kernels(void);

// Device memory, pinned memory, streams, events and graphs that exist: 0 where nothing leaks.
long emulator_live_objects(void);

// From here on there is no cuBLASLt to open (1), or there is (0).
void emulator_hide_cublas(int hide);

// Products that cuBLASLt has made since the program began.
long emulator_cublas_products(void);

// The GPU has so much memory from here on (at first 16 GiB).
void emulator_memory(size_t bytes);
size_t emulator_memory_used(void); // and so much of it is in use

// The driver is good for that CUDA version (13000: 13.0; 0: there is none), so many GPUs are to be
// seen, and they have that compute capability (90: sm_90). At first 13000, 1, 90.
void emulator_machine(int driver, int gpus, int capability);

// A child has them from its environment:
//   EMULATOR_MACHINE   driver, gpus, capability (and bytes of memory), "12080 1 90"
//   EMULATOR_FAIL      number of the call that fails and its error, "30 719"

// Whether AddressSanitizer watches the kernels.
int emulator_watches_addresses(void);

// Runs a kernel with a mistake (broken.cu) over out[64].
typedef enum BrokenKernel {
    BROKEN_DIVERGENT_BARRIER,
    BROKEN_ABSENT_LANES,
    BROKEN_UNSET_SHARED,
    BROKEN_MISSING_BARRIER,
    BROKEN_PAST_THE_END,
    BROKEN_PAST_SHARED,
} BrokenKernel;
void emulator_run_broken(BrokenKernel kind, float *out);

#ifdef __cplusplus
}
#endif

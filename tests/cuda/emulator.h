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

// And so many processors: at first 2. All blocks of a cooperative launch run at once.
void emulator_processors(unsigned count);
size_t emulator_memory_used(void); // and so much of it is in use

// The driver is good for that CUDA version (13000: 13.0; 0: there is none), so many GPUs are to be
// seen, and they have that compute capability (90: sm_90). At first 13000, 1, 90.
void emulator_machine(int driver, int gpus, int capability);

// A child has them from its environment:
//   EMULATOR_MACHINE   driver, gpus, capability (and bytes of memory), "12080 1 90"
//   EMULATOR_FAIL      number of the call that fails and its error, "30 719"

// Whether AddressSanitizer watches the kernels.
int emulator_watches_addresses(void);

// How the threads of a kernel are run: EMULATOR_SCHEDULE, read at every launch and allocation, is 0
// to 4 for one block after another, and any number above for several side by side (fibers.cpp).

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

// Runs kernels that meet others of their kind, or other blocks (broken_meetings.cu): with a
// mistake, or the sound one that differs by the mistake alone. out[64] is then full of
// MEETING_RESULT where nothing went wrong.
typedef enum Meeting {
    MEET_LOAD_BEFORE_WAIT,          // of what the kernel before stores
    MEET_LOAD_BEFORE_WAIT_IN_CHAIN, // of what the kernel before that one stores
    MEET_STORE_BEFORE_WAIT,         // into what the kernel before loads
    MEET_COPY_BEFORE_WAIT, // asynchronous, to shared memory, of what the kernel before stores
    MEET_BULK_COPY_BEFORE_WAIT,
    MEET_TELL_BEFORE_WAIT, // the host
    MEET_WITHOUT_WAIT,     // so the kernel after it would wait for too little
    MEET_SOUND_WAIT,       // weights before the wait, the rest after it
    MEET_WITHOUT_COUNTER,  // sums of other blocks are taken whether they are there or not
    MEET_EARLY_COUNT,      // counted as there before all threads have stored
    MEET_SOUND_COUNT,
} Meeting;
#define MEETING_RESULT 4.0f
void emulator_run_meeting(Meeting kind, float *out);

// Runs a kernel whose blocks wait for each other and whose warps have rings of weights
// (broken_resident.cu): with a mistake, or the sound one. out[64] is full of MEETING_RESULT where
// nothing went wrong.
typedef enum Resident {
    RESIDENT_SOUND,
    RESIDENT_WITHOUT_GRID_BARRIER, // before what the other block has stored is loaded
    RESIDENT_NOT_COOPERATIVE,      // launched so that the blocks need not run at once
    RESIDENT_READ_BEFORE_WAIT,     // of a slot, for its copy
    RESIDENT_WRONG_PARITY,
    RESIDENT_WITHOUT_SYNCWARP, // between the last read of a slot and its next copy
    RESIDENT_WITHOUT_INIT,     // of a copy barrier
    RESIDENT_FEWER_BYTES,      // copied than expected
    RESIDENT_MORE_BYTES,
    RESIDENT_COPY_PAST_THE_END, // of the weights
    RESIDENT_ENDS_EARLY,        // while a copy is under way
} Resident;
void emulator_run_resident(Resident kind, float *out);

// The cudaError_t of a cooperative launch of so many blocks that have so much shared memory, after
// cudaFuncSetAttribute with `most_memory` (0: without it); or that of cudaFuncSetAttribute.
int emulator_try_launch(unsigned blocks, size_t most_memory, size_t memory);

#ifdef __cplusplus
}
#endif

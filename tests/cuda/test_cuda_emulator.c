// The emulator itself: kernels with one mistake each, and what it makes of them. Where it would
// stay silent, so would every test of the CUDA backend that runs on it.
#include "tests/cuda/emulator.h"
#include "tests/test.h"

#include <sys/wait.h>
#include <unistd.h>

// Runs the kernel in a child, whose complaint goes to /dev/null: true where it did not end well.
static bool dies(BrokenKernel kernel) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (!child) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        float *out = malloc(64 * sizeof *out);
        emulator_run_broken(kernel, out);
        free(out);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}

Test(cuda_emulator, finds_barriers_that_not_every_thread_reaches) {
    CHECK(dies(BROKEN_DIVERGENT_BARRIER));
}

Test(cuda_emulator, finds_shuffles_with_lanes_that_are_not_there) {
    CHECK(dies(BROKEN_ABSENT_LANES));
}

Test(cuda_emulator, fills_shared_memory_with_nan) {
    float out[64] = {0};
    emulator_run_broken(BROKEN_UNSET_SHARED, out);
    for (int i = 0; i < 64; i++)
        CHECK(isnan(out[i]), "out[%d] is %g", i, (double)out[i]);
}

// In the first order a thread's neighbour above has not written yet, in the second none below has.
Test(cuda_emulator, shows_a_missing_barrier) {
    float up[64] = {0}, down[64] = {0};
    setenv("EMULATOR_SCHEDULE", "0", 1);
    emulator_run_broken(BROKEN_MISSING_BARRIER, up);
    setenv("EMULATOR_SCHEDULE", "1", 1);
    emulator_run_broken(BROKEN_MISSING_BARRIER, down);
    unsetenv("EMULATOR_SCHEDULE");
    CHECK(isnan(up[0]) && up[63] == 0.0f, "up: %g, %g", (double)up[0], (double)up[63]);
    CHECK(isnan(down[63]) && down[0] == 63.0f, "down: %g, %g", (double)down[0], (double)down[63]);
}

Test(cuda_emulator, finds_accesses_past_the_end) {
    if (!emulator_watches_addresses()) SKIP("the kernels are built without AddressSanitizer");
    CHECK(dies(BROKEN_PAST_THE_END));
    CHECK(dies(BROKEN_PAST_SHARED));
}

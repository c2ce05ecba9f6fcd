// The emulator itself: kernels with one mistake each, and what it makes of them. Where it would
// stay silent, so would every test of the CUDA backend that runs on it.
#include "tests/cuda/emulator.h"
#include "tests/test.h"

#include <sys/wait.h>
#include <unistd.h>

// Runs the kernel in a child, whose complaint goes to /dev/null: true where it did not end well.
static bool child_dies(void (*run)(int kernel, float *out), int kernel) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (!child) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        float *out = malloc(64 * sizeof *out);
        run(kernel, out);
        free(out);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}

static void run_broken(int kernel, float *out) {
    emulator_run_broken((BrokenKernel)kernel, out);
}
static bool dies(BrokenKernel kernel) {
    return child_dies(run_broken, (int)kernel);
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

// ---- kernels that overlap, and blocks that meet ----

static void use_schedule(int schedule) {
    char text[16];
    snprintf(text, sizeof text, "%d", schedule);
    setenv("EMULATOR_SCHEDULE", text, 1);
}

static void run_meeting(int kind, float *out) {
    emulator_run_meeting((Meeting)kind, out);
}

// Whether all of the result is what it should be.
static bool run_is_right(void (*run)(int kernel, float *out), int kernel, int schedule) {
    float out[64];
    use_schedule(schedule);
    run(kernel, out);
    unsetenv("EMULATOR_SCHEDULE");
    bool right = true;
    for (int i = 0; i < 64; i++)
        right &= out[i] == MEETING_RESULT;
    return right;
}

static bool is_right(Meeting kind, int schedule) {
    return run_is_right(run_meeting, (int)kind, schedule);
}

static bool run_dies(void (*run)(int kernel, float *out), int kernel, int schedule) {
    use_schedule(schedule);
    bool died = child_dies(run, kernel);
    unsetenv("EMULATOR_SCHEDULE");
    return died;
}

static bool dies_side_by_side(Meeting kind) {
    return run_dies(run_meeting, (int)kind, 5);
}

// One block after another, and one kernel after another, every mistake stays unseen: so it is the
// new schedules that find it.
Test(cuda_emulator, runs_one_kernel_after_another_unless_told_otherwise) {
    CHECK(is_right(MEET_LOAD_BEFORE_WAIT, 0) && is_right(MEET_LOAD_BEFORE_WAIT_IN_CHAIN, 0));
    CHECK(is_right(MEET_STORE_BEFORE_WAIT, 0) && is_right(MEET_WITHOUT_WAIT, 0));
    CHECK(is_right(MEET_BULK_COPY_BEFORE_WAIT, 0));
    CHECK(is_right(MEET_COPY_BEFORE_WAIT, 0) && is_right(MEET_TELL_BEFORE_WAIT, 0));
    CHECK(is_right(MEET_WITHOUT_COUNTER, 0) && is_right(MEET_EARLY_COUNT, 0));
    CHECK(is_right(MEET_EARLY_COUNT, 4));
}

Test(cuda_emulator, finds_loads_before_the_wait_for_earlier_kernels) {
    CHECK(dies_side_by_side(MEET_LOAD_BEFORE_WAIT));
    CHECK(dies_side_by_side(MEET_LOAD_BEFORE_WAIT_IN_CHAIN));
    CHECK(dies_side_by_side(MEET_COPY_BEFORE_WAIT));
    CHECK(dies_side_by_side(MEET_BULK_COPY_BEFORE_WAIT));
}

Test(cuda_emulator, finds_stores_before_the_wait_for_earlier_kernels) {
    CHECK(dies_side_by_side(MEET_STORE_BEFORE_WAIT));
    CHECK(dies_side_by_side(MEET_TELL_BEFORE_WAIT));
}

Test(cuda_emulator, finds_kernels_that_overlap_and_never_wait) {
    CHECK(dies_side_by_side(MEET_WITHOUT_WAIT));
}

// How many of twenty schedules of blocks side by side give another result.
static int times_wrong(Meeting kind) {
    int wrong = 0;
    for (int schedule = 5; schedule < 25; schedule++)
        wrong += !is_right(kind, schedule);
    return wrong;
}

Test(cuda_emulator, shows_blocks_that_take_what_is_not_there_yet) {
    int without = times_wrong(MEET_WITHOUT_COUNTER), early = times_wrong(MEET_EARLY_COUNT);
    CHECK(without >= 5, "without a counter: %d of 20 schedules show it", without);
    CHECK(early >= 3, "counted too early: %d of 20 schedules show it", early);
}

Test(cuda_emulator, accepts_weights_before_the_wait_and_blocks_that_count) {
    CHECK(times_wrong(MEET_SOUND_WAIT) == 0);
    CHECK(times_wrong(MEET_SOUND_COUNT) == 0);
}

// ---- kernels that stay, and bulk copies ----

static void run_resident(int kind, float *out) {
    emulator_run_resident((Resident)kind, out);
}

static void require_resident(int kind, float *out) {
    run_resident(kind, out);
    for (int i = 0; i < 64; i++)
        if (out[i] != MEETING_RESULT) abort();
}

static bool resident_dies(Resident kind, int schedule) {
    return run_dies(run_resident, (int)kind, schedule);
}

// In how many of the first ten schedules the mistake is found, or the result is wrong.
static int times_found(Resident kind) {
    int found = 0;
    for (int schedule = 0; schedule < 10; schedule++)
        found += run_dies(require_resident, (int)kind, schedule);
    return found;
}

Test(cuda_emulator, runs_all_blocks_of_a_cooperative_launch_at_once) {
    CHECK(times_found(RESIDENT_SOUND) == 0);
}

Test(cuda_emulator, shows_blocks_that_do_not_wait_for_each_other) {
    int found = times_found(RESIDENT_WITHOUT_GRID_BARRIER);
    CHECK(found >= 7, "without a grid barrier: %d of 10 schedules show it", found);
}

Test(cuda_emulator, finds_blocks_that_wait_for_blocks_which_do_not_run) {
    for (int schedule = 0; schedule < 10; schedule++)
        CHECK(resident_dies(RESIDENT_NOT_COOPERATIVE, schedule), "schedule %d", schedule);
}

Test(cuda_emulator, shows_slots_that_are_read_before_their_copy) {
    CHECK(!run_is_right(run_resident, RESIDENT_READ_BEFORE_WAIT, 0)); // the child did not die
    int early = times_found(RESIDENT_READ_BEFORE_WAIT), parity = times_found(RESIDENT_WRONG_PARITY);
    CHECK(early >= 7, "read before the wait: %d of 10 schedules show it", early);
    CHECK(parity >= 7, "with the wrong parity: %d of 10 schedules show it", parity);
}

Test(cuda_emulator, shows_slots_that_are_filled_while_lanes_read_them) {
    int found = times_found(RESIDENT_WITHOUT_SYNCWARP);
    CHECK(found >= 7, "without __syncwarp: %d of 10 schedules show it", found);
}

Test(cuda_emulator, finds_mistakes_with_copy_barriers) {
    for (int schedule = 0; schedule < 7; schedule++) {
        CHECK(resident_dies(RESIDENT_WITHOUT_INIT, schedule), "schedule %d", schedule);
        CHECK(resident_dies(RESIDENT_FEWER_BYTES, schedule), "schedule %d", schedule);
        CHECK(resident_dies(RESIDENT_MORE_BYTES, schedule), "schedule %d", schedule);
        CHECK(resident_dies(RESIDENT_COPY_PAST_THE_END, schedule), "schedule %d", schedule);
    }
    CHECK(resident_dies(RESIDENT_ENDS_EARLY, 0));
}

Test(cuda_emulator, refuses_launches_that_do_not_fit) {
    enum { INVALID_VALUE = 1, TOO_LARGE = 720, KIB = 1024 };
    CHECK(emulator_try_launch(2, 0, 48 * KIB) == 0);
    CHECK(emulator_try_launch(2, 0, 48 * KIB + 1) == INVALID_VALUE);
    CHECK(emulator_try_launch(2, 100 * KIB, 100 * KIB) == 0);
    CHECK(emulator_try_launch(2, 100 * KIB, 101 * KIB) == INVALID_VALUE);
    CHECK(emulator_try_launch(2, 227 * KIB, 227 * KIB) == 0);
    CHECK(emulator_try_launch(2, 228 * KIB, 228 * KIB) == INVALID_VALUE);
    CHECK(emulator_try_launch(3, 0, 0) == TOO_LARGE);
    emulator_machine(13000, 1, 120); // a GPU with less shared memory
    CHECK(emulator_try_launch(2, 100 * KIB, 0) == INVALID_VALUE);
    CHECK(emulator_try_launch(2, 99 * KIB, 99 * KIB) == 0);
    emulator_machine(13000, 1, 90);
    emulator_fail_call(1, 2);
    CHECK(emulator_try_launch(2, 48 * KIB, 0) == 2); // cudaFuncSetAttribute, made to fail
    emulator_fail_call(0, 0);
}

// The choice between all threads and one, fed with times that are made up: which way the passes
// take, and how much of them is spent on trying the other.
#include "kernels/cpu/pool.h"
#include "tests/test.h"

typedef struct Machine {
    double all, alone; // seconds of a pass
    double noise;      // every 7th pass takes so many times as long
    int pass;
} Machine;

// The share of `count` passes of n rows that ran on all threads.
static double share_on_all(PassThreads *threads, Machine *machine, int n, int count) {
    int on_all = 0;
    for (int i = 0; i < count; i++) {
        bool all = pass_threads_begin(threads, n);
        double seconds = all ? machine->all : machine->alone;
        if (machine->noise > 0 && machine->pass++ % 7 == 0) seconds *= machine->noise;
        pass_threads_end(threads, seconds);
        on_all += all;
    }
    return (double)on_all / count;
}

Test(pass_threads, a_small_pass_runs_on_one_thread_where_that_is_faster) {
    PassThreads threads = {0};
    Machine machine = {.all = 140e-6, .alone = 100e-6};
    share_on_all(&threads, &machine, 1, 20);
    double share = share_on_all(&threads, &machine, 1, 2000);
    CHECK(share < 0.02, "%g of the passes on the slower way", share);
    CHECK(share > 0, "the other way is never tried again");
}

Test(pass_threads, a_small_pass_runs_on_all_threads_where_that_is_faster) {
    PassThreads threads = {0};
    Machine machine = {.all = 300e-6, .alone = 500e-6};
    share_on_all(&threads, &machine, 1, 20);
    double share = share_on_all(&threads, &machine, 1, 2000);
    CHECK(share > 0.98 && share < 1, "%g", share);
}

Test(pass_threads, a_difference_within_the_noise_changes_nothing) {
    PassThreads threads = {0};
    Machine machine = {.all = 101e-6, .alone = 100e-6};
    double share = share_on_all(&threads, &machine, 1, 2000);
    CHECK(share > 0.98, "%g", share);
}

Test(pass_threads, a_long_pass_is_never_tried_alone) {
    PassThreads threads = {0};
    Machine machine = {.all = 5e-3, .alone = 1e-6};
    CHECK(share_on_all(&threads, &machine, 1, 2000) == 1, "tried");
}

Test(pass_threads, outliers_do_not_turn_the_choice) {
    PassThreads threads = {0};
    Machine machine = {.all = 140e-6, .alone = 100e-6, .noise = 50};
    share_on_all(&threads, &machine, 1, 400);
    double share = share_on_all(&threads, &machine, 1, 4000);
    CHECK(share < 0.05, "%g", share);
}

Test(pass_threads, the_choice_follows_the_machine) {
    PassThreads threads = {0};
    Machine machine = {.all = 140e-6, .alone = 100e-6};
    share_on_all(&threads, &machine, 1, 1000);
    machine.all = 60e-6; // the other processor is free again
    share_on_all(&threads, &machine, 1, 1100);
    double share = share_on_all(&threads, &machine, 1, 500);
    CHECK(share > 0.9, "%g", share);
    machine.alone = machine.all = 3e-3; // the context has grown: long passes go to all
    share = share_on_all(&threads, &machine, 1, 500);
    CHECK(share > 0.9, "%g", share);
}

Test(pass_threads, a_prompt_and_a_token_are_chosen_for_apart) {
    PassThreads threads = {0};
    Machine token = {.all = 140e-6, .alone = 100e-6}, prompt = {.all = 500e-6, .alone = 900e-6};
    double of_token = 0, of_prompt = 0;
    for (int i = 0; i < 500; i++) {
        of_token += share_on_all(&threads, &token, 1, 1);
        of_prompt += share_on_all(&threads, &prompt, 64, 1);
    }
    CHECK(of_token < 50 && of_prompt > 450, "%g and %g", of_token, of_prompt);
    share_on_all(&threads, &prompt, 1 << 30, 10); // any number of rows has a class
}

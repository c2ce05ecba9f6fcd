// The choice between all threads and one, by the median of the last three times of each.
#include "kernels/cpu/pool.h"

#include <string.h>

// Passes between two trials. A trial is TRIAL_PASSES passes: 4 in 68 at first, 4 in 4,100 in the
// end.
enum { FIRST_INTERVAL = 64, LAST_INTERVAL = 4096 };
static const double LONG_PASS = 1e-3; // seconds
static const double FASTER_BY = 0.97; // of the chosen way's time: less is within the noise

static void add_time(PassTimes *times, double seconds) {
    // The first pass after a change finds threads asleep and caches cold.
    if (times->count++ == 0) return;
    memmove(times->seconds, times->seconds + 1, sizeof times->seconds - sizeof *times->seconds);
    times->seconds[TRIAL_SAMPLES - 1] = seconds;
    if (times->count > TRIAL_PASSES) times->count = TRIAL_PASSES;
}

// Of three. A median and not a mean: a pass that was interrupted takes many times as long.
static double median(const PassTimes *times) {
    double a = times->seconds[0], b = times->seconds[1], c = times->seconds[2];
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

// The times of the trial become those of the chosen way, so the two need not be measured again.
static void choose_other(PassClass *c) {
    c->alone = !c->alone;
    c->chosen = c->other;
    c->interval = 0;
}

// The other way has been tried: keeps the faster one, and says when to look again.
static void end_trial(PassClass *c) {
    c->trying = false;
    if (median(&c->other) < FASTER_BY * median(&c->chosen)) choose_other(c);
    c->interval = c->interval ? 2 * c->interval : FIRST_INTERVAL;
    if (c->interval > LAST_INTERVAL) c->interval = LAST_INTERVAL;
    c->until_trial = c->interval;
}

static void start_trial(PassClass *c) {
    c->trying = true;
    c->other = (PassTimes){0};
}

bool pass_threads_begin(PassThreads *threads, int n_rows) {
    // The class is the floor of the binary logarithm of n_rows.
    int class = 0;
    while (n_rows >>= 1)
        class ++;
    PassClass *c = &threads->classes[class < PASS_CLASSES ? class : PASS_CLASSES - 1];
    threads->current = c;
    // All threads: they are chosen and not on trial against one, or one is chosen and they are on
    // trial.
    return c->alone == c->trying;
}

void pass_threads_end(PassThreads *threads, double seconds) {
    PassClass *c = threads->current;
    if (!c) return;
    threads->current = NULL;
    add_time(c->trying ? &c->other : &c->chosen, seconds);
    // A trial ends when all of its passes are there; meanwhile the chosen way's times stay as they
    // are.
    if (c->trying) {
        if (c->other.count == TRIAL_PASSES) end_trial(c);
        return;
    }
    if (c->until_trial) c->until_trial--;
    if (c->chosen.count < TRIAL_PASSES || c->until_trial) return;
    bool is_long = median(&c->chosen) > LONG_PASS;
    if (!is_long || c->alone)
        start_trial(c);
    else
        c->until_trial = FIRST_INTERVAL; // the context may be emptied and passes shorter again
}

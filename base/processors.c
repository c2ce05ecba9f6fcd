// How many threads of this process can run at once, and what signals they get.
#include "base/processors.h"

#include "base/text.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Reads up to two numbers, separated by a space, that a file of the kernel begins with; returns how
// many there are, -1 without the file.
static int read_numbers(const char *path, uint64_t out[2]) {
    char line[64];
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    const char *at = fgets(line, sizeof line, file);
    fclose(file);
    for (int count = 0; at; count++) {
        size_t digits = count < 2 ? decimal_take(at, strlen(at), &out[count]) : 0;
        if (!digits) return count;
        at += digits + (at[digits] == ' ');
    }
    return 0;
}

// The quota of a cgroup (v2 or v1) in processors, rounded up; 0 where there is none.
static int cgroup_processors(void) {
    uint64_t v2[2], quota[2], period[2];
    // v2: "quota period" in microseconds; without a limit "max period".
    int count = read_numbers("/sys/fs/cgroup/cpu.max", v2);
    // v1: without a limit the quota is -1, which is no number here.
    if (count < 0 && read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota) == 1 &&
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period) == 1) {
        v2[0] = *quota;
        v2[1] = *period;
        count = 2;
    }
    if (count < 2 || !v2[1]) return 0;
    uint64_t processors = v2[0] / v2[1] + (v2[0] % v2[1] > 0);
    return processors < PROCESSORS_MOST ? (int)processors : PROCESSORS_MOST;
}

int processors_usable(void) {
    // A container often sees all processors of the host, but may use fewer: threads beyond those
    // would take each other's time slices.
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
    if (count < 1) { // more processors than a cpu_set_t names
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (int)(online < PROCESSORS_MOST ? online : PROCESSORS_MOST) : 1;
    }
    int quota = cgroup_processors();
    if (quota && quota < count) count = quota;
    return count < PROCESSORS_MOST ? count : PROCESSORS_MOST;
}

// Signals are for the threads of the program: a handler, or a thread that waits for one, may be
// anybody's. A fault and a profiler's tick are for the thread that they happen in.
int thread_start(pthread_t *thread, void *(*main)(void *), void *argument) {
    static const int OWN[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        sigdelset(&blocked, OWN[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); // the new thread inherits it
    int failed = pthread_create(thread, NULL, main, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

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

// The quota of one cgroup in processors, rounded up; 0 where it has none. v2: "quota period" in
// microseconds, or "max period"; v1: two files, with a quota of -1, which is no number here.
static int group_processors(const char *directory) {
    uint64_t v[2] = {0}, period[2];
    char path[1200];
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    int count = read_numbers(path, v);
    if (count < 0) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
        count = read_numbers(path, v);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
        if (count == 1 && read_numbers(path, period) == 1) v[count++] = *period;
    }
    if (count < 2 || !v[1]) return 0;
    uint64_t processors = v[0] / v[1] + (v[0] % v[1] > 0);
    return processors < PROCESSORS_MOST ? (int)processors : PROCESSORS_MOST;
}

// The least quota of `group` below `root` and of those around it. A group that is not there, since
// a container sees another tree, has none.
static int least_processors(const char *root, const char *group) {
    int least = 0;
    char directory[1100];
    size_t start = strlen(root);
    if (strstr(group, "..")) group = ""; // outside of what is seen here
    snprintf(directory, sizeof directory, "%s%.900s", root, group);
    for (size_t end = strlen(directory); end >= start; end--) {
        if (end > start && directory[end] != '/' && directory[end]) continue;
        directory[end] = 0;
        int quota = group_processors(directory);
        if (quota && (!least || quota < least)) least = quota;
    }
    return least;
}

// Whether `name` is one of a list with commas between.
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && !memcmp(list, name, length)) return true;
    return false;
}

int cgroup_processors(const char *groups, const char *root) {
    int least = 0;
    char line[1024], v1[300];
    FILE *file = fopen(groups, "re");
    snprintf(v1, sizeof v1, "%.200s/cpu", root);
    // "0::/path" in v2, "4:cpu,cpuacct:/path" in v1.
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        bool is_v2 = !names[1];
        if (!is_v2 && !is_listed(names + 1, "cpu")) continue;
        int quota = least_processors(is_v2 ? root : v1, path);
        if (quota && (!least || quota < least)) least = quota;
    }
    if (file) fclose(file);
    return least;
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
    int quota = cgroup_processors("/proc/self/cgroup", "/sys/fs/cgroup");
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

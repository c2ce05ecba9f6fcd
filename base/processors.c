// How many threads of this process can run at once, what signals they get, and what memory there is
// for it. Both versions of cgroups are a tree of directories with a file for each limit; a process
// is in one group of each tree, and the limits of the groups around it hold too.
#include "base/processors.h"

#include "base/text.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define NO_LIMIT UINT64_MAX

// What one group allows, by the files in its directory.
typedef uint64_t GroupLimit(const char *directory);

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

// The quota of one cgroup in processors, rounded up. v2: "quota period" in
// microseconds, or "max period"; v1: two files, with a quota of -1, which is no number here.
static uint64_t group_processors(const char *directory) {
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
    if (count < 2 || !v[0] || !v[1]) return NO_LIMIT;
    return v[0] / v[1] + (v[0] % v[1] > 0);
}

// Of memory: one number of bytes in v2, or "max"; in v1 a number too large to matter.
static uint64_t group_memory(const char *directory) {
    uint64_t v[2];
    char path[1200];
    snprintf(path, sizeof path, "%s/memory.max", directory);
    int count = read_numbers(path, v);
    if (count < 0) {
        snprintf(path, sizeof path, "%s/memory.limit_in_bytes", directory);
        count = read_numbers(path, v);
    }
    return count == 1 ? *v : NO_LIMIT;
}

// The smallest limit of `group` below `root` and of its ancestors. A group that is not there, since
// a container sees another tree, has none. A group that begins with ".." is outside of the tree
// that is mounted at `root` (cgroup_namespaces(7)): no limit in that tree holds for it.
static uint64_t least_around(GroupLimit *limit, const char *root, const char *group) {
    uint64_t least = NO_LIMIT;
    char directory[1100];
    size_t start = strlen(root);
    if (strstr(group, "/..")) return NO_LIMIT;
    snprintf(directory, sizeof directory, "%s%.900s", root, group);
    for (size_t end = strlen(directory); end >= start; end--) {
        if (end > start && directory[end] != '/' && directory[end]) continue;
        directory[end] = 0;
        uint64_t own = limit(directory);
        if (own < least) least = own;
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

// `controller`: what limits it in v1, where each has a tree of its own.
static uint64_t least_limit(GroupLimit *limit, const char *controller, const char *groups,
                            const char *root) {
    uint64_t least = NO_LIMIT;
    char line[1024], v1[300];
    FILE *file = fopen(groups, "re");
    snprintf(v1, sizeof v1, "%.200s/%s", root, controller);
    // "0::/path" in v2, "4:cpu,cpuacct:/path" in v1.
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        bool is_v2 = !names[1];
        if (!is_v2 && !is_listed(names + 1, controller)) continue;
        uint64_t own = least_around(limit, is_v2 ? root : v1, path);
        if (own < least) least = own;
    }
    if (file) fclose(file);
    return least;
}

int cgroup_processors(const char *groups, const char *root) {
    uint64_t least = least_limit(group_processors, "cpu", groups, root);
    if (least == NO_LIMIT) return 0;
    return least < PROCESSORS_MOST ? (int)least : PROCESSORS_MOST;
}

uint64_t cgroup_memory(const char *groups, const char *root) {
    return least_limit(group_memory, "memory", groups, root);
}

uint64_t memory_most(void) {
    struct sysinfo machine;
    uint64_t most = cgroup_memory(OWN_GROUPS, GROUPS_ROOT);
    if (sysinfo(&machine)) return most;
    uint64_t unit = machine.mem_unit, memory = machine.totalram * unit;
    uint64_t swap = machine.totalswap * unit; // a group may have less of it
    if (memory < most) most = memory;
    return most > UINT64_MAX - swap ? UINT64_MAX : most + swap;
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
    int quota = cgroup_processors(OWN_GROUPS, GROUPS_ROOT);
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

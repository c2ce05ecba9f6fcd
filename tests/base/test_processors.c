// Limits of cgroups, by the layout that the kernel documents (cgroup-v2.rst, "cpu.max" and
// "memory.max"; v1: sched-bwc.rst, memory.rst), in trees of files made here.
#include "base/processors.h"

#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void put(const char *root, const char *path, const char *text) {
    char whole[600];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + strlen(root); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        CHECK(!mkdir(whole, 0700) || errno == EEXIST, "%s", whole);
        *slash = '/';
    }
    test_write_file(whole, text, strlen(text));
}

static const char *list_of(const char *groups) {
    const char *list = test_temporary("groups");
    test_write_file(list, groups, strlen(groups));
    return list;
}

static void check_quota(const char *root, const char *groups, int wanted) {
    CHECK_INT(cgroup_processors(list_of(groups), root), wanted);
}

static void check_memory(const char *root, const char *groups, uint64_t wanted) {
    uint64_t got = cgroup_memory(list_of(groups), root);
    CHECK(got == wanted, "%s: %llu", groups, (unsigned long long)got);
}

Test(processors, a_quota_is_that_of_the_own_group_and_of_those_around_it) {
    char root[300];
    snprintf(root, sizeof root, "%s", test_temporary_new("cgroup2"));
    put(root, "cpu.max", "max 100000\n");
    put(root, "system.slice/cpu.max", "800000 100000\n");
    put(root, "system.slice/own.service/cpu.max", "250000 100000\n");
    put(root, "system.slice/own.service/inner/cpu.max", "max 100000\n");
    put(root, "system.slice2/cpu.max", "100000 100000\n");
    check_quota(root, "0::/\n", 0);
    check_quota(root, "0::/system.slice\n", 8);
    check_quota(root, "0::/system.slice/own.service\n", 3); // 2.5
    check_quota(root, "0::/system.slice/own.service/inner\n", 3);
    check_quota(root, "0::/system.slice/elsewhere/deep\n", 8);
    check_quota(root, "0::/../../of.a.host\n", 0);
    check_quota(root, "", 0);
    check_quota(root, "no list\n::\n0\n", 0);
}

Test(processors, so_it_is_with_a_tree_for_each_controller) {
    char root[300];
    snprintf(root, sizeof root, "%s", test_temporary_new("cgroup1"));
    put(root, "cpu/cpu.cfs_quota_us", "-1\n");
    put(root, "cpu/cpu.cfs_period_us", "100000\n");
    put(root, "cpu/docker/cpu.cfs_quota_us", "150000\n");
    put(root, "cpu/docker/cpu.cfs_period_us", "100000\n");
    put(root, "cpu/memory/cpu.cfs_quota_us", "50000\n");
    put(root, "cpu/memory/cpu.cfs_period_us", "100000\n");
    check_quota(root, "5:memory:/memory\n4:cpu,cpuacct:/\n0::/\n", 0);
    check_quota(root, "5:memory:/memory\n4:cpuacct,cpu:/docker/1\n0::/x\n", 2);
    check_quota(root, "4:cpuset:/docker\n", 0);
    // A container: the mount shows its own group as the root.
    put(root, "cpu/cpu.cfs_quota_us", "100000\n");
    check_quota(root, "4:cpu,cpuacct:/docker-of-the-host/1\n", 1);
}

Test(processors, the_memory_of_a_group_is_the_least_around_it) {
    char root[300];
    snprintf(root, sizeof root, "%s", test_temporary_new("memory2"));
    put(root, "outer/memory.max", "6442450944\n");
    put(root, "outer/inner/memory.max", "max\n");
    put(root, "outer/inner/least/memory.max", "83886080\n");
    check_memory(root, "0::/\n", UINT64_MAX);
    check_memory(root, "0::/outer/inner\n", 6442450944);
    check_memory(root, "0::/outer/inner/least\n", 83886080);
    put(root, "memory.max", "1048576\n"); // of a container that this process is not in
    check_memory(root, "0::/../of.the.host\n", UINT64_MAX);
    check_memory(root, "0::/outer..inner\n", 1048576);
    snprintf(root, sizeof root, "%s", test_temporary_new("memory1"));
    put(root, "memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "memory/docker/memory.limit_in_bytes", "536870912\n");
    check_memory(root, "5:memory:/docker/1\n4:cpu,cpuacct:/\n0::/\n", 536870912);
    check_memory(root, "4:cpu,cpuacct:/docker\n", UINT64_MAX);
    check_memory(root, "", UINT64_MAX);
    CHECK(memory_most() > 1 << 20, "the machine has some");
}

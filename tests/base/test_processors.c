// CPU quotas of cgroups, by the layout that the kernel documents (cgroup-v2.rst, "cpu.max"; v1:
// sched-bwc.rst), in trees of files made here.
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

static void check_quota(const char *root, const char *groups, int wanted) {
    const char *list = test_temporary("groups");
    test_write_file(list, groups, strlen(groups));
    CHECK_INT(cgroup_processors(list, root), wanted);
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

// Processors: how many threads a program should start.
#pragma once

enum { PROCESSORS_MOST = 256 };

// Processors that this process may use: its affinity, cut by the cgroup's CPU quota. 1 ..
// PROCESSORS_MOST.
int processors_usable(void);

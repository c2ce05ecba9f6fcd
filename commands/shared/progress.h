// Progress: one line on standard error that fills up, shown only on a terminal and after a while.
#pragma once

#include "base/clock.h"

#include <stdbool.h>

typedef struct Progress {
    const char *label;     // "loading"
    bool shown;            // a terminal, and not --quiet
    double started, drawn; // seconds
    bool visible;
} Progress;

void progress_begin(Progress *progress, const char *label, bool quiet);
void progress_update(void *progress, double share); // 0 .. 1; fits ModelOptions.progress
void progress_end(Progress *progress);              // wipes the line

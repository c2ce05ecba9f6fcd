#include "commands/shared/progress.h"
#include "commands/shared/output.h"

#include <stdio.h>
#include <string.h>

enum { BAR_WIDTH = 30 };
static const double FIRST_AFTER = 0.3, AGAIN_AFTER = 0.1; // seconds

void progress_begin(Progress *progress, const char *label, bool quiet) {
    double now = seconds_now();
    *progress = (Progress){label, !quiet && error_is_terminal(), now, now, false};
}

void progress_update(void *context, double share) {
    Progress *progress = context;
    double now = seconds_now();
    if (!progress->shown || now - progress->started < FIRST_AFTER) return;
    if (progress->visible && now - progress->drawn < AGAIN_AFTER) return;
    char bar[BAR_WIDTH + 1];
    int filled = (int)(share * BAR_WIDTH + 0.5);
    if (filled < 0) filled = 0;
    if (filled > BAR_WIDTH) filled = BAR_WIDTH;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %3.0f %%", progress->label, bar, 100 * share);
    progress->drawn = now;
    progress->visible = true;
}

void progress_end(Progress *progress) {
    // Blanks instead of an escape sequence: this works on any terminal.
    if (progress->visible) fprintf(stderr, "\r%*s\r", BAR_WIDTH + 40, "");
    progress->visible = false;
}

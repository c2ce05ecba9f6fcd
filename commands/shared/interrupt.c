// Ctrl-C. The first one is noted and seen between two steps of the work; the second one ends the
// program at once.
#include "commands/shared/interrupt.h"

#include <signal.h>

// A global, since a signal handler takes no argument of ours.
static volatile sig_atomic_t asked;

static void on_interrupt(int number) {
    (void)number;
    asked = 1;
    // The second one finds the default disposition, set by SA_RESETHAND.
}

// SIGINT is ignored in a background job of a shell: then it stays ignored.
static bool is_ignored(void) {
    struct sigaction now;
    return !sigaction(SIGINT, NULL, &now) && now.sa_handler == SIG_IGN;
}

void interrupt_begin(void) {
    asked = 0;
    if (is_ignored()) return;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_asked(void) {
    return asked;
}

void interrupt_end(void) {
    if (!is_ignored()) signal(SIGINT, SIG_DFL);
}

void interrupt_raise(void) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

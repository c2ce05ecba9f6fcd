#include "commands/shared/interrupt.h"

#include <signal.h>

// A signal handler has no argument to carry state in, so it stands here.
static volatile sig_atomic_t asked;

static void on_interrupt(int number) {
    (void)number;
    asked = 1;
    // The second one finds the default disposition, set by SA_RESETHAND.
}

// A program started with SIGINT ignored (in the background of a shell, by nohup) leaves it so.
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

// Ctrl-C. The first one is noted and seen between two steps of the work; the second one ends the
// program at once.
//
//   begin                      first Ctrl-C             second Ctrl-C
//   handler installed          flag set, default back   the default ends the program
#include "commands/shared/interrupt.h"

#include <signal.h>
#include <unistd.h>

// A global, since a signal handler takes no argument of ours; read by the threads of the device.
static int asked;
static const struct termios *terminal; // NULL: as it is

static void on_interrupt(int number) {
    (void)number;
    __atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
    if (terminal) tcsetattr(STDIN_FILENO, TCSANOW, terminal);
    // The second one finds the default disposition, set by SA_RESETHAND. SA_RESTART: a write to the
    // terminal that it came in between goes on; stdio would drop the text and report a failure.
}

// SIGINT is ignored in a background job of a shell: then it stays ignored.
static bool is_ignored(void) {
    struct sigaction now;
    return !sigaction(SIGINT, NULL, &now) && now.sa_handler == SIG_IGN;
}

void interrupt_begin(void) {
    __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    if (is_ignored()) return;
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_asked(void) {
    return __atomic_load_n(&asked, __ATOMIC_RELAXED);
}

const int *interrupt_flag(void) {
    return &asked;
}

void interrupt_terminal(const struct termios *modes) {
    terminal = modes;
}

void interrupt_end(void) {
    if (!is_ignored()) signal(SIGINT, SIG_DFL);
}

// The program dies by the signal, not by exit(130): a shell script with a loop around it stops too.
void interrupt_raise(void) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

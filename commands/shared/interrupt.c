// Ctrl-C, and the other signals that ask a program to end: SIGTERM, SIGHUP and, at a limit of
// processor time, SIGXCPU. The first one is noted and seen between two steps of the work; the
// second one ends the program at once.
//
//   begin                      first Ctrl-C             second Ctrl-C
//   handlers installed         flag set, default back   the default ends the program
//
// Of the other signals any within a second of the first is taken for the same: a terminal that is
// closed sends SIGHUP, and so does its shell; timeout(1) sends its signal twice.
#include "commands/shared/interrupt.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
enum { N_SIGNALS = sizeof SIGNALS / sizeof *SIGNALS };

// Globals, since a signal handler takes no argument of ours; read by the threads of the device.
static int asked;                           // the signal
static int64_t first;                       // when one came that is not Ctrl-C, ms; 0: none did
static const struct termios *terminal;      // NULL: as it is
static const char *to_terminal;             // NULL: nothing
static struct sigaction outside[N_SIGNALS]; // dispositions before interrupt_begin
static bool begun;

// Milliseconds in which a signal may come again.
enum { AT_ONCE = 1000 };

static void on_interrupt(int number) {
    int saved = errno, none = 0;
    int64_t now = (int64_t)(1e3 * seconds_now()), never = 0;
    if (number == SIGINT) { // does not take the place of one that ends a conversation
        __atomic_compare_exchange_n(&asked, &none, number, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    } else if (__atomic_compare_exchange_n(&first, &never, now, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED) ||
               now - never < AT_ONCE) {
        __atomic_store_n(&asked, number, __ATOMIC_RELAXED);
    } else {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (terminal) tcsetattr(STDIN_FILENO, TCSANOW, terminal);
    if (to_terminal) interrupt_write(to_terminal);
    errno = saved;
}

void interrupt_write(const char *text) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&output, 1, 0) <= 0 || !(output.revents & POLLOUT)) return;
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) return; // the terminal is gone
}

// The second Ctrl-C finds the default disposition, set by SA_RESETHAND. SA_RESTART: a write to the
// terminal that the first came in between goes on; stdio would drop the text and report a failure.
//
// SIGINT is ignored in a background job of a shell, SIGHUP under nohup: then they stay ignored.
static void install(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    begun = true;
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(SIGNALS[i], NULL, &now)) continue;
        if (now.sa_handler != on_interrupt) outside[i] = now;
        action.sa_flags = (int)(SIGNALS[i] == SIGINT ? SA_RESETHAND | SA_RESTART : SA_RESTART);
        if (now.sa_handler != SIG_IGN) sigaction(SIGNALS[i], &action, NULL);
    }
}

void interrupt_begin(void) {
    __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&first, 0, __ATOMIC_RELAXED);
    install();
}

bool interrupt_asked(void) {
    return __atomic_load_n(&asked, __ATOMIC_RELAXED);
}

bool interrupt_ends(void) {
    return interrupt_asked() && __atomic_load_n(&asked, __ATOMIC_RELAXED) != SIGINT;
}

void interrupt_renew(void) {
    int ctrl_c = SIGINT;
    __atomic_compare_exchange_n(&asked, &ctrl_c, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    install();
}

const int *interrupt_flag(void) {
    return &asked;
}

bool interrupt_note(int number) {
    if (number != SIGTERM && number != SIGHUP && number != SIGXCPU) return false;
    on_interrupt(number);
    return true;
}

// With a time limit: the kernel may give the signal to a thread of the device, and a read would go
// on (SA_RESTART).
bool interrupt_wait(int input) {
    enum { MILLISECONDS = 100 };
    struct pollfd waiting = {.fd = input, .events = POLLIN};
    while (!interrupt_asked())
        if (poll(&waiting, 1, MILLISECONDS) > 0) return true;
    return false;
}

void interrupt_terminal(const struct termios *modes, const char *text) {
    terminal = modes;
    to_terminal = text;
}

void interrupt_end(void) {
    for (int i = 0; begun && i < N_SIGNALS; i++)
        sigaction(SIGNALS[i], &outside[i], NULL);
}

// The program dies by the signal, not by exit(130): a shell script with a loop around it stops too.
void interrupt_raise(void) {
    int number = interrupt_asked() ? asked : SIGINT;
    signal(number, SIG_DFL);
    raise(number);
}

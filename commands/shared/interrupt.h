// Interrupt: between begin and end, the first Ctrl-C asks the work to end: a pass of the model
// looks at interrupt_flag, loops call interrupt_asked. A second one ends the program at once. So do
// SIGTERM, SIGHUP and SIGXCPU. Elsewhere each has the disposition that it had before.
#pragma once

#include <stdbool.h>
#include <termios.h>

void interrupt_begin(void);
bool interrupt_asked(void);      // since interrupt_begin
bool interrupt_ends(void);       // by a signal that ends a conversation too: not by Ctrl-C
void interrupt_renew(void);      // interrupt_begin, but what ends a conversation stays asked
const int *interrupt_flag(void); // not 0 where it was asked: ModelOptions.stop
bool interrupt_note(int number); // as if it had come now. False: none that ends a conversation
bool interrupt_wait(int input);  // until the descriptor can be read or has ended. False: asked
void interrupt_end(void);        // restores the dispositions
void interrupt_raise(void);      // ends the program by that signal: exit code 130 for SIGINT
// The first Ctrl-C sets the terminal of standard input to these modes and writes the text to
// standard output, since the second ends the program at once; both are borrowed until the next
// call. NULL: it does not.
void interrupt_terminal(const struct termios *modes, const char *text);
// In a signal handler: to standard output, where that takes it at once.
void interrupt_write(const char *text);

// Interrupt: between begin and end, the first Ctrl-C asks the work to end: a pass of the model
// looks at interrupt_flag, loops call interrupt_asked. A second one ends the program at once.
// Elsewhere SIGINT has its default disposition.
#pragma once

#include <stdbool.h>
#include <termios.h>

void interrupt_begin(void);
bool interrupt_asked(void);      // since interrupt_begin
const int *interrupt_flag(void); // not 0 where it was asked: ModelOptions.stop
void interrupt_end(void);        // restores the default disposition
void interrupt_raise(void);      // ends the program by SIGINT: exit status 130 to a shell
// The first Ctrl-C sets the terminal of standard input to these modes, since the second ends the
// program at once; borrowed until the next call. NULL: to none.
void interrupt_terminal(const struct termios *modes);

// Interrupt: between begin and end, the first Ctrl-C asks the generation to end at the next token,
// and a second one ends the program at once. Elsewhere SIGINT has its default disposition.
#pragma once

#include <stdbool.h>

void interrupt_begin(void);
bool interrupt_asked(void); // since interrupt_begin
void interrupt_end(void);   // restores the default disposition
void interrupt_raise(void); // ends the program by SIGINT: exit status 130 to a shell

// Interrupt: Ctrl-C while a text is being made asks for an end at the next token; a second one ends
// the program at once. Outside of begin and end SIGINT does what it always does.
#pragma once

#include <stdbool.h>

void interrupt_begin(void);
bool interrupt_asked(void); // since interrupt_begin
void interrupt_end(void);   // back to the default
void interrupt_raise(void); // end as one who was interrupted: exit status 130 to a shell

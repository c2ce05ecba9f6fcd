// weights/builtin.gguf as read-only data of the program, at the start of a page: nothing is copied,
// and pages of it that nobody reads are never loaded.
    .section .rodata
    .global builtin_begin
    .global builtin_end
    .balign 4096
builtin_begin:
    .incbin "weights/builtin.gguf"
builtin_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits

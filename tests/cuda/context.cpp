// How fibers change: see Context.
#include "tests/cuda/fibers.h"

namespace emulator {

#ifdef __x86_64__
__asm__(".text\n"
        ".globl emulator_change\n"
        ".type emulator_change,@function\n"
        "emulator_change:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq (%rsi), %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emulator_change,.-emulator_change\n");

void context_start(Context *context, char *stack, size_t stack_bytes, void (*run)()) {
    void **top = (void **)(stack + stack_bytes);
    *--top = nullptr; // keeps the stack 16-byte aligned at the first call
    *--top = (void *)run;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    context->stack_pointer = top;
}
#else
void emulator_change(Context *from, const Context *to) {
    swapcontext(&from->context, &to->context);
}

void context_start(Context *context, char *stack, size_t stack_bytes, void (*run)()) {
    getcontext(&context->context);
    context->context.uc_stack.ss_sp = stack;
    context->context.uc_stack.ss_size = stack_bytes;
    context->context.uc_link = nullptr;
    makecontext(&context->context, run, 0);
}
#endif

} // namespace emulator

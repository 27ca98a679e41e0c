/* Switching stacks: emu_switch saves the callee-saved registers on the current stack, stores the stack pointer in
 * *from, and resumes where `to` was saved. Unlike ucontext it makes no system call for the signal mask; kernels
 * switch stacks millions of times. (System V ABI, AMD64 supplement, figure 3.4; Procedure Call Standard for the Arm
 * 64-bit Architecture, section 6.1. The floating-point modes are the same everywhere here.) */
#ifndef TRINE_EMU_SWITCH_H
#define TRINE_EMU_SWITCH_H

#include <stdint.h>
#include <string.h>

extern "C" void emu_switch(void **from, void *to);

#if defined __x86_64__
__asm__(".text\n"
        ".hidden emu_switch\n"
        ".globl emu_switch\n"
        ".type emu_switch, @function\n"
        "emu_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size emu_switch, . - emu_switch\n");

/* Prepares a new stack for emu_switch; `entry` never returns. */
static void *emu_new_stack(char *top, void (*entry)(void)) {
    void **p = (void **)top;
    *--p = NULL; /* the return address of entry: as after a call, 8 off a multiple of 16 */
    *--p = (void *)entry;
    p -= 6;
    memset(p, 0, 6 * sizeof *p);
    return p;
}
#elif defined __aarch64__
__asm__(".text\n"
        ".hidden emu_switch\n"
        ".globl emu_switch\n"
        ".type emu_switch, %function\n"
        "emu_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size emu_switch, . - emu_switch\n");

static void *emu_new_stack(char *top, void (*entry)(void)) {
    char *p = top - 160;
    memset(p, 0, 160);
    memcpy(p + 88, &entry, sizeof entry); /* x30 */
    return p;
}
#else
#error "emu: stack switching is not implemented for this processor"
#endif

#endif

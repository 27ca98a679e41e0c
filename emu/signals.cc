/* Signal handlers: a page fault opens a region of device memory when a device operation
 * first touches it; other faults are reported and end the process. */
#include "emu.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
static struct sigaction before[NSIG];
static bool borrowed; /* the SIGSEGV handler is installed only while the device runs */

static void report(int signal, const void *address) {
    char text[1024], what[256], where[256];
    emu_describe(address, what, sizeof what);
    emu_where(where, sizeof where);
    bool instruction = signal == SIGILL || signal == SIGTRAP;
    const char *fault = instruction ? "misaligned access or index outside of an array"
                        : *where    ? "illegal access"
                                    : "illegal access by the host";
    int n = instruction
                ? snprintf(text, sizeof text, "emu: %s%s\n", fault, where)
                : snprintf(text, sizeof text, "emu: %s, %p: %s%s\n", fault, address, what, where);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(134);
}

static void catch_one(int signal, siginfo_t *info, void *) {
    char where[256];
    if (signal == SIGSEGV && emu_memory_touch(info->si_addr)) return;
    emu_where(where, sizeof where);
    if (*where || (signal != SIGILL && signal != SIGTRAP && emu_is_device(info->si_addr)))
        report(signal, info->si_addr);
    /* The instruction is restarted, with the previous handler. */
    sigaction(signal, &before[signal], NULL);
}

static struct sigaction ours(void) {
    struct sigaction action = {};
    action.sa_sigaction = catch_one;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return action;
}

/* Handlers run on a stack of their own: a kernel may have used up its stack. */
void emu_catch_signals(void) {
    static char stack[1 << 16];
    stack_t alternative = {}, old;
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE))
        sigaltstack(&alternative, NULL);
    const struct sigaction action = ours();
    for (int signal : caught) sigaction(signal, &action, &before[signal]);
}

/* Test harnesses and MPI may install other handlers in between. */
void emu_signals_begin(void) {
    const struct sigaction action = ours();
    struct sigaction old;
    sigaction(SIGSEGV, &action, &old);
    borrowed = !(old.sa_flags & SA_SIGINFO) || old.sa_sigaction != catch_one;
    if (borrowed) before[SIGSEGV] = old;
}

void emu_signals_end(void) {
    if (borrowed) sigaction(SIGSEGV, &before[SIGSEGV], NULL);
    borrowed = false;
}

#include "comm/watch/hook.h"

#include <stdatomic.h>
#include <unistd.h>

#include "trine_comm.h"

/* State of the process, since the end of a job is not addressed to a world. */
static struct {
    _Atomic(trine_abort_hook) call; /* NULL: none, or called already */
    void *context;
} hook;

void trine_on_abort(trine_abort_hook call, void *context) {
    hook.call = NULL;
    hook.context = context;
    hook.call = call;
}

void hook_call(void) {
    trine_abort_hook call = atomic_exchange(&hook.call, NULL);
    if (call) call(hook.context);
}

_Noreturn void hook_end(void) {
    hook_call();
    _exit(1);
}

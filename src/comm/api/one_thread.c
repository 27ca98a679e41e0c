#include "comm/api/one_thread.h"
#include "comm/group/world.h"

#include <stdatomic.h>
#include <unistd.h>

/* Who is in a function of an audited world. Of the process: so are the board and the clock of blocking calls, which its
 * worlds share. */
static struct {
    _Atomic int thread; /* 0: none */
    _Atomic(const char *) function;
    int depth; /* of functions that call others; of the thread alone */
} inside;

static trine_status refuse(int own, int other, const char *function) {
    const char *at = inside.function;
    return RAISE(TRINE_EINVAL,
                 "%s: called in thread %d while thread %d is in %s; the functions of a process's "
                 "worlds are called by one thread at a time",
                 function, own, other, at ? at : "another one");
}

trine_status one_thread_enter(one_thread *visit, const trine_world *world, const char *function) {
    if (!world || !(world->audit || world->audit_wanted)) return TRINE_OK;
    int own = (int)gettid(), other = 0;
    CHECK(!world->thread || world->thread == own, TRINE_EINVAL,
          "%s: called in thread %d, but this world belongs to thread %d, the only one that may "
          "call MPI (MPI_THREAD_FUNNELED)",
          function, own, world->thread);
    if (inside.thread != own) {
        if (!atomic_compare_exchange_strong(&inside.thread, &other, own))
            return refuse(own, other, function);
        inside.function = function;
    }
    inside.depth++;
    visit->entered = true;
    return TRINE_OK;
}

void one_thread_leave(one_thread *visit) {
    if (!visit->entered || --inside.depth) return;
    inside.function = NULL;
    inside.thread = 0;
}

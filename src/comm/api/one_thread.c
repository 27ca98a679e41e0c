#include "comm/api/one_thread.h"
#include "comm/group/world.h"

#include <stdatomic.h>
#include <unistd.h>

static trine_status refuse(const world_visit *v, int own, int other, const char *function) {
    const char *inside = v->function;
    return RAISE(TRINE_EINVAL,
                 "%s: called in thread %d while thread %d is in %s; the functions of a world are "
                 "called by one thread at a time",
                 function, own, other, inside ? inside : "another function of this world");
}

trine_status one_thread_enter(one_thread *visit, trine_world *world, const char *function) {
    if (!world || !(world->audit || world->audit_wanted)) return TRINE_OK;
    world_visit *v = &world->visit;
    int own = (int)gettid(), other = 0;
    CHECK(!world->thread || world->thread == own, TRINE_EINVAL,
          "%s: called in thread %d, but this world is of thread %d, which alone may call MPI "
          "(MPI_THREAD_FUNNELED)",
          function, own, world->thread);
    if (v->thread != own) {
        if (!atomic_compare_exchange_strong(&v->thread, &other, own))
            return refuse(v, own, other, function);
        v->function = function;
    }
    v->depth++;
    visit->world = world;
    return TRINE_OK;
}

void one_thread_leave(one_thread *visit) {
    if (!visit->world) return;
    world_visit *v = &visit->world->visit;
    if (--v->depth) return;
    v->function = NULL;
    v->thread = 0;
}

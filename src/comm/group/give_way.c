#include "comm/group/world.h"

#include <sched.h>
#include <time.h>

#define YIELDS 64
#define NAP    50000 /* ns: as long as the kernel's slack of timers */

void world_give_way(const trine_world *world, unsigned vain) {
    const struct timespec nap = {.tv_nsec = NAP};
    if (world->crowded && vain > YIELDS)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

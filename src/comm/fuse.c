/* Messages that go under way together. The transports that there are need no help. */
#include "comm/comm.h"

trine_status comm_group_begin(trine_world *world) {
    (void)world;
    return TRINE_OK;
}

trine_status comm_group_end(trine_world *world) {
    (void)world;
    return TRINE_OK;
}

/* Messages that go under way together. The transports that there are need no help. */
#include "comm/comm.h"

trine_status comm_group_begin(const trine_mesh *mesh) {
    (void)mesh;
    return TRINE_OK;
}

trine_status comm_group_end(const trine_mesh *mesh) {
    (void)mesh;
    return TRINE_OK;
}

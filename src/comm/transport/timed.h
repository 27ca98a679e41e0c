/* Time in the transport, by group and kind. While the clock runs, each group of several ranks has a
 * table of its own that times the transport's functions and calls them; a group that nobody times
 * has its transport's. What a timed function does on its way (an exchange inside a reduction) is
 * part of it and not counted again. */
#ifndef TRINE_COMM_TRANSPORT_TIMED_H
#define TRINE_COMM_TRANSPORT_TIMED_H

#include "comm/group/group.h"

struct comm_clock {
    const trine_mesh *mesh;
    bool running, inside;
    const comm_transport *inner[TRINE_GROUPS]; /* what is timed */
    comm_transport timed[TRINE_GROUPS];
    trine_tally before[TRINE_GROUPS][TRINE_TALLY_KINDS];
    comm_time times[TRINE_GROUPS][TRINE_TALLY_KINDS];
    uint64_t ns;
};

/* The table over `inner` that times it: comm->clock's. */
const comm_transport *clock_over(const trine_comm *comm, const comm_transport *inner);

#endif

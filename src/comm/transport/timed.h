/* Time in the transport, by group and kind. While the clock runs, each group of several ranks has a table that
 * times the transport's functions and calls them; otherwise it has the transport's own table. Nested calls (an
 * exchange inside a reduction) belong to the outer call and are not counted again. */
#ifndef TRINE_COMM_TRANSPORT_TIMED_H
#define TRINE_COMM_TRANSPORT_TIMED_H

#include "comm/group/group.h"

struct comm_clock {
    const trine_mesh *mesh;
    bool running, inside;
    const comm_transport *inner[TRINE_GROUPS]; /* the timed table */
    comm_transport timed[TRINE_GROUPS];
    trine_tally before[TRINE_GROUPS][TRINE_TALLY_KINDS];
    comm_time times[TRINE_GROUPS][TRINE_TALLY_KINDS];
    uint64_t ns;
    uint64_t left; /* when the last call ended, if a reduction was in progress; else 0 */
    comm_overlap overlap;
};

/* The table of comm->clock that times `inner`. */
const comm_transport *clock_over(const trine_comm *comm, const comm_transport *inner);

#endif

/* The tables in front of a group's own transport, for buffers in far memory (api/device_memory.h): staged ones are
 * replaced by their mirrors, and copied on the way in and out. Groups of one copy on the device. */
#ifndef TRINE_COMM_TRANSPORT_STAGING_STAGING_H
#define TRINE_COMM_TRANSPORT_STAGING_STAGING_H

#include "comm/api/device_memory.h"
#include "comm/group/group.h"

struct comm_device_state {
    device_region memory;
    bool staged_by_host; /* some group stages */
    const comm_transport *inner[TRINE_GROUPS]; /* the groups' own */
    comm_transport table[TRINE_GROUPS];
    char names[TRINE_GROUPS][24];
};

/* Whether the host may read what lies at p. */
bool staging_is_host(const trine_comm *comm, const void *p);
/* The table behind the group's own one. */
const comm_transport *staging_inner(const trine_comm *comm);
/* A copy of `inner`, to be the group's own table. */
comm_transport *staging_table(const trine_comm *comm, const comm_transport *inner);

/* The tables over `inner`: of a group of one; of one whose messages MPI takes from the device and brings
 * there; of any other. */
const comm_transport *staging_alone(const trine_comm *comm, const comm_transport *inner);
const comm_transport *staging_reached(const trine_comm *comm, const comm_transport *inner);
const comm_transport *staging_staged(const trine_comm *comm, const comm_transport *inner);

#endif

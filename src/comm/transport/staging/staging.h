/* The tables in front of a group's own transport, for buffers in device memory (api/device_memory.h): a device
 * buffer is replaced by its staging buffer, and copied before and after the call. Groups of one copy on the
 * device. */
#ifndef TRINE_COMM_TRANSPORT_STAGING_STAGING_H
#define TRINE_COMM_TRANSPORT_STAGING_STAGING_H

#include "comm/api/device_memory.h"
#include "comm/group/group.h"

struct comm_device_state {
    device_region memory;
    bool staged_by_host; /* some group stages */
    const comm_transport *inner[TRINE_GROUPS]; /* the groups' own tables */
    comm_transport table[TRINE_GROUPS];
    char names[TRINE_GROUPS][24];
};

/* Whether p is a host pointer. */
bool staging_is_host(const trine_comm *comm, const void *p);
/* The group's own table, below this one. */
const comm_transport *staging_inner(const trine_comm *comm);
/* A copy of `inner`, to become the group's table. */
comm_transport *staging_table(const trine_comm *comm, const comm_transport *inner);

/* The tables over `inner`: for a group of one; for a group whose messages MPI sends from and receives in device
 * memory; for any other. */
const comm_transport *staging_alone(const trine_comm *comm, const comm_transport *inner);
const comm_transport *staging_reached(const trine_comm *comm, const comm_transport *inner);
const comm_transport *staging_staged(const trine_comm *comm, const comm_transport *inner);

#endif

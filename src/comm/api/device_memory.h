/* Groups whose ranks compute in device memory, which the host cannot access. A table in front of each group's own
 * transport (mpi, shm, shm+mpi) passes calls on host memory through. For a device buffer there is a staging buffer
 * in host memory at the same offset: inputs are copied from the device to the staging buffer, the group's own
 * transport makes the call on staging addresses, and outputs are copied back. The additions are the host's, in rank
 * order, so the bits are those of ranks on host devices.
 *
 * Only necessary bytes are copied: a reduce-scatter copies back this rank's part, and an in-place call nothing that
 * the device already has. A send, and a gather's own part, is copied from the device when it is started; a received
 * message and a gather are copied to it in their wait. A group of one copies on the device, in its queue, and does
 * not wait.
 *
 * If MPI is CUDA-aware, messages are not staged but sent from and received in device memory, once the device's
 * queue is empty, because MPI does not wait for the queue. (For device pointers MPI guarantees sends, receives and
 * blocking collectives only; reductions would be in its own order, and a started gather is none of these.) In that
 * case both sides of a message are in device memory, or both in host memory.
 *
 * Invariants: a buffer lies entirely in the shared part, entirely in the own part, or entirely in host memory; any
 * other device pointer, in a group of several, is a bug in Trine (ASSERT). While a request is in progress, the
 * staging buffer belongs to the transport, like the buffer itself. Tally, watchdog, audit and clock see the
 * caller's call, once.
 * Cost: a device_read and a device_write of the bytes moved (both wait for the device's queue), and two comparisons
 * for a host pointer. Nothing is allocated after comm_device_memory. */
#ifndef TRINE_COMM_API_DEVICE_MEMORY_H
#define TRINE_COMM_API_DEVICE_MEMORY_H

#include "comm/api/comm.h"
#include "device/device.h"

/* A rank's device memory and its staging buffer; both outlive all calls on them. The first `shared_bytes` of the
 * exchanged region are staged at `shared`, in memory of trine_mesh_alloc, where peers of the node read them; the
 * other bytes - shared_bytes at `own`. */
typedef struct {
    device *dev; /* device_read, _write and _copy access the device memory; memory->host is false */
    char *base;  /* the exchanged region, in device memory */
    size_t bytes;
    /* All other device memory that a caller may have a pointer into, to tell it from host memory. It may be empty,
     * lie beside the exchanged region, or contain it. */
    const char *rest;
    size_t rest_bytes;
    char *shared; /* NULL when shared_bytes is 0 */
    size_t shared_bytes;
    char *own; /* NULL if shared_bytes is bytes. Both are NULL if no group stages (comm_gpu_stages) */
    bool reached; /* MPI accepts pointers into it (comm_mpi_reaches); the same on all ranks */
} device_region;

/* From now on the mesh's groups accept pointers into this memory; the description is copied. NULL ends it, as does
 * trine_mesh_destroy. No group may have a request in progress, nor a clock. Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status comm_device_memory(trine_mesh *mesh, const device_region *memory);

#endif

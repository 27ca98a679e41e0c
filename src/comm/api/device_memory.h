/* Groups whose ranks compute in memory that the host cannot touch ("far": a GPU's). A table in front
 * of each group's own transport (mpi, shm, shm+mpi) lets calls on host memory pass as they are. A
 * far buffer has a place of the same offset in a mirror in host memory: what goes in is copied from
 * the device to the mirror, the group's own transport makes the call on mirror addresses, and what
 * came out is copied back. So additions are the host's, in rank order: the bits are those of ranks
 * on host devices.
 *
 * Only bytes that count are copied: a reduce-scatter brings back this rank's part, a call in place
 * nothing that the device has already. A send, or a gather's own part, leaves the device when it is
 * started; a received message and a gather come to it in their wait. A group of one copies on the
 * device, in its queue, and waits for nothing.
 *
 * Where MPI is CUDA-aware, messages are not staged but sent from the device and received there: once
 * its queue is empty, as MPI does not wait for that. (Of device pointers MPI promises sends, receives
 * and blocking collectives only; reductions would be in its order, and a gather that is started is
 * none of these.) Then both ends of a message are far, or both are the host's.
 *
 * Invariants: a buffer lies wholly in the shared part, wholly in the own part, or wholly in host
 * memory; a far pointer elsewhere, in a group of several, is our bug (ASSERT). While a request is
 * under way the mirror of its buffer belongs to the transport, like the buffer. Tally, watchdog,
 * audit and clock see the caller's call, once.
 * Cost: a device_read and a device_write of what moves (both wait for the device's queue), and two
 * comparisons for a host pointer. Nothing is allocated after comm_device_memory. */
#ifndef TRINE_COMM_API_DEVICE_MEMORY_H
#define TRINE_COMM_API_DEVICE_MEMORY_H

#include "comm/api/comm.h"
#include "device/device.h"

/* Where a rank's far memory and its mirror lie; all of it outlives the calls made on it. The
 * exchanged piece's first `shared_bytes` are staged_by_host at `shared`, in memory of trine_mesh_alloc, so
 * that peers of the node read it there; the rest, bytes - shared_bytes, at `own`. */
typedef struct {
    device *dev; /* device_read, _write and _copy reach the far memory; memory->host is false */
    char *base;  /* the exchanged piece, in device memory */
    size_t bytes;
    /* All other device memory that a caller may have a pointer into, to tell it from the host's. It
     * may be empty, lie beside the exchanged piece, or contain it. */
    const char *rest;
    size_t rest_bytes;
    char *shared; /* NULL when shared_bytes is 0 */
    size_t shared_bytes;
    char *own; /* NULL when there is no rest; both are when no group stages (comm_gpu_stages) */
    bool reached; /* MPI takes pointers into it (comm_mpi_reaches), the same on all ranks */
} device_region;

/* From now on the mesh's groups take pointers into the memory, which is copied. NULL: no more; so
 * does trine_mesh_destroy. No group may have a request under way, nor a clock over it.
 * Errors: TRINE_ENOMEM. Not collective. */
trine_status comm_device_memory(trine_mesh *mesh, const device_region *memory);

#endif

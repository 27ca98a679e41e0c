/* Groups of ranks that compute on GPUs: which of them go through NCCL, and what that needs on the
 * library's side. A rank says once what its GPU is; then every group that moves device memory (dp,
 * tp, tie and the four edges) is looked at: if its ranks have a GPU each, it gets a communicator of
 * NCCL's for that memory; if some share one, which NCCL refuses, the memory is staged (far.h). Host
 * memory goes through the group's own transport in any case.
 *
 * Communicators are made in one order on every rank, that of the mesh's groups, from ids that the
 * group's first rank makes and broadcasts over its own transport; the two lanes of an edge share
 * one. Making one blocks until all of the group have come, under the watch (watch.h). While they exist
 * the device's reads, writes and waits do not block: they look at NCCL's errors and at the watchdog.
 * NCCL is opened when a group wants it; the job goes without where a rank has none.
 * Invariants: all ranks of an NCCL group call with far pointers, or all with host pointers; far.h's
 * too. Cost: a communicator takes device memory of its own (tens to hundreds of MiB), and a second
 * or so to make. */
#ifndef TRINE_COMM_API_GPU_H
#define TRINE_COMM_API_GPU_H

#include "comm/api/comm.h"
#include "device/device.h"

typedef struct {
    device *dev;      /* must outlive the mesh's gpu */
    const void *nccl; /* the object's comm_nccl (nccl.h); NULL: it has none */
    const char *name; /* tells it from all others of its host: its PCI address */
    bool ordered;     /* NCCL's additions in rank order */
} comm_gpu;

/* Before comm_device_memory. Errors: TRINE_EUNSUPPORTED when the transport is forced to be nccl and a rank
 * has none; TRINE_ENCCL, TRINE_ENOMEM, TRINE_EMPI; on every rank alike.
 * Collective over: world. */
trine_status comm_gpu_create(trine_mesh *mesh, const comm_gpu *gpu);
/* After comm_gpu_create: "node1: libnccl.so.2: cannot open ...", why groups that want NCCL go without it;
 * NULL if they have it, or none wants it. The mesh's. Pure. */
const char *comm_gpu_no_nccl(const trine_mesh *mesh);
/* Whether sums over a mesh's dp group of what lies on GPUs are NCCL's, in an order of its own. Pure. */
bool comm_gpu_sums(const trine_comm *dp);
/* Of the NCCL that a cuda device's groups would use: 22703 is 2.27.3; 0: it cannot be opened. Not
 * collective. */
int comm_nccl_version(const device *d);
/* Ends NCCL's communicators; while the device is still open, when nothing is under way, after
 * comm_device_memory(mesh, NULL). Does nothing without a GPU. Collective over: world. */
void comm_gpu_destroy(trine_mesh *mesh);
/* About what NCCL's groups of a mesh take of each GPU for additions. Pure. */
size_t comm_gpu_scratch(trine_layout layout);
/* *all: whether every rank's MPI says that it is CUDA-aware, so that messages may leave GPUs' memory
 * without a copy (device_region.reached). Errors: TRINE_EMPI. Collective over: world. */
trine_status comm_mpi_reaches(trine_world *world, bool *all);
/* Whether some group of this rank stages device memory, so that device_region needs mirrors. */
bool comm_gpu_stages(const trine_mesh *mesh);

#endif

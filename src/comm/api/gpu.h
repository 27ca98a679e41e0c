/* Groups of ranks that compute on GPUs: which of them use NCCL, and the library's side of that. Each rank names its
 * GPU once. Then every group that moves device memory (dp, tp, tie and the four edges) is classified: if each rank
 * has a GPU of its own, the group gets an NCCL communicator for device memory; if ranks share a GPU, which NCCL
 * refuses, device memory is staged (device_memory.h). Host memory always uses the group's own transport.
 *
 * Communicators are made in the same order on every rank, that of the mesh's groups, from ids that the group's
 * first rank makes and broadcasts over the group's own transport; the two lanes of an edge share one. Making one
 * blocks until all members have called, under the watch (watch.h). While communicators exist, the device's reads,
 * writes and waits poll: they check NCCL's errors and the watchdog. NCCL is opened when the first group needs it;
 * if a rank has no NCCL, the job runs without it.
 * Invariants: all ranks of an NCCL group call with device pointers, or all with host pointers; those of
 * device_memory.h.
 * Cost: a communicator takes device memory (tens to hundreds of MiB), and about a second to make. */
#ifndef TRINE_COMM_API_GPU_H
#define TRINE_COMM_API_GPU_H

#include "comm/api/comm.h"
#include "device/device.h"

typedef struct {
    device *dev;      /* must outlive the mesh's gpu */
    const void *nccl; /* the comm_nccl of the CUDA library (nccl.h); NULL: built without NCCL */
    const char *name; /* unique on its host: the PCI address */
    bool ordered;     /* NCCL's additions in rank order */
    const size_t *largest; /* (TRINE_GROUPS) bytes of each group's largest reduction or gather, the same on its ranks;
                              NULL: unknown */
    int lane_ctas; /* trine_parallel's nccl_lane_ctas */
} comm_gpu;

/* Before comm_device_memory. Errors: TRINE_EUNSUPPORTED if the transport is forced to be nccl and a rank has no
 * NCCL; TRINE_ENCCL, TRINE_ENOMEM, TRINE_EMPI; on every rank alike. Collective over: world. */
trine_status comm_gpu_create(trine_mesh *mesh, const comm_gpu *gpu);
/* After comm_gpu_create: "node1: libnccl.so.2: cannot open ...", the reason why groups run without NCCL; NULL if
 * they use it, or no group needs it. Owned by the mesh. Pure. */
const char *comm_gpu_no_nccl(const trine_mesh *mesh);
/* The NCCL version that a cuda device's groups would use: 22703 is 2.27.3; 0 if it cannot be opened. Not
 * collective. */
int comm_nccl_version(const device *d);
/* Whether NCCL of this version starts the kernels of all communicators of a device in the order of the host's calls:
 * from 2.26 on, with NCCL_LAUNCH_ORDER_IMPLICIT=1, which the programs set. Otherwise each call waits, on the device,
 * for the last one of every other group. Not collective. */
bool comm_nccl_in_order(int version);
/* Destroys the NCCL communicators. To be called while the device is open and nothing is in progress, after
 * comm_device_memory(mesh, NULL). Does nothing without a GPU. Collective over: world. */
void comm_gpu_destroy(trine_mesh *mesh);
/* Approximate device memory that the mesh's NCCL groups take on each GPU for additions. Pure. */
size_t comm_gpu_scratch(trine_layout layout);
/* *all: whether every rank's MPI is CUDA-aware, so that messages are sent from GPU memory without a copy
 * (device_region.reached). Errors: TRINE_EMPI. Collective over: world. */
trine_status comm_mpi_reaches(trine_world *world, bool *all);
/* Whether some group of this rank stages device memory, so that device_region needs staging buffers. */
bool comm_gpu_stages(const trine_mesh *mesh);

#endif

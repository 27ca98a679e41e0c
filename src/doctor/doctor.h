/* What trine-doctor knows of a job before it trains: what every rank has found out and measured
 * (facts.h, measure.h), what is to be said about it (judge.h), and how (report.h). run.h does it all.
 *
 * The structs are plain, without pointers, and are sent between ranks as bytes: one build's.
 * Invariant: a figure that was not measured is 0, a text that is not known is "". */
#ifndef TRINE_DOCTOR_DOCTOR_H
#define TRINE_DOCTOR_DOCTOR_H

#include "device/device.h"

#define DOCTOR_NAME 64
#define DOCTOR_TEXT 160
#define DOCTOR_LONG 512

/* Of one rank, and of its node as this rank sees it. */
typedef struct {
    int32_t rank, node; /* node: from 0, by lowest rank */
    char host[DOCTOR_NAME];

    /* Versions. */
    char trine[DOCTOR_NAME], kernel[DOCTOR_NAME], cpu[DOCTOR_NAME]; /* cpu: the processor's name */
    char dnnl[DOCTOR_NAME], isa[DOCTOR_NAME]; /* isa: the instructions that oneDNN uses here */
    char mpi[DOCTOR_TEXT], mpi_parts[DOCTOR_TEXT], mpi_level[DOCTOR_NAME]; /* comm/api/about.h */
    char transport[DOCTOR_NAME];              /* of a group of all ranks */
    char build[DOCTOR_NAME];                  /* a hash of this program */

    /* Processors. cores: one bit for each physical core that this rank may run on, the number of
     * its lowest processor. */
    uint64_t cores[DEVICE_MASK_WORDS];
    int32_t node_cpus, node_cores; /* online */
    int32_t cpus, threads;         /* that this rank may run on, and will use */
    double quota;                  /* processors that its control group allows at a time; 0: all */

    /* Memory of the node, in bytes. */
    uint64_t memory, memory_free; /* no more than the control group allows */
    uint64_t shm, shm_free;       /* of /dev/shm; shm 0: there is none */
    char shm_why[DOCTOR_TEXT];    /* why no file can be made there */
    char refusal[DOCTOR_LONG];    /* why the ranks of the node cannot exchange through memory */

    int32_t unresolved;     /* the host's name has no address */
    double resolve_seconds; /* that the answer took */

    int32_t gpu;                /* whether there is one that this rank can use */
    char gpu_model[DOCTOR_NAME], gpu_bus[DOCTOR_NAME], gpu_why[DOCTOR_LONG];
    uint64_t gpu_memory, gpu_free; /* bytes */
    int32_t gpu_driver, gpu_runtime, gpu_nccl; /* as in cuda/backend.h */

    /* Measured while all ranks do the same. */
    double matmul; /* flops a second */
    double share;  /* of its threads' time on the processors, meanwhile; 0 to 1 */
    double triad;  /* bytes a second */
    double shm_latency;                /* seconds, between the first two ranks of the node; in both */
    double clock_offset, clock_error;  /* seconds ahead of rank 0's; in the lowest rank of a node */
} doctor_rank;

/* Between the lowest ranks of two nodes, a < b. */
typedef struct {
    int32_t a, b;
    double latency, bandwidth; /* seconds one way; bytes a second */
} doctor_pair;

/* What there is to judge. */
typedef struct {
    const doctor_rank *ranks; /* (rank_count), ranks[r].rank == r */
    int rank_count, node_count;
    const doctor_pair *pairs; /* (pair_count) */
    int pair_count;
    bool gpus_wanted;       /* --device cuda */
    uint64_t memory_wanted; /* bytes that a rank will take; 0: not said */
} doctor_job;

#endif

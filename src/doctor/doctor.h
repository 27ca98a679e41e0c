/* What trine-doctor knows of a job before training: what every rank has found and measured (facts.h,
 * probe.h), the findings (judge.h), and the report (doctor_report.h). run.h does it all.
 *
 * The structs are plain, without pointers, and are sent between ranks as bytes; all ranks run the same
 * build. Invariant: a value that was not measured is 0, an unknown text is "". */
#ifndef TRINE_DOCTOR_DOCTOR_H
#define TRINE_DOCTOR_DOCTOR_H

#include "device/device.h"

#define DOCTOR_NAME 64
#define DOCTOR_TEXT 160
#define DOCTOR_LONG 512

/* Ranks and threads for a node (recommend.h). */
typedef struct {
    int32_t cores;          /* physical cores that a job may use */
    int32_t ranks, threads; /* of a node; of each rank */
    int32_t span, caches;   /* what a rank takes: recommend.c's; last-level caches of a rank */
    int32_t quota;          /* processors that the control group allows; 0: all, and ranks are bound */
    int32_t few;            /* memory allows no more ranks */
} recommendation;

/* One rank, and its node as this rank sees it. */
typedef struct {
    int32_t rank, node; /* node: numbered from 0 by lowest rank */
    char host[DOCTOR_NAME];

    /* Versions. */
    char trine[DOCTOR_NAME], kernel[DOCTOR_NAME], cpu[DOCTOR_NAME]; /* cpu: processor name */
    char dnnl[DOCTOR_NAME], isa[DOCTOR_NAME]; /* isa: instruction set that oneDNN uses */
    char mpi[DOCTOR_TEXT], mpi_parts[DOCTOR_TEXT], mpi_level[DOCTOR_NAME]; /* comm/api/about.h */
    char transport[DOCTOR_NAME];              /* of a group of all ranks */
    char build[DOCTOR_NAME];                  /* hash of the executable */

    /* Processors. cores: the physical cores that this rank may run on, one bit each; a core is numbered by
     * its lowest processor. */
    uint64_t cores[DEVICE_MASK_WORDS];
    int32_t node_cpus, node_cores; /* online */
    int32_t cpus, threads;         /* processors that this rank may run on; threads that it will use */
    double quota;                  /* processors that the control group allows at a time; 0: all */
    recommendation best;           /* for the cores that the process which started this rank may use */

    /* Memory of the node, in bytes. */
    uint64_t memory, memory_free; /* at most what the control group allows */
    uint64_t shm, shm_free;       /* of /dev/shm; shm 0: does not exist */
    char shm_why[DOCTOR_TEXT];    /* why no file can be created there */
    char refusal[DOCTOR_LONG];    /* why the ranks of the node cannot use shared memory */

    int32_t unresolved;     /* the host name does not resolve */
    double resolve_seconds; /* duration of the lookup */

    int32_t gpu;                /* whether this rank has a usable GPU */
    char gpu_model[DOCTOR_NAME], gpu_bus[DOCTOR_NAME], gpu_why[DOCTOR_LONG];
    uint64_t gpu_memory, gpu_free; /* bytes */
    int32_t gpu_driver, gpu_runtime, gpu_nccl; /* as in cuda/backend.h */

    /* Measured on all ranks at once. */
    double matmul; /* flops a second */
    double share;  /* part of the processors' time that its threads had meanwhile; 0 to 1 */
    double triad;  /* bytes a second */
    double shm_latency;                /* seconds, between the first two ranks of the node; set in both */
    double clock_offset, clock_error;  /* seconds ahead of rank 0; set in the lowest rank of a node */
} doctor_rank;

/* Between the lowest ranks of two nodes, a < b. */
typedef struct {
    int32_t a, b;
    double latency, bandwidth; /* seconds one way; bytes per second */
} doctor_pair;

/* Input of judge. */
typedef struct {
    const doctor_rank *ranks; /* (rank_count), ranks[r].rank == r */
    int rank_count, node_count;
    const doctor_pair *pairs; /* (pair_count) */
    int pair_count;
    bool gpus_wanted;       /* --device cuda */
    uint64_t memory_wanted; /* bytes that a rank needs; 0: unknown */
} doctor_job;

#endif

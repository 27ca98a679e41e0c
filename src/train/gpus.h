/* The ranks' GPUs: which rank has which, their lines in the banner, and the prefix of a rank's error
 * messages. Without GPUs all of this does nothing.
 *
 * A GPU is identified by its host and PCI address, not by its number: a launcher may show each rank
 * its own GPU as number 0. Several ranks may share a GPU; the banner reports it. */
#ifndef TRINE_TRAIN_GPUS_H
#define TRINE_TRAIN_GPUS_H

#include "train/trainer.h"

/* Prefixes this rank's errors with its host, rank and coordinate, and its GPU once it is open. Not
 * collective. */
void gpus_introduce(const trine_trainer *t, const device_config *config);

/* Number of ranks on this rank's GPU, including itself. Not collective. */
int gpus_sharers(const trine_trainer *t);

/* Called with all ranks' devices open and before any plan is allocated: chooses the groups that use
 * NCCL and creates them (comm/api/gpu.h), lets all libraries allocate their memory (warm_up.h), and
 * sets t->gpus, so that free memory on a GPU is then available to the plans. Errors, on all ranks
 * alike: TRINE_ENOMEM, comm_gpu_create's, the shared object's own.
 * Collective over: world. */
trine_status gpus_join(trine_trainer *t);

/* The slowest link from this rank's GPU to the others of each group: NVLink, PCIe, host memory or
 * network. Not collective. */
void gpus_print_links(const trine_trainer *t, FILE *out);

/* A line for each kind of GPU and versions with its ranks; memory used on rank 0's GPU before the
 * plan; how many ranks share a GPU; warnings if kinds or versions differ, a tp group spans nodes, or
 * host memory could not be pinned. Not collective. */
void gpus_print(const trine_trainer *t, FILE *out);

#endif

/* The ranks' GPUs: who has which, what the banner says of them, and what every message of a rank
 * with one begins with. On processors all of this does nothing.
 *
 * A GPU is told from another by its host and PCI address, not by its number: a launcher may show
 * each rank a GPU of its own as number 0. Several ranks on one GPU are allowed, and said. */
#ifndef TRINE_TRAIN_GPUS_H
#define TRINE_TRAIN_GPUS_H

#include "train/trainer.h"

/* Errors of this rank begin with its host, number and place, and its GPU as soon as it is open. Not
 * collective. */
void gpus_introduce(const trine_trainer *t, const device_config *config);

/* Ranks on this rank's GPU, itself among them. Not collective. */
int gpus_sharers(const trine_trainer *t);

/* With all ranks' devices open and nothing of their plans taken: chooses which groups go through
 * NCCL, makes those (comm/api/gpu.h), lets all libraries take what they need (warm_up.h), and sets
 * t->gpus, so that what is free on a GPU then is free for the plans. Errors, on all ranks alike:
 * TRINE_ENOMEM, comm_gpu_create's, the object's own.
 * Collective over: world. */
trine_status gpus_join(trine_trainer *t);

/* How this rank's GPU reaches the others of each group: NVLink, PCIe, the host's memory or a
 * network, the slowest of them. Not collective. */
void gpus_print_links(const trine_trainer *t, FILE *out);

/* A line for each kind of GPU and versions with the ranks that have it; what is gone of rank 0's GPU
 * before the plan, and to whom; how many share one; warnings where kinds or versions differ, a tp
 * group crosses nodes, or host memory could not be pinned. Not collective. */
void gpus_print(const trine_trainer *t, FILE *out);

#endif

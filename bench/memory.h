/* Whether jobs fit into this machine's memory, from the trainer's own plan. */
#ifndef TRINE_BENCH_MEMORY_H
#define TRINE_BENCH_MEMORY_H

#include "trine.h"

/* *bytes = what all ranks of a configuration take together. Errors: those of the configuration;
 * TRINE_ENOMEM. Cost: the programs of all stages. */
trine_status memory_planned(const trine_config *config, uint64_t *bytes);
/* *bytes = what the only rank of a configuration takes of its device's memory. Errors and cost: the
 * same. */
trine_status memory_planned_alone(const trine_config *config, uint64_t *bytes);
/* What the system has to give; UINT64_MAX when it does not say. */
uint64_t memory_available(void);

#endif

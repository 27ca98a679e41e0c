/* The memory that jobs need, from the trainer's own plan, and the memory that is available. */
#ifndef TRINE_BENCH_MEMORY_H
#define TRINE_BENCH_MEMORY_H

#include "trine.h"

/* *bytes = the memory of all ranks of a configuration. Errors: those of the configuration;
 * TRINE_ENOMEM. Cost: the programs of all stages. */
trine_status memory_planned(const trine_config *config, uint64_t *bytes);
/* *bytes = the device memory of the only rank of a configuration. Errors and cost: the same. */
trine_status memory_planned_alone(const trine_config *config, uint64_t *bytes);
/* The memory that the system has available; UINT64_MAX if unknown. */
uint64_t memory_available(void);

#endif

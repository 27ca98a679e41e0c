/* Where the cores of this node lie, from /sys of Linux. */
#ifndef TRINE_DOCTOR_TOPOLOGY_H
#define TRINE_DOCTOR_TOPOLOGY_H

#include "doctor/doctor.h"

/* The lowest processor of the core of `cpu`; -1 if unknown. */
int topology_core(int cpu);

/* Sets own->best for the cores that this rank and the process that started it may run on: a launcher binds ranks, but
 * not itself. `wanted`: bytes of memory for a rank. Errors: TRINE_ENOMEM. Not collective. */
trine_status topology_recommend(doctor_rank *own, uint64_t wanted);

#endif

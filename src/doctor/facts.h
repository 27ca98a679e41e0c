/* What a rank finds out by asking: the system, the libraries, the GPU. Nothing is measured here but how
 * long the host's name takes. Linux says most of it in /proc and /sys; what it does not say there stays
 * unknown, and is no error. */
#ifndef TRINE_DOCTOR_FACTS_H
#define TRINE_DOCTOR_FACTS_H

#include "doctor/doctor.h"

/* Fills in what there is to know of the process and its node without other ranks; MPI runs. Makes a file
 * in /dev/shm and removes it; waits for the resolver, whose time limit is its own. Errors: TRINE_EMPI.
 * Not collective. */
trine_status facts_find(doctor_rank *own);

/* Fills in the GPU of `d`, an open cuda device. Errors: the device's own. Not collective. */
trine_status facts_gpu(doctor_rank *own, const device *d);

#endif

/* Facts that a rank queries from the system, the libraries and the GPU. Only the lookup of the host name is
 * measured. Most of them are in /proc and /sys of Linux; what is missing there stays unknown, which is not
 * an error. */
#ifndef TRINE_DOCTOR_FACTS_H
#define TRINE_DOCTOR_FACTS_H

#include "doctor/doctor.h"

/* Fills in the facts of the process and its node, without other ranks; MPI is initialized. Creates and
 * removes a file in /dev/shm; waits for the resolver, which has its own timeout. Errors: TRINE_EMPI. Not
 * collective. */
trine_status facts_find(doctor_rank *own);

/* Fills in the GPU of `d`, an open cuda device. Errors: the device's. Not collective. */
trine_status facts_gpu(doctor_rank *own, const device *d);

#endif

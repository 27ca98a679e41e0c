/* Collectives and messages inside a node, for a hardware file: medians by bytes, for groups of 2, 4, 8 ... ranks and
 * of all, all groups of the job at once, in memory that peers read in place, as that of training is. */
#ifndef TRINE_DOCTOR_HARDWARE_LINKS_H
#define TRINE_DOCTOR_HARDWARE_LINKS_H

#include "doctor/hardware_file.h"

/* Appends points; none if a node has one rank. All nodes have as many. Errors: TRINE_ENOMEM; the groups'.
 * Collective over: world. */
trine_status hardware_links_measure(measured_points *points, const hardware_job *job);

/* Bytes a second of the largest messages; 0: none was measured. Pure. */
double hardware_links_rate(const measured_points *points);

#endif

/* What a run's options say without the run: memory by kind, the programs as the schedule draws them, and with a
 * machine their times. Printed as the value of a member of the page's data. */
#ifndef TRINE_REPORT_PLANNED_H
#define TRINE_REPORT_PLANNED_H

#include <stdio.h>

#include "report/run_log.h"

/* Prints {"ranks", "micros", "bubble", "idle", "stages", "memory", "passes", "span", "unit", "forecast"} of the
 * options that a process has logged; what cannot be made from them is left out, and "missing" says why. hardware: a
 * name or path (cost/hardware.h); NULL: passes take units of time. Errors: those of hardware_read; TRINE_ENOMEM. Not
 * collective. */
trine_status planned_print(const log_start *start, const char *hardware, FILE *out);

#endif

/* A machine much simpler than the checker, which runs all stages' programs symbolically: a value is a hash of its
 * inputs. It knows no rules and no legal order, only memory; it uses only program_operands of the library, for the
 * waits for messages. Messages and gathers move their data as early as possible, or as late as these waits allow. */
#ifndef TRINE_TESTS_MACHINE_H
#define TRINE_TESTS_MACHINE_H

#include "core/program.h"

/* At most. */
enum { MACHINE_STAGES = 4, MACHINE_UNITS = 16, MACHINE_MICROS = 6 };

/* Fails unless the programs compute what a plain loop over micro-batches and units does. `what` they are is for the
 * message. */
void machine_means_the_loop(const program_spec *spec, const program *stages, const char *what);

#endif

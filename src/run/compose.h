/* Programs from a spec, by the passes of all dimensions (run/parts.h), proved. */
#ifndef TRINE_RUN_COMPOSE_H
#define TRINE_RUN_COMPOSE_H

#include "core/check.h"
#include "core/program.h"

/* Makes the program of p's stage (p is fresh from program_create). Errors: TRINE_ENOMEM. Pure. */
trine_status compose_program(program *p);

/* All stages' programs, proved by the checker. *stages (spec->stages) is owned by the caller, ended
 * by compose_destroy; facts may be NULL. Errors: TRINE_EPROGRAM, TRINE_ENOMEM. Pure. */
trine_status compose_all(const program_spec *spec, program **stages, check_facts *facts);
void compose_destroy(const program_spec *spec, program **stages);

#endif

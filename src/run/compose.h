/* Builds programs from a spec with the passes of all dimensions (run/parts.h) and checks them. */
#ifndef TRINE_RUN_COMPOSE_H
#define TRINE_RUN_COMPOSE_H

#include "core/check.h"
#include "core/program.h"
#include "run/parts.h"

/* Applies passes, up to the end of the list, to the programs of all stages, which are from program_create at first.
 * Errors: TRINE_ENOMEM. Pure. */
trine_status compose_programs(program *stages, const run_pass *passes);

/* check_programs (core/check.h) with the rules of all parts. */
trine_status compose_check(const program *stages, check_facts *facts);

/* prove_programs (core/prove.h) with the rules of all parts. */
trine_status compose_prove(const program *stages, const prove_model *m, term_pool *pool, proof *out);

/* All stages' programs, proved by the checker. The caller owns *stages (spec->stages) and destroys it with
 * compose_destroy; facts may be NULL. Errors: TRINE_EPROGRAM, TRINE_ENOMEM. Pure. */
trine_status compose_all(const program_spec *spec, program **stages, check_facts *facts);
/* The same without the checker, for a prover that looks at what it would refuse. Errors: TRINE_ENOMEM. */
trine_status compose_unchecked(const program_spec *spec, program **stages);
void compose_destroy(const program_spec *spec, program **stages);

#endif

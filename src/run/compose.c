#include "run/compose.h"

#include <stdlib.h>

#include "base/status.h"
#include "run/parts.h"

trine_status compose_programs(program *stages, const run_pass *pass) {
    for (; pass->of || pass->stage || pass->all; pass++) {
        trine_status (*stage)(program * p) = pass->of ? pass->of->pass : pass->stage;
        if (pass->all) TRY(pass->all(stages));
        for (int p = 0; stage && p < stages->spec->stages; p++) TRY(stage(&stages[p]));
    }
    return TRINE_OK;
}

trine_status compose_check(const program *stages, check_facts *facts) {
    check_rule rules[INSTR_KINDS];
    for (int k = 0; k < INSTR_KINDS; k++) rules[k] = run_part_of((instr_kind)k)->check;
    return check_programs(stages, rules, facts);
}

trine_status compose_prove(const program *stages, const prove_model *m, term_pool *pool,
                           proof *out) {
    prove_rule rules[INSTR_KINDS];
    for (int k = 0; k < INSTR_KINDS; k++) rules[k] = run_part_of((instr_kind)k)->prove;
    return prove_programs(stages, rules, m, pool, out);
}

trine_status compose_unchecked(const program_spec *spec, program **stages) {
    *stages = calloc((size_t)spec->stages, sizeof **stages);
    CHECK(*stages, TRINE_ENOMEM, "no memory for %d programs", spec->stages);
    for (int p = 0; p < spec->stages; p++) program_create(&(*stages)[p], spec, p);
    trine_status status = compose_programs(*stages, run_passes());
    if (status != TRINE_OK) compose_destroy(spec, stages);
    return status;
}

trine_status compose_all(const program_spec *spec, program **stages, check_facts *facts) {
    TRY(compose_unchecked(spec, stages));
    trine_status status = compose_check(*stages, facts);
    if (status != TRINE_OK) compose_destroy(spec, stages);
    return status;
}

void compose_destroy(const program_spec *spec, program **stages) {
    for (int p = 0; *stages && p < spec->stages; p++) program_destroy(&(*stages)[p]);
    free(*stages);
    *stages = NULL;
}

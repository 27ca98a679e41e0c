/* TEST np=0 */
/* A legal training program can be cut around NORM, whatever schedule and ZeRO stage; one is refused that changes
 * parameters before, or does anything else than use them behind. */
#include "core/edits.h"

#include "core/cut.h"

static void legal_programs_can_be_cut(void **state) {
    (void)state;
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++)
        for (int zero = 0; zero < 4; zero++) {
            program_spec spec = bases[b];
            program *stages;
            if (b != EXACT) spec.parallel.zero = (trine_zero)zero;
            spec.parallel.gather_buffers = 2;
            OK(compose_all(&spec, &stages, NULL));
            for (int p = 0; p < spec.stages; p++) {
                int norm = -1;
                OK(cut_program(&stages[p], &norm));
                assert_int_equal(stages[p].code[norm].kind, NORM);
            }
            compose_destroy(&spec, &stages);
        }
}

/* Moves instruction `from` to `to`. */
static void move(program *p, int from, int to) {
    instr i = p->code[from];
    memmove(p->code + from, p->code + from + 1, (size_t)(p->count - from - 1) * sizeof i);
    p->count--;
    OK(program_insert(p, to, i));
}

static int first_of(const program *p, instr_kind kind) {
    int at = 0;
    while (at < p->count && p->code[at].kind != (int)kind) at++;
    assert_true(at < p->count);
    return at;
}

static void refused(instr_kind kind, base which, bool before, const char *text) {
    program_spec spec = bases[which];
    program *stages;
    int norm;
    OK(compose_all(&spec, &stages, NULL));
    program *p = &stages[spec.stages - 1];
    if (before)
        move(p, first_of(p, kind), 0);
    else
        move(p, first_of(p, kind), first_of(p, NORM)); /* which moves up by one */
    REFUSED(cut_program(p, &norm), TRINE_EPROGRAM, text);
    compose_destroy(&spec, &stages);
}

static void what_a_cut_would_break_is_refused(void **state) {
    (void)state;
    refused(UPDATE, ZERO1, true, "instruction 0 (UPDATE u0): changes parameters before NORM");
    refused(GATHER, ZERO1, true, "changes parameters before NORM");
    refused(SEND_GRAD, PIPE, false, "comes after NORM, and is about more than parameters");
    refused(REDUCE, ZERO1, false, "comes after NORM");
    refused(FORWARD, ZERO3, false, "comes after NORM");
    refused(BACKWARD, PIPE, false, "comes after NORM");
    program_spec spec = bases[ZERO1];
    program *stages;
    int norm;
    OK(compose_all(&spec, &stages, NULL));
    stages->count = first_of(stages, NORM);
    REFUSED(cut_program(stages, &norm), TRINE_EPROGRAM, "end of program: there is no NORM");
    compose_destroy(&spec, &stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_programs_can_be_cut),
        cmocka_unit_test(what_a_cut_would_break_is_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}

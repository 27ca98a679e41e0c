/* TEST np=0 */
/* Slots: an evaluation has those of training (it runs in training's memory), and pp_slots, which looks at the
 * computations alone, gives the number of the whole training program, for every schedule, also where chunks have only units whose backward pass
 * is not split (an embedding, a head). */
#include "harness.h"
#include "shapes.h"

#include "pp/pp.h"
#include "model/gpt.h"
#include "run/compose.h"

enum { STAGES = 6, MICROS = 13, VIRTUAL = 3 };

/* [stage] */
static void slots_of(program_spec s, bool evaluation, int out[STAGES]) {
    program *stages;
    s.forward_only = evaluation;
    OK(compose_all(&s, &stages, NULL));
    for (int p = 0; p < s.stages; p++) out[p] = stages[p].slots;
    compose_destroy(&s, &stages);
}

static void check(const program_spec *s, shapes_kind kind) {
    int training[STAGES], evaluation[STAGES], slots;
    slots_of(*s, false, training);
    slots_of(*s, true, evaluation);
    for (int p = 0; p < s->stages; p++) {
        OK(pp_slots(s, p, &slots));
        if (evaluation[p] != training[p] || slots != training[p])
            fail_msg("schedule %d, %d chunks per stage, stage %d of %d, %d micro-batches: %d "
                     "slots, %d in an evaluation, %d by pp_slots",
                     (int)kind.schedule, kind.virtual, p, s->stages, s->micros, training[p],
                     evaluation[p], slots);
    }
}

/* Calls `visit` for specs of all schedules; units of the chunks in turn: ends alone, and with blocks. Backward passes are
 * split in other ways than the schedule's, or messages have one queue. */
static void each_spec(bool splits, void (*visit)(const program_spec *s, shapes_kind kind)) {
    static const int units[][3] = {{1, 1, 1}, {2, 2, 2}, {1, 2, 3}};
    for (int n = 0; n < shapes_kinds(VIRTUAL); n++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int micros = 1; micros <= MICROS; micros += 1 + micros / 4)
                for (int choice = 0; choice < 6; choice++) {
                    program_spec s = {.stages = stages,
                                      .micros = micros,
                                      .parallel.gather_buffers = 1,
                                      .parallel.reduce_buffers = 1,
                                      .facts = gpt_facts,
                                      .weight_follows = splits && choice / 3,
                                      .parallel.split_backward = splits && choice % 2,
                                      .queue =
                                          splits || choice % 2 == 0 ? QUEUES_PER_EDGE : ONE_QUEUE};
                    shapes_kind kind = shapes_kind_of(n, VIRTUAL);
                    shapes_place(&s, kind, 3, units[choice % 3]);
                    visit(&s, kind);
                }
}

static void slots_are_those_of_training(void **state) {
    (void)state;
    each_spec(true, check);
}

static void check_frozen(const program_spec *shape, shapes_kind kind) {
    (void)kind;
    program_spec s = *shape;
    for (int first = 1; first < s.units; first += 1 + s.units / 5)
        for (int evaluation = 0; evaluation < 2; evaluation++) {
            program *programs;
            s.first_trained = first;
            s.forward_only = evaluation;
            OK(compose_all(&s, &programs, NULL));
            compose_destroy(&s, &programs);
        }
}

/* Units below the lowest trained one have no backward pass, so their slots are free sooner: still no stage waits for
 * itself, in training or evaluation. */
static void frozen_units_leave_slots_enough(void **state) {
    (void)state;
    each_spec(false, check_frozen);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_are_those_of_training),
                                       cmocka_unit_test(frozen_units_leave_slots_enough)};
    return HARNESS_RUN_ALONE(tests);
}

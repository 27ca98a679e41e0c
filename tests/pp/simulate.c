/* TEST np=0 */
/* The simulation with communication that takes time: by hand where one can, and what must hold for every schedule. */
#include "near.h"
#include "shapes.h"

#include <math.h>
#include <stdlib.h>

#include "pp/pp.h"
#include "pp/simulate.h"
#include "model/gpt.h"
#include "run/compose.h"

enum { STAGES = 5, MICROS = 9, VIRTUAL = 3 };

/* F 1 and B 2 for each unit; messages and collectives as asked. */
typedef struct {
    double message, reduce, gather, other;
} times_of;

static double pass_time(const void *context, const program *p, const instr *i) {
    (void)context, (void)p;
    return i->kind == FORWARD ? 1 : instr_computes((instr_kind)i->kind) ? 2 : 0;
}

static double send_time(const void *context, const program *p, const instr *i) {
    const times_of *t = context;
    (void)p;
    if (instr_is_message((instr_kind)i->kind)) {
        assert_true(instr_sends((instr_kind)i->kind));
        return t->message;
    }
    return i->kind == REDUCE ? t->reduce : i->kind == GATHER ? t->gather : t->other;
}

static program_spec spec_of(int stages, int micros, shapes_kind kind, trine_zero zero) {
    static const int units[] = {2};
    program_spec s = {.stages = stages,
                      .micros = micros,
                      .parallel = {.gather_buffers = 2,
                                   .reduce_buffers = 1,
                                   .zero = zero,
                                   .layout = {.dp = 2, .tp = 1, .pp = stages}},
                      .facts = gpt_facts};
    shapes_place(&s, kind, 1, units);
    return s;
}

static double step_of(const program_spec *s, pp_durations how, times_of t) {
    program *stages;
    pp_times times;
    how.of = send_time;
    OK(compose_all(s, &stages, NULL));
    OK(pp_simulate(stages, pass_time, &how, &t, &times));
    double step = times.step;
    pp_times_destroy(&times);
    compose_destroy(s, &stages);
    return step;
}

/* ---- By hand ---- */

static const shapes_kind one_f_one_b = {TRINE_1F1B, 1};

/* One micro-batch goes to the last stage and back: a message each way between neighbours. */
static void a_message_delays_its_receiver(void **state) {
    (void)state;
    for (int stages = 1; stages <= STAGES; stages++) {
        program_spec s = spec_of(stages, 1, one_f_one_b, TRINE_ZERO_0);
        double want = 6 * stages + 7 * 2 * (stages - 1);
        NEAR(step_of(&s, (pp_durations){0}, (times_of){.message = 7}), want, 1e-9);
    }
}

/* Two micro-batches: the last stage has one slot, and receives the second when the first has left it. Where messages
 * block it first waits until its gradient has arrived. */
static void a_blocking_message_occupies_its_sender(void **state) {
    (void)state;
    program_spec s = spec_of(2, 2, one_f_one_b, TRINE_ZERO_0);
    double free = 2 + 1 + 6 + 1 + 6 + 1 + 4;
    NEAR(step_of(&s, (pp_durations){0}, (times_of){.message = 1}), free, 1e-9);
    NEAR(step_of(&s, (pp_durations){.blocks = true}, (times_of){.message = 1}), free + 1, 1e-9);
}

/* Two units: the sum of the first in backward order hides behind the other's pass of 2, and the last one's does not. */
static void a_reduction_runs_beside_passes(void **state) {
    (void)state;
    program_spec s = spec_of(1, 3, one_f_one_b, TRINE_ZERO_0);
    double passes = 3 * 6;
    const double each[] = {0.5, 2, 3};
    for (int n = 0; n < 3; n++) {
        times_of t = {.reduce = each[n]};
        double begun =
            fmax(each[n], 2); /* the second begins when its pass and the first have ended */
        NEAR(step_of(&s, (pp_durations){0}, t), passes - 2 + begun + each[n], 1e-9);
        NEAR(step_of(&s, (pp_durations){.late = true}, t), passes + 2 * each[n], 1e-9);
        NEAR(step_of(&s, (pp_durations){.occupies = true}, t), passes + 2 * each[n], 1e-9);
    }
}

/* ZeRO-1 gathers at rest, one unit after the other, and waits; NORM is another. */
static void what_blocks_is_added(void **state) {
    (void)state;
    program_spec s = spec_of(1, 3, one_f_one_b, TRINE_ZERO_1);
    times_of t = {.gather = 5, .other = 3};
    NEAR(step_of(&s, (pp_durations){0}, t), 18 + 2 * 5 + 3, 1e-9);
}

/* ZeRO-3 with as many buffers as units gathers each unit once a pass in advance: only the first is waited for. */
static void a_gather_runs_beside_passes(void **state) {
    (void)state;
    program_spec s = spec_of(1, 1, one_f_one_b, TRINE_ZERO_3);
    double free = step_of(&s, (pp_durations){0}, (times_of){0}),
           slow = step_of(&s, (pp_durations){0}, (times_of){.gather = 0.25});
    NEAR(free, 6, 1e-9);
    assert_true(slow >= free + 0.25 && slow <= free + 4 * 0.25);
}

/* ---- Every schedule ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* When the messages from a stage to another have arrived, each of which takes this time: one after the other. */
static void check_link(const program *from, int to, const pp_time *at, double time) {
    double ends[8 * MICROS * VIRTUAL];
    size_t count = 0;
    for (int n = 0; n < from->count; n++)
        if (instr_sends((instr_kind)from->code[n].kind) && program_peer(from, &from->code[n]) == to)
            ends[count++] = at[n].end;
    qsort(ends, count, sizeof *ends, by_size);
    for (size_t n = 1; n < count; n++) assert_true(ends[n] - ends[n - 1] > time - 1e-9);
}

static void a_link_has_a_message_at_a_time(void **state) {
    (void)state;
    const times_of t = {.message = 20};
    const pp_durations how = {.of = send_time};
    for (int n = 0; n < shapes_kinds(VIRTUAL); n++)
        for (int stages = 2; stages <= STAGES; stages++) {
            program_spec s = spec_of(stages, MICROS, shapes_kind_of(n, VIRTUAL), TRINE_ZERO_0);
            program *p;
            pp_times times;
            s.queue = ONE_QUEUE; /* which starts to receive before what is needed next */
            OK(compose_all(&s, &p, NULL));
            OK(pp_simulate(p, pp_unit_cost, &how, &t, &times));
            for (int from = 0; from < stages; from++)
                for (int to = 0; to < stages; to++)
                    check_link(&p[from], to, times.at[from], t.message);
            pp_times_destroy(&times);
            compose_destroy(&s, &p);
        }
}

/* Without durations, with durations of 0, and with those that only delay. */
static void check(const program_spec *s) {
    program *stages;
    pp_times without, zero, slow;
    const times_of none = {0}, some = {1.5, 0.7, 0.3, 0.2};
    const pp_durations durations = {.of = send_time};
    OK(compose_all(s, &stages, NULL));
    OK(pp_simulate(stages, pp_unit_cost, NULL, NULL, &without));
    OK(pp_simulate(stages, pp_unit_cost, &durations, &none, &zero));
    OK(pp_simulate(stages, pp_unit_cost, &durations, &some, &slow));
    assert_true(without.makespan == zero.makespan && zero.step == zero.makespan);
    assert_true(slow.step >= without.step);
    double formula = pp_bubble(s);
    if (!isnan(formula)) NEAR(pp_times_idle(&without), formula, 1e-12);
    for (int p = 0; p < s->stages; p++) {
        double sum = slow.busy[p];
        for (int w = 0; w < PP_WAITS; w++) sum += slow.waits[p][w];
        assert_true(without.busy[p] == zero.busy[p] && zero.busy[p] == slow.busy[p]);
        NEAR(sum, slow.step, 1e-9 * slow.step);
        assert_true(zero.waits[p][PP_WAITS_MESSAGE] + zero.waits[p][PP_WAITS_COLLECTIVE] == 0);
    }
    pp_times_destroy(&without), pp_times_destroy(&zero), pp_times_destroy(&slow);
    compose_destroy(s, &stages);
}

static void parts_add_up_in_every_schedule(void **state) {
    (void)state;
    for (int n = 0; n < shapes_kinds(VIRTUAL); n++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int micros = 1; micros <= MICROS; micros += 4)
                for (int zero = 0; zero <= 3; zero++) {
                    static const int units[] = {2, 3};
                    shapes_kind kind = shapes_kind_of(n, VIRTUAL);
                    program_spec s = spec_of(stages, micros, kind, (trine_zero)zero);
                    check(&s);
                    shapes_place(&s, kind, 2, units); /* stages that end at other times */
                    check(&s);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_delays_its_receiver),
                                       cmocka_unit_test(a_link_has_a_message_at_a_time),
                                       cmocka_unit_test(a_blocking_message_occupies_its_sender),
                                       cmocka_unit_test(a_reduction_runs_beside_passes),
                                       cmocka_unit_test(what_blocks_is_added),
                                       cmocka_unit_test(a_gather_runs_beside_passes),
                                       cmocka_unit_test(parts_add_up_in_every_schedule)};
    return HARNESS_RUN_ALONE(tests);
}

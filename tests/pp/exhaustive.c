/* TEST np=0 plain longer=train */
/* Every program of naive, gpipe and 1f1b that the passes can compose is legal: pp <= 8, M <= 32, zero 0-3,
 * 1-3 gather buffers, tied and untied, training and evaluation, with a queue per edge and with
 * one queue; and the numbers of its buffers and collectives equal the formulas. Programs for one
 * queue are also legal without their message groups; of the others, only 1f1b deadlocks in one queue.
 * `make check` takes M up to 10, 17 and 32, and one number of gather buffers for each of the other choices.
 * schedules.c has all schedules, with several chunks per stage. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "pp/pp.h"
#include "model/gpt.h"
#include "run/compose.h"

#define SCHEDULES (TRINE_1F1B + 1)

static bool full; /* with TRINE_FULL */

/* The next number of micro-batches; more than 32: none. In the short form all that are about as many as the stages,
 * and two that are many more. */
static int next_micros(int micros) {
    if (full || micros < 10) return micros + 1;
    return micros < 17 ? 17 : micros < 32 ? 32 : 33;
}

static int min(int a, int b) {
    return a < b ? a : b;
}

/* Units of uneven stages: one more on every other stage. */
static void split(program_spec *s) {
    s->first[0] = 0;
    for (int p = 0; p < s->stages; p++) s->first[p + 1] = s->first[p] + 1 + p % 3;
    s->units = s->first[s->stages];
    if (s->units == 1) s->units = s->first[1] = 4;
}

static int count(const program *p, instr_kind kind) {
    int n = 0;
    for (int i = 0; i < p->count; i++) n += p->code[i].kind == (int)kind;
    return n;
}

/* The second stage of the edge is one micro-batch less ahead: both stages send to each other. */
static bool exchanges(const program_spec *s, int edge) {
    if (s->queue != ONE_QUEUE || s->forward_only || edge < 0 || edge >= s->stages - 1) return false;
    return s->parallel.schedule == TRINE_1F1B && s->micros >= s->stages - edge;
}

/* Each message group matches one on the other side of the edge. */
static void check_groups(const program *p) {
    const program_spec *s = p->spec;
    int next = 0, before = 0, turns = s->micros - p->slots;
    for (int n = 0; n < p->count; n++) {
        if (p->code[n].group < 0 || program_group_first(p, n) != n) continue;
        assert_int_equal(program_group_last(p, n), n + 1);
        bool send = p->code[n].kind == SEND_ACT;
        assert_int_equal(p->code[n].kind, send ? SEND_ACT : RECV_ACT);
        assert_int_equal(p->code[n + 1].kind, send ? RECV_GRAD : SEND_GRAD);
        next += send;
        before += !send;
    }
    assert_int_equal(next, exchanges(s, p->stage) ? turns + 1 : 0);
    assert_int_equal(before, exchanges(s, p->stage - 1) ? turns : 0);
}

static int slots_of(const program_spec *s, int stage) {
    int least = s->parallel.schedule == TRINE_1F1B ? min(s->micros, s->stages - stage) : 1, slots;
    OK(pp_slots(s, stage, &slots));
    assert_int_equal(slots, s->parallel.schedule == TRINE_GPIPE ? s->micros : least);
    return slots;
}

static void check_stage(const program *p, const check_facts *f) {
    const program_spec *s = p->spec;
    int units = s->first[p->stage + 1] - s->first[p->stage], M = s->micros;
    bool train = !s->forward_only, last = p->stage == s->stages - 1;
    assert_int_equal(p->slots, slots_of(s, p->stage));
    assert_int_equal(f->slots, train ? p->slots : f->slots);
    assert_int_equal(p->streams, train ? min(M, 2) : 0);
    assert_int_equal(count(p, FORWARD), units * M);
    assert_int_equal(count(p, BACKWARD), train ? units * M : 0);
    assert_int_equal(count(p, SEND_ACT), last ? 0 : M);
    assert_int_equal(count(p, SEND_GRAD), p->stage == 0 || !train ? 0 : M);
    check_groups(p);
    assert_int_equal(count(p, REDUCE),
                     train ? units * (s->parallel.zero < TRINE_ZERO_2 ? 1 : M) : 0);
    int held =
        spec_gather_units(s, p->stage, CLASS_BLOCK) + spec_gather_units(s, p->stage, CLASS_END);
    int gathers = count(p, GATHER);
    assert_int_equal(gathers, f->gathers[CLASS_BLOCK] + f->gathers[CLASS_END]);
    if (s->parallel.zero == TRINE_ZERO_0)
        assert_int_equal(gathers, 0);
    else if (s->parallel.zero < TRINE_ZERO_3)
        assert_int_equal(gathers, train ? held : 0);
    else
        assert_in_range(gathers, held, 2 * held * M);
    for (int c = 0; c < CLASSES; c++) {
        int own = spec_gather_units(s, p->stage, (unit_class)c);
        assert_int_equal(p->gathers[c], s->parallel.zero == TRINE_ZERO_3
                                            ? min(s->parallel.gather_buffers, own)
                                            : 0);
        int reduces =
            train && s->parallel.zero >= TRINE_ZERO_2
                ? min(s->parallel.reduce_buffers, spec_units_of(s, p->stage, (unit_class)c) * M)
                : 0;
        assert_int_equal(p->reduces[c], reduces);
        /* With a buffer for every unit, each unit is gathered once per step. */
        if (s->parallel.zero == TRINE_ZERO_3 && s->parallel.gather_buffers >= own)
            assert_int_equal(f->gathers[c], own);
    }
}

/* Programs for one queue are also legal with each message by itself, in the order of its group. */
static void check_taken_apart(program *stages) {
    for (int p = 0; p < stages->spec->stages; p++)
        for (int n = 0; n < stages[p].count; n++) stages[p].code[n].group = -1;
    OK(compose_check(stages, NULL));
}

static void check_spec(const program_spec *s) {
    program *stages;
    check_facts facts[8];
    OK(compose_all(s, &stages, facts));
    for (int p = 0; p < s->stages; p++) check_stage(&stages[p], &facts[p]);
    if (s->queue == ONE_QUEUE) check_taken_apart(stages);
    compose_destroy(s, &stages);
}

/* Programs for a queue per edge, checked for one queue. */
static void check_plain(program_spec s, bool waits) {
    program *stages;
    s.queue = QUEUES_PER_EDGE;
    OK(compose_all(&s, &stages, NULL));
    s.queue = ONE_QUEUE;
    if (waits)
        REFUSED(compose_check(stages, NULL), TRINE_EPROGRAM, "deadlock in one queue: stage ");
    else
        OK(compose_check(stages, NULL));
    compose_destroy(&s, &stages);
}

static void test_every_program_is_legal(void **state) {
    (void)state;
    int programs = 0;
    program_spec s = {.facts = gpt_facts};
    for (s.stages = 1; s.stages <= 8; s.stages++) {
        split(&s);
        for (s.micros = 1; s.micros <= 32; s.micros = next_micros(s.micros))
            for (int n = 0; n < SCHEDULES * 4 * 8 * 3; n++) {
                int flags = n / 3 % 8, buffers = 1 + n % 3;
                s.parallel.schedule = (trine_schedule)(n / 96);
                s.parallel.zero = (trine_zero)(n / 24 % 4);
                if (!full && buffers != 1 + (flags + n / 24 + s.micros) % 3) continue;
                s.parallel.gather_buffers = s.parallel.reduce_buffers = buffers;
                s.tied = flags & 1;
                s.forward_only = flags & 2;
                s.queue = flags & 4 ? ONE_QUEUE : QUEUES_PER_EDGE;
                check_spec(&s);
                programs += s.stages;
            }
    }
    print_message("# %d programs\n", programs);
}

/* The last two stages of 1f1b wait for each other with two or more micro-batches. */
static void test_plain_programs_in_one_queue(void **state) {
    (void)state;
    int deadlocks[SCHEDULES] = {0}, small = 0, shapes = 0;
    program_spec s = {.facts = gpt_facts, .parallel.gather_buffers = 2};
    for (s.stages = 1; s.stages <= 8; s.stages++) {
        split(&s);
        for (s.micros = 1; s.micros <= 32; s.micros = next_micros(s.micros), shapes++)
            for (int n = 0; n < 4 * 2 * 2 * SCHEDULES; n++) {
                s.parallel.zero = (trine_zero)(n % 4);
                s.tied = n / 4 % 2;
                s.forward_only = n / 8 % 2;
                s.parallel.schedule = (trine_schedule)(n / 16);
                bool waits = s.parallel.schedule == TRINE_1F1B && !s.forward_only;
                waits &= s.stages > 1 && s.micros > 1;
                check_plain(s, waits);
                if (n % 16) continue;
                deadlocks[s.parallel.schedule] += waits;
                small += waits && s.stages >= 2 && s.stages <= 6 && s.micros <= 6;
            }
    }
    print_message("# deadlocks of %d shapes: naive %d, gpipe %d, 1f1b %d; %d of 30 with pp 2-6, "
                  "M 1-6\n",
                  shapes, deadlocks[TRINE_NAIVE], deadlocks[TRINE_GPIPE], deadlocks[TRINE_1F1B],
                  small);
    assert_int_equal(small, 25);
}

/* More micro-batches in flight than 16 bits count: gpipe has a slot for each. */
static void test_many_micro_batches(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts,
                      .stages = 3,
                      .micros = 70000,
                      .parallel.zero = TRINE_ZERO_3,
                      .parallel.schedule = TRINE_GPIPE,
                      .parallel.gather_buffers = 1,
                      .parallel.reduce_buffers = 1,
                      .tied = true};
    split(&s);
    check_spec(&s);
}

/* Printing and parsing preserves programs. */
static void test_text_round_trip(void **state) {
    (void)state;
    program_spec s = {.facts = gpt_facts,
                      .stages = 4,
                      .micros = 6,
                      .parallel.zero = TRINE_ZERO_3,
                      .parallel.schedule = TRINE_1F1B,
                      .parallel.gather_buffers = 2,
                      .queue = ONE_QUEUE,
                      .tied = true};
    split(&s);
    program *stages;
    OK(compose_all(&s, &stages, NULL));
    for (int p = 0; p < 4; p++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        program_print(&stages[p], out);
        fclose(out);
        program back;
        program_create(&back, &s, p);
        OK(program_parse(&back, text));
        assert_int_equal(back.count, stages[p].count);
        assert_memory_equal(back.code, stages[p].code, (size_t)back.count * sizeof *back.code);
        program_destroy(&back);
        free(text);
    }
    compose_destroy(&s, &stages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_program_is_legal),
        cmocka_unit_test(test_plain_programs_in_one_queue),
        cmocka_unit_test(test_many_micro_batches),
        cmocka_unit_test(test_text_round_trip),
    };
    full = getenv("TRINE_FULL") != NULL;
    return HARNESS_RUN_ALONE(tests);
}

/* TEST np=0 */
/* Every program that the passes can make is legal: pp <= 8, M <= 32, every schedule, zero 0-3,
 * 1-3 gather buffers, tied and untied, training and evaluation; and its buffers and collectives are
 * as many as the formulas say. */
#include "harness.h"

#include <stdlib.h>

#include "pp/pp.h"
#include "train/compose.h"
#include "zero/zero.h"

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

static void check_stage(const program *p, const check_facts *f) {
    const program_spec *s = p->spec;
    int units = s->first[p->stage + 1] - s->first[p->stage], M = s->micros;
    bool train = !s->forward_only, last = p->stage == s->stages - 1;
    assert_int_equal(p->slots, pp_slots(s->schedule, s->stages, M, p->stage));
    assert_int_equal(f->slots, train ? p->slots : f->slots);
    assert_int_equal(p->streams, train ? min(M, 2) : 0);
    assert_int_equal(count(p, FORWARD), units * M);
    assert_int_equal(count(p, BACKWARD), train ? units * M : 0);
    assert_int_equal(count(p, SEND_ACT), last ? 0 : M);
    assert_int_equal(count(p, SEND_GRAD), p->stage == 0 || !train ? 0 : M);
    assert_int_equal(count(p, REDUCE), train ? units * (s->zero < TRINE_ZERO_2 ? 1 : M) : 0);
    int held =
        spec_gather_units(s, p->stage, CLASS_BLOCK) + spec_gather_units(s, p->stage, CLASS_END);
    int gathers = count(p, GATHER);
    assert_int_equal(gathers, f->gathers[CLASS_BLOCK] + f->gathers[CLASS_END]);
    if (s->zero == TRINE_ZERO_0)
        assert_int_equal(gathers, 0);
    else if (s->zero < TRINE_ZERO_3)
        assert_int_equal(gathers, train ? held : 0);
    else
        assert_in_range(gathers, held, 2 * held * M);
    for (int c = 0; c < CLASSES; c++) {
        int own = spec_gather_units(s, p->stage, (unit_class)c);
        assert_int_equal(p->gathers[c], s->zero == TRINE_ZERO_3 ? min(s->gather_buffers, own) : 0);
        /* With a buffer for every unit each is gathered once a step. */
        if (s->zero == TRINE_ZERO_3 && s->gather_buffers >= own)
            assert_int_equal(f->gathers[c], own);
    }
}

static void check_spec(const program_spec *s) {
    program *stages;
    check_facts facts[8];
    OK(compose_all(s, &stages, facts));
    for (int p = 0; p < s->stages; p++) check_stage(&stages[p], &facts[p]);
    compose_destroy(s, &stages);
}

static void test_every_program_is_legal(void **state) {
    (void)state;
    int programs = 0;
    program_spec s = {0};
    for (s.stages = 1; s.stages <= 8; s.stages++) {
        split(&s);
        for (s.micros = 1; s.micros <= 32; s.micros++)
            for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
                for (int zero = 0; zero < 4; zero++)
                    for (s.gather_buffers = 1; s.gather_buffers <= 3; s.gather_buffers++)
                        for (int flags = 0; flags < 4; flags++) {
                            s.schedule = (trine_schedule)schedule;
                            s.zero = (trine_zero)zero;
                            s.tied = flags & 1;
                            s.forward_only = flags & 2;
                            check_spec(&s);
                            programs += s.stages;
                        }
    }
    print_message("# %d programs\n", programs);
}

/* More micro-batches in flight than 16 bits count: gpipe has a slot for each. */
static void test_many_micro_batches(void **state) {
    (void)state;
    program_spec s = {.stages = 3,
                      .micros = 70000,
                      .zero = TRINE_ZERO_3,
                      .schedule = TRINE_GPIPE,
                      .gather_buffers = 1,
                      .tied = true};
    split(&s);
    check_spec(&s);
}

/* Programs survive being printed and parsed. */
static void test_text_round_trip(void **state) {
    (void)state;
    program_spec s = {.stages = 4,
                      .micros = 6,
                      .zero = TRINE_ZERO_3,
                      .schedule = TRINE_1F1B,
                      .gather_buffers = 2,
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
        cmocka_unit_test(test_many_micro_batches),
        cmocka_unit_test(test_text_round_trip),
    };
    return HARNESS_RUN_ALONE(tests);
}

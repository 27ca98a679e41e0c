/* TEST np=0 */
/* The gather pass: the minimum number of GATHERs of any on-demand policy, each as early as its buffer allows. */
#include "harness.h"

#include <limits.h>
#include <stdlib.h>

#include "model/gpt.h"
#include "run/compose.h"
#include "shapes.h"

#define UNITS 8 /* of a stage, at most; of all in tests of one chunk per stage */

static const int ends[4][4] = {{7}, {3, 6}, {1, 5, 8}, {2, 3, 6, 7}};

static program_spec spec_of(int stages, int micros, trine_schedule schedule, trine_zero zero,
                            int buffers) {
    program_spec s = {.facts = gpt_facts,
                      .stages = stages,
                      .micros = micros,
                      .parallel.schedule = schedule,
                      .parallel.zero = zero,
                      .parallel.gather_buffers = buffers};
    for (int p = 0; p < stages; p++) s.first[p + 1] = ends[stages - 1][p];
    s.units = s.first[stages];
    return s;
}

static bool computes(const instr *i) {
    return instr_reads_params((instr_kind)i->kind);
}

/* The unit whose gathered parameters instruction n reads, if they are of class c; else -1. */
static int read_of(const program *p, int n, unit_class c) {
    if (!computes(&p->code[n])) return -1;
    int unit = spec_gather_unit(p->spec, p->code[n].unit);
    return spec_class(p->spec, unit) == c ? unit : -1;
}

static int gathers_of(const program *p, unit_class c) {
    int count = 0;
    for (int n = 0; n < p->count; n++)
        count += p->code[n].kind == GATHER && spec_class(p->spec, p->code[n].unit) == c;
    return count;
}

/* The number of a unit on its stage; -1 for -1. */
static int number_of(const program *p, int unit) {
    int n = 0;
    while (unit >= 0 && spec_stage_unit(p->spec, p->stage, n) != unit) n++;
    assert_true(n < UNITS);
    return unit < 0 ? -1 : n;
}

/* The fewest gathers, over all choices of what to evict: best[set] is the fewest so far that
 * leave exactly `set` in the buffers. */
static int fewest(const program *p, unit_class c, int buffers) {
    int best[1 << UNITS], next[1 << UNITS], least = INT_MAX;
    for (int set = 0; set < 1 << UNITS; set++) best[set] = set ? INT_MAX : 0;
    for (int n = 0; n < p->count; n++) {
        int unit = number_of(p, read_of(p, n, c));
        if (unit < 0) continue;
        for (int set = 0; set < 1 << UNITS; set++) next[set] = INT_MAX;
        for (int set = 0; set < 1 << UNITS; set++) {
            if (best[set] == INT_MAX) continue;
            int with = set | 1 << unit;
            if (with == set)
                next[set] = best[set] < next[set] ? best[set] : next[set];
            else if (__builtin_popcount((unsigned)with) <= buffers)
                next[with] = best[set] + 1 < next[with] ? best[set] + 1 : next[with];
            for (int out = 0; with != set && out < UNITS; out++)
                if (set & 1 << out) {
                    int to = with & ~(1 << out);
                    next[to] = best[set] + 1 < next[to] ? best[set] + 1 : next[to];
                }
        }
        for (int set = 0; set < 1 << UNITS; set++) best[set] = next[set];
    }
    for (int set = 0; set < 1 << UNITS; set++) least = best[set] < least ? best[set] : least;
    return least;
}

typedef void (*program_test)(const program *p);

static void for_all(program_test test) {
    for (int stages = 1; stages <= 4; stages++)
        for (int micros = 1; micros <= 5; micros++)
            for (int kind = 0; kind < shapes_kinds(3); kind++)
                for (int buffers = 1; buffers <= 6; buffers++)
                    for (int flags = 0; flags < 4; flags++) {
                        program_spec s = {.facts = gpt_facts,
                                          .stages = stages,
                                          .micros = micros,
                                          .parallel.zero = TRINE_ZERO_3,
                                          .parallel.gather_buffers = buffers};
                        s.tied = flags & 1;
                        s.forward_only = flags & 2;
                        s.parallel.split_backward = buffers % 2;
                        shapes_place_few(&s, shapes_kind_of(kind, 3));
                        program *all;
                        OK(compose_all(&s, &all, NULL));
                        for (int p = 0; p < stages; p++) test(&all[p]);
                        compose_destroy(&s, &all);
                    }
}

static void count_is_least(const program *p) {
    for (int c = 0; c < CLASSES; c++)
        assert_int_equal(gathers_of(p, (unit_class)c), fewest(p, (unit_class)c, p->gathers[c]));
}

static void test_no_policy_gathers_less(void **state) {
    (void)state;
    for_all(count_is_least);
}

/* The position after n at which `unit` is read again; INT_MAX if it is not. */
static int next_read(const program *p, int n, unit_class c, int unit) {
    for (n++; n < p->count; n++)
        if (read_of(p, n, c) == unit) return n;
    return INT_MAX;
}

/* The computation before position n, or -1. */
static int computation_before(const program *p, int n) {
    for (n--; n >= 0 && !computes(&p->code[n]); n--) continue;
    return n;
}

static bool same_buffer(const program *p, const instr *a, const instr *b) {
    return a->gather == b->gather && spec_class(p->spec, a->unit) == spec_class(p->spec, b->unit);
}

/* A GATHER comes just before the computation that precedes its reader. If that computation reads
 * the same buffer, no other could be evicted: all other buffers are needed sooner. */
static void gathers_are_early(const program *p) {
    int held[CLASSES][UNITS];
    for (int c = 0; c < CLASSES; c++)
        for (int b = 0; b < UNITS; b++) held[c][b] = -1;
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        if (i->kind != GATHER) continue;
        unit_class c = spec_class(p->spec, i->unit);
        int reader = next_read(p, n, c, i->unit), before = computation_before(p, reader);
        if (before > n) {
            assert_false(same_buffer(p, &p->code[before], i));
            assert_true(computation_before(p, before) < n);
        } else if (before >= 0) {
            assert_true(same_buffer(p, &p->code[before], i));
            int again = next_read(p, before, c, held[c][i->gather]);
            for (int b = 0; b < p->gathers[c]; b++)
                if (b != i->gather) {
                    assert_true(held[c][b] >= 0);
                    assert_true(next_read(p, before, c, held[c][b]) < again);
                }
        }
        held[c][i->gather] = i->unit;
    }
}

static void test_gathers_are_early(void **state) {
    (void)state;
    for_all(gathers_are_early);
}

/* As many buffers as units: one GATHER each. */
static void test_enough_buffers(void **state) {
    (void)state;
    for (int stages = 1; stages <= 4; stages++)
        for (int tied = 0; tied < 2; tied++) {
            program_spec s = spec_of(stages, 5, TRINE_1F1B, TRINE_ZERO_3, UNITS);
            s.tied = tied;
            program *all;
            OK(compose_all(&s, &all, NULL));
            for (int p = 0; p < stages; p++)
                for (int c = 0; c < CLASSES; c++) {
                    int units = spec_gather_units(&s, p, (unit_class)c);
                    assert_int_equal(gathers_of(&all[p], (unit_class)c), units);
                    assert_int_equal(all[p].gathers[c], units);
                }
            compose_destroy(&s, &all);
        }
}

/* A chain of four blocks, forward and backward, by hand. With one buffer only the last block is reused:
 * 4 + 3. With two buffers the last two blocks are: 4 + 2. */
static void test_counts_by_hand(void **state) {
    (void)state;
    static const int want[] = {0, 7, 6, 5, 4, 4};
    for (int buffers = 1; buffers <= 5; buffers++) {
        program_spec s = {.facts = gpt_facts,
                          .stages = 1,
                          .units = 6,
                          .micros = 1,
                          .first = {0, 6},
                          .parallel.schedule = TRINE_1F1B,
                          .parallel.zero = TRINE_ZERO_3,
                          .parallel.gather_buffers = buffers};
        program *all;
        OK(compose_all(&s, &all, NULL));
        assert_int_equal(gathers_of(&all[0], CLASS_BLOCK), want[buffers]);
        compose_destroy(&s, &all);
    }
}

/* ZeRO-1 and 2 gather updated parameters once, at the end; ZeRO-0 and evaluations gather nothing. */
static void test_other_stages(void **state) {
    (void)state;
    for (int zero = 0; zero < 3; zero++)
        for (int flags = 0; flags < 4; flags++) {
            program_spec s = spec_of(1, 3, TRINE_1F1B, (trine_zero)zero, 2);
            s.tied = flags & 1;
            s.forward_only = flags & 2;
            program *all;
            OK(compose_all(&s, &all, NULL));
            int count = zero && !s.forward_only ? s.units - s.tied : 0, found = 0;
            for (int n = 0; n < all->count; n++) {
                if (all->code[n].kind != GATHER) continue;
                assert_true(n >= all->count - count);
                assert_int_equal(all->code[n].gather, -1);
                assert_int_equal(all->code[n].unit, found++);
            }
            assert_int_equal(found, count);
            assert_int_equal(all->gathers[CLASS_BLOCK] + all->gathers[CLASS_END], 0);
            compose_destroy(&s, &all);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_policy_gathers_less), cmocka_unit_test(test_gathers_are_early),
        cmocka_unit_test(test_enough_buffers),         cmocka_unit_test(test_counts_by_hand),
        cmocka_unit_test(test_other_stages),
    };
    return HARNESS_RUN_ALONE(tests);
}

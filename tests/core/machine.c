/* TEST np=0 plain */
/* The machine over the programs of every schedule and queue, with two of the ZeRO stages each: a hook is told of each instruction once, in an
 * order in which nothing comes before what it waits for, by a rule of this test's own; machines that are stuck name the
 * cycle; a start that is taken back happens again. */
#include "harness.h"

#include <stdlib.h>

#include "core/machine.h"
#include "model/gpt.h"
#include "run/compose.h"
#include "shapes.h"

#define STAGES  4
#define VIRTUAL 3

/* ---- The shapes ---- */

typedef struct {
    program_spec spec;
    program *stages;
    unsigned waits;
} shape;

/* Calls `test` for the programs of each shape, with every other ZeRO stage. */
static int for_shapes(int least_stages, bool train, void (*test)(shape *x)) {
    int shapes = 0;
    for (int n = 0; n < shapes_kinds(VIRTUAL); n++)
        for (int stages = least_stages; stages <= STAGES; stages++)
            for (int flags = 0; flags < (train ? 16 : 32); flags++) {
                if ((n + stages + flags + flags / 4 + flags / 8 + flags / 16) % 2) continue;
                shapes++;
                shape x = {.spec = {.facts = gpt_facts, .stages = stages},
                           .waits = MACHINE_BUFFERS};
                x.spec.micros = 1 + (n + flags) % 6;
                x.spec.parallel.zero = (trine_zero)(flags & 3);
                x.spec.parallel.gather_buffers = x.spec.parallel.reduce_buffers = 2;
                x.spec.queue = flags & 4 ? ONE_QUEUE : QUEUES_PER_EDGE;
                x.spec.tied = flags & 8;
                x.spec.forward_only = flags & 16;
                shapes_place_few(&x.spec, shapes_kind_of(n, VIRTUAL));
                if (x.spec.queue == ONE_QUEUE) x.waits |= MACHINE_ONE_QUEUE;
                OK(compose_all(&x.spec, &x.stages, NULL));
                test(&x);
                compose_destroy(&x.spec, &x.stages);
            }
    return shapes;
}

/* ---- The order of events ---- */

typedef enum { NOTHING, CAME, STARTED, ENDED } progress;

typedef struct {
    const shape *x;
    unsigned char *of[STAGES]; /* (stages)(instructions): progress */
} told;

static progress of(const told *t, const program *p, int at) {
    return (progress)t->of[p->stage][at];
}

static void becomes(told *t, const program *p, int at, progress before) {
    assert_int_equal(of(t, p, at), before);
    t->of[p->stage][at]++;
}

/* Whether the other sides of a message, or all that meet in a TIE or NORM, have started. */
static bool peers_started(const told *t, const program *p, const instr *i) {
    bool message = instr_is_message((instr_kind)i->kind);
    for (int q = 0; q < t->x->spec.stages; q++)
        for (int n = 0; n < t->x->stages[q].count; n++) {
            const program *peer = &t->x->stages[q];
            const instr *j = &peer->code[n];
            bool other = message ? instr_is_message((instr_kind)j->kind) && q != p->stage &&
                                       program_message(peer, j) == program_message(p, i)
                                 : (i->kind == TIE || i->kind == NORM) && i->kind == j->kind;
            if (other && of(t, peer, n) < STARTED) return false;
        }
    return true;
}

static bool share(const program *p, const instr *i, const instr *j) {
    operand a[INSTR_OPERANDS], b[INSTR_OPERANDS];
    int as = program_operands(p, i, a), bs = program_operands(p, j, b);
    for (int k = 0; k < as * bs; k++) {
        const operand *x = &a[k / bs], *y = &b[k % bs];
        bool apart = x->index + x->count <= y->index || y->index + y->count <= x->index;
        if (x->what == y->what && !apart && (x->write || y->write)) return true;
    }
    return false;
}

static trine_status may_start(void *context, const program *p, int at) {
    becomes(context, p, at, NOTHING);
    assert_true(at == 0 || of(context, p, at - 1) >= STARTED);
    return TRINE_OK;
}

static trine_status starts(void *context, const program *p, int at) {
    told *t = context;
    becomes(t, p, at, CAME);
    for (int n = 0; n < at; n++) {
        const instr *i = &p->code[n];
        bool message = instr_is_message((instr_kind)i->kind);
        if (share(p, i, &p->code[at]) || !message) assert_int_equal(of(t, p, n), ENDED);
        if (message && t->x->spec.queue == ONE_QUEUE && program_group_last(p, n) < at)
            assert_true(peers_started(t, p, i));
    }
    return TRINE_OK;
}

static trine_status ends(void *context, const program *p, int at) {
    told *t = context;
    becomes(t, p, at, STARTED);
    assert_true(peers_started(t, p, &p->code[at]));
    return TRINE_OK;
}

static void hear(shape *x) {
    told t = {.x = x};
    machine m;
    for (int p = 0; p < x->spec.stages; p++)
        assert_non_null(t.of[p] = calloc((size_t)x->stages[p].count, 1));
    OK(machine_create(&m, x->stages, x->waits));
    OK(machine_run(&m, &(machine_hook){&t, may_start, starts, ends}));
    assert_true(machine_all_ended(&m));
    for (int p = 0; p < x->spec.stages; p++) {
        assert_null(machine_unmatched(&m, p));
        for (int n = 0; n < x->stages[p].count; n++)
            assert_int_equal(of(&t, &x->stages[p], n), ENDED);
        free(t.of[p]);
    }
    machine_destroy(&m);
}

static void test_events_come_once_and_in_order(void **state) {
    (void)state;
    print_message("# %d shapes\n", for_shapes(1, false, hear));
}

/* ---- Stuck ---- */

static int find(const program *p, instr_kind kind, int chunk) {
    for (int n = 0; n < p->count; n++)
        if (p->code[n].kind == (int)kind && p->code[n].micro == 0 &&
            program_chunk(p, &p->code[n]) == chunk)
            return n;
    fail_msg("stage %d has no %s of chunk %d", p->stage, instr_text(kind), chunk);
    return -1;
}

/* The stages of chunks 0 and 1 wait for each other: chunk 0 sends its first output after it has used the gradient of it. */
static void wait_for_each_other(shape *x) {
    program *p = &x->stages[spec_stage_of(&x->spec, 0)];
    int from = find(p, SEND_ACT, 0), to = find(p, RECV_GRAD, 0);
    for (int s = 0; s < x->spec.stages; s++)
        for (int n = 0; n < x->stages[s].count; n++) x->stages[s].code[n].group = -1;
    while (p->code[to].kind != BACKWARD && p->code[to].kind != BACKWARD_INPUT &&
           p->code[to].kind != BACKWARD_WEIGHT)
        to++;
    instr send = p->code[from];
    for (int n = from; n < to; n++) p->code[n] = p->code[n + 1];
    p->code[to] = send;
}

static void name_the_cycle(shape *x) {
    machine m;
    bool seen[STAGES] = {false};
    wait_for_each_other(x);
    OK(machine_create(&m, x->stages, x->waits));
    OK(machine_run(&m, &(machine_hook){0}));
    assert_false(machine_all_ended(&m));
    int first = machine_stuck(&m), p = first;
    do {
        int at, next = machine_awaited(&m, p, &at);
        const instr *i = &x->stages[p].code[at];
        assert_true(instr_is_message((instr_kind)i->kind) && at <= m.now[p].at);
        assert_int_equal(program_peer(&x->stages[p], i), next);
        assert_false(seen[p]);
        seen[p] = true;
        p = next;
    } while (p != first);
    assert_true(seen[spec_stage_of(&x->spec, 0)] && seen[spec_stage_of(&x->spec, 1)]);
    machine_destroy(&m);
}

static void test_a_stuck_machine_names_the_cycle(void **state) {
    (void)state;
    print_message("# %d cycles\n", for_shapes(2, true, name_the_cycle));
}

/* The others wait for a stage that has ended without its NORM. */
static void name_the_ended(shape *x) {
    machine m;
    program *last = &x->stages[x->spec.stages - 1];
    while (last->code[last->count - 1].kind != NORM) last->count--;
    last->count--;
    OK(machine_create(&m, x->stages, x->waits));
    OK(machine_run(&m, &(machine_hook){0}));
    int at, stuck = machine_stuck(&m);
    assert_true(stuck != last->stage && machine_ended(&m, last->stage));
    assert_int_equal(machine_awaited(&m, stuck, &at), last->stage);
    assert_int_equal(x->stages[stuck].code[at].kind, NORM);
    machine_destroy(&m);
}

static void test_a_stuck_machine_names_who_has_ended(void **state) {
    (void)state;
    for_shapes(2, false, name_the_ended);
}

/* ---- Taking back ---- */

/* Programs for a queue per edge, in one queue. */
static void take_back(shape *x) {
    machine m;
    OK(machine_create(&m, x->stages, MACHINE_ONE_QUEUE));
    OK(machine_run(&m, &(machine_hook){0}));
    for (int p = 0; p < x->spec.stages && !machine_all_ended(&m); p++) {
        int at, again, next = machine_awaited(&m, p, &at);
        const instr *i = &x->stages[p].code[at];
        if (machine_ended(&m, p) || !instr_is_message((instr_kind)i->kind)) continue;
        const machine_message *message = machine_message_of(&m, &x->stages[p], i);
        machine_side side = instr_sends((instr_kind)i->kind) ? MACHINE_SENDER : MACHINE_RECEIVER;
        assert_int_equal(message->by[side].starts, 1);
        machine_take_back(&m, p);
        assert_int_equal(message->by[side].starts, 0);
        assert_int_equal(machine_awaited(&m, p, &again), -1);
        OK(machine_run(&m, &(machine_hook){0}));
        assert_int_equal(message->by[side].starts, 1);
        assert_int_equal(machine_awaited(&m, p, &again), next);
        assert_int_equal(again, at);
    }
    machine_destroy(&m);
}

static void test_what_is_taken_back_starts_again(void **state) {
    (void)state;
    for_shapes(2, true, take_back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_once_and_in_order),
        cmocka_unit_test(test_a_stuck_machine_names_the_cycle),
        cmocka_unit_test(test_a_stuck_machine_names_who_has_ended),
        cmocka_unit_test(test_what_is_taken_back_starts_again),
    };
    return HARNESS_RUN_ALONE(tests);
}

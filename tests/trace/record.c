/* TEST np=1 */
/* Records of programs that never ran: the events of an interpreter and of groups are made up, and what is printed of
 * them is read again. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "trace/event.h"

static program_spec spec = {.stages = 1, .units = 1, .micros = 1};

typedef struct {
    program code;
    trace *t;
} made;

/* A program of `count` FORWARDs, over tp of two ranks. */
static void make(made *m, int count, int first, int last) {
    program_create(&m->code, &spec, 0);
    for (int n = 0; n < count; n++) OK(program_append(&m->code, program_instr(FORWARD, 0, n)));
    trace_subject of = {.world = harness_world,
                        .layout = {.dp = 1, .tp = 2, .pp = 1},
                        .stages = &m->code,
                        .eval_stages = &m->code,
                        .ring = true,
                        .first = first,
                        .last = last};
    OK(trace_create(&m->t, &of));
    assert_non_null(m->t);
}

static void end(made *m) {
    trace_destroy(&m->t);
    program_destroy(&m->code);
}

static void run(made *m, int from, int to) {
    if (from == 0) trace_program(m->t, &m->code, 0);
    for (int at = from; at < to; at++) {
        trace_waited(m->t, &m->code, at);
        trace_executed(m->t, &m->code, at);
    }
}

static void call(made *m, trine_group group, trine_tally_kind kind, uint64_t number) {
    comm_called c = {.group = group, .kind = kind, .bytes = 100, .peer = 1, .number = number};
    m->t->observer.begins(m->t, &c);
    m->t->observer.ends(m->t);
}

static const trace_step *last_step(const made *m) {
    return trace_ring_step(m->t->ring, m->t->ring->programs - 1);
}

/* The events of a record; the caller frees them. */
static char *print(const made *m) {
    char *text;
    size_t size;
    trace_events e = {.out = open_memstream(&text, &size)};
    trace_rank r = {
        .layout = {.dp = 1, .tp = 2, .pp = 1}, .room = m->t->room, .now = UINT64_MAX / 4};
    assert_non_null(e.out);
    trace_event_step(&e, &r, last_step(m), &m->code);
    fclose(e.out);
    return text;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* An instruction that makes more calls than it has room for adds the rest to the last one; the messages of the pipeline
 * have a place each, and so have calls of later instructions. */
static void calls_without_room_are_added_up(void **state) {
    (void)state;
    made m;
    make(&m, 3, 0, 0);
    run(&m, 0, 1);
    for (int n = 0; n < 300; n++) call(&m, TRINE_TP, TRINE_TALLY_ALL_REDUCE, (uint64_t)n);
    call(&m, TRINE_ACT_OUT, TRINE_TALLY_SEND, 1);
    call(&m, TRINE_ACT_OUT, TRINE_TALLY_SEND, 2);
    run(&m, 1, 2);
    call(&m, TRINE_TP, TRINE_TALLY_ALL_REDUCE, 300);
    const trace_step *s = last_step(&m);
    int64_t sum = 0, bytes = 0, sends = 0, alone = 0;
    assert_true(s->calls < m.t->room.calls);
    for (int64_t n = 0; n < s->calls; n++) {
        const trace_call *c = trace_call_at(s, m.t->room, n);
        sum += c->calls;
        bytes += (int64_t)c->bytes;
        sends += c->kind == TRINE_TALLY_SEND && c->calls == 1;
        alone += c->at == 2 && c->calls == 1;
    }
    assert_int_equal(sum, 303);
    assert_int_equal(bytes, 30300);
    assert_int_equal(sends, 2);
    assert_int_equal(alone, 1);
    end(&m);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void expect_at(const made *m, int at, bool waiting) {
    bool waits;
    assert_int_equal(trace_event_at(last_step(m), m->t->room, &waits), at);
    assert_true(waits == waiting);
}

/* A rank that is stopped in the third program: the ring's place has had the first one. */
static void an_instruction_that_has_not_ended_is_found(void **state) {
    (void)state;
    made m;
    make(&m, 5, 0, 0);
    for (int n = 0; n < 2; n++) {
        run(&m, 0, 6);
        expect_at(&m, -1, false);
    }
    run(&m, 0, 0);
    expect_at(&m, 0, true);
    run(&m, 0, 3);
    expect_at(&m, 3, true);
    char *text = print(&m);
    assert_int_equal(count(text, "\"name\":\"wait for FORWARD u0 m3 (unfinished)\""), 1);
    assert_int_equal(count(text, "\"cat\":\"instruction\""), 3);
    free(text);
    trace_waited(m.t, &m.code, 3);
    expect_at(&m, 3, false);
    text = print(&m);
    assert_int_equal(count(text, "\"name\":\"FORWARD u0 m3 (unfinished)\""), 1);
    assert_int_equal(count(text, "\"unfinished\":true"), 2); /* it and its step */
    free(text);
    end(&m);
}

/* With --serial what an instruction has started is waited for after it, before the next one begins. */
static void a_wait_after_an_instruction_is_part_of_it(void **state) {
    (void)state;
    made m;
    make(&m, 2, 0, 0);
    run(&m, 0, 1);
    const trace_time *time = trace_time_at(last_step(&m), m.t->room, 0);
    uint64_t waited = time->waited, ended = time->ended;
    while (clock_ns() == ended) continue;
    trace_waited(m.t, &m.code, 0);
    assert_true(time->waited == waited && time->ended > ended);
    expect_at(&m, 1, true);
    end(&m);
}

/* The ring of a program with more instructions than it has times keeps the last ones. */
static void a_long_program_keeps_its_end(void **state) {
    (void)state;
    made m;
    const int all = TRACE_RING_INSTRUCTIONS + 1000;
    make(&m, all, 0, 0);
    assert_int_equal(m.t->room.times, TRACE_RING_INSTRUCTIONS);
    run(&m, 0, all - 500);
    expect_at(&m, all - 500, true);
    run(&m, all - 500, all + 1);
    expect_at(&m, -1, false);
    char *text = print(&m), last[64];
    snprintf(last, sizeof last, "\"name\":\"FORWARD u0 m%d\"", all - 1);
    assert_int_equal(count(text, last), 1);
    assert_int_equal(count(text, "\"cat\":\"instruction\""), TRACE_RING_INSTRUCTIONS - 1);
    free(text);
    end(&m);
    make(&m, all, 1, 1); /* a traced step is kept as a whole */
    assert_int_equal(m.t->room.times, all + 1);
    end(&m);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void the_plan_is_what_is_taken(void **state) {
    (void)state;
    made m;
    make(&m, 40, 2, 4);
    trace_room room = trace_room_kept(trace_room_of(&m.code, m.t->of.layout), true);
    assert_int_equal(trace_bytes(room, 3), m.t->ring_bytes + 3 * trace_step_bytes(m.t->room));
    for (int64_t step = 1; step <= 5; step++) {
        bool due;
        OK(trace_before(m.t, step));
        run(&m, 0, 41);
        OK(trace_after(m.t, step, &due));
        assert_true(due == (step == 4));
        assert_int_equal(m.t->count, step < 2 ? 0 : step < 4 ? step - 1 : 3);
    }
    for (int n = 0; n < 3; n++) {
        const trace_step *s = (const void *)(m.t->steps + (size_t)n * trace_step_bytes(room));
        assert_int_equal(s->step, n + 2);
        assert_true(s->ended > s->began);
    }
    end(&m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_without_room_are_added_up),
        cmocka_unit_test(an_instruction_that_has_not_ended_is_found),
        cmocka_unit_test(a_wait_after_an_instruction_is_part_of_it),
        cmocka_unit_test(a_long_program_keeps_its_end),
        cmocka_unit_test(the_plan_is_what_is_taken),
    };
    return HARNESS_RUN(argc, argv, tests);
}

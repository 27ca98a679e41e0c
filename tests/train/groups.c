/* TEST np=2,4 */
/* The interpreter's calls of the transport: the messages of a message group, and both messages of a tied
 * matrix, are started between the begin and end calls of the group, without waiting in between. The
 * interpreter is compiled into this file with its calls recorded. */
#include "training.h"

#include <string.h>

#include "comm/api/comm.h"

/* ---- Recorded calls ---- */

static struct {
    bool open;
    int started;                          /* in the open group */
    int groups, alone, waits, of_size[8]; /* of_size: groups by messages started */
} calls;

static void forget_calls(void) {
    memset(&calls, 0, sizeof calls);
}

static trine_status record_begin(const trine_mesh *mesh) {
    assert_false(calls.open);
    calls.open = true;
    calls.started = 0;
    return comm_group_begin(mesh);
}

static trine_status record_end(const trine_mesh *mesh) {
    assert_true(calls.open);
    assert_in_range(calls.started, 1, 7);
    calls.open = false;
    calls.groups++;
    calls.of_size[calls.started]++;
    return comm_group_end(mesh);
}

static void record_start(void) {
    ++*(calls.open ? &calls.started : &calls.alone);
}

static trine_status record_send(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                                int peer, comm_request *request) {
    record_start();
    return comm_send_start(comm, buf, count, type, peer, request);
}

static trine_status record_recv(trine_comm *comm, void *buf, size_t count, trine_dtype type,
                                int peer, comm_request *request) {
    record_start();
    return comm_recv_start(comm, buf, count, type, peer, request);
}

static trine_status record_wait(comm_request *request) {
    assert_false(calls.open);
    calls.waits++;
    return comm_wait(request);
}

#define comm_group_begin record_begin
#define comm_group_end   record_end
#define comm_send_start  record_send
#define comm_recv_start  record_recv
#define comm_wait        record_wait
#include "pp/messages.c"
#include "pp/tie.c"
#include "run/exec.c"
#include "state/step.c"

/* ---- The tests ---- */

enum { MICROS = 5 };

static int groups_of(const program *p) {
    int count = 0;
    for (int n = 0; n < p->count; n++)
        count += program_group_first(p, n) == n && program_group_last(p, n) > n;
    return count;
}

static int messages_of(const program *p) {
    int count = 0;
    for (int n = 0; n < p->count; n++) count += instr_is_message((instr_kind)p->code[n].kind);
    return count;
}

/* The gradients of a tied matrix are sent in segments, each a message group of two. */
static int tie_groups(const trine_trainer *t) {
    int pp = t->held.config.coord.pp;
    if (pp > 0 && pp < t->spec.stages - 1) return 0;
    const held_unit *u = state_unit(&t->held, pp == 0 ? 0 : t->spec.units - 1);
    size_t count = state_owned(&t->held, u, 0).count, chunk = PP_TIE_CHUNK;
    return (int)((count + chunk - 1) / chunk);
}

static void check(trine_config *c) {
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, harness_world, c));
    forget_calls();
    OK(trine_trainer_step(t, &m));
    const program *p = &t->stages[t->held.config.coord.pp];
    int groups = groups_of(p), ties = tie_groups(t);
    assert_int_equal(groups > 0, c->parallel.one_queue);
    assert_false(calls.open);
    assert_int_equal(calls.groups, groups + ties);
    assert_int_equal(calls.of_size[2], groups + ties);
    assert_int_equal(calls.alone, messages_of(p) - 2 * groups);
    assert_true(calls.waits >= calls.alone + 2 * calls.groups);
    trine_trainer_destroy(&t);
}

static void groups_are_started_together(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    for (int n = 0; n < 4 * 2 * 2; n++) {
        trine_config c = training_config();
        c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = ranks};
        c.parallel.zero = (trine_zero)(n % 4);
        c.parallel.one_queue = n / 4 % 2;
        c.parallel.serial = n / 8;
        c.global_batch_size = MICROS;
        check(&c);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_are_started_together)};
    return HARNESS_RUN(argc, argv, tests);
}

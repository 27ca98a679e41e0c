/* The order of messages for ONE_QUEUE. In one queue a message blocks its stage until the other stage has reached its
 * own. As the passes before leave them, a send directly after what it sends and a receive directly before what reads
 * it, two stages often wait for each other: each sends what the other receives later. This pass runs the programs
 * with one queue for each stage. Where stages wait in a cycle, one of them has a send to do (a cycle of receives only
 * would be a deadlock in any order), and its receiver is in the cycle, too:
 *
 *   - if both wait for each other, and what each waits for is next to what blocks the other, the two messages become a
 *     message group on both sides, in which messages may be completed in any order; their order is the same on both
 *     sides, so that they meet even where each message is a kernel and one blocks the other
 *   - else the receiver starts to receive before what blocks it. Gradients are preferred, whose buffers are smaller
 *
 * Cost: linear in the number of instructions, times the stages in a cycle. */
#include <stdlib.h>

#include "base/status.h"
#include "core/machine.h"
#include "pp/pp.h"

typedef struct {
    program *stages;
    machine m;
    int *groups; /* (stages) message groups made */
} queues;

/* ---- Who waits for whom ------------------------------------------------------------------------ */

/* The stage for which a blocked stage waits. */
static int awaited(const queues *q, int stage) {
    return machine_awaited(&q->m, stage, NULL);
}

/* The message that blocks a stage. */
static const instr *blocked_at(const queues *q, int stage) {
    int at;
    machine_awaited(&q->m, stage, &at);
    return &q->stages[stage].code[at];
}

/* The place in the peer's program of the other side of the message that blocks a stage; -1: there is none. */
static int other_side(const queues *q, int stage) {
    const program *p = &q->stages[stage], *peer = &q->stages[awaited(q, stage)];
    const instr *x = blocked_at(q, stage);
    bool sends = instr_sends((instr_kind)x->kind);
    for (int n = q->m.now[peer->stage].at; n < peer->count; n++) {
        const instr *y = &peer->code[n];
        if (!instr_is_message((instr_kind)y->kind) || y->micro != x->micro) continue;
        if (instr_sends((instr_kind)y->kind) == sends) continue;
        if (program_message(peer, y) == program_message(p, x)) return n;
    }
    return -1;
}

/* ---- Changes ---------------------------------------------------------------------------------- */

/* Moves instruction `from` of a program before instruction `to`. */
static void move_before(program *p, int from, int to) {
    instr i = p->code[from];
    for (int n = from; n > to; n--) p->code[n] = p->code[n - 1];
    p->code[to] = i;
}

/* Whether the message that blocks a stage and `other`, that of a later instruction, have only LOADs between them. */
static bool are_neighbours(const queues *q, int stage, int other) {
    const program *p = &q->stages[stage];
    int next = program_group_first(p, q->m.now[stage].at) + 1;
    while (next < p->count && p->code[next].kind == LOAD) next++;
    return next == other;
}

/* Activations come first, of two edges those of the earlier one: the same order on both sides. */
static bool comes_first(const program *p, const instr *a, const instr *b) {
    bool acts = instr_carries_acts((instr_kind)a->kind);
    if (acts != instr_carries_acts((instr_kind)b->kind)) return acts;
    return program_edge(p, a) < program_edge(p, b);
}

/* Makes a message group of the message that blocks a stage and its neighbour. */
static void fuse(queues *q, int stage, int other) {
    program *p = &q->stages[stage];
    int at = q->m.now[stage].at;
    machine_take_back(&q->m, stage);
    move_before(p, other, at + 1);
    if (!comes_first(p, &p->code[at], &p->code[at + 1])) move_before(p, at + 1, at);
    p->code[at].group = p->code[at + 1].group = q->groups[stage]++;
}

/* Two stages that wait for each other, each at the neighbour of what the other waits for. */
static bool exchange(queues *q, int stage) {
    int peer = awaited(q, stage);
    if (awaited(q, peer) != stage) return false;
    int here = other_side(q, peer), there = other_side(q, stage);
    if (!are_neighbours(q, stage, here) || !are_neighbours(q, peer, there)) return false;
    fuse(q, stage, here);
    fuse(q, peer, there);
    return true;
}

/* Moves a receive before the message or message group that blocks its stage. */
static void insert_receive(queues *q, int stage, int from) {
    machine_take_back(&q->m, stage);
    move_before(&q->stages[stage], from, q->m.now[stage].at);
}

/* Starts the receive of the cycle's message earlier, before what blocks its receiver; false: there is none. */
static bool receive_early(queues *q, int first) {
    int best = -1, stage = first;
    do {
        const instr *i = blocked_at(q, stage);
        bool sends = instr_sends((instr_kind)i->kind) && other_side(q, stage) >= 0;
        if (sends && (best < 0 || !instr_carries_acts((instr_kind)i->kind))) best = stage;
        stage = awaited(q, stage);
    } while (stage != first);
    if (best < 0) return false;
    insert_receive(q, awaited(q, best), other_side(q, best));
    return true;
}

/* Changes the programs so that some stage can continue; false: no order of messages helps, the checker says why. */
static bool resolve(queues *q) {
    int stage = machine_stuck(&q->m);
    if (machine_ended(&q->m, awaited(q, stage))) return false;
    return exchange(q, stage) || receive_early(q, stage);
}

/* ---- The pass --------------------------------------------------------------------------------- */

static trine_status run(queues *q) {
    do {
        TRY(machine_run(&q->m, &(machine_hook){0}));
    } while (!machine_all_ended(&q->m) && resolve(q));
    return TRINE_OK;
}

trine_status pp_one_queue(program *stages) {
    if (stages->spec->queue != ONE_QUEUE) return TRINE_OK;
    queues q = {.stages = stages, .groups = calloc((size_t)stages->spec->stages, sizeof(int))};
    trine_status status = machine_create(&q.m, stages, MACHINE_ONE_QUEUE);
    if (status == TRINE_OK && !q.groups)
        status = RAISE(TRINE_ENOMEM, "no memory for message groups");
    if (status == TRINE_OK) status = run(&q);
    machine_destroy(&q.m);
    free(q.groups);
    return status;
}

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
#include "pp/pp.h"

enum { SENT = 1, RECEIVED = 2, BOTH = 3 };

typedef struct {
    program *stages;
    int count;
    int *at;          /* (stages) the instruction at which each stage is */
    int *groups;      /* (stages) message groups made */
    uint8_t *started; /* (2 edges)(micro-batches): activations, gradients; SENT, RECEIVED */
} queues;

static uint8_t *started(const queues *q, const program *p, const instr *i) {
    int lane = 2 * program_edge(p, i) + !instr_carries_acts((instr_kind)i->kind);
    return &q->started[lane * p->spec->micros + i->micro];
}

static bool ended(const queues *q, int stage) {
    return q->at[stage] == q->stages[stage].count;
}

static bool is_message(const program *p, int at) {
    return instr_is_message((instr_kind)p->code[at].kind);
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* The message of the stage's current group whose other side has not been started; -1: none. */
static int blocked_at(const queues *q, int stage) {
    const program *p = &q->stages[stage];
    for (int n = q->at[stage]; n <= program_group_last(p, q->at[stage]); n++)
        if (*started(q, p, &p->code[n]) != BOTH) return n;
    return -1;
}

/* Starts the messages of the stage's current group; false: they have been started before. */
static bool start(queues *q, int stage) {
    const program *p = &q->stages[stage];
    bool starts = false;
    for (int n = q->at[stage]; n <= program_group_last(p, q->at[stage]); n++) {
        uint8_t side = instr_sends((instr_kind)p->code[n].kind) ? SENT : RECEIVED;
        uint8_t *sides = started(q, p, &p->code[n]);
        starts = starts || !(*sides & side);
        *sides |= side;
    }
    return starts;
}

/* Runs a stage until a message blocks it; false: it could do nothing. */
static bool run(queues *q, int stage) {
    const program *p = &q->stages[stage];
    bool moved = false;
    for (; !ended(q, stage); moved = true) {
        if (is_message(p, q->at[stage])) {
            moved |= start(q, stage);
            if (blocked_at(q, stage) >= 0) return moved;
        }
        q->at[stage] = program_group_last(p, q->at[stage]) + 1;
    }
    return moved;
}

/* ---- Cycles ----------------------------------------------------------------------------------- */

/* The stage for which a blocked stage waits. */
static int awaited(const queues *q, int stage) {
    return program_peer(&q->stages[stage], &q->stages[stage].code[blocked_at(q, stage)]);
}

/* A stage of a cycle; -1: there is none, since a stage waits for one that has ended. */
static int find_cycle(const queues *q) {
    int stage = 0;
    while (ended(q, stage)) stage++;
    for (int n = 0; n < q->count; n++) {
        stage = awaited(q, stage);
        if (ended(q, stage)) return -1;
    }
    return stage;
}

/* The place in the peer's program of the other side of the message that blocks a stage. */
static int other_side(const queues *q, int stage) {
    const program *p = &q->stages[stage], *peer = &q->stages[awaited(q, stage)];
    const instr *x = &p->code[blocked_at(q, stage)];
    instr_kind kind = (instr_kind)x->kind;
    for (int n = q->at[peer->stage]; n < peer->count; n++) {
        const instr *y = &peer->code[n];
        instr_kind other = (instr_kind)y->kind;
        if (!instr_is_message(other) || y->micro != x->micro) continue;
        if (instr_carries_acts(other) != instr_carries_acts(kind)) continue;
        if (instr_sends(other) == instr_sends(kind)) continue;
        if (program_edge(peer, y) == program_edge(p, x)) return n;
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
    int next = q->at[stage] + 1;
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
    int at = q->at[stage];
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

/* Takes back that the stage has started its current message. */
static void unstart(queues *q, int stage) {
    const program *p = &q->stages[stage];
    const instr *i = &p->code[q->at[stage]];
    *started(q, p, i) &= instr_sends((instr_kind)i->kind) ? RECEIVED : SENT;
}

/* Moves a receive before the message that blocks its stage. */
static void insert_receive(queues *q, int stage, int from) {
    unstart(q, stage);
    move_before(&q->stages[stage], from, q->at[stage]);
}

/* Starts the receive of the cycle's message earlier, before what blocks its receiver; false: there is none. */
static bool receive_early(queues *q, int first) {
    int best = -1, stage = first;
    do {
        const instr *i = &q->stages[stage].code[blocked_at(q, stage)];
        bool sends = instr_sends((instr_kind)i->kind) && other_side(q, stage) >= 0;
        if (sends && (best < 0 || !instr_carries_acts((instr_kind)i->kind))) best = stage;
        stage = awaited(q, stage);
    } while (stage != first);
    if (best < 0) return false;
    insert_receive(q, awaited(q, best), other_side(q, best));
    return true;
}

/* Changes the programs so that some stage can continue; false: no order of messages helps. */
static bool resolve(queues *q) {
    int stage = find_cycle(q);
    if (stage < 0 || (!exchange(q, stage) && !receive_early(q, stage))) return false;
    return true;
}

/* ---- The pass --------------------------------------------------------------------------------- */

static bool setup(queues *q, program *stages) {
    const program_spec *s = stages->spec;
    size_t messages = 2 * (size_t)spec_edges(s) * (size_t)s->micros, count = (size_t)s->stages;
    *q = (queues){.stages = stages, .count = s->stages};
    q->at = calloc(2 * count, sizeof *q->at);
    q->groups = q->at ? q->at + count : NULL;
    q->started = calloc(messages + 1, 1);
    return q->at && q->started;
}

trine_status pp_one_queue(program *stages) {
    if (stages->spec->queue != ONE_QUEUE) return TRINE_OK;
    queues q;
    bool ok = setup(&q, stages), all = false;
    while (ok && !all) {
        bool moved = false;
        all = true;
        for (int p = 0; p < q.count; p++) {
            moved |= run(&q, p);
            all = all && ended(&q, p);
        }
        if (!moved && !all && !resolve(&q)) break; /* the checker says why */
    }
    free(q.at);
    free(q.started);
    CHECK(ok, TRINE_ENOMEM, "no memory to order the messages of %d stages", stages->spec->stages);
    return TRINE_OK;
}

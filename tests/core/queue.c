/* TEST np=0 plain */
/* The checker's result for one queue against a simulation of all devices of the job. Each rank of pp x dp x tp
 * has a queue with all communication of its program: messages, GATHER and REDUCE over dp, tp's collectives
 * within each pass, TIE, the three gathers of NORM. A simulation without knowledge of programs processes the
 * queues in random order: the head of a queue, an operation or a message group, is removed when all operations
 * that match it have reached the heads of theirs. All queues become empty if and only if the checker, which
 * sees stages only, accepts the programs. */
#include "harness.h"

#include <string.h>

#include "core/check.h"
#include "model/gpt.h"
#include "run/compose.h"
#include "shapes.h"

#define STAGES  4
#define VIRTUAL 3
#define DP      2
#define TP      2
#define DEVICES (STAGES * DP * TP)
#define OPS     1024

/* ---- Queues ---- */

/* The groups of ranks, with a slot for each position in the mesh. */
typedef enum {
    ACTS,
    GRADS,
    BACK_ACTS, /* of edges to the previous stage */
    BACK_GRADS,
    TIED,
    OVER_DP,
    OVER_TP,
    OVER_PP,
    GROUPS
} group;

/* The n-th operation of one group of ranks; it completes when `needed` of them have arrived. */
typedef struct {
    int group, place, number, needed;
    bool more; /* in one message group with the next */
} op;

typedef struct {
    op ops[OPS];
    int count, at;
    bool come;
    int numbers[GROUPS][DEVICES],
        twice[GROUPS][DEVICES]; /* sends and receives are counted separately */
} queue;

static queue queues[DEVICES];
static int came[GROUPS][DEVICES][OPS];

static op *add(queue *q, group g, int place, int *number, int needed) {
    assert_true(q->count < OPS);
    q->ops[q->count] = (op){(int)g, place, (*number)++, needed, false};
    return &q->ops[q->count++];
}

/* A lane has the position of the device whose chunk comes first. */
static op *add_message(queue *q, const program *p, const instr *i, int column) {
    bool act = i->kind == SEND_ACT || i->kind == RECV_ACT;
    bool send = i->kind == SEND_ACT || i->kind == SEND_GRAD;
    int first = program_chunk(p, i) - (act != send);
    int from = spec_stage_of(p->spec, first), to = spec_stage_of(p->spec, first + 1);
    group g = to == from - 1 ? (act ? BACK_ACTS : BACK_GRADS) : act ? ACTS : GRADS;
    int place = from * DP * TP + column;
    return add(q, g, place, &(send ? q->numbers : q->twice)[g][place], 2);
}

static void add_collective(queue *q, group g, int place, int ranks) {
    add(q, g, place, &q->numbers[g][place], ranks);
}

static void fill(queue *q, const program *p, int d, int t) {
    int dp_place = p->stage * TP + t, tp_place = p->stage * DP + d, column = d * TP + t;
    *q = (queue){0};
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        switch ((instr_kind)i->kind) {
        case FORWARD:
        case BACKWARD:
        case BACKWARD_INPUT:
        case BACKWARD_WEIGHT:
        case REDUCE_TP: add_collective(q, OVER_TP, tp_place, TP); break;
        case GATHER:
        case REDUCE: add_collective(q, OVER_DP, dp_place, DP); break;
        case RECV_ACT:
        case SEND_ACT:
        case RECV_GRAD:
        case SEND_GRAD: add_message(q, p, i, column)->more = program_group_last(p, n) != n; break;
        case TIE:
            if (!spec_twin_is_local(p->spec, 0)) add_collective(q, TIED, column, 2);
            break;
        case NORM:
            add_collective(q, OVER_DP, dp_place, DP);
            add_collective(q, OVER_TP, tp_place, TP);
            add_collective(q, OVER_PP, column, p->spec->stages);
            break;
        case LOAD:
        case UPDATE:
        case INSTR_KINDS: break;
        }
    }
}

/* ---- Simulation ---- */

static uint64_t random_state = 1;

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)(random_state % (uint64_t)n);
}

static int *arrivals(const op *o) {
    return &came[o->group][o->place][o->number];
}

/* The head of the queue, an operation or a message group, arrives or is removed. Returns whether anything changed. */
static bool advance(queue *q) {
    int last = q->at;
    while (q->ops[last].more) last++;
    if (!q->come) {
        for (int n = q->at; n <= last; n++) ++*arrivals(&q->ops[n]);
        return q->come = true;
    }
    for (int n = q->at; n <= last; n++)
        if (*arrivals(&q->ops[n]) < q->ops[n].needed) return false;
    q->at = last + 1;
    q->come = false;
    return true;
}

/* Whether all queues become empty. */
static bool run(const program *stages) {
    int devices = stages->spec->stages * DP * TP, order[DEVICES];
    memset(came, 0, sizeof came);
    for (int n = 0; n < devices; n++) {
        order[n] = n;
        fill(&queues[n], &stages[n / (DP * TP)], n / TP % DP, n % TP);
    }
    bool moved = true, empty = true;
    while (moved) {
        moved = false;
        for (int n = devices; n > 1; n--) {
            int other = below(n), swap = order[other];
            order[other] = order[n - 1], order[n - 1] = swap;
        }
        for (int n = 0; n < devices; n++) {
            queue *q = &queues[order[n]];
            for (int some = below(4); some >= 0 && q->at < q->count && advance(q); some--)
                moved = true;
        }
    }
    for (int n = 0; n < devices; n++) empty &= queues[n].at == queues[n].count;
    return empty;
}

/* ---- The tests ---- */

static program_spec random_spec(void) {
    program_spec s = {.facts = gpt_facts, .stages = 1 + below(STAGES)};
    s.micros = 1 + below(6);
    s.parallel.zero = (trine_zero)below(4);
    s.parallel.gather_buffers = 1 + below(3);
    s.parallel.reduce_buffers = 1 + below(3);
    s.tied = below(2);
    s.tp_partial = below(2);
    s.forward_only = below(8) == 0;
    s.parallel.split_backward = below(2);
    shapes_place_few(&s, shapes_kind_of(below(shapes_kinds(VIRTUAL)), VIRTUAL));
    return s;
}

/* Programs that the checker refuses for other reasons are skipped. */
static void agree(const program *stages, int counts[2]) {
    bool checked = compose_check(stages, NULL) == TRINE_OK;
    bool deadlock = !checked && strstr(status_message(), "deadlock in one queue");
    status_clear();
    if (!checked && !deadlock) return;
    if (run(stages) != checked) {
        for (int p = 0; p < stages->spec->stages; p++) program_print(&stages[p], stderr);
        fail_msg("the checker says %s", checked ? "legal" : "deadlock");
    }
    counts[checked]++;
}

/* Splits all message groups, every other one, or every third. */
static void ungroup(program *stages) {
    int every = 1 + below(3);
    for (int p = 0; p < stages->spec->stages; p++)
        for (int n = 0; n < stages[p].count; n++)
            if (stages[p].code[n].group % every == 0) stages[p].code[n].group = -1;
}

/* Swaps a message with a neighbouring instruction, for instance a GATHER, REDUCE or TIE. */
static void move_messages(program *stages) {
    for (int tries = 200, left = 1 + below(3); left > 0 && tries > 0; tries--) {
        program *p = &stages[below(stages->spec->stages)];
        int n = below(p->count - 1);
        instr i = p->code[n], next = p->code[n + 1];
        bool message = i.kind >= RECV_ACT && i.kind <= SEND_GRAD;
        if (!message || i.group >= 0 || next.group >= 0) continue;
        p->code[n] = next;
        p->code[n + 1] = i;
        left--;
    }
}

static void test_all_devices_agree_with_the_checker(void **state) {
    (void)state;
    int counts[2][2] = {{0}};
    for (int n = 0; n < 10000; n++) {
        program_spec s = random_spec();
        program *stages;
        bool plain = below(2), move = below(2);
        s.queue = plain ? QUEUES_PER_EDGE : ONE_QUEUE;
        OK(compose_all(&s, &stages, NULL));
        s.queue = ONE_QUEUE;
        if (!plain) assert_true(run(stages));
        if (below(2)) ungroup(stages);
        if (move) move_messages(stages);
        agree(stages, counts[move]);
        compose_destroy(&s, &stages);
    }
    for (int move = 0; move < 2; move++) {
        print_message("# %s: %d programs are legal, %d deadlock\n",
                      move ? "messages moved" : "programs as composed", counts[move][1],
                      counts[move][0]);
        assert_true(counts[move][0] > 200 && counts[move][1] > 200);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_devices_agree_with_the_checker),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* The order of receives. Messages of one lane, a directed pair of stages with a communicator of its own, arrive in the
 * order in which they are sent. A receive stands directly before what reads it, and so comes in another order than its
 * send where a stage takes the messages of two chunks in another order than they leave, as a schedule from a file may.
 * Such a receive is started earlier, directly before that of the first message that is sent later and read earlier.
 * What reads it stays where it is: until then the message has a slot or a gradient stream of its own.
 *
 * With one queue a message blocks its stage, and one_queue.c has the order. Cost: linear in the instructions. */
#include <stdlib.h>

#include "base/status.h"
#include "pp/pp.h"

/* Lanes: a stage sends over each kind of edge activations, and over each of them gradients arrive. */
#define STAGE_LANES (2 * (EDGE_NONE + 1))

typedef struct {
    const program_spec *spec;
    int *memory; /* of all tables, owned */
    int *lane;   /* (2 edges) of an edge's activations, of its gradients */
    int *
        first; /* (stages)(STAGE_LANES): where the messages of a lane begin in `sent`; the first that has no place */
    int *next; /* there or, while programs are rewritten, received */
    int *sent; /* (messages) lane by lane, in the order in which they are sent */
    int *place; /* (messages) in `sent`; -1: nobody sends it */
} receives;

static bool setup(receives *r, const program_spec *s) {
    size_t carried = 2 * (size_t)spec_edges(s), messages = carried * (size_t)s->micros,
           lanes = (size_t)s->stages * STAGE_LANES;
    r->spec = s;
    r->memory = calloc(carried + 2 * (lanes + 1) + 2 * messages + 1, sizeof *r->memory);
    if (!r->memory) return false;
    r->lane = r->memory;
    r->first = r->lane + carried;
    r->next = r->first + lanes + 1;
    r->sent = r->next + lanes + 1;
    r->place = r->sent + messages;
    for (size_t n = 0; n < messages; n++) r->place[n] = -1;
    for (size_t n = 0; n < carried; n++) {
        spec_edge e = spec_edge_of(s, (int)n / 2);
        r->lane[n] = e.from * STAGE_LANES + 2 * (int)e.kind + (int)n % 2;
    }
    return true;
}

/* The message that an instruction sends, or receives; -1: it does not. */
static int message_of(const program *p, const instr *i, bool sends) {
    instr_kind kind = (instr_kind)i->kind;
    return instr_is_message(kind) && instr_sends(kind) == sends ? program_message(p, i) : -1;
}

static int lane_of(const receives *r, int message) {
    return r->lane[message / r->spec->micros];
}

/* A lane has one sender, so its messages are found in the order in which they leave. */
static void list_sends(receives *r, const program *stages) {
    int lanes = r->spec->stages * STAGE_LANES, message;
    for (int e = 0; e < 2 * spec_edges(r->spec); e++) r->first[r->lane[e] + 1] += r->spec->micros;
    for (int l = 0; l < lanes; l++) r->first[l + 1] += r->first[l];
    for (int l = 0; l < lanes; l++) r->next[l] = r->first[l];
    for (const program *p = stages; p < stages + r->spec->stages; p++)
        for (const instr *i = p->code; i < p->code + p->count; i++) {
            if ((message = message_of(p, i, true)) < 0 || r->place[message] >= 0) continue;
            r->place[message] = r->next[lane_of(r, message)]++;
            r->sent[r->place[message]] = message;
        }
    for (int l = 0; l < lanes; l++) r->next[l] = r->first[l];
}

/* The receive of another message that arrives where that of `i` does. */
static instr receive(const program *p, const instr *i, int message) {
    const program_spec *s = p->spec;
    bool acts = instr_carries_acts((instr_kind)i->kind);
    instr other = *i;
    other.micro = message % s->micros;
    if (i->chunk >= 0) other.chunk = spec_chunk_number(s, message / s->micros / 2 + acts);
    return other;
}

/* Before a receive, those of all that is sent before it. */
static trine_status reorder(receives *r, const program *p, program *out) {
    for (const instr *i = p->code; i < p->code + p->count; i++) {
        int message = message_of(p, i, false);
        bool known = message >= 0 && r->place[message] >= 0;
        int *next = known ? &r->next[lane_of(r, message)] : NULL;
        if (!known) TRY(program_append(out, *i));
        for (; known && *next <= r->place[message]; ++*next)
            TRY(program_append(out, receive(p, i, r->sent[*next])));
    }
    return TRINE_OK;
}

static trine_status rewrite(receives *r, program *p) {
    program out = *p;
    out.code = NULL;
    out.count = out.capacity = 0;
    trine_status status = reorder(r, p, &out);
    free(status == TRINE_OK ? p->code : out.code);
    if (status == TRINE_OK) *p = out;
    return status;
}

trine_status pp_receives(program *stages) {
    const program_spec *s = stages->spec;
    receives r;
    if (s->queue == ONE_QUEUE) return TRINE_OK;
    CHECK(setup(&r, s), TRINE_ENOMEM, "no memory to order the messages of %d stages", s->stages);
    list_sends(&r, stages);
    trine_status status = TRINE_OK;
    for (int p = 0; p < s->stages && status == TRINE_OK; p++) status = rewrite(&r, &stages[p]);
    free(r.memory);
    return status;
}

trine_status pp_message_order(program *stages) {
    return stages->spec->queue == ONE_QUEUE ? pp_one_queue(stages) : pp_receives(stages);
}

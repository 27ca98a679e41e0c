#include "core/check.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/check_state.h"
#include "core/machine.h"

/* A directed link between two stages (link_of). Of the two sides, the first to start its n-th message writes which
 * one that is (program_message), the other one compares. */
typedef struct {
    int *messages;
    int sends, receives;
} link_state;

typedef struct {
    const program_spec *spec;
    const check_rule *rules; /* [INSTR_KINDS] */
    stage_state *stages;
    link_state **links; /* (2 edges): of an edge's activations, of its gradients */
    void **memory;      /* all allocations */
    int allocations, capacity;
} checker;

/* ---- Memory ---- */

static void *take(checker *c, size_t count, size_t size) {
    if (c->allocations == c->capacity) {
        int capacity = 2 * c->capacity + 64;
        void **list = realloc(c->memory, (size_t)capacity * sizeof *list);
        if (!list) return NULL;
        c->memory = list;
        c->capacity = capacity;
    }
    void *memory = calloc(count ? count : 1, size);
    if (memory) c->memory[c->allocations++] = memory;
    return memory;
}

static bool setup_stage(checker *c, stage_state *s, const program *p) {
    s->p = p;
    s->facts.refused = s->facts.waits = -1;
    bool ok = (s->slots = take(c, (size_t)p->slots, sizeof *s->slots)) &&
              (s->streams = take(c, (size_t)p->streams, sizeof *s->streams)) &&
              (s->units = take(c, (size_t)p->spec->units, sizeof *s->units)) &&
              (s->keeps = take(c, (size_t)p->keeps, sizeof *s->keeps));
    for (int k = 0; ok && k < CLASSES; k++)
        ok = (s->gathers[k] = take(c, (size_t)p->gathers[k], sizeof *s->gathers[k])) &&
             (s->reduces[k] = take(c, (size_t)p->reduces[k], sizeof *s->reduces[k]));
    for (int i = 0; ok && i < p->slots; i++) s->slots[i].micro = -1;
    for (int i = 0; ok && i < p->streams; i++) s->streams[i].micro = -1;
    return ok;
}

/* Whether messages are matched in one order: n and m are 2 x edge, + 1 for gradients. With a queue per edge these are
 * messages over one lane. With one queue, all from one stage to another: NCCL matches what goes from rank to rank in
 * the order of the calls, whether it is the activation of an edge or the gradient of an edge back. */
static bool same_link(const program_spec *spec, int n, int m) {
    spec_edge a = spec_edge_of(spec, n / 2), b = spec_edge_of(spec, m / 2);
    if (spec->queue == QUEUES_PER_EDGE)
        return n % 2 == m % 2 && a.from == b.from && a.kind == b.kind;
    bool turned = n % 2 != m % 2;
    return a.from == (turned ? b.to : b.from) && a.to == (turned ? b.from : b.to);
}

/* The first on the same link. */
static int link_of(const program_spec *spec, int n) {
    int first = 0;
    while (!same_link(spec, first, n)) first++;
    return first;
}

static bool setup_links(checker *c, const program *stages) {
    int links = 2 * spec_edges(c->spec);
    bool ok = (c->links = take(c, (size_t)links, sizeof *c->links));
    for (int n = 0; ok && n < links; n++) {
        spec_edge at = spec_edge_of(c->spec, n / 2);
        size_t room = (size_t)stages[at.from].count + (size_t)stages[at.to].count;
        int first = link_of(c->spec, n);
        if (first == n)
            ok = (c->links[n] = take(c, 1, sizeof(link_state))) &&
                 (c->links[n]->messages = take(c, room, sizeof(int)));
        c->links[n] = c->links[first];
    }
    return ok;
}

static bool setup(checker *c, const program *stages) {
    bool ok =
        setup_links(c, stages) && (c->stages = take(c, (size_t)c->spec->stages, sizeof *c->stages));
    for (int p = 0; ok && p < c->spec->stages; p++) ok = setup_stage(c, &c->stages[p], &stages[p]);
    return ok;
}

/* ---- The hook: at each instruction ---- */

/* Notes where a program was refused, if it was. */
static trine_status note(stage_state *s, trine_status status) {
    if (status != TRINE_OK) s->facts.refused = s->at;
    return status;
}

static trine_status check_start_allowed(void *context, const program *p, int at) {
    stage_state *s = &((checker *)context)->stages[p->stage];
    s->at = at;
    return note(s, check_fields(s, &p->code[at]));
}

/* The n-th message that one side of a link starts must be the n-th of the other. */
static trine_status check_link(const checker *c, const stage_state *s, const instr *i) {
    bool send = instr_sends((instr_kind)i->kind);
    int message = program_message(s->p, i), micros = c->spec->micros, edge = message / micros / 2;
    REQUIRE(message >= 0, "chunk %d has no other stage to %s", program_chunk(s->p, i),
            send ? "send to" : "receive from");
    link_state *l = c->links[message / micros];
    int n = send ? l->sends++ : l->receives++, *first = &l->messages[n];
    if (n >= (send ? l->receives : l->sends)) *first = message;
    REQUIRE(*first / micros / 2 == edge,
            "message %d of this link belongs to edge %d here, but to edge %d on stage %d", n, edge,
            *first / micros / 2, program_peer(s->p, i));
    REQUIRE(*first == message,
            "message %d of this edge carries micro-batch %d here, but micro-batch %d on stage %d",
            n, i->micro, *first % micros, program_peer(s->p, i));
    return TRINE_OK;
}

static trine_status check_start(void *context, const program *p, int at) {
    checker *c = context;
    stage_state *s = &c->stages[p->stage];
    const instr *i = &p->code[at];
    TRY(note(s, check_rules(c->rules, s, i)));
    return instr_is_message((instr_kind)i->kind) ? note(s, check_link(c, s, i)) : TRINE_OK;
}

/* ---- The end ---- */

static trine_status check_end(const machine *m, stage_state *s) {
    s->at = s->p->count;
    TRY(check_stage_end(s));
    const machine_pending *w = machine_unmatched(m, s->p->stage);
    REQUIRE(!w, "a %s has no matching %s on the neighbouring stage",
            w->cargo.write ? "receive" : "send", w->cargo.write ? "send" : "receive");
    return TRINE_OK;
}

/* "instruction 9 (SEND_ACT m1 s1 g0)" */
static const char *place(const program *p, int at, char text[INSTR_TEXT + 32]) {
    char what[INSTR_TEXT];
    snprintf(text, INSTR_TEXT + 32, "end of program");
    if (at == p->count) return text;
    instr_print(&p->code[at], what, sizeof what);
    snprintf(text, INSTR_TEXT + 32, "instruction %d (%s)", at, what);
    return text;
}

/* No stage can continue and not all have ended: reports the position of each. */
static trine_status deadlock(const machine *m) {
    char text[3072], where[INSTR_TEXT + 32];
    size_t used = 0;
    for (int p = 0; p < m->spec->stages && used < sizeof text - 1; p++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sstage %d, %s", p ? "; " : "",
                                 p, place(&m->stages[p], m->now[p].at, where));
    return RAISE(TRINE_EPROGRAM, "deadlock: no stage can continue: %s", text);
}

/* In one queue each blocked stage waits for exactly one other: reports the cycle, from its lowest stage on, or a
 * stage that waits for one that has ended. */
static trine_status cycle(const machine *m) {
    char text[3072], where[INSTR_TEXT + 32];
    int at, stuck = machine_stuck(m), first = stuck, next = stuck;
    size_t used = 0;
    while (!machine_ended(m, next = machine_awaited(m, next, NULL)) && next != stuck)
        if (next < first) first = next;
    int p = first;
    do {
        next = machine_awaited(m, p, &at);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%sstage %d, %s waits for stage %d%s",
                             used ? "; " : "", p, place(&m->stages[p], at, where), next,
                             machine_ended(m, next) ? ", which has finished" : "");
        p = next;
    } while (p != first && !machine_ended(m, p) && used < sizeof text - 3);
    return RAISE(TRINE_EPROGRAM, "deadlock in one queue: %s", text);
}

static trine_status stuck(checker *c, const machine *m) {
    bool one_queue = m->spec->queue == ONE_QUEUE;
    for (int p = 0; p < m->spec->stages; p++) {
        int *at = &c->stages[p].facts.waits;
        *at = m->now[p].at;
        if (one_queue) machine_awaited(m, p, at);
    }
    return one_queue ? cycle(m) : deadlock(m);
}

static trine_status run(checker *c, machine *m) {
    machine_hook hook = {.context = c, .may_start = check_start_allowed, .starts = check_start};
    TRY(machine_run(m, &hook));
    if (!machine_all_ended(m)) return stuck(c, m);
    for (int p = 0; p < m->spec->stages; p++) TRY(note(&c->stages[p], check_end(m, &c->stages[p])));
    return TRINE_OK;
}

trine_status check_programs(const program *stages, const check_rule rules[INSTR_KINDS],
                            check_facts *facts) {
    checker c = {.spec = stages[0].spec, .rules = rules};
    machine m;
    bool one_queue = c.spec->queue == ONE_QUEUE;
    for (int p = 0; p < c.spec->stages; p++)
        ASSERT(stages[p].spec == c.spec && stages[p].stage == p);
    TRY(spec_check_edges(c.spec));
    trine_status status =
        machine_create(&m, stages, MACHINE_BUFFERS | (one_queue ? MACHINE_ONE_QUEUE : 0));
    if (status == TRINE_OK && !setup(&c, stages))
        status = RAISE(TRINE_ENOMEM, "no memory to check %d programs", c.spec->stages);
    if (status == TRINE_OK) status = run(&c, &m);
    for (int p = 0; facts && status != TRINE_ENOMEM && p < c.spec->stages; p++)
        facts[p] = c.stages[p].facts;
    for (int n = 0; n < c.allocations; n++) free(c.memory[n]);
    free(c.memory);
    machine_destroy(&m);
    return status;
}

#include "core/check.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/check_state.h"

typedef struct {
    const program_spec *spec;
    const check_rule *rules; /* [INSTR_KINDS] */
    stage_state *stages;
    link_state
        *links;    /* (2 edges): activations and gradients of an edge, each if its link's first */
    void **memory; /* all allocations */
    int allocations, capacity;
} simulation;

/* ---- Memory of a simulation ---- */

static void *take(simulation *sim, size_t count, size_t size) {
    if (sim->allocations == sim->capacity) {
        int capacity = 2 * sim->capacity + 64;
        void **list = realloc(sim->memory, (size_t)capacity * sizeof *list);
        if (!list) return NULL;
        sim->memory = list;
        sim->capacity = capacity;
    }
    void *memory = calloc(count ? count : 1, size);
    if (memory) sim->memory[sim->allocations++] = memory;
    return memory;
}

static bool setup_stage(simulation *sim, stage_state *s, const program *p) {
    s->p = p;
    bool ok = (s->slots = take(sim, (size_t)p->slots, sizeof *s->slots)) &&
              (s->streams = take(sim, (size_t)p->streams, sizeof *s->streams)) &&
              (s->units = take(sim, (size_t)p->spec->units, sizeof *s->units)) &&
              (s->keeps = take(sim, (size_t)p->keeps, sizeof *s->keeps));
    for (int c = 0; ok && c < CLASSES; c++)
        ok = (s->gathers[c] = take(sim, (size_t)p->gathers[c], sizeof *s->gathers[c])) &&
             (s->reduces[c] = take(sim, (size_t)p->reduces[c], sizeof *s->reduces[c]));
    for (int r = 0; ok && r < RESOURCES; r++)
        ok = (s->waits[r] =
                  take(sim, (size_t)program_resource_count(p, (resource)r), sizeof *s->waits[r]));
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

static bool setup(simulation *sim, const program *stages) {
    int edges = spec_edges(sim->spec);
    bool ok = (sim->stages = take(sim, (size_t)sim->spec->stages, sizeof *sim->stages)) &&
              (sim->links = take(sim, 2 * (size_t)edges, sizeof *sim->links));
    for (int e = 0; ok && e < 2 * edges; e++) {
        spec_edge at = spec_edge_of(sim->spec, e / 2);
        size_t room = (size_t)stages[at.from].count + (size_t)stages[at.to].count;
        if (link_of(sim->spec, e) != e) continue;
        ok = (sim->links[e].sent = take(sim, room, sizeof(posted))) &&
             (sim->links[e].received = take(sim, room, sizeof(posted)));
    }
    for (int p = 0; ok && p < sim->spec->stages; p++)
        ok = setup_stage(sim, &sim->stages[p], &stages[p]);
    return ok;
}

/* ---- Messages and waits ---- */

static bool pending_done(const pending *w) {
    return w->ordinal < (w->from_sender ? w->link->receives : w->link->sends);
}

/* Whether instruction i may start: no pending message on its operands conflicts with it. Gathers and reductions are
 * pending, too, but only on ranks of this stage, which run the same program and so start the same ones first. */
static bool operands_ready(const stage_state *s, const instr *i) {
    operand operands[INSTR_OPERANDS];
    int count = program_operands(s->p, i, operands);
    for (int o = 0; o < count; o++)
        for (int n = 0; n < operands[o].count; n++) {
            pending *w = &s->waits[operands[o].what][operands[o].index + n];
            if (!w->active || !(w->write || operands[o].write)) continue;
            if (!pending_done(w)) return false;
            w->active = false;
        }
    return true;
}

/* Starts a message; it completes when the peer stage has started its own. */
static trine_status post(simulation *sim, stage_state *s, const instr *i) {
    instr_kind kind = (instr_kind)i->kind;
    bool send = instr_sends(kind);
    int edge = program_edge(s->p, i);
    REQUIRE(edge >= 0, "chunk %d has no other stage to %s", program_chunk(s->p, i),
            send ? "send to" : "receive from");
    link_state *l = &sim->links[link_of(sim->spec, 2 * edge + !instr_carries_acts(kind))];
    int ordinal = send ? l->sends++ : l->receives++;
    (send ? l->sent : l->received)[ordinal] = (posted){edge, i->micro};
    if (ordinal < (send ? l->receives : l->sends)) {
        posted other = (send ? l->received : l->sent)[ordinal];
        REQUIRE(other.edge == edge,
                "message %d of this link belongs to edge %d here, but to edge %d on stage %d",
                ordinal, edge, other.edge, program_peer(s->p, i));
        REQUIRE(
            other.micro == i->micro,
            "message %d of this edge carries micro-batch %d here, but micro-batch %d on stage %d",
            ordinal, i->micro, other.micro, program_peer(s->p, i));
    }
    operand cargo[INSTR_OPERANDS];
    program_operands(s->p, i, cargo);
    s->waits[cargo->what][cargo->index] = (pending){true, cargo->write, l, ordinal, send};
    return TRINE_OK;
}

/* ---- Running ---- */

/* Collectives over several stages: they block until all these stages have arrived. */
static bool meets(instr_kind kind) {
    return kind == TIE || kind == NORM;
}

/* A stage that takes part in this TIE or NORM and has not arrived; -1: all have. */
static int absent_partner(const simulation *sim, instr_kind kind) {
    for (int p = 0; p < sim->spec->stages; p++) {
        const stage_state *o = &sim->stages[p];
        bool partner = kind == NORM || spec_tied_unit(sim->spec, p) >= 0;
        if (partner && !(kind == NORM ? o->norms : o->ties)) return p;
    }
    return -1;
}

/* One queue blocks at a message, or at the end of a message group, until the peer of each message has started
 * its own, in any order. Returns a stage that has not, and the message (*at) that waits for it; -1: all have. */
static int absent_peer(const stage_state *s, int *at) {
    const program *p = s->p;
    if (program_group_last(p, s->at) != s->at) return -1;
    for (int n = program_group_first(p, s->at); n <= s->at; n++) {
        operand o[INSTR_OPERANDS];
        program_operands(p, &p->code[n], o);
        if (pending_done(&s->waits[o->what][o->index])) continue;
        *at = n;
        return program_peer(p, &p->code[n]);
    }
    return -1;
}

/* A stage that s waits for at its current instruction; -1: none. */
static int absent(const simulation *sim, const stage_state *s, int *at) {
    instr_kind kind = (instr_kind)s->p->code[s->at].kind;
    *at = s->at;
    if (meets(kind)) return absent_partner(sim, kind);
    bool blocks = sim->spec->queue == ONE_QUEUE && instr_is_message(kind);
    return blocks ? absent_peer(s, at) : -1;
}

/* Runs one instruction if it need not wait; *done says whether it ran. */
static trine_status step(simulation *sim, stage_state *s, bool *done) {
    const instr *i = &s->p->code[s->at];
    instr_kind kind = (instr_kind)i->kind;
    int at;
    *done = false;
    if (!s->arrived) {
        TRY(check_fields(s, i));
        if (!operands_ready(s, i)) {
            REQUIRE(sim->spec->queue != ONE_QUEUE,
                    "uses the buffer of another message of its message group");
            return TRINE_OK;
        }
        TRY(check_rules(sim->rules, s, i));
        if (instr_is_message(kind)) TRY(post(sim, s, i));
    }
    s->arrived = absent(sim, s, &at) >= 0;
    *done = !s->arrived;
    return TRINE_OK;
}

/* Runs a stage until it waits or ends; *moved becomes true if it ran an instruction. */
static trine_status run_stage(simulation *sim, stage_state *s, bool *moved) {
    while (s->at < s->p->count) {
        bool done;
        TRY(step(sim, s, &done));
        if (!done) return TRINE_OK;
        s->at++;
        *moved = true;
    }
    return TRINE_OK;
}

/* ---- The end ---- */

static trine_status check_end(const stage_state *s) {
    TRY(check_stage_end(s));
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(s->p, (resource)r); n++)
            REQUIRE(!s->waits[r][n].active || pending_done(&s->waits[r][n]),
                    "a %s has no matching %s on the neighbouring stage",
                    s->waits[r][n].write ? "receive" : "send",
                    s->waits[r][n].write ? "send" : "receive");
    return TRINE_OK;
}

/* No stage can continue and not all have ended: reports the position of each. */
static trine_status deadlock(const simulation *sim) {
    char text[3072], what[INSTR_TEXT], where[INSTR_TEXT + 32];
    size_t used = 0;
    for (int p = 0; p < sim->spec->stages && used < sizeof text - 1; p++) {
        const stage_state *s = &sim->stages[p];
        snprintf(where, sizeof where, "end of program");
        if (s->at < s->p->count) {
            instr_print(&s->p->code[s->at], what, sizeof what);
            snprintf(where, sizeof where, "instruction %d (%s)", s->at, what);
        }
        int n =
            snprintf(text + used, sizeof text - used, "%sstage %d, %s", p ? "; " : "", p, where);
        used += (size_t)n;
    }
    return RAISE(TRINE_EPROGRAM, "deadlock: no stage can continue: %s", text);
}

static bool ended(const stage_state *s) {
    return s->at == s->p->count;
}

/* "stage 0, instruction 9 (SEND_ACT m1 s1 g0) waits for stage 1" */
static int wait_text(const simulation *sim, const stage_state *s, char *text, size_t size) {
    char where[INSTR_TEXT];
    int at, peer = absent(sim, s, &at);
    instr_print(&s->p->code[at], where, sizeof where);
    return snprintf(text, size, "stage %d, instruction %d (%s) waits for stage %d%s", s->p->stage,
                    at, where, peer, ended(&sim->stages[peer]) ? ", which has finished" : "");
}

/* In one queue each blocked stage waits for exactly one other. Returns the lowest stage of a cycle, or a stage
 * that waits for one that has ended. */
static int cycle_begin(const simulation *sim) {
    int at, count = sim->spec->stages, p = 0;
    while (ended(&sim->stages[p])) p++;
    for (int n = 0; n < count; n++) {
        int next = absent(sim, &sim->stages[p], &at);
        ASSERT(next >= 0 && next < count);
        if (ended(&sim->stages[next])) return p;
        p = next;
    }
    int first = p;
    for (int n = 0; n < count; n++) {
        p = absent(sim, &sim->stages[p], &at);
        if (p < first) first = p;
    }
    return first;
}

static trine_status cycle(const simulation *sim) {
    char text[3072];
    int at, first = cycle_begin(sim), p = first;
    size_t used = 0;
    do {
        if (used) used += (size_t)snprintf(text + used, sizeof text - used, "; ");
        used += (size_t)wait_text(sim, &sim->stages[p], text + used, sizeof text - used);
        p = absent(sim, &sim->stages[p], &at);
    } while (p != first && !ended(&sim->stages[p]) && used < sizeof text - 3);
    return RAISE(TRINE_EPROGRAM, "deadlock in one queue: %s", text);
}

static trine_status simulate(simulation *sim) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < sim->spec->stages; p++) TRY(run_stage(sim, &sim->stages[p], &moved));
    }
    for (int p = 0; p < sim->spec->stages; p++)
        if (!ended(&sim->stages[p]))
            return sim->spec->queue == ONE_QUEUE ? cycle(sim) : deadlock(sim);
    for (int p = 0; p < sim->spec->stages; p++) TRY(check_end(&sim->stages[p]));
    return TRINE_OK;
}

trine_status check_programs(const program *stages, const check_rule rules[INSTR_KINDS],
                            check_facts *facts) {
    simulation sim = {.spec = stages[0].spec, .rules = rules};
    for (int p = 0; p < sim.spec->stages; p++)
        ASSERT(stages[p].spec == sim.spec && stages[p].stage == p);
    TRY(spec_check_edges(sim.spec));
    trine_status status =
        setup(&sim, stages)
            ? simulate(&sim)
            : RAISE(TRINE_ENOMEM, "no memory to check %d programs", sim.spec->stages);
    for (int p = 0; facts && status == TRINE_OK && p < sim.spec->stages; p++)
        facts[p] = sim.stages[p].facts;
    for (int n = 0; n < sim.allocations; n++) free(sim.memory[n]);
    free(sim.memory);
    return status;
}

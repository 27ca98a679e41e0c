#include "core/machine.h"

#include <stdlib.h>

#include "base/status.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool is_carried(int what) {
    for (int k = 0; k < INSTR_KINDS; k++) {
        const instr_row *row = instr_row_of((instr_kind)k);
        if (row->queue.use == QUEUE_MESSAGE && (int)row->operands->what == what) return true;
    }
    return false;
}

/* The number of a resource's buffers on which messages can be pending. */
static int room(const machine *m, int stage, int what) {
    bool some = (m->waits & MACHINE_BUFFERS) && is_carried(what);
    return some ? program_resource_count(&m->stages[stage], (resource)what) : 0;
}

trine_status machine_create(machine *m, const program *stages, unsigned waits) {
    const program_spec *s = stages->spec;
    size_t messages = 2 * (size_t)spec_edges(s) * (size_t)s->micros, count = 0;
    *m = (machine){.stages = stages, .spec = s, .waits = waits};
    for (int n = 0; n < s->stages * RESOURCES; n++)
        count += (size_t)room(m, n / RESOURCES, n % RESOURCES);
    m->now = calloc((size_t)s->stages + 1, sizeof *m->now);
    m->messages = calloc(messages + 1, sizeof *m->messages);
    m->pending = calloc(count + 1, sizeof *m->pending);
    CHECK(m->now && m->messages && m->pending, TRINE_ENOMEM, "no memory to step %d programs",
          s->stages);
    machine_pending *next = m->pending;
    for (int p = 0; p <= s->stages; p++) {
        m->now[p].all = next;
        for (int r = 0; r < RESOURCES && p < s->stages; next += room(m, p, r++))
            m->now[p].pending[r] = room(m, p, r) ? next : NULL;
    }
    return TRINE_OK;
}

void machine_destroy(machine *m) {
    free(m->now);
    free(m->messages);
    free(m->pending);
    *m = (machine){0};
}

/* ---- Messages -------------------------------------------------------------------------------- */

machine_message *machine_message_of(const machine *m, const program *p, const instr *i) {
    return &m->messages[program_message(p, i)];
}

static machine_side side_of(const instr *i) {
    return instr_sends((instr_kind)i->kind) ? MACHINE_SENDER : MACHINE_RECEIVER;
}

/* Whether the peer has started the message as often. */
static bool met(const machine_message *message, machine_side side) {
    return message->by[MACHINE_SIDES - 1 - side].starts >= message->by[side].starts;
}

static const machine_message *start_message(machine *m, const program *p, int at) {
    const instr *i = &p->code[at];
    machine_message *message = machine_message_of(m, p, i);
    machine_side side = side_of(i);
    message->by[side].starts++;
    message->by[side].stage = p->stage;
    message->by[side].at = at;
    if (!(m->waits & MACHINE_BUFFERS)) return message;
    operand cargo[INSTR_OPERANDS];
    program_operands(p, i, cargo);
    m->now[p->stage].pending[cargo->what][cargo->index] =
        (machine_pending){message, side, at, *cargo};
    return message;
}

void machine_take_back(machine *m, int stage) {
    const program *p = &m->stages[stage];
    machine_stage *s = &m->now[stage];
    ASSERT(s->started && !(m->waits & MACHINE_BUFFERS));
    int first = program_group_first(p, s->at);
    for (int n = first; n <= s->at; n++)
        machine_message_of(m, p, &p->code[n])->by[side_of(&p->code[n])].starts--;
    s->at = first;
    s->came = s->started = false;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A pending message that conflicts with one of the operands; NULL: none. */
static machine_pending *conflict(const machine_stage *s, const operand *operands, int count) {
    for (const operand *o = operands; o < operands + count; o++)
        for (int n = 0; s->pending[o->what] && n < o->count; n++) {
            machine_pending *w = &s->pending[o->what][o->index + n];
            if (w->on && operand_conflicts(&w->cargo, o)) return w;
        }
    return NULL;
}

/* A stage that takes part in this TIE or NORM and has not come to its own; -1: all have. */
static int absent_partner(const machine *m, instr_kind kind) {
    for (int p = 0; p < m->spec->stages; p++) {
        bool partner = kind == NORM || spec_tied_unit(m->spec, p) >= 0;
        if (partner && !m->now[p].has_started[kind]) return p;
    }
    return -1;
}

/* In one queue: a stage that has not started its own of the message at which this one is, or of those of the message
 * group that ends there, and that message (*at); -1: all have. */
static int absent_peer(const machine *m, const program *p, int *at) {
    const machine_stage *s = &m->now[p->stage];
    if (program_group_last(p, s->at) != s->at) return -1;
    for (int n = program_group_first(p, s->at); n <= s->at; n++) {
        const machine_message *message =
            n == s->at ? s->message : machine_message_of(m, p, &p->code[n]);
        machine_side side = side_of(&p->code[n]);
        if (at) *at = n;
        if (!met(message, side)) return program_peer(p, &p->code[n]);
    }
    return -1;
}

/* A stage for which the instruction that this one has started waits, and what waits (*at); -1: none. */
static int absent(const machine *m, const program *p, int *at) {
    const machine_stage *s = &m->now[p->stage];
    instr_kind kind = (instr_kind)p->code[s->at].kind;
    if (at) *at = s->at;
    if (kind == TIE || kind == NORM) return absent_partner(m, kind);
    return s->message && (m->waits & MACHINE_ONE_QUEUE) ? absent_peer(m, p, at) : -1;
}

int machine_awaited(const machine *m, int stage, int *at) {
    const program *p = &m->stages[stage];
    const machine_stage *s = &m->now[stage];
    if (s->started) return absent(m, p, at);
    if (!s->came) return -1;
    operand o[INSTR_OPERANDS];
    const machine_pending *w = conflict(s, o, program_operands(p, &p->code[s->at], o));
    if (at) *at = w->at;
    return program_peer(p, &p->code[w->at]);
}

int machine_stuck(const machine *m) {
    int p = 0;
    while (machine_ended(m, p)) p++;
    for (int n = 0; n < m->spec->stages; n++) {
        int next = machine_awaited(m, p, NULL);
        ASSERT(next >= 0 && next < m->spec->stages);
        if (machine_ended(m, next)) return p;
        p = next;
    }
    return p;
}

/* ---- Running --------------------------------------------------------------------------------- */

static trine_status tell(const machine_hook *h, machine_event event, const program *p, int at) {
    return event ? event(h->context, p, at) : TRINE_OK;
}

static trine_status end(const machine_hook *h, const program *p, machine_pending *w) {
    w->on = NULL;
    return tell(h, h->ends, p, w->at);
}

/* Ends the messages that conflict with the instruction's operands; *ready: all of them. */
static trine_status wait_for_operands(machine *m, const machine_hook *h, const program *p,
                                      bool *ready) {
    const machine_stage *s = &m->now[p->stage];
    operand o[INSTR_OPERANDS];
    int count = program_operands(p, &p->code[s->at], o);
    machine_pending *w;
    while ((w = conflict(s, o, count)) && met(w->on, w->side)) TRY(end(h, p, w));
    *ready = !w;
    return TRINE_OK;
}

/* Starts the stage's instruction if its operands allow it. */
static trine_status start(machine *m, const machine_hook *h, const program *p) {
    machine_stage *s = &m->now[p->stage];
    bool ready = true;
    if (!s->came) TRY(tell(h, h->may_start, p, s->at));
    s->came = true;
    if (m->waits & MACHINE_BUFFERS) TRY(wait_for_operands(m, h, p, &ready));
    if (!ready) return TRINE_OK;
    instr_kind kind = (instr_kind)p->code[s->at].kind;
    TRY(tell(h, h->starts, p, s->at));
    s->message = instr_is_message(kind) ? start_message(m, p, s->at) : NULL;
    s->started = s->has_started[kind] = true;
    return TRINE_OK;
}

/* Runs a stage until it waits or ends; *moved becomes true if anything started or ended. */
static trine_status run_stage(machine *m, const machine_hook *h, const program *p, bool *moved) {
    machine_stage *s = &m->now[p->stage];
    while (s->at < p->count) {
        bool before = s->started;
        if (!before) TRY(start(m, h, p));
        *moved |= s->started != before;
        if (!s->started || absent(m, p, NULL) >= 0) return TRINE_OK;
        if (!s->message) TRY(tell(h, h->ends, p, s->at));
        s->at++;
        s->came = s->started = false;
        *moved = true;
    }
    return TRINE_OK;
}

/* The messages that nobody has waited for. */
static trine_status end_pending(machine *m, const machine_hook *h, const program *p) {
    const machine_stage *s = &m->now[p->stage];
    for (machine_pending *w = s->all; w < s[1].all; w++)
        if (w->on && met(w->on, w->side)) TRY(end(h, p, w));
    return TRINE_OK;
}

trine_status machine_run(machine *m, const machine_hook *h) {
    int stages = m->spec->stages;
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < stages; p++) TRY(run_stage(m, h, &m->stages[p], &moved));
    }
    for (int p = 0; p < stages && machine_all_ended(m); p++) TRY(end_pending(m, h, &m->stages[p]));
    return TRINE_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

bool machine_ended(const machine *m, int stage) {
    return m->now[stage].at == m->stages[stage].count;
}

bool machine_all_ended(const machine *m) {
    for (int p = 0; p < m->spec->stages; p++)
        if (!machine_ended(m, p)) return false;
    return true;
}

const machine_pending *machine_unmatched(const machine *m, int stage) {
    const machine_stage *s = &m->now[stage];
    for (const machine_pending *w = s->all; w < s[1].all; w++)
        if (w->on) return w;
    return NULL;
}

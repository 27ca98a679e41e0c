#include "core/machine.h"

#include <stdlib.h>

#include "base/status.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t buffers(const program *p) {
    size_t count = 0;
    for (int r = 0; r < RESOURCES; r++) count += (size_t)program_resource_count(p, (resource)r);
    return count;
}

static void place_pending(machine *m) {
    machine_pending *next = m->pending;
    for (int p = 0; p < m->spec->stages; p++)
        for (int r = 0; r < RESOURCES; r++) {
            m->now[p].pending[r] = next;
            next += program_resource_count(&m->stages[p], (resource)r);
        }
}

trine_status machine_create(machine *m, const program *stages, unsigned waits) {
    const program_spec *s = stages->spec;
    size_t messages = 2 * (size_t)spec_edges(s) * (size_t)s->micros, count = 0;
    *m = (machine){.stages = stages, .spec = s, .waits = waits};
    for (int p = 0; p < s->stages && (waits & MACHINE_BUFFERS); p++) count += buffers(&stages[p]);
    m->now = calloc((size_t)s->stages, sizeof *m->now);
    m->messages = calloc(messages + 1, sizeof *m->messages);
    m->pending = calloc(count + 1, sizeof *m->pending);
    CHECK(m->now && m->messages && m->pending, TRINE_ENOMEM, "no memory to step %d programs",
          s->stages);
    if (waits & MACHINE_BUFFERS) place_pending(m);
    return TRINE_OK;
}

void machine_destroy(machine *m) {
    free(m->now);
    free(m->messages);
    free(m->pending);
    *m = (machine){0};
}

/* ---- Messages -------------------------------------------------------------------------------- */

static machine_message *message_of(const machine *m, const program *p, const instr *i) {
    return &m->messages[program_message(p, i)];
}

const machine_message *machine_message_of(const machine *m, const program *p, const instr *i) {
    return message_of(m, p, i);
}

static machine_side side_of(const instr *i) {
    return instr_sends((instr_kind)i->kind) ? MACHINE_SENDER : MACHINE_RECEIVER;
}

/* Whether the peer has started the message as often. */
static bool met(const machine_message *message, machine_side side, int number) {
    return message->starts[MACHINE_SIDES - 1 - side] >= number;
}

static bool done(const machine_pending *w) {
    return met(w->on, w->side, w->number);
}

static void start_message(machine *m, const program *p, int at) {
    const instr *i = &p->code[at];
    machine_message *message = message_of(m, p, i);
    machine_side side = side_of(i);
    message->at[side] = at;
    message->starts[side]++;
    if (!(m->waits & MACHINE_BUFFERS)) return;
    operand cargo[INSTR_OPERANDS];
    program_operands(p, i, cargo);
    m->now[p->stage].pending[cargo->what][cargo->index] =
        (machine_pending){message, side, message->starts[side], at, *cargo};
}

void machine_take_back(machine *m, int stage) {
    const program *p = &m->stages[stage];
    machine_stage *s = &m->now[stage];
    ASSERT(s->started && !(m->waits & MACHINE_BUFFERS));
    int first = program_group_first(p, s->at);
    for (int n = first; n <= s->at; n++)
        message_of(m, p, &p->code[n])->starts[side_of(&p->code[n])]--;
    s->at = first;
    s->came = s->started = false;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A pending message that conflicts with one of the operands; NULL: none. */
static machine_pending *conflict(const machine_stage *s, const operand *operands, int count) {
    for (const operand *o = operands; o < operands + count; o++)
        for (int n = 0; n < o->count; n++) {
            machine_pending *w = &s->pending[o->what][o->index + n];
            if (w->on && operand_conflicts(&w->cargo, o)) return w;
        }
    return NULL;
}

/* Collectives over several stages. */
static bool joins(instr_kind kind) {
    return kind == TIE || kind == NORM;
}

/* A stage that takes part in this TIE or NORM and has not come to its own; -1: all have. */
static int absent_partner(const machine *m, instr_kind kind) {
    for (int p = 0; p < m->spec->stages; p++) {
        bool partner = kind == NORM || spec_tied_unit(m->spec, p) >= 0;
        if (partner && !m->now[p].has_started[kind]) return p;
    }
    return -1;
}

/* In one queue: a stage that has not started its own of the message at `end`, or of those of the message group that
 * ends there, and the message (*at); -1: all have. */
static int absent_peer(const machine *m, const program *p, int end, int *at) {
    if (program_group_last(p, end) != end) return -1;
    for (int n = program_group_first(p, end); n <= end; n++) {
        machine_side side = side_of(&p->code[n]);
        const machine_message *message = message_of(m, p, &p->code[n]);
        *at = n;
        if (!met(message, side, message->starts[side])) return program_peer(p, &p->code[n]);
    }
    return -1;
}

/* The same of any instruction that has started. */
static int absent(const machine *m, const program *p, int here, int *at) {
    instr_kind kind = (instr_kind)p->code[here].kind;
    *at = here;
    if (joins(kind)) return absent_partner(m, kind);
    bool blocks = (m->waits & MACHINE_ONE_QUEUE) && instr_is_message(kind);
    return blocks ? absent_peer(m, p, here, at) : -1;
}

int machine_awaited(const machine *m, int stage, int *at) {
    const program *p = &m->stages[stage];
    const machine_stage *s = &m->now[stage];
    if (s->started) return absent(m, p, s->at, at);
    if (!s->came) return -1;
    operand o[INSTR_OPERANDS];
    const machine_pending *w = conflict(s, o, program_operands(p, &p->code[s->at], o));
    *at = w->at;
    return program_peer(p, &p->code[w->at]);
}

int machine_stuck(const machine *m) {
    int at, p = 0;
    while (machine_ended(m, p)) p++;
    for (int n = 0; n < m->spec->stages; n++) {
        int next = machine_awaited(m, p, &at);
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
    while ((w = conflict(s, o, count)) && done(w)) TRY(end(h, p, w));
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
    if (instr_is_message(kind)) start_message(m, p, s->at);
    s->started = s->has_started[kind] = true;
    return TRINE_OK;
}

/* Runs a stage until it waits or ends; *moved becomes true if anything started or ended. */
static trine_status run_stage(machine *m, const machine_hook *h, const program *p, bool *moved) {
    machine_stage *s = &m->now[p->stage];
    while (s->at < p->count) {
        int at;
        bool before = s->started;
        if (!before) TRY(start(m, h, p));
        *moved |= s->started != before;
        if (!s->started || absent(m, p, s->at, &at) >= 0) return TRINE_OK;
        bool pends = instr_is_message((instr_kind)p->code[s->at].kind);
        if (!pends) TRY(tell(h, h->ends, p, s->at));
        s->at++;
        s->came = s->started = false;
        *moved = true;
    }
    return TRINE_OK;
}

/* The messages that nobody has waited for. */
static trine_status end_pending(machine *m, const machine_hook *h, const program *p) {
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(p, (resource)r); n++) {
            machine_pending *w = &m->now[p->stage].pending[r][n];
            if (w->on && done(w)) TRY(end(h, p, w));
        }
    return TRINE_OK;
}

trine_status machine_run(machine *m, const machine_hook *h) {
    int stages = m->spec->stages;
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < stages; p++) TRY(run_stage(m, h, &m->stages[p], &moved));
    }
    bool ends = machine_all_ended(m) && (m->waits & MACHINE_BUFFERS);
    for (int p = 0; p < stages && ends; p++) TRY(end_pending(m, h, &m->stages[p]));
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
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(&m->stages[stage], (resource)r); n++)
            if (m->now[stage].pending[r][n].on) return &m->now[stage].pending[r][n];
    return NULL;
}

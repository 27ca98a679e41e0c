#include "run/exec.h"

#include <string.h>

#include "base/status.h"
#include "run/parts.h"
#include "run/replicas.h"

trine_status exec_create(exec *e, rank_state *state, const trine_mesh *mesh, device *dev) {
    *e = (exec){0};
    return step_create(&e->run, state, mesh, dev);
}

void exec_destroy(exec *e) {
    step_destroy(&e->run);
    *e = (exec){0};
}

void exec_use_device(exec *e, device *dev) {
    e->run.dev = dev;
}

void exec_attach(exec *e, exec_observer *o) {
    o->next = e->observers;
    e->observers = o;
}

void exec_detach(exec *e, const exec_observer *o) {
    exec_observer **at = &e->observers;
    while (*at && *at != o) at = &(*at)->next;
    if (*at) *at = o->next;
}

/* The messages of a group are all started before any is waited for, so the first waits for the operands of
 * all. */
static trine_status wait_for_group(exec *e) {
    const program *p = e->run.program;
    if (program_group_first(p, e->at) != e->at) return TRINE_OK;
    for (int n = e->at; n <= program_group_last(p, e->at); n++)
        TRY(step_wait(&e->run, &p->code[n]));
    return TRINE_OK;
}

static trine_status execute(exec *e, const instr *i) {
    CHECK(i->kind >= 0 && i->kind < INSTR_KINDS, TRINE_EPROGRAM, "unknown instruction %d", i->kind);
    return run_part_of((instr_kind)i->kind)->run(&e->run, i);
}

/* The first message of a message group opens it, the last one closes it. */
static trine_status execute_in_group(exec *e, const instr *i) {
    const program *p = e->run.program;
    int first = program_group_first(p, e->at), last = program_group_last(p, e->at);
    if (first == last) return execute(e, i);
    if (e->at == first) TRY(comm_group_begin(e->run.mesh));
    TRY(execute(e, i));
    return e->at == last ? comm_group_end(e->run.mesh) : TRINE_OK;
}

/* ---- Progress reports -------------------------------------------------------------------------- */

_Static_assert(sizeof(instr) == COMM_WORDS * sizeof(int32_t),
               "an instruction has COMM_WORDS words");

static void describe(const int32_t words[COMM_WORDS], char *text, size_t size) {
    instr i;
    memcpy(&i, words, sizeof i);
    if (i.kind >= 0 && i.kind < INSTR_KINDS) instr_print(&i, text, size);
}

static void note(const exec *e, trine_world *world) {
    int32_t words[COMM_WORDS];
    memcpy(words, &e->run.program->code[e->at], sizeof words);
    comm_instruction(world, e->at, e->run.program->count, words);
}

static void tell(const exec *e, exec_events event) {
    for (const exec_observer *o = e->observers; o; o = o->next)
        if (o->on[event]) o->on[event](o->context, e->run.program, e->at);
}

/* Between instructions, and never inside a message group. */
static trine_status progress(const exec *e, trine_world *world) {
    bool reducing = comm_reducing(world);
    if (program_group_first(e->run.program, e->at) != e->at) return TRINE_OK;
    TRY(comm_progress(world));
    if (reducing) tell(e, EXEC_PROGRESSED);
    return TRINE_OK;
}

/* ---- The loop --------------------------------------------------------------------------------- */

static trine_status run_program(exec *e, exec_part part, trine_world *world) {
    const program *p = e->run.program;
    e->at = part.from;
    if (!part.from) tell(e, EXEC_BEGUN);
    for (; e->at < part.to; e->at++) {
        const instr *i = &p->code[e->at];
        note(e, world);
        TRY(progress(e, world));
        TRY(wait_for_group(e));
        tell(e, EXEC_WAITED);
        TRY(execute_in_group(e, i));
        tell(e, EXEC_EXECUTED);
        if (!e->serial || program_group_last(p, e->at) != e->at) continue;
        TRY(step_drain(&e->run, false));
        tell(e, EXEC_WAITED);
    }
    TRY(step_drain(&e->run, true));
    if (part.to < p->count) return TRINE_OK;
    tell(e, EXEC_WAITED);
    tell(e, EXEC_EXECUTED);
    return TRINE_OK;
}

trine_status exec_run_part(exec *e, const program *p, exec_part part, step_io *io) {
    trine_world *world = comm_world(step_group(&e->run, TRINE_WORLD));
    e->run.program = p;
    e->run.io = io;
    comm_describe(describe);
    trine_status status = run_program(e, part, world);
    comm_program_end(world);
    TRY(status);
    if (!e->audit || p->spec->forward_only || part.to < p->count) return TRINE_OK;
    return replicas_agree(e->run.state, e->run.dev, e->run.mesh);
}

trine_status exec_run(exec *e, const program *p, step_io *io) {
    return exec_run_part(e, p, (exec_part){0, p->count}, io);
}

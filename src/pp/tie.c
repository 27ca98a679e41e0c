#include "base/status.h"
#include "pp/pp.h"

trine_status pp_wire_tie(program *p) {
    if (p->spec->forward_only || spec_tied_unit(p->spec, p->stage) < 0) return TRINE_OK;
    return program_append(p, program_instr(TIE, -1, -1));
}

/* The unit of this stage that has a twin, and the part of its matrix whose gradient this rank has reduced. */
static held_unit *tied_unit(const rank_state *s, flat_part *owned) {
    held_unit *u = state_unit(s, spec_tied_unit(s->config.spec, s->config.coord.pp));
    *owned = state_owned(s, u, 0);
    return u;
}

/* Both stages add the other stage's gradient to their own; a + b = b + a, so both get the same bits. */
static trine_status tie_remote(step_run *r, char *own, size_t count) {
    rank_state *s = r->state;
    trine_comm *tie = step_group(r, TRINE_TIE);
    trine_dtype type = r->dev->grads;
    int peer = 1 - trine_comm_rank(tie);
    for (size_t at = 0; at < count; at += s->tie_count) {
        size_t n = count - at < s->tie_count ? count - at : s->tie_count;
        char *segment = own + at * state_grad_bytes(s);
        comm_request send = {0}, recv = {0};
        TRY(comm_group_begin(r->mesh));
        TRY(comm_recv_start(tie, s->tie, n, type, peer, &recv));
        TRY(comm_send_start(tie, segment, n, type, peer, &send));
        TRY(comm_group_end(r->mesh));
        TRY(comm_wait(&recv));
        TRY(comm_wait(&send));
        TRY(r->dev->ops->add(r->dev, segment, s->tie, n));
    }
    return TRINE_OK;
}

trine_status pp_run_tie(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    flat_part owned;
    held_unit *u = tied_unit(s, &owned);
    void *own = state_grad(s, u, 0, owned);
    (void)i;
    if (!spec_twin_is_local(s->config.spec, u->unit)) return tie_remote(r, own, owned.count);
    const held_unit *twin = state_unit(s, spec_unit(s->config.spec, u->unit).twin);
    return r->dev->ops->add(r->dev, own, state_grad(s, twin, 0, owned), owned.count);
}

uint64_t pp_tie_bytes(const rank_state *s, const program *p, const instr *i) {
    flat_part owned;
    const held_unit *u = tied_unit(s, &owned);
    (void)p, (void)i;
    return spec_twin_is_local(s->config.spec, u->unit) ? 0 : owned.count * state_grad_bytes(s);
}

/* TIE: the gradients of a token matrix that two units share. */
#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "device/ops.h"
#include "pp/pp.h"
#include "state/part.h"

static trine_status insert_tie(program *p) {
    if (p->spec->forward_only || spec_tied_unit(p->spec, p->stage) < 0) return TRINE_OK;
    return program_append(p, program_instr(TIE, -1, -1));
}

static trine_status check_tie(stage_state *s, const instr *i) {
    (void)i;
    const program_spec *spec = s->p->spec;
    REQUIRE(check_ties(s), "this stage has no tied token matrix");
    REQUIRE(!s->ties && !s->norms, "TIE must run once, before NORM");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        if (spec_unit(spec, u).twin >= 0) TRY(check_reduced(s, u));
    }
    s->ties++;
    return TRINE_OK;
}

/* The twin's gradient is complete when its stage comes to TIE, which waits for both. */
static trine_status prove_tie(prove_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    prove_strand strands[PROVE_STRANDS];
    (void)i;
    PROVE(!s->normed, "comes after NORM");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        int count = spec_unit(spec, u).twin >= 0 ? prove_strands(s, u, strands) : 0;
        for (int k = 0; k < count; k++) {
            prove_grad *g = &s->units[u].grads[k];
            if (!strands[k].tied) continue;
            PROVE(!g->tied, "adds the gradients of %s twice", strands[k].name);
            PROVE(g->sum != TERM_NONE && g->lane == TERM_NONE,
                  "the gradient of %s in unit %d is not summed over dp yet", strands[k].name, u);
            g->tied = true;
        }
    }
    return TRINE_OK;
}

/* ---- Memory and running ---- */

static held_unit *tied_unit(const rank_state *s) {
    return state_unit(s, spec_tied_unit(s->config.spec, s->config.coord.pp));
}

/* The matrix is the first kind of range; the parts of this rank have one each. */
static int matrices(const held_unit *u) {
    return flat_parts(&u->layout);
}

/* The buffer in which two stages exchange a tied gradient, segment by segment. */
static void take_tie(rank_state *h, arena *a) {
    int unit = spec_tied_unit(h->config.spec, h->config.coord.pp);
    if (unit < 0 || spec_twin_is_local(h->config.spec, unit)) return;
    flat_part owned = state_owned(h, tied_unit(h), 0);
    size_t count = owned.count < PP_TIE_CHUNK ? owned.count : PP_TIE_CHUNK;
    h->own[TIE] = arena_take_exchanged(a, MEM_TIE, count * state_grad_bytes(h));
}

/* Both stages add the other stage's gradient to their own; a + b = b + a, so both get the same bits. */
static trine_status tie_remote(step_run *r, char *own, size_t count) {
    rank_state *s = r->state;
    trine_comm *tie = step_group(r, TRINE_TIE);
    trine_dtype type = r->dev->grads;
    void *theirs = s->own[TIE];
    int peer = 1 - trine_comm_rank(tie);
    for (size_t at = 0; at < count; at += PP_TIE_CHUNK) {
        size_t n = count - at < PP_TIE_CHUNK ? count - at : PP_TIE_CHUNK;
        char *segment = own + at * state_grad_bytes(s);
        comm_request send = {0}, recv = {0};
        TRY(comm_group_begin(r->mesh));
        TRY(comm_recv_start(tie, theirs, n, type, peer, &recv));
        TRY(comm_send_start(tie, segment, n, type, peer, &send));
        TRY(comm_group_end(r->mesh));
        TRY(comm_wait(&recv));
        TRY(comm_wait(&send));
        TRY(r->dev->ops->add(r->dev, segment, theirs, n));
    }
    return TRINE_OK;
}

/* The part of matrix n whose gradient this rank has reduced. */
static trine_status tie_matrix(step_run *r, const held_unit *u, int n) {
    const rank_state *s = r->state;
    flat_part owned = state_owned(s, u, n);
    void *own = state_grad(s, u, n, owned);
    if (!spec_twin_is_local(s->config.spec, u->unit)) return tie_remote(r, own, owned.count);
    const held_unit *twin = state_unit(s, spec_unit(s->config.spec, u->unit).twin);
    return r->dev->ops->add(r->dev, own, state_grad(s, twin, n, owned), owned.count);
}

/* Adds the twin's gradient: if both are on this stage into the first; if the twin is on another stage, on both stages.
 * Collective over: tie. */
static trine_status run_tie(step_run *r, const instr *i) {
    const held_unit *u = tied_unit(r->state);
    (void)i;
    for (int n = 0; n < matrices(u); n++) TRY(tie_matrix(r, u, n));
    return TRINE_OK;
}

static uint64_t tie_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = tied_unit(s);
    (void)p, (void)i;
    if (spec_twin_is_local(s->config.spec, u->unit)) return 0;
    return state_owned(s, u, 0).count * state_grad_bytes(s) * (uint64_t)matrices(u);
}

const instr_part part_TIE = {.pass = insert_tie,
                             .check = check_tie,
                             .prove = prove_tie,
                             .take = take_tie,
                             .run = run_tie,
                             .bytes = tie_bytes};

#include "base/status.h"
#include "tp/reduce.h"

trine_status tp_reduce(program *p) {
    const program_spec *s = p->spec;
    if (s->forward_only || !s->tp_partial) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(s, p->stage); n++)
        TRY(program_append(p, program_instr(REDUCE_TP, spec_stage_unit(s, p->stage, n), -1)));
    return TRINE_OK;
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* The group whose addends are summed. */
static trine_group group_of(const flat_run *run) {
    return run->in_part ? TRINE_TP_PART : TRINE_TP;
}

/* Sums a run of gradients at g, in chunks, through memory that peers may read. */
static trine_status sum_over_tp(step_run *r, const flat_run *run, char *g) {
    rank_state *s = r->state;
    size_t element = state_grad_bytes(s), chunk = s->rows_count, n = run->to - run->from;
    trine_comm *over = step_group(r, group_of(run));
    for (size_t at = 0; at < n; at += chunk) {
        size_t count = n - at < chunk ? n - at : chunk;
        device_copy(r->dev, s->rows, g + at * element, count * element);
        TRY(trine_all_reduce(over, s->rows, s->rows, count, r->dev->grads, TRINE_SUM));
        device_copy(r->dev, g + at * element, s->rows, count * element);
    }
    return TRINE_OK;
}

/* Sums the owned part, which is complete over dp. */
trine_status tp_run_reduce(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    held_unit *u = state_unit(s, i->unit);
    flat_run run;
    for (int n = 0; n < u->layout.range_count; n++) {
        flat_part own = state_owned(s, u, n);
        int next = 0;
        while (flat_next_tp_partial(&u->layout.ranges[n], own.begin, own.count, &next, &run)) {
            flat_part part = {run.from, run.to - run.from};
            TRY(sum_over_tp(r, &run, state_grad(s, u, n, part)));
        }
    }
    return TRINE_OK;
}

/* The bytes of a run of gradients, which is sent in chunks. */
static uint64_t run_bytes(const rank_state *s, const flat_run *run) {
    uint64_t bytes = 0;
    for (size_t at = run->from; at < run->to; at += STATE_ROWS_CHUNK) {
        size_t count = run->to - at < STATE_ROWS_CHUNK ? run->to - at : STATE_ROWS_CHUNK;
        bytes += state_bytes(s, group_of(run), TRINE_TALLY_ALL_REDUCE, count, s->config.dev->grads);
    }
    return bytes;
}

uint64_t tp_reduce_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = state_unit(s, i->unit);
    uint64_t bytes = 0;
    flat_run run;
    (void)p;
    for (int r = 0; r < u->layout.range_count; r++) {
        flat_part own = state_owned(s, u, r);
        int next = 0;
        while (flat_next_tp_partial(&u->layout.ranges[r], own.begin, own.count, &next, &run))
            bytes += run_bytes(s, &run);
    }
    return bytes;
}

/* With sequence parallelism a tp rank computes the gradients of norms and positions from its own rows.
 * These gradients are partial over tp (tensor.tp_partial, core/flat.h). They are summed over tp once a
 * step, after the sum over dp, on the part that a rank owns.
 *
 * Invariant: after REDUCE_TP the gradients of SPLIT_NONE tensors are the same on all tp ranks. Cost: two
 * small all-reduces per block. Korthikanti et al., MLSys 2023, section 4.2.2; Megatron-LM does the same
 * in its finalize_model_grads. */
#include "base/status.h"
#include "core/check_state.h"
#include "state/part.h"
#include "state/step.h"

#define CHUNK ((size_t)1 << 18) /* elements summed at a time */

static trine_status insert_reduces(program *p) {
    const program_spec *s = p->spec;
    if (s->forward_only || !s->tp_partial) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(s, p->stage); n++)
        TRY(program_append(p, program_instr(REDUCE_TP, spec_stage_unit(s, p->stage, n), -1)));
    return TRINE_OK;
}

/* ---- Checking --------------------------------------------------------------------------------- */

static trine_status check_reduce_tp(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(s->p->spec->tp_partial, "this program has no gradients that are partial over tp");
    REQUIRE(!s->ties && !s->norms, "REDUCE_TP must come before TIE and NORM");
    TRY(check_reduced(s, i->unit));
    REQUIRE(!unit->tp_reduces, "REDUCE_TP of unit %d runs twice", i->unit);
    unit->tp_reduces++;
    return TRINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

/* The longest run of gradients that are partial over tp, in the part that this rank owns. */
static size_t longest_run(const rank_state *h) {
    size_t longest = 0;
    flat_run run;
    for (int n = 0; n < h->count; n++)
        for (int k = 0; k < h->units[n].layout.range_count; k++) {
            int r = k * flat_parts(&h->units[n].layout);
            flat_part own = state_owned(h, &h->units[n], r);
            const flat_range *range = state_range(&h->units[n], r);
            int next = 0;
            while (flat_next_tp_partial(range, own.begin, own.count, &next, &run))
                if (run.to - run.from > longest) longest = run.to - run.from;
        }
    return longest;
}

/* tp peers cannot read gradients at rest: those that are summed over tp pass through a buffer. */
static void take_rows(rank_state *h, arena *a) {
    size_t longest = longest_run(h), count = longest < CHUNK ? longest : CHUNK;
    h->own[REDUCE_TP] = arena_take_shared(a, MEM_WORKSPACE, count * state_grad_bytes(h));
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* The group whose addends are summed. */
static trine_group group_of(const flat_run *run) {
    return run->in_part ? TRINE_TP_PART : TRINE_TP;
}

/* Sums a run of gradients at g, in chunks, through memory that peers may read. */
static trine_status sum_over_tp(step_run *r, const flat_run *run, char *g) {
    rank_state *s = r->state;
    size_t element = state_grad_bytes(s), n = run->to - run->from;
    void *rows = s->own[REDUCE_TP];
    trine_comm *over = step_group(r, group_of(run));
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        device_copy(r->dev, rows, g + at * element, count * element);
        TRY(trine_all_reduce(over, rows, rows, count, r->dev->grads, TRINE_SUM));
        device_copy(r->dev, g + at * element, rows, count * element);
    }
    return TRINE_OK;
}

/* Sums the owned part, which is complete over dp. Collective over: tp. */
static trine_status run_reduce_tp(step_run *r, const instr *i) {
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
    for (size_t at = run->from; at < run->to; at += CHUNK) {
        size_t count = run->to - at < CHUNK ? run->to - at : CHUNK;
        bytes += state_bytes(s, group_of(run), TRINE_TALLY_ALL_REDUCE, count, s->config.dev->grads);
    }
    return bytes;
}

static uint64_t reduce_tp_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = state_unit(s, i->unit);
    uint64_t sum = 0;
    flat_run run;
    (void)p;
    for (int r = 0; r < u->layout.range_count; r++) {
        flat_part own = state_owned(s, u, r);
        int next = 0;
        while (flat_next_tp_partial(&u->layout.ranges[r], own.begin, own.count, &next, &run))
            sum += run_bytes(s, &run);
    }
    return sum;
}

const instr_part part_REDUCE_TP = {.pass = insert_reduces,
                                   .check = check_reduce_tp,
                                   .take = take_rows,
                                   .run = run_reduce_tp,
                                   .bytes = reduce_tp_bytes};

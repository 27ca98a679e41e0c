/* With sequence parallelism a tp rank computes the gradients of norms and positions from its own rows, with
 * parallel.exact each part from the rows that it would have then.
 * These gradients are partial over tp (tensor.tp_partial, core/flat.h). They are summed over tp once a
 * step, after the sum over dp, on the part that a rank owns.
 *
 * Invariant: after REDUCE_TP the gradients of SPLIT_NONE tensors are the same on all tp ranks. Cost: two
 * small all-reduces per block. Korthikanti et al., MLSys 2023, section 4.2.2; Megatron-LM does the same
 * in its finalize_model_grads. */
#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "device/ops.h"
#include "state/part.h"
#include "state/step.h"

#define CHUNK ((size_t)1 << 18) /* elements summed at a time */

static trine_status insert_reduces(program *p) {
    const program_spec *s = p->spec;
    if (s->forward_only || !s->tp_partial) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(s, p->stage); n++) {
        int u = spec_stage_unit(s, p->stage, n);
        if (spec_goes_back(s, u)) TRY(program_append(p, program_instr(REDUCE_TP, u, -1)));
    }
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

static trine_status prove_reduce_tp(prove_stage *s, const instr *i) {
    prove_strand strands[PROVE_STRANDS];
    int count = prove_strands(s, i->unit, strands);
    for (int k = 0; k < count; k++) {
        prove_grad *g = &s->units[i->unit].grads[k];
        if (!strands[k].partial) continue;
        PROVE(!g->over_tp, "sums the gradient of %s over tp again: it would count tp times",
              strands[k].name);
        PROVE(g->sum != TERM_NONE && g->lane == TERM_NONE,
              "the gradient of %s is not summed over dp yet", strands[k].name);
        PROVE(!s->normed, "comes after NORM");
        g->over_tp = true;
    }
    return TRINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

/* The longest run of gradients that are partial over tp, in the part that this rank owns. */
static size_t longest_run(const rank_state *h) {
    size_t longest = 0;
    flat_run run;
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < flat_ranges(&h->units[n].layout); r++) {
            flat_part own = state_owned(h, &h->units[n], r);
            const flat_range *range = state_range(&h->units[n], r);
            int next = 0;
            if (range->frozen) continue;
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

/* The parts of this rank that are summed together: all, or those that hold the same heads. */
static int summed_parts(const held_unit *u, const flat_run *run) {
    int parts = flat_parts(&u->layout);
    return run->in_part && run->copies < parts ? run->copies : parts;
}

/* Gradients of `parts` parts, `stride` elements apart. */
typedef struct {
    char *at;
    int parts;
    size_t stride;
} addends;

static trine_status sum_chunk(step_run *r, const addends *a, size_t at, size_t count,
                              trine_group over) {
    rank_state *s = r->state;
    size_t element = state_grad_bytes(s);
    char *from = a->at + at * element, *rows = s->own[REDUCE_TP];
    bool exact = r->program->spec->parallel.exact;
    if (a->parts > 1)
        TRY(r->dev->ops->sum_parts(r->dev, rows, true, from, true, (size_t)a->parts, a->stride,
                                   count));
    else
        device_copy(r->dev, rows, from, count * element);
    TRY(trine_all_reduce(step_group(r, over), rows, rows, count, r->dev->grads,
                         exact ? TRINE_SUM_TREE : TRINE_SUM));
    for (int p = 0; p < a->parts; p++)
        device_copy(r->dev, from + (size_t)p * a->stride * element, rows, count * element);
    return TRINE_OK;
}

/* Sums a run of gradients, in chunks, through memory that peers may read; n: the range of the first part. */
static trine_status sum_over_tp(step_run *r, const held_unit *u, int n, const flat_run *run) {
    const rank_state *s = r->state;
    flat_part part = {run->from, run->to - run->from};
    int each = summed_parts(u, run);
    for (int p = 0; p < flat_parts(&u->layout); p += each) {
        addends a = {state_grad(s, u, n + p, part), each, 0};
        if (each > 1)
            a.stride =
                (size_t)((char *)state_grad(s, u, n + p + 1, part) - a.at) / state_grad_bytes(s);
        for (size_t at = 0; at < part.count; at += CHUNK)
            TRY(sum_chunk(r, &a, at, part.count - at < CHUNK ? part.count - at : CHUNK,
                          group_of(run)));
    }
    return TRINE_OK;
}

/* Sums the owned part, which is complete over dp. Collective over: tp. */
static trine_status run_reduce_tp(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    held_unit *u = state_unit(s, i->unit);
    flat_run run;
    for (int n = 0; n < flat_ranges(&u->layout); n += flat_parts(&u->layout)) {
        flat_part own = state_owned(s, u, n);
        int next = 0;
        if (!state_trains(u, n)) continue;
        while (flat_next_tp_partial(state_range(u, n), own.begin, own.count, &next, &run))
            TRY(sum_over_tp(r, u, n, &run));
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
    for (int n = 0; n < flat_ranges(&u->layout); n += flat_parts(&u->layout)) {
        flat_part own = state_owned(s, u, n);
        int next = 0;
        if (!state_trains(u, n)) continue;
        while (flat_next_tp_partial(state_range(u, n), own.begin, own.count, &next, &run))
            sum += run_bytes(s, &run) * (uint64_t)(flat_parts(&u->layout) / summed_parts(u, &run));
    }
    return sum;
}

const instr_part part_REDUCE_TP = {.pass = insert_reduces,
                                   .check = check_reduce_tp,
                                   .prove = prove_reduce_tp,
                                   .take = take_rows,
                                   .run = run_reduce_tp,
                                   .bytes = reduce_tp_bytes};

/* UPDATE: AdamW on the part that a rank owns. */
#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "device/ops.h"
#include "state/part.h"
#include "state/step.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

static trine_status insert_updates(program *p) {
    if (p->spec->forward_only) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(p->spec, p->stage); n++) {
        int u = spec_stage_unit(p->spec, p->stage, n);
        if (spec_goes_back(p->spec, u)) TRY(program_append(p, program_instr(UPDATE, u, -1)));
    }
    return TRINE_OK;
}

static trine_status check_update(stage_state *s, const instr *i) {
    REQUIRE(s->norms, "NORM has not run");
    REQUIRE(spec_goes_back(s->p->spec, i->unit), "unit %d has no gradients to update by", i->unit);
    REQUIRE(!s->units[i->unit].updates, "unit %d is updated twice", i->unit);
    s->units[i->unit].updates++;
    return TRINE_OK;
}

/* Of update_range; tests/zero/update.c holds it to that on every device. */
static const prove_update_rule adamw_rule = {.name = "AdamW", .elementwise = true};

static trine_status prove_update(prove_stage *s, const instr *i) {
    prove_unit *unit = &s->units[i->unit];
    PROVE(s->normed, "has no norm to clip by: NORM comes later");
    PROVE(!unit->updated, "updates the parameters of unit %d twice", i->unit);
    unit->updated = true;
    unit->rule = &adamw_rule;
    unit->stale = spec_zero(s->p->spec)->optimizer == SHARD;
    return TRINE_OK;
}

/* Weight decay applies to matrices, or to everything with decay_all. The padding between tensors stays zero and is not
 * visited. */
static trine_status update_range(step_run *r, const held_unit *u, int n) {
    const rank_state *s = r->state;
    const flat_range *range = state_range(u, n);
    flat_part own = state_owned(s, u, n);
    void *copy = state_has_master(s) ? state_param(s, u, n, own) : NULL;
    ops_part parts[OPS_PARTS];
    int count = 0;
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        size_t from, to;
        if (!flat_overlap(t, own.begin, own.count, &from, &to)) continue;
        parts[count++] = (ops_part){from - own.begin, to - from, t->matrix || r->io->decay_all};
    }
    TRY(r->dev->ops->adamw(r->dev, state_master(s, u, n, own), state_moment(s, u, n, 1, own),
                           state_moment(s, u, n, 2, own), copy, state_grad(s, u, n, own), parts,
                           count, &r->io->adamw));
    return TRINE_OK;
}

/* Does nothing in a skipped step. */
static trine_status run_update(step_run *r, const instr *i) {
    const held_unit *u = state_unit(r->state, i->unit);
    for (int n = 0; !r->io->skipped && n < flat_ranges(&u->layout); n++)
        if (!state_borrowed(u, n) && state_trains(u, n)) TRY(update_range(r, u, n));
    return TRINE_OK;
}

const instr_part part_UPDATE = {
    .pass = insert_updates, .check = check_update, .prove = prove_update, .run = run_update};

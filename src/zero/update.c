#include "base/status.h"
#include "core/check_state.h"
#include "state/part.h"
#include "zero/zero.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

/* The padding between tensors stays zero and is not visited. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *s, const adamw_args *args, bool decay_all) {
    ops_part parts[OPS_PARTS];
    int n = 0;
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        size_t from, to;
        if (!flat_overlap(t, begin, count, &from, &to)) continue;
        parts[n++] = (ops_part){from - begin, to - from, t->matrix || decay_all};
    }
    TRY(d->ops->adamw(d, s->w, s->m, s->v, s->copy, s->g, parts, n, args));
    return TRINE_OK;
}

static trine_status insert_updates(program *p) {
    if (p->spec->forward_only) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(p->spec, p->stage); n++)
        TRY(program_append(p, program_instr(UPDATE, spec_stage_unit(p->spec, p->stage, n), -1)));
    return TRINE_OK;
}

static trine_status check_update(stage_state *s, const instr *i) {
    REQUIRE(s->norms, "NORM has not run");
    REQUIRE(!s->units[i->unit].updates, "unit %d is updated twice", i->unit);
    s->units[i->unit].updates++;
    return TRINE_OK;
}

/* Does nothing in a skipped step. */
static trine_status run_update(step_run *r, const instr *i) {
    const rank_state *s = r->state;
    held_unit *u = state_unit(s, i->unit);
    if (r->io->skipped) return TRINE_OK;
    for (int n = 0; n < u->layout.range_count; n++) {
        if (u->borrowed[n]) continue;
        flat_part own = state_owned(s, u, n);
        zero_state state = {.w = state_master(s, u, n, own),
                            .m = u->moment1[n],
                            .v = u->moment2[n],
                            .g = state_grad(s, u, n, own)};
        if (state_has_master(s)) state.copy = state_param(s, u, n, own);
        TRY(zero_adamw(r->dev, &u->layout.ranges[n], own.begin, own.count, &state, &r->io->adamw,
                       r->io->decay_all));
    }
    return TRINE_OK;
}

const instr_part part_UPDATE = {.pass = insert_updates, .check = check_update, .run = run_update};

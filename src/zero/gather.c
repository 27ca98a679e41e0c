/* GATHER (core/sharding.h has the table of ZeRO). ZeRO-3: before use, into as many buffers per class as the spec allows. ZeRO-1/2: after the UPDATEs. */
#include <limits.h>
#include <stdlib.h>

#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "state/part.h"
#include "state/step.h"

static bool reads_params(const instr *i) {
    return instr_reads_params((instr_kind)i->kind);
}

/* For every computation, the position of the next one that needs the same GATHER; INT_MAX: none. */
static int *next_uses(const program *p) {
    int *next = malloc((size_t)(p->count + 1) * sizeof *next);
    int *seen = malloc((size_t)p->spec->units * sizeof *seen);
    if (next && seen) {
        for (int u = 0; u < p->spec->units; u++) seen[u] = INT_MAX;
        for (int n = p->count - 1; n >= 0; n--) {
            if (!reads_params(&p->code[n])) continue;
            int unit = spec_gather_unit(p->spec, p->code[n].unit);
            next[n] = seen[unit];
            seen[unit] = n;
        }
    }
    free(seen);
    return next;
}

/* One class's gather buffers during the pass. */
typedef struct {
    int count;
    int *unit;  /* the unit in each; -1: empty */
    int *again; /* position of the next use of each */
    int recent; /* the buffer that was read last; -1: none */
} buffer_pool;

static int pool_find(const buffer_pool *pool, int unit) {
    for (int b = 0; b < pool->count; b++)
        if (pool->unit[b] == unit) return b;
    return -1;
}

/* The buffer to evict: an empty one, else the one whose next use is farthest; among several without a next use
 * not the one read last, so that the GATHER can start early. */
static int pool_victim(const buffer_pool *pool) {
    int victim = 0;
    for (int b = 0; b < pool->count; b++) {
        if (pool->unit[b] < 0) return b;
        bool tie = pool->again[b] == pool->again[victim];
        if (pool->again[b] > pool->again[victim] || (tie && victim == pool->recent)) victim = b;
    }
    return victim;
}

/* Appends the GATHER, before the last computation unless that reads the same buffer. */
static trine_status append_gather(program *out, instr gather) {
    int last = out->count - 1;
    while (last >= 0 && !reads_params(&out->code[last])) last--;
    bool early = last >= 0 && !(out->code[last].gather == gather.gather &&
                                spec_class(out->spec, out->code[last].unit) ==
                                    spec_class(out->spec, gather.unit));
    return program_insert(out, early ? last : out->count, gather);
}

static trine_status place_gathers(const program *p, program *out, buffer_pool pools[CLASSES],
                                  const int *next) {
    for (int n = 0; n < p->count; n++) {
        instr i = p->code[n];
        if (reads_params(&i)) {
            int unit = spec_gather_unit(p->spec, i.unit);
            buffer_pool *pool = &pools[spec_class(p->spec, unit)];
            int b = pool_find(pool, unit);
            i.gather = b >= 0 ? b : pool_victim(pool);
            if (b < 0) {
                instr gather = program_instr(GATHER, unit, -1);
                gather.gather = i.gather;
                TRY(append_gather(out, gather));
            }
            pool->unit[i.gather] = unit;
            pool->again[i.gather] = next[n];
            pool->recent = i.gather;
        }
        TRY(program_append(out, i));
    }
    return TRINE_OK;
}

/* Evicts the unit whose next use is farthest (Belady: the program is known) and starts each GATHER one computation early
 * if a buffer is free. Sets p->gathers. */
static trine_status gather_before_use(const program *p, program *out) {
    const program_spec *s = p->spec;
    int *next = next_uses(p);
    int *memory = malloc((size_t)(2 * CLASSES * s->units) * sizeof *memory);
    trine_status status = TRINE_OK;
    if (!next || !memory) status = RAISE(TRINE_ENOMEM, "no memory for the gather pass");
    buffer_pool pools[CLASSES];
    for (int c = 0; status == TRINE_OK && c < CLASSES; c++) {
        int units = spec_gather_units(s, p->stage, (unit_class)c);
        out->gathers[c] = s->parallel.gather_buffers < units ? s->parallel.gather_buffers : units;
        int *own = memory + 2 * c * s->units;
        pools[c] = (buffer_pool){out->gathers[c], own, own + s->units, -1};
        for (int b = 0; b < pools[c].count; b++) pools[c].unit[b] = -1, pools[c].again[b] = INT_MAX;
    }
    if (status == TRINE_OK) status = place_gathers(p, out, pools, next);
    free(memory);
    free(next);
    return status;
}

static trine_status gather_after_update(program *p) {
    for (int n = 0; n < spec_stage_units(p->spec, p->stage); n++) {
        int u = spec_stage_unit(p->spec, p->stage, n);
        if (spec_gather_unit(p->spec, u) == u && spec_gather_changes(p->spec, u))
            TRY(program_append(p, program_instr(GATHER, u, -1)));
    }
    return TRINE_OK;
}

static trine_status insert_gathers(program *p) {
    zero_gather_when when = spec_zero(p->spec)->gather;
    if (when == GATHER_BEFORE_USE) return program_rewrite(p, gather_before_use);
    if (when == GATHER_AFTER_UPDATE && !p->spec->forward_only) return gather_after_update(p);
    return TRINE_OK;
}

/* ---- Checking --------------------------------------------------------------------------------- */

static trine_status check_after_update(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    TRY(check_no_gather(s, i));
    REQUIRE(!s->units[i->unit].gathers, "unit %d is gathered twice", i->unit);
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        bool changes = spec_gather_unit(spec, u) == i->unit && spec_goes_back(spec, u);
        REQUIRE(!changes || s->units[u].updates, "UPDATE of unit %d has not run", u);
    }
    s->units[i->unit].gathers++;
    return TRINE_OK;
}

static trine_status check_gather(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_class c = spec_class(spec, i->unit);
    zero_gather_when when = spec_zero(spec)->gather;
    REQUIRE(when != GATHER_NEVER, "ZeRO-0 has no sharded parameters to gather");
    REQUIRE(spec_gather_unit(spec, i->unit) == i->unit,
            "unit %d is gathered with unit %d and has no GATHER of its own", i->unit,
            spec_gather_unit(spec, i->unit));
    s->facts.gathers[c]++;
    if (when == GATHER_AFTER_UPDATE) return check_after_update(s, i);
    REQUIRE(i->gather >= 0, "field b is missing: ZeRO-3 gathers into a gather buffer");
    REQUIRE(!s->norms, "GATHER after NORM: no computation follows that could read it");
    buffer_state *b = &s->gathers[c][i->gather];
    REQUIRE(!b->full || b->read, "overwrites unit %d in gather buffer %d, which was not read",
            b->unit, i->gather);
    for (int n = 0; n < s->p->gathers[c]; n++)
        REQUIRE(!s->gathers[c][n].full || s->gathers[c][n].unit != i->unit,
                "gather buffer %d already holds unit %d", n, i->unit);
    *b = (buffer_state){.unit = i->unit, .full = true};
    return TRINE_OK;
}

static trine_status prove_gather(prove_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    if (i->gather >= 0) {
        int b = program_buffer_index(s->p->gathers, spec_class(spec, i->unit), i->gather);
        PROVE(!s->units[i->unit].updated, "gathers parameters of the next step");
        s->gathers[b] = (thing){THING_PARAMS, i->unit, -1};
        return TRINE_OK;
    }
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        if (spec_gather_unit(spec, u) != i->unit || !spec_goes_back(spec, u)) continue;
        PROVE(s->units[u].updated, "gathers parameters of unit %d that are not updated", u);
        s->units[u].stale = false;
    }
    return TRINE_OK;
}

/* ---- Execution --------------------------------------------------------------------------------- */

static trine_status gather_ranges(step_run *r, const instr *i, held_unit *u) {
    rank_state *s = r->state;
    trine_dtype type = r->dev->compute;
    unit_class c = spec_class(s->config.spec, i->unit);
    void *base[FLAT_RANGES];
    state_param_bases(s, u, i->gather, base);
    for (int n = 0; n < flat_ranges(&u->layout); n++) {
        size_t count = state_range(u, n)->count;
        trine_comm *dp = step_axes(r, state_range(u, n)->sharded);
        void *to = state_range_at(u, base, n, trine_dtype_bytes(type));
        void *own = state_param(s, u, n, state_slice(s, u, n));
        if (state_borrowed(u, n) || !state_gathers(s, state_range(u, n))) continue;
        if (i->gather < 0) {
            TRY(trine_all_gather(dp, to, own, count, type));
            continue;
        }
        int index = program_buffer_index(r->program->gathers, c, i->gather);
        TRY(comm_all_gather_start(dp, to, own, count, type,
                                  step_start(r, RES_GATHER, index, true)));
    }
    return TRINE_OK;
}

/* All ranges of the unit and of units gathered with it, at rest, or started into a gather buffer. Collective over: dp. */
static trine_status run_gather(step_run *r, const instr *i) {
    for (int n = 0; n < r->state->count; n++) {
        held_unit *u = &r->state->units[n];
        if (spec_gather_unit(r->program->spec, u->unit) == i->unit) TRY(gather_ranges(r, i, u));
    }
    return TRINE_OK;
}

static uint64_t gather_bytes(const rank_state *s, const program *p, const instr *i) {
    uint64_t sum = 0;
    for (int n = 0; n < s->count; n++) {
        const held_unit *u = &s->units[n];
        if (spec_gather_unit(p->spec, u->unit) != i->unit) continue;
        for (int r = 0; r < flat_ranges(&u->layout); r++) {
            const flat_range *range = state_range(u, r);
            if (!state_borrowed(u, r) && state_gathers(s, range))
                sum += state_bytes(s, axes_group(range->sharded), TRINE_TALLY_ALL_GATHER,
                                   range->count, s->config.dev->compute);
        }
    }
    return sum;
}

const instr_part part_GATHER = {.pass = insert_gathers,
                                .check = check_gather,
                                .prove = prove_gather,
                                .run = run_gather,
                                .bytes = gather_bytes};

#include "core/prove.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/machine.h"
#include "core/prove_sums.h"

/* ---- Memory ---- */

static void stage_destroy(prove_stage *s) {
    void *all[] = {s->batches, s->inputs,  s->outputs, s->acts,  s->chunks,
                   s->streams, s->gathers, s->reduces, s->keeps, s->units};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) free(all[n]);
}

static void *take(int count, size_t size) {
    return calloc(count > 0 ? (size_t)count : 1, size);
}

static bool stage_create(prover *all, prove_stage *s, const program *p) {
    const int units = p->spec->units, reduces = program_resource_count(p, RES_REDUCE);
    *s = (prove_stage){.p = p, .all = all, .loss = TERM_NONE};
    bool ok = (s->batches = take(p->slots, sizeof *s->batches)) &&
              (s->inputs = take(p->slots, sizeof *s->inputs)) &&
              (s->outputs = take(p->slots, sizeof *s->outputs)) &&
              (s->acts = take(p->slots * units, sizeof *s->acts)) &&
              (s->chunks = take(p->slots, sizeof *s->chunks)) &&
              (s->streams = take(p->streams, sizeof *s->streams)) &&
              (s->gathers = take(program_resource_count(p, RES_GATHER), sizeof *s->gathers)) &&
              (s->reduces = take(reduces, sizeof *s->reduces)) &&
              (s->keeps = take(p->keeps, sizeof *s->keeps)) &&
              (s->units = take(units, sizeof *s->units));
    for (int n = 0; ok && n < p->slots; n++) s->chunks[n] = -1;
    for (int n = 0; ok && n < reduces; n++) s->reduces[n].unit = -1;
    for (int n = 0; ok && n < p->keeps; n++) s->keeps[n].unit = -1;
    for (int u = 0; ok && u < units; u++) {
        for (int k = 0; k < PROVE_STRANDS; k++)
            s->units[u].small[k] = TERM_NONE,
            s->units[u].grads[k] = (prove_grad){TERM_NONE, TERM_NONE, false, false};
    }
    return ok;
}

static bool prover_create(prover *all, const program *stages) {
    const program_spec *spec = all->spec;
    int messages = 2 * spec_edges(spec) * spec->micros;
    bool ok = (all->stages = take(spec->stages, sizeof *all->stages)) &&
              (all->messages = take(messages, sizeof *all->messages)) &&
              (all->number = take(spec->micros, sizeof *all->number)) &&
              (all->strands = take(spec->units * PROVE_STRANDS, sizeof *all->strands)) &&
              (all->strand_count = take(spec->units, sizeof *all->strand_count));
    for (int u = 0; ok && u < spec->units; u++)
        all->strand_count[u] =
            all->model->strands(all->model->context, u, &all->strands[u * PROVE_STRANDS]);
    for (int p = 0; ok && p < spec->stages; p++)
        ok = stage_create(all, &all->stages[p], &stages[p]);
    return ok;
}

static void prover_destroy(prover *all) {
    for (int p = 0; all->stages && p < all->spec->stages; p++) stage_destroy(&all->stages[p]);
    free(all->stages);
    free(all->messages);
    free(all->number);
    free(all->strands);
    free(all->strand_count);
    free(all->memo.entries);
}

/* ---- The hook ---- */

static prove_stage *stage_at(void *context, const program *p, int at) {
    prove_stage *s = &((prover *)context)->stages[p->stage];
    s->at = at;
    return s;
}

/* A field that names no buffer would be an index out of bounds. */
static trine_status may_start(void *context, const program *p, int at) {
    prove_stage *s = stage_at(context, p, at);
    const instr *i = &p->code[at];
    PROVE(i->kind >= 0 && i->kind < INSTR_KINDS, "there is no instruction %d", i->kind);
    const struct {
        char letter;
        int count;
    } limits[] = {{'u', p->spec->units}, {'m', p->spec->micros}, {'s', p->slots},
                  {'i', p->slots},       {'d', p->streams},      {'k', p->keeps}};
    for (size_t n = 0; n < sizeof limits / sizeof *limits; n++) {
        int value = instr_field(i, limits[n].letter);
        bool needed = instr_field_use((instr_kind)i->kind, limits[n].letter) == FIELD_REQUIRED;
        PROVE(value < limits[n].count && (value >= 0 || !needed),
              "field %c is %d: this program has %d", limits[n].letter, value, limits[n].count);
    }
    PROVE(i->unit < 0 || spec_holds(p->spec, p->stage, i->unit), "unit %d is on stage %d", i->unit,
          spec_stage_of(p->spec, spec_chunk_of(p->spec, i->unit)));
    if (i->unit < 0) return TRINE_OK;
    unit_class c = spec_class(p->spec, i->unit);
    PROVE(i->gather < p->gathers[c] && i->reduce < p->reduces[c],
          "field b is %d, r is %d: this program has %d and %d", i->gather, i->reduce, p->gathers[c],
          p->reduces[c]);
    return TRINE_OK;
}

static trine_status starts(void *context, const program *p, int at) {
    prover *all = context;
    const instr *i = &p->code[at];
    prove_stage *s = stage_at(context, p, at);
    prove_rule rule = all->rules[i->kind];
    TRY(rule ? rule(s, i) : TRINE_OK);
    return term_status(all->pool);
}

/* A message has arrived. */
static trine_status ends(void *context, const program *p, int at) {
    prover *all = context;
    prove_stage *s = stage_at(context, p, at);
    const instr *i = &p->code[at];
    if (!instr_is_message((instr_kind)i->kind) || instr_sends((instr_kind)i->kind)) return TRINE_OK;
    thing *to =
        instr_carries_acts((instr_kind)i->kind) ? &s->inputs[i->slot] : &s->streams[i->stream];
    *to = all->messages[program_message(p, i)];
    return TRINE_OK;
}

/* ---- The end ---- */

static trine_status stage_ends(prove_stage *s) {
    const program_spec *spec = s->p->spec;
    s->at = s->p->count;
    PROVE(s->normed, "NORM never runs: the step has no loss");
    if (spec->forward_only) return TRINE_OK;
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        if (!spec_goes_back(spec, u)) continue;
        PROVE(s->units[u].updated, "the parameters of unit %d are not updated: UPDATE is missing",
              u);
        PROVE(!s->units[u].stale || spec_zero(spec)->params == SHARD,
              "a rank has its own slice of the new parameters of unit %d only: GATHER is missing",
              u);
    }
    return TRINE_OK;
}

static trine_status all_end(prover *all, const machine *m, proof *out) {
    for (int p = 0; p < all->spec->stages; p++) {
        prove_stage *s = &all->stages[p];
        s->at = m->now[p].at;
        PROVE(machine_ended(m, p), "waits for ever");
        TRY(stage_ends(s));
        for (int n = 0; n < spec_stage_units(all->spec, p) && out->sums; n++) {
            int u = spec_stage_unit(all->spec, p, n);
            for (int k = 0; k < PROVE_STRANDS; k++)
                out->sums[u * PROVE_STRANDS + k] =
                    (prove_sum){s->units[u].grads[k].sum, s->units[u].grads[k].tied};
            if (s->units[u].rule) out->update = s->units[u].rule;
        }
        if (s->loss != TERM_NONE) out->loss = s->loss;
    }
    return TRINE_OK;
}

static trine_status run(prover *all, const program *stages, proof *out) {
    machine m;
    unsigned waits = MACHINE_BUFFERS | (all->spec->queue == ONE_QUEUE ? MACHINE_ONE_QUEUE : 0);
    machine_hook hook = {.context = all, .may_start = may_start, .starts = starts, .ends = ends};
    trine_status status = machine_create(&m, stages, waits);
    if (status == TRINE_OK) status = machine_run(&m, &hook);
    if (status == TRINE_OK) status = all_end(all, &m, out);
    machine_destroy(&m);
    return status;
}

trine_status prove_programs(const program *stages, const prove_rule rules[INSTR_KINDS],
                            const prove_model *model, term_pool *pool, proof *out) {
    const program_spec *spec = stages->spec;
    prover all = {.spec = spec, .rules = rules, .model = model, .pool = pool};
    all.numbers = spec->micros * model->dp;
    *out = (proof){.spec = spec, .numbers = all.numbers, .loss = TERM_NONE};
    if (!spec->forward_only) out->sums = take(spec->units * PROVE_STRANDS, sizeof *out->sums);
    trine_status status = TRINE_OK;
    if (!prover_create(&all, stages) || (!out->sums && !spec->forward_only))
        status = RAISE(TRINE_ENOMEM, "no memory to prove %d programs", spec->stages);
    if (status == TRINE_OK) status = spec_check_edges(spec);
    if (status == TRINE_OK) status = run(&all, stages, out);
    prover_destroy(&all);
    return status;
}

void proof_destroy(proof *out) {
    free(out->sums);
    *out = (proof){0};
}

#include "core/prove_sums.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"

trine_status prove_fault(const prove_stage *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    trine_status status = program_fault(s->p, s->at, format, args);
    va_end(args);
    return status;
}

/* ---- Things ---- */

const char *thing_text(thing t, char text[THING_TEXT]) {
    switch (t.kind) {
    case THING_NONE: snprintf(text, THING_TEXT, "nothing that was computed"); break;
    case THING_BATCH: snprintf(text, THING_TEXT, "the tokens of micro-batch %d", t.micro); break;
    case THING_OUTPUT:
        snprintf(text, THING_TEXT, "the output of unit %d for micro-batch %d", t.unit, t.micro);
        break;
    case THING_GRADIENT:
        snprintf(text, THING_TEXT, "the gradient of unit %d's output for micro-batch %d", t.unit,
                 t.micro);
        break;
    case THING_PARAMS: snprintf(text, THING_TEXT, "the parameters of unit %d", t.unit); break;
    }
    return text;
}

trine_status prove_thing(const prove_stage *s, const char *where, int index, thing has,
                         thing wanted) {
    char a[THING_TEXT], b[THING_TEXT];
    bool equal = has.kind == wanted.kind && has.unit == wanted.unit && has.micro == wanted.micro;
    PROVE(equal, "%s %d has %s, not %s", where, index, thing_text(has, a), thing_text(wanted, b));
    return TRINE_OK;
}

int prove_strands(const prove_stage *s, int unit, prove_strand out[PROVE_STRANDS]) {
    const int count = s->all->strand_count[unit];
    memcpy(out, &s->all->strands[unit * PROVE_STRANDS], (size_t)count * sizeof *out);
    return count;
}

term_pool *prove_pool(const prove_stage *s) {
    return s->all->pool;
}

thing *prove_acts(prove_stage *s, int slot, int unit) {
    return &s->acts[(size_t)slot * (size_t)s->p->spec->units + (size_t)unit];
}

trine_status prove_params(const prove_stage *s, const instr *i) {
    const program *p = s->p;
    const int unit = spec_gather_unit(p->spec, i->unit);
    if (i->gather >= 0) {
        int b = program_buffer_index(p->gathers, spec_class(p->spec, unit), i->gather);
        return prove_thing(s, "gather buffer", i->gather, s->gathers[b],
                           (thing){THING_PARAMS, unit, -1});
    }
    PROVE(spec_zero(p->spec)->params != SHARD,
          "a rank has its own slice of the parameters of unit %d only: GATHER is missing", unit);
    PROVE(!s->units[i->unit].updated && !s->units[unit].updated,
          "the parameters of unit %d are those of the next step", unit);
    return TRINE_OK;
}

/* ---- Messages ---- */

void prove_send(prove_stage *s, const instr *i, thing t) {
    s->all->messages[program_message(s->p, i)] = t;
}

/* ---- Sums on a rank ---- */

/* A number that is stored: rounded, if gradients have 16 bits. */
static term stored(const prove_stage *s, term t) {
    return s->all->model->half ? term_round(s->all->pool, t) : t;
}

/* The micro-batches of a lane: "0, 1, 2", at most 16. */
static const char *micros_of(const prove_stage *s, term lane, char text[96]) {
    term_pool *pool = s->all->pool;
    size_t used = 0;
    text[0] = '\0';
    for (int m = 0, n = 0; m < s->p->spec->micros && n < 16; m++)
        if (term_has_own(pool, lane, m))
            used += (size_t)snprintf(text + used, 96 - used, "%s%d", n++ ? ", " : "", m);
    return text;
}

trine_status prove_contribute(prove_stage *s, const instr *i, const char *what, term *lane) {
    term_pool *pool = s->all->pool;
    term own = term_own(pool, i->micro);
    char text[96];
    if (spec_begins_lane(s->p->spec, i->micro)) {
        PROVE(*lane == TERM_NONE,
              "overwrites the gradient of %s, which contains micro-batches %s that are not summed "
              "over dp: they are lost",
              what, micros_of(s, *lane, text));
        *lane = stored(s, own);
        return TRINE_OK;
    }
    PROVE(*lane != TERM_NONE,
          "adds micro-batch %d to the gradient of %s, which contains nothing of this step",
          i->micro, what);
    *lane = stored(s, term_onto(pool, *lane, own));
    return TRINE_OK;
}

/* ---- Sums over dp ---- */

static memo_entry *find(const memo_table *memo, term lane, term onto) {
    uint32_t at = (uint32_t)lane * 2654435761u ^ (uint32_t)onto * 40503u;
    for (;; at++) {
        memo_entry *e = &memo->entries[at & (uint32_t)(memo->capacity - 1)];
        if (e->lane == TERM_NONE || (e->lane == lane && e->onto == onto)) return e;
    }
}

/* NULL without memory. */
static memo_entry *entry_of(memo_table *memo, term lane, term onto) {
    if (2 * memo->count < memo->capacity) return find(memo, lane, onto);
    memo_table larger = {.capacity = memo->capacity ? 2 * memo->capacity : 256};
    larger.entries = malloc((size_t)larger.capacity * sizeof *larger.entries);
    if (!larger.entries) return NULL;
    for (int n = 0; n < larger.capacity; n++) larger.entries[n].lane = TERM_NONE;
    for (int n = 0; n < memo->capacity; n++) {
        const memo_entry *e = &memo->entries[n];
        if (e->lane == TERM_NONE) continue;
        *find(&larger, e->lane, e->onto) = *e;
        larger.count++;
    }
    free(memo->entries);
    *memo = larger;
    return find(memo, lane, onto);
}

/* The lane of a rank, by the numbers of its micro-batches. */
static term of_rank(prover *all, term lane, int rank) {
    for (int m = 0; m < all->spec->micros; m++)
        all->number[m] = spec_micro_number(all->spec, all->model->dp, rank, m);
    return term_of_rank(all->pool, lane, all->number);
}

/* ((onto + r0) + r1) + ..., without onto if it is TERM_NONE; `any`: in a library's order. */
static term over_ranks(prover *all, term lane, term onto, bool any) {
    term sum = onto;
    for (int r = 0; r < all->model->dp; r++) {
        term addend = of_rank(all, lane, r);
        if (sum == TERM_NONE)
            sum = addend;
        else if (any)
            sum = term_any(all->pool, sum, addend, all->model->dp);
        else
            sum = term_add(all->pool, sum, addend);
    }
    return sum;
}

/* Of gradients: 16-bit numbers are added in fp32 and rounded once. */
static term grads_over_ranks(prover *all, term lane, term onto) {
    const prove_model *m = all->model;
    term sum = over_ranks(all, lane, onto, m->any && onto == TERM_NONE);
    return m->half && m->dp > 1 ? term_round(all->pool, sum) : sum;
}

static trine_status sum_over(prove_stage *s, term lane, term onto, term *sum) {
    prover *all = s->all;
    memo_entry *e = entry_of(&all->memo, lane, onto);
    CHECK(e, TRINE_ENOMEM, "no memory for sums over dp");
    if (e->lane == TERM_NONE) {
        *e = (memo_entry){lane, onto, grads_over_ranks(all, lane, onto)};
        all->memo.count++;
    }
    *sum = e->sum;
    return TRINE_OK;
}

trine_status prove_sum_dp(prove_stage *s, const char *what, term *lane, term *sum, bool first,
                          bool onto) {
    char text[96];
    PROVE(*lane != TERM_NONE,
          "%s has no gradients that are not summed over dp: they would count %d times", what,
          s->all->model->dp);
    PROVE(!first || *sum == TERM_NONE,
          "overwrites the sum of %s over dp, which contains other micro-batches: they are lost",
          what);
    PROVE(first || *sum != TERM_NONE,
          "adds micro-batches %s to the sum of %s over dp, which contains nothing of this step",
          micros_of(s, *lane, text), what);
    term more = TERM_NONE;
    TRY(sum_over(s, *lane, onto ? *sum : TERM_NONE, &more));
    *sum = *sum == TERM_NONE || onto ? more : stored(s, term_add(s->all->pool, *sum, more));
    *lane = TERM_NONE;
    return TRINE_OK;
}

/* ---- Complete ---- */

/* The first micro-batch of the step that does not count once. */
static trine_status incomplete(const prove_stage *s, const char *what, term sum) {
    const int count = s->all->numbers;
    int *times = calloc((size_t)count, sizeof *times), n = 0;
    CHECK(times, TRINE_ENOMEM, "no memory for %d micro-batches", count);
    term_times(s->all->pool, sum, times, count);
    while (n < count - 1 && times[n] == 1) n++;
    int often = times[n];
    free(times);
    if (often == 0) return prove_fault(s, "%s lacks micro-batch %d of %d", what, n, count);
    return prove_fault(s, "%s counts micro-batch %d of %d %d times", what, n, count, often);
}

static trine_status complete(prove_stage *s, int unit, const prove_strand *strand,
                             const prove_grad *g) {
    const program_spec *spec = s->p->spec;
    char text[96], what[sizeof strand->name + 20];
    c_snprintf(what, sizeof what, "the gradient of %s", strand->name);
    PROVE(g->lane == TERM_NONE,
          "%s has micro-batches %s that are not summed over dp: REDUCE is missing", what,
          micros_of(s, g->lane, text));
    if (!term_complete(s->all->pool, g->sum, s->all->numbers)) return incomplete(s, what, g->sum);
    PROVE(!strand->partial || g->over_tp,
          "%s is the part of one tp rank: REDUCE_TP of unit %d is missing", what, unit);
    PROVE(!strand->tied || g->tied || spec_owner(spec, unit) != unit ||
              spec_unit(spec, unit).twin < 0,
          "%s lacks that of the tied matrix of unit %d: TIE is missing", what,
          spec_unit(spec, unit).twin);
    return TRINE_OK;
}

trine_status prove_complete(prove_stage *s) {
    const program_spec *spec = s->p->spec;
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        prove_strand strands[PROVE_STRANDS];
        int u = spec_stage_unit(spec, s->p->stage, n), count = prove_strands(s, u, strands);
        for (int k = 0; k < count; k++) TRY(complete(s, u, &strands[k], &s->units[u].grads[k]));
    }
    return TRINE_OK;
}

/* Losses are doubles, gathered and added: those of a rank first or, with parallel.exact, all in the order of numbers. */
trine_status prove_loss(prove_stage *s) {
    const program_spec *spec = s->p->spec;
    prover *all = s->all;
    if (!spec_holds(spec, s->p->stage, spec->units - 1)) return TRINE_OK;
    PROVE(s->loss != TERM_NONE, "no micro-batch has a loss");
    s->loss = over_ranks(all, s->loss, TERM_NONE, false);
    TRY(term_status(all->pool));
    if (!term_complete(all->pool, s->loss, all->numbers)) return incomplete(s, "the loss", s->loss);
    if (!spec->parallel.exact) return TRINE_OK;
    s->loss = term_number(all->pool, 0);
    for (int n = 1; n < all->numbers; n++)
        s->loss = term_add(all->pool, s->loss, term_number(all->pool, n));
    return TRINE_OK;
}

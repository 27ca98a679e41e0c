#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/grow.h"
#include "base/status.h"
#include "model/frozen.h"
#include "plan/check_config.h"
#include "plan/search_bound.h"

/* ---- Candidates ------------------------------------------------------------------------------- */

enum { VALUES = 256 }; /* of a dimension: divisors up to PROGRAM_STAGES, at most */

typedef struct {
    int at[VALUES], count;
} values;

static void add(values *v, int value) {
    ASSERT(v->count < VALUES);
    v->at[v->count++] = value;
}

/* Sets a dimension of a configuration. */
static void set(trine_config *c, search_dimension dimension, int value) {
    trine_parallel *p = &c->parallel;
    switch (dimension) {
    case SEARCH_TP: p->layout.tp = value; return;
    case SEARCH_PP: p->layout.pp = value; return;
    case SEARCH_VIRTUAL: p->virtual_stages = value; return;
    case SEARCH_SCHEDULE: p->schedule = (trine_schedule)value; return;
    case SEARCH_ZERO: p->zero = (trine_zero)value; return;
    case SEARCH_MICRO: c->micro_batch_size = value; return;
    case SEARCH_RECOMPUTE: p->recompute = (trine_recompute)value; return;
    case SEARCH_SEQUENCE: p->sequence_parallel = value; return;
    case SEARCH_DIMENSIONS: break;
    }
}

static int value_of(const trine_config *c, search_dimension dimension) {
    const trine_parallel *p = &c->parallel;
    switch (dimension) {
    case SEARCH_TP: return p->layout.tp;
    case SEARCH_PP: return p->layout.pp;
    case SEARCH_VIRTUAL: return p->virtual_stages;
    case SEARCH_SCHEDULE: return (int)p->schedule;
    case SEARCH_ZERO: return (int)p->zero;
    case SEARCH_MICRO: return c->micro_batch_size;
    case SEARCH_RECOMPUTE: return (int)p->recompute;
    case SEARCH_SEQUENCE: return p->sequence_parallel;
    case SEARCH_DIMENSIONS: break;
    }
    return 0;
}

/* The values of all dimensions, before trine_config_check. */
static void list_values(const search_space *s, values v[SEARCH_DIMENSIONS]) {
    static const trine_schedule schedules[] = {TRINE_1F1B, TRINE_INTERLEAVED, TRINE_ZB, TRINE_ZBV};
    memset(v, 0, SEARCH_DIMENSIONS * sizeof *v);
    for (int n = 1; n <= s->ranks; n++) {
        if (s->ranks % n) continue;
        if (n <= (int)s->rules.machine->node_ranks) add(&v[SEARCH_TP], n);
        if (n <= PROGRAM_STAGES) add(&v[SEARCH_PP], n);
    }
    for (int n = 1; n <= STAGE_CHUNKS / 4; n++) add(&v[SEARCH_VIRTUAL], n);
    for (int n = 1; n <= 64; n *= 2) add(&v[SEARCH_MICRO], n);
    for (size_t n = 0; n < sizeof schedules / sizeof *schedules; n++)
        add(&v[SEARCH_SCHEDULE], (int)schedules[n]);
    for (int n = 0; n <= 3; n++) add(&v[SEARCH_ZERO], n);
    for (int n = 0; n < TRINE_RECOMPUTES; n++) add(&v[SEARCH_RECOMPUTE], n);
    for (int n = 0; n <= 1; n++) add(&v[SEARCH_SEQUENCE], n);
    for (int d = 0; d < SEARCH_DIMENSIONS; d++)
        if (s->fixed >> d & 1) v[d] = (values){{value_of(&s->base, (search_dimension)d)}, 1};
}

search_layout search_base(const search_space *s) {
    search_layout l = {.step = NAN};
    for (int d = 0; d < SEARCH_DIMENSIONS; d++)
        l.value[d] = value_of(&s->base, (search_dimension)d);
    return l;
}

int search_dp(const search_space *s, const search_layout *l) {
    int stage = l->value[SEARCH_TP] * l->value[SEARCH_PP];
    return s->ranks % stage ? 0 : s->ranks / stage;
}

static int chunks_of(const search_layout *l) {
    return l->value[SEARCH_PP] * l->value[SEARCH_VIRTUAL];
}

/* "3,3,...": as many layers for each chunk. */
static const char *split_evenly(char text[SEARCH_EVEN], int layers, int chunks) {
    *text = '\0';
    for (int n = 0; n < chunks; n++)
        c_append(text, SEARCH_EVEN, "%s%d", n ? "," : "", layers / chunks);
    return text;
}

trine_config search_config(const search_space *s, const search_layout *l) {
    trine_config c = s->base;
    for (int d = 0; d < SEARCH_DIMENSIONS; d++) set(&c, (search_dimension)d, l->value[d]);
    if (s->even && chunks_of(l) > 1)
        c.parallel.pp_split = split_evenly(s->even, c.model.num_layers, chunks_of(l));
    return c;
}

/* Whether this is no candidate, or another one is the same run: what has no effect is at its first value. */
static bool is_double(const search_space *s, const search_layout *l) {
    const int *v = l->value;
    bool searched = !(s->fixed >> SEARCH_SCHEDULE & 1);
    int dp = search_dp(s, l);
    if (!dp) return true;
    if (s->even && s->base.model.num_layers % chunks_of(l)) return true;
    if (dp == 1 && v[SEARCH_ZERO] > 0 && !(s->fixed >> SEARCH_ZERO & 1)) return true;
    if (v[SEARCH_TP] == 1 && v[SEARCH_SEQUENCE] && !(s->fixed >> SEARCH_SEQUENCE & 1)) return true;
    if (v[SEARCH_PP] == 1 && searched && v[SEARCH_SCHEDULE] != TRINE_1F1B) return true;
    if (!searched) return false;
    switch (v[SEARCH_SCHEDULE]) {
    case TRINE_INTERLEAVED: return v[SEARCH_VIRTUAL] == 1;
    case TRINE_ZBV: return v[SEARCH_VIRTUAL] != 2;
    default: return v[SEARCH_VIRTUAL] != 1;
    }
}

/* ---- Listing ---------------------------------------------------------------------------------- */

typedef struct {
    const search_space *space;
    bounds *bounds;    /* owned */
    search_layout *at; /* owned */
    int count, room;
    search_result *out;
} search;

double search_room(const search_space *s) {
    double machine = s->rules.machine->memory_bytes, asked = (double)s->base.parallel.memory;
    return asked > 0 && asked < machine ? asked : machine;
}

/* Of a layout that has no room. */
static void note_heavy(search_result *out, const search_layout *l) {
    if (!out->least.bytes || l->bytes < out->least.bytes) out->least = *l;
}

/* Appends a candidate whose bounds have room. */
static trine_status consider(search *w, search_layout l, const trine_config *c) {
    layout_bound bound;
    w->out->valid++;
    TRY(bounds_of(w->bounds, c, &bound));
    if (model_trained(&c->model))
        bound = (layout_bound){0}; /* its blocks are unlike: no bound is known */
    l.bound = bound.seconds;
    l.bytes = (size_t)bound.bytes;
    if (bound.bytes > search_room(w->space)) {
        w->out->small++;
        note_heavy(w->out, &l);
        return TRINE_OK;
    }
    search_layout *more = grow(w->at, w->count, &w->room, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory for %d layouts", w->count + 1);
    w->at = more;
    w->at[w->count++] = l;
    return TRINE_OK;
}

/* Whether a configuration is valid does not depend on ZeRO: one check is for all of its stages. */
static trine_status list_stages(search *w, search_layout l, const values *zeros) {
    const search_space *s = w->space;
    trine_config c;
    bool checked = false;
    for (int n = 0; n < zeros->count; n++) {
        l.value[SEARCH_ZERO] = zeros->at[n];
        if (is_double(s, &l)) continue;
        if (!checked) c = search_config(s, &l);
        if (!checked && check_config_alone(&c, s->ranks) != TRINE_OK) return TRINE_OK;
        checked = true;
        set(&c, SEARCH_ZERO, l.value[SEARCH_ZERO]);
        TRY(consider(w, l, &c));
    }
    return TRINE_OK;
}

/* With the faults of the values that are given and the nearest layouts, or the fault of the last candidate. */
static trine_status refuse_all(const search_space *s) {
    char why[1000], last[512];
    trine_config c = s->base;
    c_snprintf(last, sizeof last, "%s", status_message());
    status_clear();
    bool alone = trine_config_check(&c, s->ranks) != TRINE_OK;
    c_snprintf(why, sizeof why, "%s", alone ? status_message() : last);
    return RAISE(TRINE_EINVAL, "no layout of %d ranks is valid: %s", s->ranks, why);
}

static trine_status list_candidates(search *w) {
    values v[SEARCH_DIMENSIONS];
    int64_t all = 1;
    list_values(w->space, v);
    for (int d = 0; d < SEARCH_DIMENSIONS; d++) all *= d == SEARCH_ZERO ? 1 : v[d].count;
    for (int64_t n = 0; n < all; n++) {
        search_layout l = {.step = NAN};
        int64_t rest = n;
        for (int d = 0; d < SEARCH_DIMENSIONS; d++) {
            if (d == SEARCH_ZERO) continue;
            l.value[d] = v[d].at[rest % v[d].count];
            rest /= v[d].count;
        }
        TRY(list_stages(w, l, &v[SEARCH_ZERO]));
    }
    if (!w->out->valid) return refuse_all(w->space);
    status_clear();
    return TRINE_OK;
}

/* ---- Simulating ------------------------------------------------------------------------------- */

static void take_forecast(search_layout *l, const forecast *f) {
    int stage = 0;
    for (int p = 1; p < f->stages; p++)
        if (f->stage[p][FORECAST_WAITING] < f->stage[stage][FORECAST_WAITING]) stage = p;
    l->step = f->step;
    memcpy(l->where, f->stage[stage], sizeof l->where);
}

static trine_status simulate(const search *w, search_layout *l, bool *fits) {
    trine_config c = search_config(w->space, l);
    rehearsal r;
    forecast f;
    trine_status status = rehearse(&r, &c, w->space->ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) status = rehearsal_bytes(&r, &l->bytes);
    *fits = (double)l->bytes <= search_room(w->space);
    if (status == TRINE_OK && *fits) {
        status = forecast_step(&r, &w->space->rules, &f);
        if (status == TRINE_OK) take_forecast(l, &f);
        if (status == TRINE_OK) forecast_destroy(&f);
    }
    rehearsal_end(&r);
    return status;
}

/* Keeps the best ones, in order. */
static void insert(search_result *out, const search_layout *l) {
    int at = out->count < SEARCH_BEST ? out->count++ : SEARCH_BEST;
    for (; at > 0 && out->best[at - 1].step > l->step; at--)
        if (at < SEARCH_BEST) out->best[at] = out->best[at - 1];
    if (at < SEARCH_BEST) out->best[at] = *l;
}

static int by_bound(const void *a, const void *b) {
    const search_layout *x = a, *y = b;
    return (x->bound > y->bound) - (x->bound < y->bound);
}

static trine_status find_best(search *w) {
    search_result *out = w->out;
    if (w->count) qsort(w->at, (size_t)w->count, sizeof *w->at, by_bound);
    for (int n = 0; n < w->count; n++) {
        bool full = out->count == SEARCH_BEST, fits;
        if (full && w->at[n].bound > out->best[SEARCH_BEST - 1].step) break;
        TRY(simulate(w, &w->at[n], &fits));
        out->simulated++;
        out->unfit += !fits;
        if (fits)
            insert(out, &w->at[n]);
        else
            note_heavy(out, &w->at[n]);
    }
    bool fits;
    return out->count ? TRINE_OK
                      : simulate(w, &out->least, &fits); /* what it takes, not its bound */
}

trine_status search_layouts(const search_space *s, search_result *out) {
    search w = {.space = s, .out = out};
    *out = (search_result){0};
    trine_status status = bounds_create(&w.bounds, &s->rules, &s->base, s->ranks);
    if (status == TRINE_OK) status = list_candidates(&w);
    if (status == TRINE_OK) status = find_best(&w);
    bounds_destroy(w.bounds);
    free(w.at);
    return status;
}

trine_status search_try(const search_space *s, search_layout *l, bool *fits) {
    const search w = {.space = s};
    l->step = NAN;
    return simulate(&w, l, fits);
}

/* ---- Text ------------------------------------------------------------------------------------- */

void search_print_options(const search_space *s, const search_layout *l, FILE *out) {
    static const char *const schedules[] = {
#define WORD(id, text, ...) [id] = text,
        TRINE_SCHEDULE_LIST(WORD)};
    static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
#undef WORD
    const int *v = l->value;
    c_fprintf(out, "--dp %d --tp %d --pp %d", s->ranks / (v[SEARCH_TP] * v[SEARCH_PP]),
              v[SEARCH_TP], v[SEARCH_PP]);
    if (v[SEARCH_PP] > 1) fprintf(out, " --schedule %s", schedules[v[SEARCH_SCHEDULE]]);
    if (v[SEARCH_VIRTUAL] > 1)
        fprintf(out, " --num-virtual-stages-per-pipeline-rank %d", v[SEARCH_VIRTUAL]);
    fprintf(out, " --zero %d --micro-batch-size %d", v[SEARCH_ZERO], v[SEARCH_MICRO]);
    if (v[SEARCH_RECOMPUTE])
        fprintf(out, " --recompute-granularity %s", recomputes[v[SEARCH_RECOMPUTE]]);
    if (v[SEARCH_SEQUENCE]) fputs(" --sequence-parallel", out);
}

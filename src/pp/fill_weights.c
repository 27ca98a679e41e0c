/* Weight gradients where a stage would wait: for schedules that say in which order F and I run, and leave W to
 * the gaps. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/order.h"

typedef struct {
    pp_actions given; /* F and I, in order; what has run is first, in the order in which it ran */
    int next;         /* the first of them that has not run */
    int weight;       /* all I before it have their W */
    int live;         /* chunks with an F and without their W */
    bool busy;        /* in this time unit, */
    pp_action doing;  /* with this */
} stage_state;

typedef struct {
    const pp_shape *shape;
    int chunks, most;
    stage_state *at;        /* (stages) */
    int *forwards, *inputs; /* (chunks) micro-batches complete */
} fill;

/* What an F or I needs is there. Those of a chunk ascend, so a number of micro-batches says which. */
static bool ready(const fill *f, const pp_action *a) {
    if (a->kind == ACTION_FORWARD) return a->chunk == 0 || f->forwards[a->chunk - 1] > a->micro;
    if (f->forwards[a->chunk] <= a->micro) return false;
    return a->chunk == f->chunks - 1 || f->inputs[a->chunk + 1] > a->micro;
}

/* The next micro-batch of its chunk. */
static bool leads(const fill *f, const pp_action *a) {
    return (a->kind == ACTION_FORWARD ? f->forwards : f->inputs)[a->chunk] == a->micro;
}

/* The first F or I that can run, when no W is pending. An F must leave room for those that it overtakes, so that
 * it never makes them wait for an I behind them. The number of given actions if there is none. */
static int find_ready(const fill *f, const stage_state *now) {
    int leading = 0, live = now->live, peak = live, n = now->next;
    for (; n < now->given.count && leading < 2 * f->shape->virtual; n++) {
        const pp_action *a = &now->given.at[n];
        bool leader = leads(f, a), room = a->kind != ACTION_FORWARD || peak < f->most;
        if (leader && room && ready(f, a)) return n;
        leading += leader;
        live += a->kind == ACTION_FORWARD ? 1 : -1;
        if (live > peak) peak = live;
    }
    return now->given.count;
}

/* The next of F and I, or else the oldest W, or else a later F or I. */
static void choose(const fill *f, stage_state *now) {
    pp_action *at = now->given.at;
    int n = now->next;
    while (now->weight < n && at[now->weight].kind != ACTION_INPUT) now->weight++;
    bool room = n < now->given.count && (at[n].kind != ACTION_FORWARD || now->live < f->most);
    if (!room || !ready(f, &at[n])) {
        now->busy = now->weight < n;
        if (now->busy) {
            now->doing = (pp_action){ACTION_WEIGHT, at[now->weight].chunk, at[now->weight].micro};
            return;
        }
        n = find_ready(f, now);
    }
    now->busy = n < now->given.count;
    if (!now->busy) return;
    now->doing = at[n];
    memmove(&at[now->next + 1], &at[now->next], (size_t)(n - now->next) * sizeof *at);
    at[now->next] = now->doing;
}

static void finish(fill *f, stage_state *now) {
    if (now->doing.kind == ACTION_WEIGHT) {
        now->weight++;
        now->live--;
        return;
    }
    bool forward = now->doing.kind == ACTION_FORWARD;
    (forward ? f->forwards : f->inputs)[now->doing.chunk]++;
    now->live += forward;
    now->next++;
}

static trine_status run(fill *f, int stage, pp_actions *out) {
    stage_state *own = &f->at[stage];
    int left = own->given.count + own->given.count / 2;
    while (left) {
        int busy = 0;
        for (int p = 0; p < f->shape->stages; p++) choose(f, &f->at[p]);
        for (int p = 0; p < f->shape->stages; p++) {
            if (!f->at[p].busy) continue;
            finish(f, &f->at[p]);
            busy++;
        }
        ASSERT(busy);
        if (!own->busy) continue;
        TRY(actions_add(out, own->doing.kind, own->doing.chunk, own->doing.micro));
        left--;
    }
    return TRINE_OK;
}

trine_status pp_fill_weights(const pp_shape *s, int most, int stage, pp_actions *out,
                             trine_status (*make)(const pp_shape *s, int stage, pp_actions *out)) {
    size_t stages = (size_t)s->stages, chunks = stages * (size_t)s->virtual;
    fill f = {.shape = s, .chunks = (int)chunks, .most = most};
    f.at = calloc(stages, sizeof *f.at);
    f.forwards = calloc(2 * chunks, sizeof *f.forwards);
    trine_status status = TRINE_OK;
    if (!f.at || !f.forwards)
        status = RAISE(TRINE_ENOMEM, "no memory for the order of %d stages", s->stages);
    else
        f.inputs = f.forwards + chunks;
    for (int p = 0; p < s->stages && status == TRINE_OK; p++) status = make(s, p, &f.at[p].given);
    if (status == TRINE_OK) status = run(&f, stage, out);
    for (int p = 0; p < s->stages && f.at; p++) actions_destroy(&f.at[p].given);
    free(f.forwards);
    free(f.at);
    return status;
}

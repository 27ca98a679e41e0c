#include "plan/usual.h"

#include <math.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "plan/check_config.h"

typedef struct {
    const search_space *space;
    const search_layout *best;
    usual_layout *out;
    int count;
} usual;

static int least(int a, int b) {
    return a < b ? a : b;
}

/* ---- What is tried ---------------------------------------------------------------------------- */

/* The largest tp that divides the ranks, those of a node, and the model's layers. */
static int node_of(const search_space *s) {
    int node = least((int)s->rules.machine->node_ranks, s->ranks), tp = node;
    trine_layout l = s->base.parallel.layout;
    l.dp = l.pp = 1;
    for (; tp > 1; tp--) {
        l.tp = tp;
        if (s->ranks % tp == 0 && node % tp == 0 && check_config_layout(&s->base, l, tp)) break;
    }
    return tp;
}

/* Whether the layout has all that the search was given. */
static bool is_free(const search_space *s, const search_layout *l) {
    const search_layout given = search_base(s);
    for (int d = 0; d < SEARCH_DIMENSIONS; d++)
        if (s->fixed >> d & 1 && l->value[d] != given.value[d]) return false;
    return !s->base.parallel.layout.dp || search_dp(s, l) == s->base.parallel.layout.dp;
}

/* Whether two layouts are the same run: what has no effect is not compared. */
static bool is_same(const search_space *s, const search_layout *a, const search_layout *b) {
    for (int d = 0; d < SEARCH_DIMENSIONS; d++) {
        bool unused = (d == SEARCH_SCHEDULE && a->value[SEARCH_PP] == 1) ||
                      (d == SEARCH_ZERO && search_dp(s, a) == 1) ||
                      (d == SEARCH_SEQUENCE && a->value[SEARCH_TP] == 1);
        if (!unused && a->value[d] != b->value[d]) return false;
    }
    return true;
}

static bool is_known(const usual *w, const search_layout *l) {
    if (is_same(w->space, w->best, l)) return true;
    for (int n = 0; n < w->count; n++)
        if (is_same(w->space, &w->out[n].layout, l)) return true;
    return false;
}

/* The first of the faults that a message lists, or the message. */
static void first_fault(const char *message, char *why, size_t size) {
    const char *item = strstr(message, "\n  - ");
    const char *from = item ? item + strlen("\n  - ") : message;
    c_snprintf(why, size, "%.*s", (int)strcspn(from, "\n"), from);
}

/* Tries a layout; one that is not valid says why. */
static trine_status try_one(const usual *w, usual_layout *u) {
    trine_status status = search_try(w->space, &u->layout, &u->fits);
    *u->why = '\0';
    if (status != TRINE_EINVAL) return status;
    first_fault(status_message(), u->why, sizeof u->why);
    u->fits = false;
    status_clear();
    return TRINE_OK;
}

/* ---- Other layouts ---------------------------------------------------------------------------- */

static void set_free(const search_space *s, search_layout *l, search_dimension d, int value) {
    if (!(s->fixed >> d & 1)) l->value[d] = value;
}

/* The largest micro-batch up to `most` that divides what a dp rank has of the batch. */
static int micro_batch(const search_space *s, const search_layout *l, int most) {
    int dp = search_dp(s, l), micro = most;
    while (dp && micro > 1 && s->base.global_batch_size % (micro * dp)) micro--;
    return micro;
}

/* A layout without virtual stages, otherwise as the best one. False: the search may not have it. */
static bool start_layout(const usual *w, int tp, int pp, trine_zero zero, search_layout *l) {
    const search_space *s = w->space;
    *l = *w->best;
    l->value[SEARCH_TP] = tp;
    l->value[SEARCH_PP] = pp;
    l->value[SEARCH_VIRTUAL] = 1;
    l->value[SEARCH_SCHEDULE] = TRINE_1F1B;
    l->value[SEARCH_ZERO] = search_dp(s, l) == 1 ? TRINE_ZERO_0 : (int)zero;
    if (tp == 1) set_free(s, l, SEARCH_SEQUENCE, 0);
    set_free(s, l, SEARCH_MICRO, micro_batch(s, l, l->value[SEARCH_MICRO]));
    return is_free(s, l);
}

/* Tries it as it is, and if it does not fit, with the least memory. */
static trine_status try_layout(const usual *w, usual_layout *u) {
    const search_space *s = w->space;
    search_layout *l = &u->layout;
    TRY(try_one(w, u));
    if (u->fits) return TRINE_OK;
    set_free(s, l, SEARCH_MICRO, 1);
    set_free(s, l, SEARCH_RECOMPUTE, TRINE_RECOMPUTE_FULL);
    if (l->value[SEARCH_TP] > 1) set_free(s, l, SEARCH_SEQUENCE, 1);
    return try_one(w, u);
}

static trine_status add_layout(usual *w, const char *name, int tp, int pp, trine_zero zero) {
    usual_layout *u = &w->out[w->count];
    c_snprintf(u->name, sizeof u->name, "%s", name);
    if (!start_layout(w, tp, pp, zero, &u->layout)) return TRINE_OK;
    TRY(try_layout(w, u));
    w->count += !is_known(w, &u->layout);
    return TRINE_OK;
}

/* tp in the node, the smallest pp that fits, and dp. */
static trine_status add_smallest(usual *w) {
    usual_layout *u = &w->out[w->count];
    int node = node_of(w->space), rest = w->space->ranks / node;
    bool any = false;
    for (int pp = 1; pp <= least(rest, PROGRAM_STAGES); pp++) {
        usual_layout next;
        if (rest % pp || !start_layout(w, node, pp, TRINE_ZERO_1, &next.layout)) continue;
        TRY(try_layout(w, &next));
        if (any && *next.why) break; /* more stages than layers */
        any = true;
        *u = next;
        if (u->fits) break;
    }
    c_snprintf(u->name, sizeof u->name, "tp %d, the smallest pp that fits, dp", node);
    w->count += any && !is_known(w, &u->layout);
    return TRINE_OK;
}

static trine_status add_others(usual *w) {
    const search_space *s = w->space;
    int node = node_of(s);
    char name[64];
    TRY(add_layout(w, "dp only, ZeRO-1", 1, 1, TRINE_ZERO_1));
    TRY(add_layout(w, "dp only, ZeRO-3", 1, 1, TRINE_ZERO_3));
    c_snprintf(name, sizeof name, "tp %d, dp the rest", node);
    TRY(add_layout(w, name, node, 1, TRINE_ZERO_1));
    c_snprintf(name, sizeof name, "tp %d, pp the rest, 1f1b", node);
    TRY(add_layout(w, name, node, s->ranks / node, TRINE_ZERO_0));
    return add_smallest(w);
}

/* ---- The best one with a change --------------------------------------------------------------- */

static trine_status add_change(usual *w, const char *name, search_dimension d, int value) {
    usual_layout *u = &w->out[w->count];
    c_snprintf(u->name, sizeof u->name, "the first %s", name);
    u->layout = *w->best;
    u->layout.value[d] = value;
    if (d == SEARCH_SCHEDULE) u->layout.value[SEARCH_VIRTUAL] = 1;
    if (!is_free(w->space, &u->layout) || is_known(w, &u->layout)) return TRINE_OK;
    TRY(try_one(w, u));
    w->count++;
    return TRINE_OK;
}

static trine_status add_changes(usual *w) {
    static const char *const recomputed[] = {[TRINE_RECOMPUTE_NONE] = "without recomputation",
                                             [TRINE_RECOMPUTE_SELECTIVE] =
                                                 "with selective recomputation",
                                             [TRINE_RECOMPUTE_FULL] = "with full recomputation"};
    const int *v = w->best->value;
    for (int n = 0; n < TRINE_RECOMPUTES; n++)
        TRY(add_change(w, recomputed[n], SEARCH_RECOMPUTE, n));
    TRY(add_change(
        w, v[SEARCH_SEQUENCE] ? "without sequence parallelism" : "with sequence parallelism",
        SEARCH_SEQUENCE, !v[SEARCH_SEQUENCE]));
    if (v[SEARCH_MICRO] % 2 == 0)
        TRY(add_change(w, "with half the micro-batch", SEARCH_MICRO, v[SEARCH_MICRO] / 2));
    TRY(add_change(w, "with twice the micro-batch", SEARCH_MICRO, 2 * v[SEARCH_MICRO]));
    return add_change(w, "with 1f1b", SEARCH_SCHEDULE, TRINE_1F1B);
}

trine_status usual_layouts(const search_space *s, const search_layout *best,
                           usual_layout out[USUAL_MOST], int *count) {
    usual w = {s, best, out, 0};
    trine_status status = add_others(&w);
    if (status == TRINE_OK) status = add_changes(&w);
    *count = w.count;
    return status;
}

const char *usual_reason(const search_layout *from, const search_layout *to, double *seconds) {
    const char *text = NULL;
    *seconds = 0;
    for (int k = 0; k < FORECAST_PARTS; k++) {
        double more = to->where[k] - from->where[k];
        if (more <= *seconds) continue;
        *seconds = more;
        text = forecast_text((forecast_part)k);
    }
    return text;
}

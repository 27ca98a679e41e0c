#include "train/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "plan/prove_configs.h"
#include "train/optimizer_hint.h"
#include "train/print_file.h"
#include "train/promise.h"
#include "trine_checkpoint.h"

/* One run's items of all steps; on rank 0 of the world, else empty. */
typedef struct {
    print_item *items; /* (steps, count); owned */
    size_t count;
    trine_config config; /* of the trainer: sizes that files gave are in it; its strings are gone */
    char machine[160];   /* that ran it */
    int copies_step; /* the first step before which copies of a parameter differ, from 1 on; 0: none */
    char copies[FINGERPRINT_NAME];
    int copies_ranks[2];
    int handover_step; /* the first step in which something has changed on its way, from 1 on; 0: none */
    char handover[HANDOVER_TEXT];
    int skipped;   /* the first step whose gradients were not finite, from 1 on; 0: none */
    int empty;     /* the first step without a supervised token, from 1 on; 0: none */
    int later;     /* of a file: its last step, if that is not compared; 0: none */
    float *values; /* of the item that was asked for; owned */
    int64_t *ranks;
} run_prints;

static void prints_free(run_prints *p) {
    free(p->items), free(p->values), free(p->ranks);
    *p = (run_prints){0};
}

/* What is done besides training. */
typedef struct {
    int steps;
    bool nudged, first;         /* first: this rank keeps what was seen */
    trine_checkpoint start;     /* where its member `load` is not NULL */
    const verify_request *flip; /* NULL: nothing is flipped */
    int want_step, want_item;   /* -1: none */
    bool shares;                /* what each rank adds is an item */
} run_plan;

/* A trainer and who looks at it. */
typedef struct {
    trine_trainer *t;
    handover *h;
    fingerprint *f;
} looked_at;

static trine_status keep(run_prints *out, const fingerprint *f, int step, int steps) {
    size_t count;
    const print_item *items = fingerprint_items(f, &count);
    if (!out->items) out->items = calloc((size_t)steps * count, sizeof *out->items);
    CHECK(out->items, TRINE_ENOMEM, "no memory for the fingerprints of %d steps", steps);
    out->count = count;
    memcpy(out->items + (size_t)step * count, items, count * sizeof *items);
    return TRINE_OK;
}

static trine_status keep_values(run_prints *out, const fingerprint *f, int item) {
    size_t count;
    const size_t elements = fingerprint_items(f, &count)[item].count;
    const float *values;
    const int64_t *ranks;
    fingerprint_values(f, &values, &ranks);
    out->values = malloc(elements * sizeof *values);
    out->ranks = malloc(elements * sizeof *ranks);
    CHECK(out->values && out->ranks, TRINE_ENOMEM, "no memory for %zu elements", elements);
    memcpy(out->values, values, elements * sizeof *values);
    memcpy(out->ranks, ranks, elements * sizeof *ranks);
    return TRINE_OK;
}

/* What a bit is flipped of. */
static trine_dtype flipped_type(const trine_trainer *t, const verify_request *q) {
    const bool grads =
        q->flip_what == VERIFY_FLIP_GRADIENT || q->flip_what == VERIFY_FLIP_ARITHMETIC;
    return grads ? t->dev->grads : t->dev->compute;
}

/* The bit, or that which changes a number by about an eighth. */
static int flipped_bit(const trine_trainer *t, const verify_request *q) {
    static const int eighths[] = {[TRINE_F32] = 20, [TRINE_BF16] = 4, [TRINE_F16] = 7};
    return q->flip_bit < 0 ? eighths[flipped_type(t, q)] : q->flip_bit;
}

/* A change that this run cannot have would be one that is not found. */
static trine_status check_flip(const trine_trainer *t, const verify_request *q) {
    const int ranks = trine_world_size(t->world),
              bits = 8 * (int)trine_dtype_bytes(flipped_type(t, q));
    if (q->flip_step == 0) return TRINE_OK;
    const struct {
        const char *option, *of;
        int value, min, max;
    } rows[] = {
        {"--flip-step", "the run's steps (--steps)", q->flip_step, 1, q->steps},
        {"--flip-rank", "the job's ranks", q->flip_rank, 0, ranks - 1},
        {"--flip-unit", "the model's units", q->flip_unit, 0, t->spec.units - 1},
        {"--flip-bit", "the bits of the number that is changed", flipped_bit(t, q), 0, bits - 1}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        CHECK(rows[n].value >= rows[n].min && rows[n].value <= rows[n].max, TRINE_EINVAL,
              "%s %d: must be between %d and %d, %s", rows[n].option, rows[n].value, rows[n].min,
              rows[n].max, rows[n].of);
    return TRINE_OK;
}

static trine_status flip(const looked_at *l, const verify_request *q, int step) {
#define FLIP(name, text, what) what,
    static const handover_what whats[] = {VERIFY_FLIP_LIST(FLIP)};
#undef FLIP
    if (!q || q->flip_step != step + 1 || trine_world_rank(l->t->world) != q->flip_rank)
        return TRINE_OK;
    const int bit = flipped_bit(l->t, q);
    if (q->flip_what == VERIFY_FLIP_WEIGHT) return fingerprint_flip(l->t, q->flip_unit, bit);
    handover_change(l->h, whats[q->flip_what], q->flip_unit, bit);
    return TRINE_OK;
}

/* Copies of parameters, before the step. */
static trine_status look_at_copies(fingerprint *f, int step, run_prints *out) {
    char name[FINGERPRINT_NAME];
    int ranks[2];
    TRY(fingerprint_replicas(f, name, ranks));
    if (!*name || out->copies_step) return TRINE_OK;
    out->copies_step = step + 1;
    memcpy(out->copies, name, sizeof name);
    memcpy(out->copies_ranks, ranks, sizeof ranks);
    return TRINE_OK;
}

static trine_status look_at_handover(handover *h, int step, run_prints *out) {
    char text[HANDOVER_TEXT];
    TRY(handover_collect(h, text));
    if (!*text || out->handover_step) return TRINE_OK;
    out->handover_step = step + 1;
    memcpy(out->handover, text, sizeof text);
    return TRINE_OK;
}

/* A step that computes nothing has parameters, and nothing else to change a bit of. */
static trine_status check_computed(const verify_request *q, int step, const trine_metrics *m) {
    CHECK(!q || q->flip_step != step + 1 || q->flip_what == VERIFY_FLIP_WEIGHT || m->supervised,
          TRINE_EINVAL, "--flip-step %d: this step has no supervised token; choose another step",
          q->flip_step);
    return TRINE_OK;
}

static trine_status steps_of(const looked_at *l, const run_plan *plan, run_prints *out) {
    fingerprint *f = l->f;
    for (int step = 0; step < plan->steps; step++) {
        trine_metrics metrics;
        bool wanted = step == plan->want_step;
        TRY(trine_world_agree(l->t->world, flip(l, plan->flip, step)));
        TRY(look_at_copies(f, step, out));
        TRY(fingerprint_want(f, wanted ? plan->want_item : -1));
        TRY(trine_trainer_step(l->t, &metrics));
        TRY(check_computed(plan->flip, step, &metrics));
        TRY(look_at_handover(l->h, step, out));
        TRY(fingerprint_collect(f, &metrics));
        if (!metrics.supervised && !out->empty) out->empty = step + 1;
        if (metrics.supervised && metrics.skipped && !out->skipped) out->skipped = step + 1;
        if (!plan->first) continue;
        TRY(keep(out, f, step, plan->steps));
        if (wanted) TRY(keep_values(out, f, plan->want_item));
    }
    return TRINE_OK;
}

static trine_status run(trine_world *world, const trine_config *config, const run_plan *plan,
                        run_prints *out) {
    looked_at l = {NULL, NULL, NULL};
    prints_free(out);
    trine_status status = trine_trainer_create(&l.t, world, config);
    if (status == TRINE_OK) out->config = l.t->config;
    if (status == TRINE_OK && plan->flip) status = check_flip(l.t, plan->flip);
    if (status == TRINE_OK && plan->start.load)
        status = trine_trainer_load(l.t, &plan->start, NULL, NULL);
    if (status == TRINE_OK && plan->nudged) status = fingerprint_nudge(l.t, 1);
    if (status == TRINE_OK) promise_device(l.t, out->machine, sizeof out->machine);
    if (status == TRINE_OK) status = handover_create(&l.h, l.t);
    if (status == TRINE_OK) /* told first, it sees what is left before it is changed for a test */
        status = fingerprint_create(&l.f, l.t, plan->shares ? l.h : NULL);
    if (status == TRINE_OK) status = steps_of(&l, plan, out);
    fingerprint_destroy(&l.f);
    handover_destroy(&l.h);
    trine_trainer_destroy(&l.t);
    return status;
}

#define TURNED 0

/* On the first `ranks` ranks, while the others wait; TURNED: on all, each one place further. Collective over: world. */
static trine_status run_on(trine_world *world, int ranks, const trine_config *config,
                           const run_plan *plan, run_prints *out) {
    trine_world *part = NULL;
    const bool turned = ranks == TURNED;
    TRY(turned ? comm_world_turn(&part, world)
               : comm_world_split(&part, world, trine_world_rank(world) < ranks ? 0 : -1));
    trine_status status = part ? run(part, config, plan, out) : TRINE_OK;
    trine_world_destroy(&part);
    return trine_world_agree(world, status);
}

/* ---- Comparing ---- */

static bool same_bits(const print_item *x, const print_item *y) {
    return !y->no_hash && x->hash == y->hash && !y->lines[0];
}

typedef struct {
    const run_prints *a, *b;
    const run_prints *base,
        *nudged;         /* what rounding does, from base to nudged; NULL: bits must be equal */
    const char *against; /* the file that b is of; NULL: it is a run */
    int steps;
    bool half; /* parameters have 16 bits */
} comparison;

/* How far the nudge has moved an item. */
static double moved(const comparison *c, size_t at) {
    return fingerprint_distance(&c->nudged->items[at], &c->base->items[at]);
}

/* Of items of a kind: the farthest that the nudge has moved one, in this step and before. */
static double farthest(const comparison *c, int step, print_kind kind) {
    double most = 0;
    for (size_t at = 0; at < (size_t)(step + 1) * c->b->count; at++)
        if (c->b->items[at].kind == kind) most = fmax(most, moved(c, at));
    return most;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a run does not have: gradients and moments of a frozen tensor. */
static bool is_absent(const print_item *p) {
    return p->hash == 0 && p->squares == 0;
}

/* The median of that in the first step; `scratch` has room for a step's items. */
static double typical(const comparison *c, print_kind kind, double *scratch) {
    size_t count = 0;
    for (size_t at = 0; at < c->b->count; at++)
        if (c->b->items[at].kind == kind && !is_absent(&c->base->items[at]))
            scratch[count++] = moved(c, at);
    qsort(scratch, count, sizeof *scratch, by_size);
    return count ? scratch[count / 2] : 0;
}

/* Kinds of which each item is held to its own in the first step, in which both runs begin with the same parameters.
 * The others are few numbers, or are divided by their own size: AdamW moves an element whose gradient is nearly 0 by a
 * whole learning rate, up or down. */
static bool held_to_itself(print_kind kind) {
    return kind == PRINT_OUTPUT || kind == PRINT_BACKWARD || kind == PRINT_GRADIENT ||
           kind == PRINT_MOMENT1 || kind == PRINT_MOMENT2;
}

static double margin(const comparison *c, int step, print_kind kind) {
    return c->half && step == 0 && held_to_itself(kind) ? VERIFY_MARGIN_HALF : VERIFY_MARGIN;
}

/* What an item may be away by; most[], usual[]: farthest and typical of its kind. */
static double allowed(const comparison *c, int step, size_t item, const double *most,
                      const double *usual) {
    const print_kind kind = c->a->items[item].kind;
    if (!c->nudged) return 0;
    if (step > 0 || !held_to_itself(kind)) return margin(c, step, kind) * most[kind];
    return margin(c, step, kind) * fmax(moved(c, item), usual[kind]);
}

/* The item that is compared n-th. The order is that in which a step makes them, but beside a file gradients come from the
 * last layer to the first: files of other trainers have no gradients of outputs, which show where a backward pass goes
 * wrong. */
static size_t nth_item(const comparison *c, size_t n) {
    const print_item *all = c->a->items;
    size_t first = n, end = n;
    if (!c->against || all[n].kind != PRINT_GRADIENT) return n;
    while (first > 0 && all[first - 1].kind == PRINT_GRADIENT) first--;
    while (end < c->a->count && all[end].kind == PRINT_GRADIENT) end++;
    return first + end - 1 - n;
}

/* The first item that is wrong; false: none is. *far, *most: its distance and what rounding explains. */
static bool first_wrong(const comparison *c, double *scratch, int *step, size_t *item, double *far,
                        double *most) {
    double limits[PRINT_KINDS] = {0}, usual[PRINT_KINDS] = {0};
    for (int k = 0; k < PRINT_KINDS && c->nudged; k++)
        usual[k] = typical(c, (print_kind)k, scratch);
    for (int s = 0; s < c->steps; s++) {
        for (int k = 0; k < PRINT_KINDS && c->nudged; k++)
            limits[k] = farthest(c, s, (print_kind)k);
        for (size_t i = 0; i < c->a->count; i++) {
            const size_t n = nth_item(c, i);
            const print_item *x = &c->a->items[(size_t)s * c->a->count + n],
                             *y = &c->b->items[(size_t)s * c->b->count + n];
            if (!y->count || same_bits(x, y)) continue;
            *far = fingerprint_distance(x, y), *most = allowed(c, s, n, limits, usual);
            *step = s, *item = n;
            if (!c->nudged || !(*far <= *most) || y->lines[0]) return true;
        }
    }
    return false;
}

/* The update after which the two differ, if that is what is wrong first: the step's own, or that before outputs. */
static int wrong_update(print_kind kind, int step) {
    const bool before = kind == PRINT_START || kind == PRINT_OUTPUT || kind == PRINT_NUMBER;
    const bool own = kind == PRINT_PARAMETER || kind == PRINT_MOMENT1 || kind == PRINT_MOMENT2;
    return own ? step : before ? step - 1 : -1;
}

/* Beside a file: which options, or which scale of the gradients of `update`, explain it. Nothing without memory. */
static bool explain(const comparison *c, int update, bool scale, FILE *out) {
    const size_t count = c->a->count;
    double most[PRINT_KINDS], usual[PRINT_KINDS], *scratch, *limits;
    bool said = false;
    scratch = malloc((count + 1) * sizeof *scratch), limits = malloc((count + 1) * sizeof *limits);
    const bool room = scratch && limits;
    for (int k = 0; k < PRINT_KINDS && room; k++) {
        usual[k] = typical(c, (print_kind)k, scratch);
        most[k] = farthest(c, update, (print_kind)k);
    }
    for (size_t n = 0; n < count && room; n++) limits[n] = allowed(c, update, n, most, usual);
    const hint_update u = {.here = &c->a->items[(size_t)update * count],
                           .there = &c->b->items[(size_t)update * count],
                           .allowed = limits,
                           .count = count,
                           .step = update,
                           .config = &c->a->config};
    if (room && scale) said = hint_scale(&u, out);
    if (room && !scale) optimizer_hint(&u, out);
    free(scratch), free(limits);
    return said;
}

static void print_hint(const comparison *c, int step, size_t item, FILE *out) {
    const print_kind kind = c->a->items[item].kind;
    const int update = wrong_update(kind, step);
    if (c->b->items[(size_t)step * c->a->count + item].lines[0]) return;
    const bool backward = kind == PRINT_GRADIENT || kind == PRINT_BACKWARD || kind == PRINT_NUMBER;
    if ((!backward || !explain(c, step, true, out)) && update >= 0) explain(c, update, false, out);
}

/* Of all elements or, beside a file, of those that it has: the first that differs or, where rounding is allowed, the one
 * that is farthest off. */
static void print_element(const comparison *c, const print_item *x, const print_item *y,
                          FILE *out) {
    const bool all = c->a->values && c->b->values;
    const uint64_t count = all || x->count < FINGERPRINT_SAMPLES ? x->count : FINGERPRINT_SAMPLES,
                   step = all ? 1 : fingerprint_stride(x->count);
    const float *const as = all ? c->a->values : x->samples, *const bs =
                                                                 all ? c->b->values : y->samples;
    uint64_t found = count;
    double far = -1;
    for (uint64_t n = 0; n < count; n++) {
        double apart = fabs((double)as[n] - (double)bs[n]);
        if (!memcmp(&as[n], &bs[n], sizeof *as)) continue;
        if (isnan(apart)) apart = INFINITY;
        if (apart <= far) continue;
        found = n, far = apart;
        if (!c->nudged) break;
    }
    if (found == count) {
        if (c->against) hint_norm(x, y, c->against, out);
        return;
    }
    c_fprintf(out, "  element %llu of %llu: %.9g", (unsigned long long)(found * step),
              (unsigned long long)x->count, (double)as[found]);
    if (all) c_fprintf(out, " on rank %lld", (long long)c->a->ranks[found] - 1);
    c_fprintf(out, ", %.9g in %s\n", (double)bs[found], c->against ? c->against : "the reference");
}

static void print_own(const run_prints *a, const char *where, FILE *out) {
    if (a->handover_step) c_fprintf(out, "step %d%s: %s\n", a->handover_step, where, a->handover);
    if (a->copies_step)
        c_fprintf(out, "before step %d%s: %s differs between ranks %d and %d\n", a->copies_step,
                  where, a->copies, a->copies_ranks[0], a->copies_ranks[1]);
}

static void print_wrong(const comparison *c, int step, size_t item, double far, double most,
                        FILE *out) {
    const print_item *x = &c->a->items[(size_t)step * c->a->count + item],
                     *y = &c->b->items[(size_t)step * c->b->count + item];
    if (y->lines[0])
        c_fprintf(out, "step %d: %s in line %d of %s differs from line %d\n", step + 1, y->name,
                  y->lines[1], c->against, y->lines[0]);
    if (c->nudged && far <= most) return;
    c_fprintf(out, "step %d: %s differs\n", step + 1, x->name);
    print_element(c, x, y, out);
    if (c->nudged)
        c_fprintf(out,
                  "  rounding does not explain it: the difference is %.2g of the root mean square; "
                  "changing every parameter by one unit in the last place makes %.2g\n",
                  far, most / margin(c, step, x->kind));
    if (c->against) hint_cause(x, y, step, far, out);
}

/* ---- The whole ---- */

static trine_config one_rank(const trine_config *config) {
    trine_config c = *config;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    c.parallel.zero = TRINE_ZERO_0;
    c.parallel.sequence_parallel = false;
    c.parallel.schedule = TRINE_1F1B;
    c.parallel.schedule_file = NULL, c.parallel.pp_split = NULL;
    c.parallel.virtual_stages = 0;
    c.parallel.recompute = TRINE_RECOMPUTE_NONE, c.parallel.keep_recomputed = false;
    c.parallel.split_backward = false;
    c.parallel.ranks_per_node = 0;
    return c;
}

/* What rank 0 has found, the same on every rank. */
typedef struct {
    int64_t wrong, step, item;
} finding;

static trine_status tell_all(trine_world *world, finding *found) {
    trine_mesh *mesh = NULL;
    const trine_layout all = {.dp = trine_world_size(world), .tp = 1, .pp = 1};
    TRY(trine_mesh_create(&mesh, world, all, 0));
    trine_status status =
        trine_broadcast(trine_mesh_group(mesh, TRINE_WORLD), found, 3, TRINE_I64, 0);
    trine_mesh_destroy(&mesh);
    return status;
}

/* All runs, and what they have left. */
typedef struct {
    trine_world *world;
    const verify_request *request;
    const trine_config *config, *reference;
    run_prints a, b, base, nudged; /* base: beside a file, one rank here */
    prove_verdict proved;
} verification;

static int ranks_of(const trine_config *c) {
    return axes_size(c->parallel.layout, ALL_AXES);
}

static trine_status write_file(const verification *v) {
    if (!v->request->fingerprint || trine_world_rank(v->world) != 0) return TRINE_OK;
    return print_file_write(v->request->fingerprint, &v->a.config, v->a.machine, v->a.items,
                            v->request->steps, v->a.count);
}

/* The items of a file in place of a second run's. */
static trine_status read_file(verification *v) {
    const size_t all = (size_t)v->request->steps * v->a.count;
    if (trine_world_rank(v->world) != 0) return TRINE_OK;
    v->b.items = malloc(all * sizeof *v->b.items);
    CHECK(v->b.items, TRINE_ENOMEM, "no memory for %zu items", all);
    memcpy(v->b.items, v->a.items, all * sizeof *v->b.items);
    v->b.count = v->a.count;
    return print_file_read(v->request->against, &v->a.config, v->b.items, v->request->steps,
                           v->b.count, &v->b.later);
}

static int reference_ranks(const verification *v) {
    return v->request->rotate ? TURNED : ranks_of(v->reference);
}

static trine_checkpoint start_of(const verify_request *q) {
    return (trine_checkpoint){.load = q->load, .load_weights_only = q->load_weights_only};
}

static trine_status run_all(verification *v) {
    const bool first = trine_world_rank(v->world) == 0;
    const bool shares = v->request->rotate;
    const trine_checkpoint start = start_of(v->request);
    const run_plan plain = {v->request->steps, false, first, start, NULL, -1, -1, shares},
                   own = {v->request->steps, false, first, start, v->request, -1, -1, shares},
                   nudge = {v->request->steps, true, first, start, NULL, -1, -1, false};
    TRY(run(v->world, v->config, &own, &v->a));
    TRY(trine_world_agree(v->world, write_file(v)));
    if (v->request->against) {
        TRY(trine_world_agree(v->world, read_file(v)));
        const trine_config alone = one_rank(v->config);
        TRY(run_on(v->world, 1, &alone, &plain, &v->base));
        return run_on(v->world, 1, &alone, &nudge, &v->nudged);
    }
    TRY(run_on(v->world, reference_ranks(v), v->reference, &plain, &v->b));
    if (v->proved == PROVE_ORDER) TRY(run_on(v->world, 1, v->reference, &nudge, &v->nudged));
    return TRINE_OK;
}

/* The same again, up to the step that is wrong, with the elements of the item. */
static trine_status run_again(verification *v, const finding *found) {
    const bool first = trine_world_rank(v->world) == 0;
    const int steps = (int)found->step + 1, item = (int)found->item;
    const bool shares = v->request->rotate;
    const trine_checkpoint start = start_of(v->request);
    const run_plan plain = {steps, false, first, start, NULL, steps - 1, item, shares},
                   own = {steps, false, first, start, v->request, steps - 1, item, shares};
    TRY(run(v->world, v->config, &own, &v->a));
    return run_on(v->world, reference_ranks(v), v->reference, &plain, &v->b);
}

static comparison comparison_of(const verification *v, int steps) {
    const run_prints *base = v->request->against ? &v->base : &v->b;
    const bool rounds = v->request->against || v->proved == PROVE_ORDER;
    const trine_precision *p = &v->config->precision;
    const bool half = (p->bf16 || p->fp16) && !v->request->against;
    return (comparison){&v->a, &v->b, base, rounds ? &v->nudged : NULL, v->request->against,
                        steps, half};
}

static bool any_differs(const comparison *c) {
    for (size_t n = 0; n < c->a->count * (size_t)c->steps; n++)
        if (c->b->items[n].count && !same_bits(&c->a->items[n], &c->b->items[n])) return true;
    return false;
}

static trine_status compare(verification *v, verify_verdict *verdict, FILE *out) {
    const bool first = trine_world_rank(v->world) == 0;
    const comparison c = comparison_of(v, v->request->steps);
    finding found = {VERIFY_EQUAL, -1, -1};
    double far = 0, most = 0;
    int step = 0;
    size_t item = 0;
    double *scratch = malloc((v->a.count + 1) * sizeof *scratch);
    trine_status status =
        scratch ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for %zu limits", v->a.count);
    if (first && status == TRINE_OK && any_differs(&c)) {
        found.wrong = VERIFY_ROUNDING;
        if (first_wrong(&c, scratch, &step, &item, &far, &most))
            found = (finding){VERIFY_WRONG, step, (int64_t)item};
    }
    free(scratch);
    TRY(trine_world_agree(v->world, status));
    if (v->a.copies_step || v->a.handover_step || v->b.copies_step || v->b.handover_step)
        found.wrong = VERIFY_WRONG;
    TRY(tell_all(v->world, &found));
    *verdict = (verify_verdict)found.wrong;
    if (first) print_own(&v->a, "", out), print_own(&v->b, " of the reference", out);
    if (found.item < 0) return TRINE_OK;
    if (!v->request->against) TRY(run_again(v, &found));
    const comparison again = comparison_of(v, (int)found.step + 1);
    if (first) print_wrong(&again, step, item, far, most, out);
    if (first && v->request->against && !v->a.copies_step && !v->a.handover_step)
        print_hint(&again, step, item, out);
    return TRINE_OK;
}

/* Of a file's prints, which have all steps; those of a run that was repeated end with the wrong one. */
static size_t in_file(const run_prints *b, int steps) {
    size_t found = 0;
    for (size_t n = 0; n < b->count * (size_t)steps; n++) found += b->items[n].count > 0;
    return found;
}

static void print_verdict(const verification *v, verify_verdict verdict, FILE *out) {
    static const char *const texts[] = {"equal: all hashes are the same", "equal up to rounding",
                                        "wrong"};
    const int steps = v->request->steps;
    if (v->a.empty)
        c_fprintf(out, "step %d has no supervised token: nothing is computed in it\n", v->a.empty);
    if (v->a.skipped)
        c_fprintf(out, "step %d was skipped: its gradients are not finite, and say little\n",
                  v->a.skipped);
    if (v->b.later)
        c_fprintf(out, "%s has steps up to %d: those after %d are not compared (--steps)\n",
                  v->request->against, v->b.later, steps);
    if (v->request->against)
        c_fprintf(out, "%s (%d step%s, %zu of %zu items are in %s)\n", texts[verdict], steps,
                  steps > 1 ? "s" : "", in_file(&v->b, steps), v->a.count * (size_t)steps,
                  v->request->against);
    else
        c_fprintf(out, "%s (%d step%s, %zu items a step; proved: %s)\n", texts[verdict], steps,
                  steps > 1 ? "s" : "", v->a.count, prove_verdict_text(v->proved));
}

trine_status verify_layout(trine_world *world, const trine_config *config,
                           const verify_request *request, verify_verdict *verdict, FILE *out) {
    trine_config filled = *config; /* what is left open depends on the layout */
    TRY(trine_config_check(&filled, trine_world_size(world)));
    const trine_config alone = one_rank(&filled);
    verification v = {.world = world, .request = request, .config = &filled};
    v.reference = request->reference ? request->reference : request->rotate ? &filled : &alone;
    const prove_side a = {.config = &filled, .ranks = trine_world_size(world)},
                     b = {.config = v.reference, .ranks = ranks_of(v.reference)};
    TRY(prove_configs(&a, &b, &v.proved, NULL));
    CHECK(v.proved != PROVE_DIFFERENT, TRINE_EINVAL,
          "the reference is another run; trine-prove names what differs");
    trine_status status = run_all(&v);
    if (status == TRINE_OK) status = compare(&v, verdict, out);
    if (status == TRINE_OK && trine_world_rank(world) == 0) print_verdict(&v, *verdict, out);
    prints_free(&v.a), prints_free(&v.b), prints_free(&v.base), prints_free(&v.nudged);
    return status;
}

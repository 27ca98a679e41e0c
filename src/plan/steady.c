#include "plan/steady.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/pp.h"
#include "run/compose.h"

#define WORTH                                                                                      \
    ((int64_t)1 << 18) /* passes of a micro-batch through a unit, which are composed in a second */

/* Micro-batches after which a program repeats: of its chunks, and of whole lanes. */
static int64_t period_of(const program_spec *whole) {
    int64_t a = spec_chunks(whole), b = whole->lane ? whole->lane : 1, product = a * b;
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return product / a;
}

/* Micro-batches of the first step: twice what fills any schedule's pipeline and empties it again. */
static int64_t first_micros(const program_spec *whole) {
    int64_t period = period_of(whole);
    return 4 * period + whole->micros % period;
}

static int64_t all_micros(const program_spec *whole) {
    return STEADY_STEPS * (first_micros(whole) + period_of(whole));
}

bool steady_worth(const program_spec *whole) {
    return !whole->orders && (int64_t)whole->micros * whole->units > WORTH &&
           whole->micros / 4 > all_micros(whole);
}

/* ---- Numbers ---- */

/* Of the steps, from the shortest to the longest. */
typedef int64_t numbers[STEADY_STEPS];

static bool is_linear(const numbers n) {
    return n[2] - n[1] == n[1] - n[0];
}

static int64_t whole_of(const steady *s, const numbers n) {
    return n[0] + (n[1] - n[0]) * s->periods;
}

/* The counts of a program's buffers. */
enum { COUNTS = 3 + 2 * CLASSES };

static int *count_of(program *p, int n) {
    int *const counts[] = {&p->slots, &p->streams, &p->keeps};
    if (n < 3) return counts[n];
    return n - 3 < CLASSES ? &p->gathers[n - 3] : &p->reduces[n - 3 - CLASSES];
}

static void buffers_of(const steady *s, int stage, int which, numbers n) {
    for (int i = 0; i < STEADY_STEPS; i++) n[i] = *count_of(&s->steps[i][stage], which);
}

/* ---- Whether the steps are periodic ---- */

/* Adds the program's instructions: a number for each kind and unit. */
static void tally(const program *p, numbers *sums, int step) {
    for (int n = 0; n < p->count; n++) {
        size_t unit = (size_t)(p->code[n].unit + 1); /* 0: none */
        sums[(size_t)p->code[n].kind * (size_t)(p->spec->units + 1) + unit][step]++;
    }
}

static trine_status check_stage(const steady *s, int stage, bool *linear) {
    size_t kinds = INSTR_KINDS * (size_t)(s->specs[0].units + 1);
    numbers *sums = calloc(kinds, sizeof *sums), n;
    CHECK(sums, TRINE_ENOMEM, "no memory to count instructions");
    for (int i = 0; i < STEADY_STEPS; i++) tally(&s->steps[i][stage], sums, i);
    for (size_t k = 0; k < kinds; k++) *linear = *linear && is_linear(sums[k]);
    for (int c = 0; c < COUNTS; c++) {
        buffers_of(s, stage, c, n);
        *linear = *linear && is_linear(n);
    }
    free(sums);
    return TRINE_OK;
}

/* A step's time, in units of what a stage computes for a micro-batch, grows linearly; of it a part is idle. */
static bool find_idle(steady *s, int micros) {
    double time[STEADY_STEPS];
    s->idle = NAN;
    if (!isnan(pp_bubble(&s->specs[0]))) return true;
    for (int i = 0; i < STEADY_STEPS; i++)
        time[i] = s->specs[i].micros / (1 - pp_idle(s->steps[i]));
    double each = time[1] - time[0];
    if (!(fabs(time[2] - time[1] - each) <= 1e-9 * time[2])) return false;
    s->idle = 1 - micros / (time[0] + each * (double)s->periods);
    return true;
}

/* ---- All together ---- */

static trine_status compose_steps(steady *s, const program_spec *whole) {
    int period = (int)period_of(whole), first = (int)first_micros(whole);
    s->periods = (whole->micros - first) / period;
    for (int i = 0; i < STEADY_STEPS; i++) {
        s->specs[i] = *whole;
        s->specs[i].micros = first + i * period;
        TRY(compose_all(&s->specs[i], &s->steps[i], NULL));
    }
    return TRINE_OK;
}

static trine_status check_steps(steady *s, int micros, bool *found) {
    bool linear = true;
    for (int p = 0; p < s->specs[0].stages; p++) TRY(check_stage(s, p, &linear));
    *found = linear && find_idle(s, micros);
    return TRINE_OK;
}

static trine_status complete(steady *s) {
    numbers n;
    size_t stages = (size_t)s->whole.stages;
    s->stages = calloc(stages, sizeof *s->stages);
    CHECK(s->stages, TRINE_ENOMEM, "no memory for %zu programs", stages);
    memcpy(s->stages, s->steps[0], stages * sizeof *s->stages);
    for (int p = 0; p < s->whole.stages; p++) {
        s->stages[p].spec = &s->whole;
        for (int c = 0; c < COUNTS; c++) {
            buffers_of(s, p, c, n);
            *count_of(&s->stages[p], c) = (int)whole_of(s, n);
        }
    }
    return TRINE_OK;
}

trine_status steady_create(steady *s, const program_spec *whole, bool *found) {
    *s = (steady){.whole = *whole, .idle = NAN};
    *found = false;
    trine_status status = compose_steps(s, whole);
    if (status == TRINE_OK) status = check_steps(s, whole->micros, found);
    if (status == TRINE_OK && *found) status = complete(s);
    *found = *found && status == TRINE_OK;
    if (!*found) steady_destroy(s);
    return status;
}

void steady_destroy(steady *s) {
    for (int i = 0; i < STEADY_STEPS; i++) compose_destroy(&s->specs[i], &s->steps[i]);
    free(s->stages);
    *s = (steady){.idle = NAN};
}

/* The sizes in an arena that a plan reports. */
static size_t *size_in(arena *a, int n) {
    size_t *const sizes[] = {&a->used, &a->shared_used, &a->exchanged.used, &a->host.used};
    return n < 4 ? sizes[n] : &a->bytes[n - 4];
}

bool steady_arena(const steady *s, const arena steps[STEADY_STEPS], arena *whole) {
    arena a[STEADY_STEPS];
    memcpy(a, steps, sizeof a);
    *whole = steps[0];
    for (int n = 0; n < 4 + MEM_KINDS; n++) {
        numbers sizes;
        for (int i = 0; i < STEADY_STEPS; i++) sizes[i] = (int64_t)*size_in(&a[i], n);
        if (!is_linear(sizes)) return false;
        *size_in(whole, n) = (size_t)whole_of(s, sizes);
    }
    return true;
}

traffic steady_traffic(const steady *s, const rank_state *h, int stage) {
    traffic whole = traffic_of(h, &s->steps[0][stage]), longer = traffic_of(h, &s->steps[1][stage]);
    for (int k = 0; k < INSTR_KINDS; k++)
        whole.bytes[k] += (longer.bytes[k] - whole.bytes[k]) * (uint64_t)s->periods;
    return whole;
}

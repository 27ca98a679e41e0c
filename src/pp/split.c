#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/pp.h"

/* ---- By cost ---------------------------------------------------------------------------------- */

/* The cost of units [from, to), not empty; sums[u] is the cost of all units before u. */
static double run_cost(const double *sums, int from, int to) {
    return sums[to] - sums[from];
}

typedef enum { MAXIMUM, SQUARES } split_aim;

/* Dynamic programming over the number of stages p. best[u]: the least cost of units [0, u) on p stages, none
 * of which costs more than `limit`; from[u]: the first unit of the last of these stages. The cost is that of
 * the most expensive stage, or the sum of squares. `before` is the row of p - 1 stages. A last stage that
 * starts before `low` exceeds the limit for this u and every larger one. */
static void fill_row(const double *sums, int units, double limit, split_aim aim,
                     const double *before, double *best, int *from) {
    int low = 0;
    for (int u = 0; u <= units; u++) {
        best[u] = INFINITY;
        while (low < u && run_cost(sums, low, u) > limit) low++;
        for (int v = low; v < u; v++) {
            if (isinf(before[v])) continue;
            double run = run_cost(sums, v, u);
            double sum = aim == MAXIMUM ? fmax(before[v], run) : before[v] + run * run;
            if (sum < best[u] * (1 - 1e-12)) best[u] = sum, from[u] = v;
        }
    }
}

/* Fills spec->first with the best split under the limit and returns its cost. rows: 2 (units + 1),
 * from: (stages + 1)(units + 1). */
static double best_split(program_spec *spec, const double *sums, double limit, split_aim aim,
                         double *rows, int *from) {
    size_t width = (size_t)spec->units + 1;
    int stages = spec->stages, *first = spec->first;
    for (size_t u = 0; u < width; u++) rows[u] = u ? INFINITY : 0;
    for (int p = 1; p <= stages; p++)
        fill_row(sums, spec->units, limit, aim, rows + (size_t)((p - 1) % 2) * width,
                 rows + (size_t)(p % 2) * width, from + (size_t)p * width);
    first[stages] = spec->units;
    for (int p = stages; p > 0; p--) first[p - 1] = from[(size_t)p * width + (size_t)first[p]];
    return rows[(size_t)(stages % 2) * width + (size_t)spec->units];
}

/* sums (units + 1): prefix sums of the units' costs; returns the largest cost. */
static double add_costs(int units, const double *cost, double *sums) {
    double largest = 0;
    sums[0] = 0;
    for (int u = 0; u < units; u++) {
        sums[u + 1] = sums[u] + cost[u];
        largest = fmax(largest, cost[u]);
    }
    return largest;
}

trine_status pp_split_by_cost(program_spec *spec, const double cost[]) {
    int stages = spec->stages, units = spec->units;
    CHECK(stages >= 1 && stages <= units, TRINE_EINVAL,
          "pp %d: the model has only %d units; every stage needs at least one", stages, units);
    size_t width = (size_t)units + 1;
    double *rows = malloc(3 * width * sizeof *rows);
    int *from = calloc((size_t)(stages + 1) * width, sizeof *from);
    if (rows && from) {
        /* An upper bound: fill each stage up to its share plus one unit. The factors 1 + 1e-9 absorb the
         * rounding of sums of costs. */
        double *sums = rows + 2 * width, largest = add_costs(units, cost, sums);
        double limit = (sums[units] / stages + largest) * (1 + 1e-9);
        double least = best_split(spec, sums, limit, MAXIMUM, rows, from);
        best_split(spec, sums, least * (1 + 1e-9), SQUARES, rows, from);
    }
    bool enough = rows && from;
    free(rows);
    free(from);
    CHECK(enough, TRINE_ENOMEM, "no memory to split %d units", units);
    return TRINE_OK;
}

/* ---- By hand ---------------------------------------------------------------------------------- */

/* The units without a number, such as embedding and head: --pp-split names each by the first letter of its
 * name. Those before the layers belong to the first stage, those after them to the last one. */
#define OUTER_UNITS 8

typedef struct {
    int count, leading; /* units; those before the layers */
    const char *name[OUTER_UNITS];
    int layers;
} outer_units;

static outer_units outer_units_of(const program_spec *s) {
    outer_units outer = {.layers = s->units};
    for (int u = 0; u < s->units; u++) {
        unit_facts facts = spec_unit(s, u);
        if (facts.number >= 0) continue;
        ASSERT(outer.count < OUTER_UNITS);
        outer.leading += u == outer.count && !facts.makes_loss;
        outer.name[outer.count++] = facts.name;
        outer.layers--;
    }
    return outer;
}

typedef struct {
    unsigned outer; /* bits, by index in outer_units */
    int layers;     /* -1: not given */
} hand_stage;

/* "e, h" */
static void list_letters(const outer_units *outer, char *text) {
    for (int n = 0; n < outer->count; n++) {
        *text++ = outer->name[n][0];
        *text++ = ',';
        *text++ = ' ';
    }
    *text = '\0';
}

/* Reads the letter of an outer unit or a number of layers at text[*i]; false if neither is there, or if it
 * was given before. */
static bool parse_part(const char *text, size_t *i, const outer_units *outer, hand_stage *out) {
    for (int n = 0; n < outer->count; n++) {
        if (text[*i] != outer->name[n][0]) continue;
        if (out->outer & 1u << n) return false;
        out->outer |= 1u << n;
        ++*i;
        return true;
    }
    if (!isdigit((unsigned char)text[*i]) || out->layers >= 0) return false;
    char *end;
    long layers = strtol(text + *i, &end, 10);
    out->layers = layers < INT16_MAX ? (int)layers : INT16_MAX;
    *i = (size_t)(end - text);
    return true;
}

/* Parses one stage: "e", "5", "h" or several joined by '+'. */
static trine_status parse_stage(const char *text, size_t length, const outer_units *outer,
                                hand_stage *out) {
    *out = (hand_stage){.layers = -1};
    size_t i = 0;
    bool more = true;
    char letters[3 * OUTER_UNITS + 1];
    list_letters(outer, letters);
    while (more && parse_part(text, &i, outer, out)) {
        more = text[i] == '+';
        i += more;
    }
    CHECK(!more && i == length, TRINE_EINVAL,
          "--pp-split: invalid stage \"%.*s\"; expected %sa number of layers, or these joined by +",
          (int)length, text, letters);
    return TRINE_OK;
}

static trine_status parse_stages(const char *text, const outer_units *outer, hand_stage *out,
                                 int stages) {
    int count = 1;
    for (const char *c = text; *c; c++) count += *c == ',';
    CHECK(count == stages, TRINE_EINVAL, "--pp-split %s: %d stage%s, but --pp is %d", text, count,
          count == 1 ? "" : "s", stages);
    for (int p = 0; p < stages; p++) {
        size_t length = strcspn(text, ",");
        TRY(parse_stage(text, length, outer, &out[p]));
        text += length + 1;
    }
    return TRINE_OK;
}

/* Outer units that are not named go to the first and the last stage. */
static trine_status place_outer(const char *text, const outer_units *outer, hand_stage *s,
                                int stages) {
    for (int n = 0; n < outer->count; n++) {
        bool leads = n < outer->leading;
        int home = leads ? 0 : stages - 1;
        for (int p = 0; p < stages; p++)
            CHECK(p == home || !(s[p].outer & 1u << n), TRINE_EINVAL,
                  "--pp-split %s: the %s (%c) must be on the %s stage", text, outer->name[n],
                  outer->name[n][0], leads ? "first" : "last");
        s[home].outer |= 1u << n;
    }
    return TRINE_OK;
}

static int bits(unsigned set) {
    int count = 0;
    for (; set; set &= set - 1) count++;
    return count;
}

trine_status pp_split_by_hand(program_spec *spec, const char *text) {
    hand_stage s[PROGRAM_STAGES];
    outer_units outer = outer_units_of(spec);
    int stages = spec->stages, layers = 0, at = 0;
    ASSERT(stages <= PROGRAM_STAGES);
    TRY(parse_stages(text, &outer, s, stages));
    TRY(place_outer(text, &outer, s, stages));
    for (int p = 0; p < stages; p++) {
        int own = s[p].layers > 0 ? s[p].layers : 0;
        spec->first[p] = at;
        layers += own;
        at += own + bits(s[p].outer);
        CHECK(at > spec->first[p], TRINE_EINVAL, "--pp-split %s: stage %d is empty", text, p);
    }
    CHECK(layers == outer.layers, TRINE_EINVAL, "--pp-split %s: %d layers, but the model has %d",
          text, layers, outer.layers);
    spec->first[stages] = spec->units;
    return TRINE_OK;
}

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/pp.h"

/* ---- By cost ---------------------------------------------------------------------------------- */

/* Of units [from, to), not empty; sums[u] is the cost of all units before u. */
static double run_cost(const double *sums, int from, int to) {
    return sums[to] - sums[from];
}

typedef enum { DEAREST, SQUARES } split_aim;

/* best[u]: the least cost of units [0, u) on p stages, none of which costs more than `limit`;
 * from[u]: where the last of them begins. The cost is that of the dearest stage or the sum of
 * squares. `before` is the row of p - 1 stages. A last stage that begins before `low` is beyond the
 * limit for this u and all that follow. */
static void fill_row(const double *sums, int units, double limit, split_aim aim,
                     const double *before, double *best, int *from) {
    int low = 0;
    for (int u = 0; u <= units; u++) {
        best[u] = INFINITY;
        while (low < u && run_cost(sums, low, u) > limit) low++;
        for (int v = low; v < u; v++) {
            if (isinf(before[v])) continue;
            double run = run_cost(sums, v, u);
            double sum = aim == DEAREST ? fmax(before[v], run) : before[v] + run * run;
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

/* sums (units + 1) from the units' costs; returns the dearest unit's. */
static double add_costs(int units, const double *cost, double *sums) {
    double dearest = 0;
    sums[0] = 0;
    for (int u = 0; u < units; u++) {
        sums[u + 1] = sums[u] + cost[u];
        dearest = fmax(dearest, cost[u]);
    }
    return dearest;
}

trine_status pp_split_by_cost(program_spec *spec, const double cost[]) {
    int stages = spec->stages, units = spec->units;
    CHECK(stages >= 1 && stages <= units, TRINE_EINVAL,
          "pp %d needs at least as many units, and the model has %d", stages, units);
    size_t width = (size_t)units + 1;
    double *rows = malloc(3 * width * sizeof *rows);
    int *from = calloc((size_t)(stages + 1) * width, sizeof *from);
    if (rows && from) {
        /* Some split costs no more than this: fill each stage until it has its share, and one unit more. The
         * slack keeps the rounding of sums of costs out of the decision. */
        double *sums = rows + 2 * width, dearest = add_costs(units, cost, sums);
        double limit = (sums[units] / stages + dearest) * (1 + 1e-9);
        double least = best_split(spec, sums, limit, DEAREST, rows, from);
        best_split(spec, sums, least * (1 + 1e-9), SQUARES, rows, from);
    }
    bool enough = rows && from;
    free(rows);
    free(from);
    CHECK(enough, TRINE_ENOMEM, "no memory to split %d units", units);
    return TRINE_OK;
}

/* ---- By hand ---------------------------------------------------------------------------------- */

/* The units that stand at the ends of the model and have no number: each is named by the first letter of its
 * name. Those before the layers belong to the first stage, those behind them to the last one. */
#define ENDS 8

typedef struct {
    int count, leading; /* of them before the layers */
    const char *name[ENDS];
    int layers;
} model_ends;

static model_ends ends_of(const program_spec *s) {
    model_ends ends = {.layers = s->units};
    for (int u = 0; u < s->units; u++) {
        unit_facts facts = spec_unit(s, u);
        if (facts.number >= 0) continue;
        ASSERT(ends.count < ENDS);
        ends.leading += u == ends.count && !facts.makes_loss;
        ends.name[ends.count++] = facts.name;
        ends.layers--;
    }
    return ends;
}

typedef struct {
    unsigned ends; /* bits: which of the model's */
    int layers;    /* -1: none named */
} hand_stage;

/* "e, h" */
static void list_ends(const model_ends *ends, char *text) {
    for (int n = 0; n < ends->count; n++) {
        *text++ = ends->name[n][0];
        *text++ = ',';
        *text++ = ' ';
    }
    *text = '\0';
}

/* Reads the letter of an end or a number at text[*i]; false if there is none, or one of its kind before. */
static bool parse_part(const char *text, size_t *i, const model_ends *ends, hand_stage *out) {
    for (int n = 0; n < ends->count; n++) {
        if (text[*i] != ends->name[n][0]) continue;
        if (out->ends & 1u << n) return false;
        out->ends |= 1u << n;
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

/* One stage's text, "e", "5", "h" or several joined by '+'. */
static trine_status parse_stage(const char *text, size_t length, const model_ends *ends,
                                hand_stage *out) {
    *out = (hand_stage){.layers = -1};
    size_t i = 0;
    bool more = true;
    char letters[3 * ENDS + 1];
    list_ends(ends, letters);
    while (more && parse_part(text, &i, ends, out)) {
        more = text[i] == '+';
        i += more;
    }
    CHECK(!more && i == length, TRINE_EINVAL,
          "--pp-split: \"%.*s\" is no stage; a stage is %sa number of layers, or these joined by +",
          (int)length, text, letters);
    return TRINE_OK;
}

static trine_status parse_stages(const char *text, const model_ends *ends, hand_stage *out,
                                 int stages) {
    int count = 1;
    for (const char *c = text; *c; c++) count += *c == ',';
    CHECK(count == stages, TRINE_EINVAL, "--pp-split %s has %d stage%s, --pp has %d", text, count,
          count == 1 ? "" : "s", stages);
    for (int p = 0; p < stages; p++) {
        size_t length = strcspn(text, ",");
        TRY(parse_stage(text, length, ends, &out[p]));
        text += length + 1;
    }
    return TRINE_OK;
}

/* Ends that are not named join the first and the last stage. */
static trine_status place_ends(const char *text, const model_ends *ends, hand_stage *s,
                               int stages) {
    for (int n = 0; n < ends->count; n++) {
        bool leads = n < ends->leading;
        int home = leads ? 0 : stages - 1;
        for (int p = 0; p < stages; p++)
            CHECK(p == home || !(s[p].ends & 1u << n), TRINE_EINVAL,
                  "--pp-split %s: the %s (%c) belongs to the %s stage", text, ends->name[n],
                  ends->name[n][0], leads ? "first" : "last");
        s[home].ends |= 1u << n;
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
    model_ends ends = ends_of(spec);
    int stages = spec->stages, layers = 0, at = 0;
    ASSERT(stages <= PROGRAM_STAGES);
    TRY(parse_stages(text, &ends, s, stages));
    TRY(place_ends(text, &ends, s, stages));
    for (int p = 0; p < stages; p++) {
        int own = s[p].layers > 0 ? s[p].layers : 0;
        spec->first[p] = at;
        layers += own;
        at += own + bits(s[p].ends);
        CHECK(at > spec->first[p], TRINE_EINVAL, "--pp-split %s: stage %d is empty", text, p);
    }
    CHECK(layers == ends.layers, TRINE_EINVAL, "--pp-split %s places %d layers, the model has %d",
          text, layers, ends.layers);
    spec->first[stages] = spec->units;
    return TRINE_OK;
}

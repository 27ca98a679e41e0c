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

/* Dynamic programming over the number of chunks c. best[u]: the least cost of units [0, u) in c chunks, none
 * of which costs more than `limit`; from[u]: the first unit of the last of these chunks. The cost is that of
 * the most expensive chunk, or the sum of squares. `before` is the row of c - 1 chunks. A last chunk that
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
 * from: (chunks + 1)(units + 1). */
static double best_split(program_spec *spec, const double *sums, double limit, split_aim aim,
                         double *rows, int *from) {
    size_t width = (size_t)spec->units + 1;
    int chunks = spec_chunks(spec), *first = spec->first;
    for (size_t u = 0; u < width; u++) rows[u] = u ? INFINITY : 0;
    for (int c = 1; c <= chunks; c++)
        fill_row(sums, spec->units, limit, aim, rows + (size_t)((c - 1) % 2) * width,
                 rows + (size_t)(c % 2) * width, from + (size_t)c * width);
    first[chunks] = spec->units;
    for (int c = chunks; c > 0; c--) first[c - 1] = from[(size_t)c * width + (size_t)first[c]];
    return rows[(size_t)(chunks % 2) * width + (size_t)spec->units];
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

/* The cost of the most expensive stage, and the sum of squares of all. */
typedef struct {
    double most, squares;
} stage_costs;

static stage_costs costs_of(const program_spec *s, const double *sums) {
    stage_costs c = {0, 0};
    for (int p = 0; p < s->stages; p++) {
        double cost = 0;
        for (int n = 0; n < spec_stage_chunks(s, p); n++) {
            int chunk = spec_stage_chunk(s, p, n);
            cost += run_cost(sums, s->first[chunk], s->first[chunk + 1]);
        }
        c.most = fmax(c.most, cost);
        c.squares += cost * cost;
    }
    return c;
}

/* Moves one unit from chunk a to chunk b through the chunks between them; false if a chunk would be empty or cost
 * more than the limit. */
static bool move_unit(program_spec *s, const double *sums, double limit, int a, int b) {
    int step = a < b ? -1 : 1, low = a < b ? a : b, high = a < b ? b : a;
    for (int c = low + 1; c <= high; c++) s->first[c] += step;
    for (int c = low; c <= high; c++)
        if (s->first[c] >= s->first[c + 1] ||
            run_cost(sums, s->first[c], s->first[c + 1]) > limit) {
            for (int k = low + 1; k <= high; k++) s->first[k] -= step;
            return false;
        }
    return true;
}

/* Among splits whose chunks cost no more than the limit, finds one with better balanced stages, unit by unit. */
static void balance_stages(program_spec *s, const double *sums, double limit) {
    stage_costs best = costs_of(s, sums);
    for (bool better = true; better;) {
        better = false;
        for (int a = 0; a < s->chunks; a++)
            for (int b = 0; b < s->chunks; b++) {
                if (a == b || !move_unit(s, sums, limit, a, b)) continue;
                stage_costs c = costs_of(s, sums);
                bool least = c.most < best.most * (1 - 1e-12);
                bool equal = c.most <= best.most * (1 + 1e-12);
                if (least || (equal && c.squares < best.squares * (1 - 1e-12)))
                    best = c, better = true;
                else
                    move_unit(s, sums, INFINITY, b, a);
            }
    }
}

trine_status pp_split_by_cost(program_spec *spec, const double cost[]) {
    int chunks = spec_chunks(spec), units = spec->units;
    CHECK(chunks >= 1 && chunks <= units, TRINE_EINVAL,
          "pp %d: the model has only %d units; every %s needs at least one", spec->stages, units,
          chunks > spec->stages ? "virtual stage" : "stage");
    size_t width = (size_t)units + 1;
    double *rows = malloc(3 * width * sizeof *rows);
    int *from = calloc((size_t)(chunks + 1) * width, sizeof *from);
    if (rows && from) {
        /* An upper bound: fill each chunk up to its share plus one unit. The factors 1 + 1e-9 absorb the
         * rounding of sums of costs. */
        double *sums = rows + 2 * width, largest = add_costs(units, cost, sums);
        double limit = (sums[units] / chunks + largest) * (1 + 1e-9);
        double least = best_split(spec, sums, limit, MAXIMUM, rows, from) * (1 + 1e-9);
        best_split(spec, sums, least, SQUARES, rows, from);
        if (chunks > spec->stages) balance_stages(spec, sums, least);
    }
    bool enough = rows && from;
    free(rows);
    free(from);
    CHECK(enough, TRINE_ENOMEM, "no memory to split %d units", units);
    return TRINE_OK;
}

/* ---- By hand ---------------------------------------------------------------------------------- */

/* The units without a number, such as embedding and head: --pp-split names each by the first letter of its
 * name. Those before the layers belong to the first chunk, those after them to the last one. */
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
} hand_chunk;

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
static bool parse_part(const char *text, size_t *i, const outer_units *outer, hand_chunk *out) {
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

/* Parses one chunk: "e", "5", "h" or several joined by '+'. */
static trine_status parse_chunk(const char *text, size_t length, const outer_units *outer,
                                hand_chunk *out) {
    *out = (hand_chunk){.layers = -1};
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

/* "--pp is 2", "--pp 2 and 3 virtual stages per rank need 6" */
static void say_chunks(const program_spec *s, char *text, size_t size) {
    if (spec_chunks(s) == s->stages)
        snprintf(text, size, "--pp is %d", s->stages);
    else
        snprintf(text, size, "--pp %d and %d virtual stages per rank need %d", s->stages,
                 spec_chunks(s) / s->stages, spec_chunks(s));
}

static trine_status parse_chunks(const program_spec *s, const char *text, const outer_units *outer,
                                 hand_chunk *out) {
    int count = 1;
    char need[80];
    for (const char *c = text; *c; c++) count += *c == ',';
    say_chunks(s, need, sizeof need);
    CHECK(count == spec_chunks(s), TRINE_EINVAL, "--pp-split %s: %d stage%s, but %s", text, count,
          count == 1 ? "" : "s", need);
    for (int c = 0; c < count; c++) {
        size_t length = strcspn(text, ",");
        TRY(parse_chunk(text, length, outer, &out[c]));
        text += length + 1;
    }
    return TRINE_OK;
}

/* Outer units that are not named go to the first and the last chunk. */
static trine_status place_outer(const char *text, const outer_units *outer, hand_chunk *s,
                                int chunks) {
    for (int n = 0; n < outer->count; n++) {
        bool leads = n < outer->leading;
        int home = leads ? 0 : chunks - 1;
        for (int c = 0; c < chunks; c++)
            CHECK(c == home || !(s[c].outer & 1u << n), TRINE_EINVAL,
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
    hand_chunk s[PROGRAM_CHUNKS];
    outer_units outer = outer_units_of(spec);
    int chunks = spec_chunks(spec), layers = 0, at = 0;
    ASSERT(chunks <= PROGRAM_CHUNKS);
    TRY(parse_chunks(spec, text, &outer, s));
    TRY(place_outer(text, &outer, s, chunks));
    for (int c = 0; c < chunks; c++) {
        int own = s[c].layers > 0 ? s[c].layers : 0;
        spec->first[c] = at;
        layers += own;
        at += own + bits(s[c].outer);
        CHECK(at > spec->first[c], TRINE_EINVAL, "--pp-split %s: stage %d is empty", text, c);
    }
    CHECK(layers == outer.layers, TRINE_EINVAL, "--pp-split %s: %d layers, but the model has %d",
          text, layers, outer.layers);
    spec->first[chunks] = spec->units;
    return TRINE_OK;
}

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/pp.h"

/* Of units [from, to), not empty. No loop: fill_row asks for every pair. */
static double run_cost(const pp_cost *cost, int units, int from, int to) {
    bool embedding = from == 0, head = to == units;
    int blocks = to - from - embedding - head;
    return embedding * cost->embedding + blocks * cost->block + head * cost->head;
}

typedef enum { DEAREST, SQUARES } split_aim;

/* best[u]: the least cost of units [0, u) on p stages, none of which costs more than `limit`;
 * from[u]: where the last of them begins. The cost is that of the dearest stage or the sum of
 * squares. `before` is the row of p - 1 stages. A last stage that begins before `low` is beyond the
 * limit for this u and all that follow. */
static void fill_row(const pp_cost *cost, int units, double limit, split_aim aim,
                     const double *before, double *best, int *from) {
    int low = 0;
    for (int u = 0; u <= units; u++) {
        best[u] = INFINITY;
        while (low < u && run_cost(cost, units, low, u) > limit) low++;
        for (int v = low; v < u; v++) {
            if (isinf(before[v])) continue;
            double run = run_cost(cost, units, v, u);
            double sum = aim == DEAREST ? fmax(before[v], run) : before[v] + run * run;
            if (sum < best[u] * (1 - 1e-12)) best[u] = sum, from[u] = v;
        }
    }
}

/* Fills first[] with the best split under the limit and returns its cost. rows: 2 (units + 1),
 * from: (stages + 1)(units + 1). */
static double best_split(int first[], int stages, int units, const pp_cost *cost, double limit,
                         split_aim aim, double *rows, int *from) {
    size_t width = (size_t)units + 1;
    for (size_t u = 0; u < width; u++) rows[u] = u ? INFINITY : 0;
    for (int p = 1; p <= stages; p++)
        fill_row(cost, units, limit, aim, rows + (size_t)((p - 1) % 2) * width,
                 rows + (size_t)(p % 2) * width, from + (size_t)p * width);
    first[stages] = units;
    for (int p = stages; p > 0; p--) first[p - 1] = from[(size_t)p * width + (size_t)first[p]];
    return rows[(size_t)(stages % 2) * width + (size_t)units];
}

/* Some split costs no more than this: fill each stage until it has its share, and one unit more. */
static double enough_for(int stages, int units, const pp_cost *cost) {
    double dearest_unit = fmax(cost->block, fmax(cost->embedding, cost->head));
    return run_cost(cost, units, 0, units) / stages + dearest_unit;
}

trine_status pp_split_by_cost(int first[], int stages, int units, const pp_cost *cost) {
    CHECK(stages >= 1 && stages <= units, TRINE_EINVAL,
          "pp %d needs at least as many units, and %d layers with embedding and head make %d",
          stages, units - 2, units);
    size_t width = (size_t)units + 1;
    double *rows = malloc(2 * width * sizeof *rows);
    int *from = calloc((size_t)(stages + 1) * width, sizeof *from);
    if (rows && from) {
        /* The slack keeps the rounding of sums of costs out of the decision. */
        double limit = enough_for(stages, units, cost) * (1 + 1e-9);
        double dearest = best_split(first, stages, units, cost, limit, DEAREST, rows, from);
        best_split(first, stages, units, cost, dearest * (1 + 1e-9), SQUARES, rows, from);
    }
    bool enough = rows && from;
    free(rows);
    free(from);
    CHECK(enough, TRINE_ENOMEM, "no memory to split %d units", units);
    return TRINE_OK;
}

typedef struct {
    bool embedding, head;
    int layers; /* -1: none named */
} hand_stage;

/* Reads "e", "h" or a number at text[*i]; false if there is none, or one of its kind before. */
static bool parse_part(const char *text, size_t *i, hand_stage *out) {
    bool *named = text[*i] == 'e' ? &out->embedding : text[*i] == 'h' ? &out->head : NULL;
    if (named) {
        if (*named) return false;
        *named = true;
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
static trine_status parse_stage(const char *text, size_t length, hand_stage *out) {
    *out = (hand_stage){.layers = -1};
    size_t i = 0;
    bool more = true;
    while (more && parse_part(text, &i, out)) {
        more = text[i] == '+';
        i += more;
    }
    CHECK(!more && i == length, TRINE_EINVAL,
          "--pp-split: \"%.*s\" is no stage; a stage is e, h, a number of layers, or these joined "
          "by +",
          (int)length, text);
    return TRINE_OK;
}

static trine_status parse_stages(const char *text, hand_stage *out, int stages) {
    int count = 1;
    for (const char *c = text; *c; c++) count += *c == ',';
    CHECK(count == stages, TRINE_EINVAL, "--pp-split %s has %d stage%s, --pp has %d", text, count,
          count == 1 ? "" : "s", stages);
    for (int p = 0; p < stages; p++) {
        size_t length = strcspn(text, ",");
        TRY(parse_stage(text, length, &out[p]));
        text += length + 1;
    }
    return TRINE_OK;
}

/* Where embedding and head are not named they join the first and the last stage. */
static trine_status place_ends(const char *text, hand_stage *s, int stages) {
    for (int p = 0; p < stages; p++) {
        CHECK(!s[p].embedding || p == 0, TRINE_EINVAL,
              "--pp-split %s: the embedding (e) belongs to the first stage", text);
        CHECK(!s[p].head || p == stages - 1, TRINE_EINVAL,
              "--pp-split %s: the head (h) belongs to the last stage", text);
    }
    s[0].embedding = true;
    s[stages - 1].head = true;
    return TRINE_OK;
}

trine_status pp_split_by_hand(int first[], int stages, int units, const char *text) {
    hand_stage s[PROGRAM_STAGES];
    ASSERT(stages <= PROGRAM_STAGES);
    TRY(parse_stages(text, s, stages));
    TRY(place_ends(text, s, stages));
    int at = 0;
    for (int p = 0; p < stages; p++) {
        int layers = s[p].layers > 0 ? s[p].layers : 0;
        first[p] = at;
        at += layers + s[p].embedding + s[p].head;
        CHECK(at > first[p], TRINE_EINVAL, "--pp-split %s: stage %d is empty", text, p);
    }
    CHECK(at == units, TRINE_EINVAL, "--pp-split %s places %d layers, the model has %d", text,
          at - 2, units - 2);
    first[stages] = units;
    return TRINE_OK;
}

/* TEST np=0 */
/* The split of units over stages: by cost against all possible splits, by hand against the text. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "model/gpt.h"
#include "pp/pp.h"

#define UNITS 9

/* ---- By cost ---- */

typedef struct {
    double dearest, squares;
} split_cost;

/* Costs of a model with equal layers. */
typedef struct {
    double embedding, layer, head;
} costs_of;

static double unit_cost(const costs_of *c, int units, int u) {
    return u == 0 ? c->embedding : u == units - 1 ? c->head : c->layer;
}

#define MOST_UNITS 8192

/* The code under test, on a GPT; first (stages + 1). */
static trine_status by_cost(int *first, int stages, int units, costs_of c) {
    double cost[MOST_UNITS];
    program_spec spec = {.stages = stages, .units = units, .facts = gpt_facts};
    for (int u = 0; u < units; u++) cost[u] = unit_cost(&c, units, u);
    TRY(pp_split_by_cost(&spec, cost));
    memcpy(first, spec.first, (size_t)(stages + 1) * sizeof *first);
    return TRINE_OK;
}

static trine_status by_hand(int *first, int stages, int units, const char *text) {
    program_spec spec = {.stages = stages, .units = units, .facts = gpt_facts};
    TRY(pp_split_by_hand(&spec, text));
    memcpy(first, spec.first, (size_t)(stages + 1) * sizeof *first);
    return TRINE_OK;
}

static split_cost cost_of(const int *first, int stages, int units, const costs_of *c) {
    split_cost out = {0, 0};
    for (int p = 0; p < stages; p++) {
        double sum = 0;
        for (int u = first[p]; u < first[p + 1]; u++) sum += unit_cost(c, units, u);
        out.dearest = fmax(out.dearest, sum);
        out.squares += sum * sum;
    }
    return out;
}

/* The best of all splits: stage p starts at first[p]. */
static void try_all(int *first, int p, int stages, int units, const costs_of *c, split_cost *best) {
    if (p == stages) {
        if (first[p - 1] >= units) return;
        first[stages] = units;
        split_cost own = cost_of(first, stages, units, c);
        if (own.dearest < best->dearest ||
            (own.dearest == best->dearest && own.squares < best->squares))
            *best = own;
        return;
    }
    for (first[p] = first[p - 1] + 1; first[p] < units; first[p]++)
        try_all(first, p + 1, stages, units, c, best);
}

static void test_cost_is_the_least_of_all_splits(void **state) {
    (void)state;
    /* Small integers and halves, so that the sums are exact. */
    static const costs_of costs[] = {{0, 1, 0},   {1, 1, 1}, {0, 2, 5},  {3, 1, 0},
                                     {0.5, 2, 4}, {8, 1, 8}, {1, 10, 2}, {0, 1, 0.5}};
    for (size_t n = 0; n < sizeof costs / sizeof *costs; n++)
        for (int units = 2; units <= UNITS; units++)
            for (int stages = 1; stages <= units; stages++) {
                int first[UNITS + 1], all[UNITS + 1] = {0};
                split_cost best = {INFINITY, INFINITY};
                OK(by_cost(first, stages, units, costs[n]));
                try_all(all, 1, stages, units, &costs[n], &best);
                split_cost own = cost_of(first, stages, units, &costs[n]);
                assert_int_equal(first[0], 0);
                assert_int_equal(first[stages], units);
                for (int p = 0; p < stages; p++) assert_true(first[p] < first[p + 1]);
                assert_true(own.dearest == best.dearest);
                assert_true(own.squares == best.squares);
            }
}

/* Five layers on four stages, embedding and head at no cost: one stage has two. */
static void test_uneven_layers(void **state) {
    (void)state;
    int first[5], most = 0, layers = 0;
    OK(by_cost(first, 4, 7, (costs_of){0, 1, 0}));
    for (int p = 0; p < 4; p++) {
        int own = first[p + 1] - first[p] - (p == 0) - (p == 3);
        layers += own;
        most = own > most ? own : most;
        assert_true(own >= 1);
    }
    assert_int_equal(layers, 5);
    assert_int_equal(most, 2);
}

/* Costs of GPT-2 124M in matmul parameters: a block 7.1 million, the head 38.6 million. The head costs
 * as much as five blocks, so the last of four stages has only the head. */
static void test_a_dear_head_is_alone(void **state) {
    (void)state;
    int first[5];
    OK(by_cost(first, 4, 14, (costs_of){0, 7.1, 38.6}));
    assert_int_equal(first[1], 5);
    assert_int_equal(first[2], 9);
    assert_int_equal(first[3], 13);
}

/* The work grows with the square of the layers at most; with its cube, this takes an hour. */
static void test_many_layers(void **state) {
    (void)state;
    enum { STAGES = 8, EACH = 500 };
    int first[STAGES + 1];
    OK(by_cost(first, STAGES, STAGES * EACH + 2, (costs_of){0, 1, 0}));
    for (int p = 1; p < STAGES; p++) assert_int_equal(first[p], p * EACH + 1);
}

static void test_too_many_stages(void **state) {
    (void)state;
    int first[8];
    REFUSED(by_cost(first, 5, 4, (costs_of){0, 1, 0}), TRINE_EINVAL,
            "pp 5: the model has only 4 units; every stage needs at least one");
}

/* ---- By hand ---- */

static void test_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int stages, units, first[6];
    } cases[] = {
        {"e,5,5,h", 4, 12, {0, 1, 6, 11, 12}},
        {"3,3", 2, 8, {0, 4, 8}},
        {"e+2,2+h", 2, 6, {0, 3, 6}},
        {"2,2+h", 2, 6, {0, 3, 6}},
        {"6", 1, 8, {0, 8}},
        {"e+6+h", 1, 8, {0, 8}},
        {"e,3,1,2", 4, 8, {0, 1, 4, 5, 8}},
        {"1,0+h", 2, 3, {0, 2, 3}},
        {"e,h", 2, 2, {0, 1, 2}},
        {"12,12,12,12,12", 5, 62, {0, 13, 25, 37, 49, 62}},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        int first[6];
        OK(by_hand(first, cases[n].stages, cases[n].units, cases[n].text));
        assert_memory_equal(first, cases[n].first, (size_t)(cases[n].stages + 1) * sizeof *first);
    }
}

static void test_bad_texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        int stages;
    } cases[] = {
        {"3,3,", "invalid stage \"\"", 3},
        {"", "invalid stage \"\"", 1},
        {",6", "invalid stage \"\"", 2},
        {"3,x", "invalid stage \"x\"; expected e, h, a number of layers, or these joined by +", 2},
        {"3,3 ", "invalid stage \"3 \"", 2},
        {"-3,9", "invalid stage \"-3\"", 2},
        {"e+,6", "invalid stage \"e+\"", 2},
        {"+e,6", "invalid stage \"+e\"", 2},
        {"3,2++h", "invalid stage \"2++h\"", 2},
        {"e6,h", "invalid stage \"e6\"", 2},
        {"e+e,6", "invalid stage \"e+e\"", 2},
        {"3,1+2", "invalid stage \"1+2\"", 2},
        {"3,h+3+h", "invalid stage \"h+3+h\"", 2},
        {"3,3", "--pp-split 3,3: 2 stages, but --pp is 3", 3},
        {"2,2,2", "--pp-split 2,2,2: 3 stages, but --pp is 2", 2},
        {"3,e,3", "the embedding (e) must be on the first stage", 3},
        {"3,h,3", "the head (h) must be on the last stage", 3},
        {"h,6", "the head (h) must be on the last stage", 2},
        {"3,0,3", "--pp-split 3,0,3: stage 1 is empty", 3},
        {"3,4", "--pp-split 3,4: 7 layers, but the model has 6", 2},
        {"e,2,3,h", "--pp-split e,2,3,h: 5 layers, but the model has 6", 4},
        {"99999999999999999999,1", ": 32768 layers, but the model has 6", 2},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        int first[8];
        REFUSED(by_hand(first, cases[n].stages, 8, cases[n].text), TRINE_EINVAL, cases[n].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_is_the_least_of_all_splits),
        cmocka_unit_test(test_uneven_layers),
        cmocka_unit_test(test_a_dear_head_is_alone),
        cmocka_unit_test(test_many_layers),
        cmocka_unit_test(test_too_many_stages),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_bad_texts),
    };
    return HARNESS_RUN_ALONE(tests);
}

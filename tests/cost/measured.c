/* TEST np=0 */
/* The time of an operator between measured ones: of data by a formula that the regression has, of numbers of ranks, at
 * the edge; and what of a hardware file is a point. */
#include "near.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cost/op_time.h"

static measured_point product(int ranks, double rows, double columns, double depth) {
    return (measured_point){COUNT_linear_forward, TRINE_F32, ranks, {rows, columns, depth}, 0};
}

/* Seconds that grow with a power of the rows. */
static double power_law(const measured_point *p, double power) {
    return 1e-9 * p->size[0] * p->size[1] * p->size[2] * pow(p->size[0], power) * p->ranks;
}

static void add_cube(measured_points *m, int ranks, double power) {
    for (double r = 64; r <= 1024; r *= 4)
        for (double c = 256; c <= 1024; c *= 2)
            for (double d = 256; d <= 1024; d *= 2) {
                measured_point p = product(ranks, r, c, d);
                p.seconds = power_law(&p, power);
                assert_true(measured_add(m, &p));
            }
}

/* A rate that is constant is that of each place; one that is a power of a size nearly, since slopes are held towards
 * 0: within 2%. */
static void a_rate_between_points_is_theirs(void **state) {
    (void)state;
    static measured_points constant, sloped;
    add_cube(&constant, 1, 0);
    add_cube(&sloped, 1, -0.25);
    const measured_point places[] = {product(1, 64, 256, 256), product(1, 100, 300, 700),
                                     product(1, 500, 999, 257)};
    for (size_t n = 0; n < 3; n++) {
        double want = power_law(&places[n], 0), less = power_law(&places[n], -0.25);
        NEAR(measured_seconds(&constant, &places[n], -1), want, 1e-9 * want);
        NEAR(measured_seconds(&sloped, &places[n], -1), less, 0.02 * less);
    }
}

/* Beyond the points the rate is that at the edge. */
static void no_rate_is_continued_outside(void **state) {
    (void)state;
    static measured_points m;
    add_cube(&m, 1, -0.25);
    measured_point edge = product(1, 1024, 1024, 1024), far = product(1, 65536, 1024, 1024);
    double want = 64 * measured_seconds(&m, &edge, -1);
    NEAR(measured_seconds(&m, &far, -1), want, 1e-9 * want);
}

/* 2 ranks between 1 and 4 of them take twice what 1 takes; 8 twice what 4 take: they share the same cores. */
static void ranks_share_the_cores(void **state) {
    (void)state;
    static measured_points m;
    add_cube(&m, 1, 0);
    add_cube(&m, 4, 0);
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        measured_point p = product(ranks, 100, 300, 300);
        double want = power_law(&p, 0);
        NEAR(measured_seconds(&m, &p, -1), want, 1e-9 * want);
    }
}

static void what_was_not_measured_is_known(void **state) {
    (void)state;
    static measured_points m;
    measured_point p = product(1, 64, 64, 64), other = p;
    p.seconds = 1;
    assert_true(measured_add(&m, &p));
    NEAR(measured_seconds(&m, &p, -1), 1, 1e-12);
    assert_true(measured_seconds(&m, &p, 0) < 0);
    other.type = TRINE_BF16;
    assert_true(measured_seconds(&m, &other, -1) < 0);
    other = p, other.what = COUNT_linear_backward_input;
    assert_true(measured_seconds(&m, &other, -1) < 0);
}

/* A rank's operators take the time that as many ranks at once have, or as many as have its threads each. */
static void an_event_is_priced_among_the_ranks_of_its_node(void **state) {
    (void)state;
    static hardware h = {.node_ranks = 4, .cores = 4};
    count_event e = {.what = COUNT_linear_forward, .flops = 2e6, .product = {1, 100, 100, 100}};
    add_cube(&h.measured, 1, 0);
    add_cube(&h.measured, 4, 0);
    machine_cost m = {.h = &h, .ranks = 1};
    double alone = op_measured(&m, &e, TRINE_F32);
    assert_true(alone > 0);
    m.ranks = 4;
    NEAR(op_measured(&m, &e, TRINE_F32), 4 * alone, 1e-9 * alone);
    m.ranks = 64; /* of 16 nodes */
    NEAR(op_measured(&m, &e, TRINE_F32), 4 * alone, 1e-9 * alone);
    m = (machine_cost){.h = &h, .ranks = 1, .threads = 1};
    NEAR(op_measured(&m, &e, TRINE_F32), 4 * alone, 1e-9 * alone);
    m = (machine_cost){.h = &h, .ranks = 4, .threads = 4}; /* more threads than cores */
    NEAR(op_measured(&m, &e, TRINE_F32), 4 * alone, 1e-9 * alone);
}

static void a_group_inside_a_node_takes_the_measured_time(void **state) {
    (void)state;
    static hardware h = {.node_ranks = 2,
                         .node_rate = 1e9,
                         .node_efficiency = 1,
                         .network_rate = 1e9,
                         .network_cards = 1,
                         .network_efficiency = 1};
    const machine_cost m = {.h = &h};
    const group_place inside = {2, 1, 2}, over = {4, 1, 4};
    measured_point p = {COUNTED + (int)TRINE_TALLY_ALL_REDUCE, TRINE_F32, 2, {1e6, 1, 1}, 5};
    double between = op_collective(&m, over, TRINE_TALLY_ALL_REDUCE, 1e6);
    assert_true(measured_add(&h.measured, &p));
    NEAR(op_collective(&m, inside, TRINE_TALLY_ALL_REDUCE, 1e6), 5, 1e-9);
    NEAR(op_collective(&m, inside, TRINE_TALLY_ALL_GATHER, 1e6), 1e-3, 1e-9);
    NEAR(op_collective(&m, over, TRINE_TALLY_ALL_REDUCE, 1e6), between, 1e-12);
    p.what = COUNTED + (int)TRINE_TALLY_SEND, p.seconds = 7;
    assert_true(measured_add(&h.measured, &p));
    NEAR(op_message(&m, inside, 1e6), 7, 1e-9);
}

/* ---- Files ---- */

#define MEMBER "{\"value\": %g, \"how\": \"stated\", \"source\": \"a book\"}"

static trine_status parse(const char *more, hardware *h) {
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"about\": \"a machine\"");
#define WRITE(row, least, most, meaning)                                                           \
    used += (size_t)snprintf(text + used, sizeof text - used, ", \"" #row "\": " MEMBER,           \
                             (double)most);
    HARDWARE_LIST(WRITE)
#undef WRITE
    snprintf(text + used, sizeof text - used, "%s}", more);
    return hardware_parse(h, text, strlen(text), "m.json");
}

#define POINTS(list)                                                                               \
    ", \"measured\": {\"how\": \"measured\", \"source\": \"here\", \"points\": [" list "]}"

static void points_are_read(void **state) {
    (void)state;
    static hardware h;
    OK(parse("", &h));
    assert_true(h.measured.count == 0 && h.cores == 0 && h.host_moves == 0);
    OK(parse(", \"cores\": {\"value\": 2, \"how\": \"stated\", \"source\": \"s\"}" POINTS(
                 "[\"linear_forward\", \"bf16\", 2, [64, 128, 256], 0.5],"
                 "[\"all-reduce\", \"f32\", 2, [4096], 1e-6]"),
             &h));
    const measured_point *p = h.measured.at;
    assert_true(h.cores == 2 && h.measured.count == 2);
    assert_true(p[0].what == COUNT_linear_forward && p[0].type == TRINE_BF16 && p[0].ranks == 2);
    assert_true(p[0].size[0] == 64 && p[0].size[2] == 256 && p[0].seconds == 0.5);
    assert_true(p[1].what == COUNTED + (int)TRINE_TALLY_ALL_REDUCE && p[1].size[1] == 1);
    REFUSED(parse(POINTS("[\"linear\", \"f32\", 2, [64], 1]"), &h), TRINE_EDATA,
            "m.json: measured: point 0: unknown operator \"linear\"");
    REFUSED(parse(POINTS("[\"adamw\", \"f32\", 2, [64], 1], [\"adamw\", \"f32\", 2, [0], 1]"), &h),
            TRINE_EDATA, "m.json: measured: point 1 (adamw) is not");
    REFUSED(parse(POINTS("[\"adamw\", \"f32\", 2, [64], 0]"), &h), TRINE_EDATA, "point 0 (adamw)");
    REFUSED(parse(POINTS("[\"adamw\", \"f31\", 2, [64], 1]"), &h), TRINE_EDATA, "point 0 (adamw)");
    REFUSED(parse(", \"measured\": {\"how\": \"measured\", \"points\": []}", &h), TRINE_EDATA,
            "measured has no source");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_between_points_is_theirs),
        cmocka_unit_test(no_rate_is_continued_outside),
        cmocka_unit_test(ranks_share_the_cores),
        cmocka_unit_test(what_was_not_measured_is_known),
        cmocka_unit_test(an_event_is_priced_among_the_ranks_of_its_node),
        cmocka_unit_test(a_group_inside_a_node_takes_the_measured_time),
        cmocka_unit_test(points_are_read)};
    return HARNESS_RUN_ALONE(tests);
}

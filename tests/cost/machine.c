/* TEST np=0 */
/* Hardware files, and the time of an operator and of a collective by hand. */
#include "near.h"

#include <stdio.h>
#include <string.h>

#include "cost/hardware.h"
#include "cost/op_time.h"

/* ---- Files ---- */

#define CORES "{\"value\": 4, \"how\": \"stated\", \"source\": \"a book\"}"
#define MOVES "{\"value\": 1, \"how\": \"stated\", \"source\": \"a book\"}"
#define GOOD  "{\"value\": %g, \"how\": \"stated\", \"source\": \"a book\"}"

/* A file whose member `name` (NULL: none) has another text ("": it is missing), with `more` at the end. */
static void write_file(char *text, size_t size, const char *name, const char *other,
                       const char *more) {
    size_t used = (size_t)snprintf(text, size, "{\"about\": \"a machine\"");
#define MEMBER(row, least, most, meaning)                                                          \
    if (!name || strcmp(#row, name) != 0)                                                          \
        used += (size_t)snprintf(text + used, size - used, ", \"" #row "\": " GOOD, (double)most); \
    else if (*other)                                                                               \
        used += (size_t)snprintf(text + used, size - used, ", \"" #row "\": %s", other);
    HARDWARE_LIST(MEMBER)
#undef MEMBER
    snprintf(text + used, size - used, "%s}", more);
}

static trine_status parse(const char *name, const char *other, const char *more, hardware *h) {
    char text[8192];
    write_file(text, sizeof text, name, other, more);
    return hardware_parse(h, text, strlen(text), "m.json");
}

static void a_file_has_each_member_once(void **state) {
    (void)state;
    hardware h;
    OK(parse(NULL, "", "", &h));
    assert_true(h.matmul_efficiency == 1 && h.matmul_rate == 1e18);
    REFUSED(parse("node_rate", "", "", &h), TRINE_EDATA,
            "m.json: \"node_rate\" (bytes a second that a rank sends inside a node) is missing");
    REFUSED(parse(NULL, "", ", \"node_rate\": 3", &h), TRINE_EDATA,
            "m.json: \"node_rate\" appears twice");
}

/* The nearest name, if there is one, and all. */
static void an_unknown_member_is_told_the_names(void **state) {
    (void)state;
    hardware h;
    char all[2048] = "";
#define NAME(row, ...) ", " #row
    const char *names = "(valid: about, device, measured, checked, calibrated" HARDWARE_LIST(NAME)
        HARDWARE_MORE_LIST(NAME) ")";
#undef NAME
    snprintf(all, sizeof all, "m.json: unknown member \"node_rat\"; did you mean \"node_rate\"? %s",
             names);
    REFUSED(parse(NULL, "", ", \"node_rat\": 3", &h), TRINE_EDATA, all);
    snprintf(all, sizeof all, "m.json: unknown member \"bandwidth\" %s", names);
    REFUSED(parse(NULL, "", ", \"bandwidth\": 3", &h), TRINE_EDATA, all);
    REFUSED(parse("launch_time", "{\"value\": 0, \"how\": \"stated\", \"from\": \"s\"}", "", &h),
            TRINE_EDATA, "launch_time: unknown member \"from\" (valid: value, how, source)");
}

/* All at once, with what they are. */
static void missing_members_are_all_named(void **state) {
    (void)state;
    hardware h;
    const char *one = "{\"about\": \"a machine\", \"matmul_rate\": " CORES "}";
    assert_int_equal(hardware_parse(&h, one, strlen(one), "m.json"), TRINE_EDATA);
#define NAMED(row, least, most, meaning)                                                           \
    if (strcmp(#row, "matmul_rate") != 0)                                                          \
        assert_non_null(strstr(status_message(), "\"" #row "\" (" meaning ")"));
    HARDWARE_LIST(NAMED)
#undef NAMED
    assert_null(strstr(status_message(), "\"matmul_rate\""));
    assert_non_null(strstr(status_message(), "are missing"));
    status_clear();
    REFUSED(hardware_parse(&h, "{}", 2, "m.json"), TRINE_EDATA, "\"about\" is missing");
}

static void a_number_is_in_range_and_has_a_source(void **state) {
    (void)state;
    hardware h;
    REFUSED(parse("memory_efficiency", "{\"value\": 1.01, \"how\": \"fitted\", \"source\": \"s\"}",
                  "", &h),
            TRINE_EDATA, "memory_efficiency is 1.01 (valid: 0.001 to 1)");
    REFUSED(
        parse("launch_time", "{\"value\": -1e-6, \"how\": \"fitted\", \"source\": \"s\"}", "", &h),
        TRINE_EDATA, "launch_time is -1e-06 (valid: 0 to 1)");
    REFUSED(
        parse("launch_time", "{\"value\": \"1\", \"how\": \"fitted\", \"source\": \"s\"}", "", &h),
        TRINE_EDATA, "launch_time: \"value\" is \"1\": must be a number, in the unit that");
    REFUSED(
        parse("launch_time", "{\"value\": null, \"how\": \"fitted\", \"source\": \"s\"}", "", &h),
        TRINE_EDATA, "launch_time has no number \"value\"");
    REFUSED(hardware_parse(&h, "{\n  \"about\": 1,\n  x}", 20, "m.json"), TRINE_EDATA,
            "m.json: invalid JSON at byte 19 (line 3)");
    REFUSED(parse("launch_time", "{\"value\": 0, \"how\": \"guessed\", \"source\": \"s\"}", "", &h),
            TRINE_EDATA, "launch_time: how is \"guessed\"");
    REFUSED(parse("launch_time", "{\"value\": 0, \"source\": \"s\"}", "", &h), TRINE_EDATA,
            "how is missing");
    REFUSED(parse("launch_time", "{\"value\": 0, \"how\": \"stated\"}", "", &h), TRINE_EDATA,
            "launch_time has no source");
    REFUSED(parse("launch_time",
                  "{\"value\": 0, \"how\": \"stated\", \"source\": \"s\", \"unit\": 1}", "", &h),
            TRINE_EDATA, "launch_time: unknown member \"unit\"");
}

#define CHECKED "{\"mean\": 0.02, \"worst\": 0.05, \"rows\": 8, \"source\": \"a paper\"}"

static void a_file_says_how_well_it_predicts(void **state) {
    (void)state;
    hardware h;
    double least, most;
    OK(parse(NULL, "", "", &h));
    assert_false(hardware_range(&h, 2, &least, &most));
    assert_true(h.checked.rows == 0 && least == 2 && most == 2);
    OK(parse(NULL, "", ", \"checked\": " CHECKED, &h));
    assert_true(h.checked.mean == 0.02 && h.checked.rows == 8);
    /* Predictions of these were 2. */
    assert_true(hardware_range(&h, 2, &least, &most));
    NEAR(2 / least - 1, 0.05, 1e-12);
    NEAR(2 / most - 1, -0.05, 1e-12);
    REFUSED(parse(NULL, "", ", \"checked\": " CHECKED ", \"checked\": " CHECKED, &h), TRINE_EDATA,
            "\"checked\" appears twice");
    REFUSED(parse(NULL, "",
                  ", \"checked\": {\"mean\": 0.02, \"worst\": 0.01, \"rows\": 8, "
                  "\"source\": \"s\"}",
                  &h),
            TRINE_EDATA, "checked: mean is 0.02 (valid: 0 to 0.01)");
    REFUSED(parse(NULL, "",
                  ", \"checked\": {\"mean\": 0, \"worst\": 1, \"rows\": 8, "
                  "\"source\": \"s\"}",
                  &h),
            TRINE_EDATA, "checked: worst is 1 (valid: 0 to 0.99)");
    REFUSED(parse(NULL, "", ", \"checked\": {\"mean\": 0, \"worst\": 0, \"rows\": 8}", &h),
            TRINE_EDATA, "checked has no source");
    REFUSED(parse(NULL, "", ", \"calibrated\": {\"source\": \"s\"}", &h), TRINE_EDATA,
            "calibrated has no number \"factor\"");
}

/* An old file has no "device": cores that ranks share, or ranks that move bytes themselves, are a CPU's. */
static void a_file_says_what_its_ranks_compute_on(void **state) {
    (void)state;
    hardware h;
    OK(parse(NULL, "", "", &h));
    assert_string_equal(h.device, "cuda");
    OK(parse(NULL, "", ", \"cores\": " CORES, &h));
    assert_string_equal(h.device, "cpu");
    OK(parse(NULL, "", ", \"host_moves\": " MOVES, &h));
    assert_string_equal(h.device, "cpu");
    OK(parse(NULL, "", ", \"device\": \"cpu\"", &h));
    assert_string_equal(h.device, "cpu");
    OK(hardware_check_device(&h, "mine", "--device", "ref"));
    REFUSED(hardware_check_device(&h, "mine", "--device", "cuda"), TRINE_EINVAL,
            "--device cuda: --hardware mine is a machine of --device cpu");
    OK(parse(NULL, "", ", \"device\": \"cuda\", \"cores\": " CORES, &h));
    assert_string_equal(h.device, "cuda");
    OK(hardware_check_device(&h, "mine", "--device", "cuda"));
    REFUSED(parse(NULL, "", ", \"device\": \"ref\"", &h), TRINE_EDATA,
            "m.json: device is \"ref\" (valid: \"cpu\", \"cuda\")");
    REFUSED(parse(NULL, "", ", \"device\": 1", &h), TRINE_EDATA, "m.json: device is no text");
    REFUSED(parse(NULL, "", ", \"device\": \"cpu\", \"device\": \"cpu\"", &h), TRINE_EDATA,
            "\"device\" appears twice");
}

/* ---- Times ---- */

static const hardware small = {.matmul_rate = 1000,
                               .matmul_rate_fp32 = 500,
                               .matmul_efficiency = 0.5,
                               .tile_rows = 4,
                               .tile_columns = 8,
                               .processors = 3,
                               .tile_depth = 2,
                               .memory_rate = 1e6,
                               .memory_efficiency = 1,
                               .node_ranks = 4,
                               .node_rate = 100,
                               .node_efficiency = 0.5,
                               .node_latency = 1,
                               .network_cards = 2,
                               .network_rate = 10,
                               .network_efficiency = 0.5,
                               .network_latency = 7,
                               .message_efficiency = 0.25};

static void tiles_come_in_waves(void **state) {
    (void)state;
    const machine_cost m = {.h = &small}, untiled = {.h = &small, .without = 1u << COST_TILES};
    /* Three tiles of 4 x 8, in one wave; a fourth begins another. Quarters of tiles would be 12 of 16. */
    double wave = 3 * 4 * 8 * 2 * (100 + 2) / 500.0;
    NEAR(op_product(&m, (count_product){1, 12, 8, 100}, TRINE_BF16), wave, 1e-9);
    NEAR(op_product(&m, (count_product){3, 4, 8, 100}, TRINE_BF16), wave, 1e-9);
    NEAR(op_product(&m, (count_product){3, 8, 4, 100}, TRINE_BF16), wave, 1e-9);
    NEAR(op_product(&m, (count_product){1, 12, 8, 100}, TRINE_F32), 2 * wave, 1e-9);
    assert_true(op_product(&m, (count_product){1, 13, 8, 100}, TRINE_BF16) > 1.2 * wave);
    NEAR(op_product(&untiled, (count_product){1, 13, 8, 100}, TRINE_BF16), 2 * 13 * 8 * 100 / 500.0,
         1e-9);
}

/* A product of few flops takes the time of its operands. */
static void a_product_moves_its_operands(void **state) {
    (void)state;
    hardware slow = small;
    const machine_cost m = {.h = &slow};
    slow.memory_rate = 1;
    NEAR(op_product(&m, (count_product){2, 3, 5, 7}, TRINE_BF16), 2 * (15 + 21 + 35) * 2, 1e-9);
}

/* `sent` over the group's share of a node's links, and a step's latency for each neighbour in the ring. */
static void groups_share_the_cards_of_a_node(void **state) {
    (void)state;
    const machine_cost m = {.h = &small};
    NEAR(op_collective(&m, (group_place){1, 1, 16}, TRINE_TALLY_ALL_REDUCE, 100), 0, 0);
    NEAR(op_collective(&m, (group_place){4, 1, 16}, TRINE_TALLY_ALL_REDUCE, 100),
         100 / 50.0 + 2 * 3, 1e-9);
    /* All of both nodes: the rings have all cards. */
    NEAR(op_collective(&m, (group_place){8, 1, 16}, TRINE_TALLY_ALL_GATHER, 100),
         100 / 10.0 + 3 + 7, 1e-9);
    /* Two on each of four nodes: half of the cards. */
    NEAR(op_collective(&m, (group_place){8, 2, 16}, TRINE_TALLY_ALL_GATHER, 100),
         100 / 5.0 + 1 + 3 * 7, 1e-9);
    /* One on each: four groups share the cards. */
    NEAR(op_collective(&m, (group_place){4, 4, 16}, TRINE_TALLY_ALL_GATHER, 100), 100 / 2.5 + 3 * 7,
         1e-9);
    /* A job of two ranks a node has the cards for itself. */
    NEAR(op_collective(&m, (group_place){2, 4, 2}, TRINE_TALLY_ALL_GATHER, 100), 100 / 5.0 + 7,
         1e-9);
}

static void messages_share_them_too(void **state) {
    (void)state;
    const machine_cost m = {.h = &small};
    NEAR(op_message(&m, (group_place){4, 4, 16}, 100), 100 / (20 / 4.0 * 0.25) + 7, 1e-9);
    NEAR(op_message(&m, (group_place){2, 2, 4}, 100), 100 / 50.0 + 1, 1e-9);
}

/* Whatever takes time takes half of it on a machine that is scaled by two; what it could reach stays what is stated. */
static void a_scaled_machine_is_faster_in_all(void **state) {
    (void)state;
    hardware twice = small;
    const machine_cost a = {.h = &small}, b = {.h = &twice};
    twice.launch_time = 3, twice.host_time = 5, twice.checked.rows = 4;
    hardware_scale(&twice, 2);
    NEAR(op_product(&b, (count_product){1, 13, 8, 100}, TRINE_BF16),
         op_product(&a, (count_product){1, 13, 8, 100}, TRINE_BF16) / 2, 1e-12);
    NEAR(op_product(&b, (count_product){1, 13, 8, 100}, TRINE_F32),
         op_product(&a, (count_product){1, 13, 8, 100}, TRINE_F32) / 2, 1e-12);
    NEAR(op_bytes(&b, 100), op_bytes(&a, 100) / 2, 1e-12);
    for (int stride = 1; stride <= 4; stride *= 4) {
        NEAR(op_collective(&b, (group_place){4, stride, 16}, 100, 1),
             op_collective(&a, (group_place){4, stride, 16}, 100, 1) / 2, 1e-12);
        NEAR(op_message(&b, (group_place){2, stride, 16}, 100),
             op_message(&a, (group_place){2, stride, 16}, 100) / 2, 1e-12);
    }
    assert_true(twice.launch_time == 1.5 && twice.host_time == 2.5);
    assert_true(hardware_peak(&twice, true) == 1000 && hardware_peak(&twice, false) == 500);
    assert_true(twice.checked.rows == 0 && twice.calibrated == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_has_each_member_once),
                                       cmocka_unit_test(an_unknown_member_is_told_the_names),
                                       cmocka_unit_test(missing_members_are_all_named),
                                       cmocka_unit_test(a_number_is_in_range_and_has_a_source),
                                       cmocka_unit_test(tiles_come_in_waves),
                                       cmocka_unit_test(a_product_moves_its_operands),
                                       cmocka_unit_test(groups_share_the_cards_of_a_node),
                                       cmocka_unit_test(messages_share_them_too),
                                       cmocka_unit_test(a_file_says_how_well_it_predicts),
                                       cmocka_unit_test(a_file_says_what_its_ranks_compute_on),
                                       cmocka_unit_test(a_scaled_machine_is_faster_in_all)};
    return HARNESS_RUN_ALONE(tests);
}

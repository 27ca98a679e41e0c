/* TEST np=1,3,8 */
/* Comparison of values over ranks, and the report of differences. */
#include "harness.h"

#include <math.h>

#include "comm/api/alike.c" /* put_value, for more ranks than this job has */

static int rank, ranks;

static void begin(alike_list *list) {
    rank = trine_world_rank(harness_world);
    ranks = trine_world_size(harness_world);
    OK(alike_begin(list, 16));
}

static bool compare(const alike_list *list) {
    bool same;
    OK(alike_compare(harness_world, list, &same));
    return same;
}

/* The report on rank 0 for lists that differ; "" elsewhere. */
static const char *explain(const alike_list *list, size_t most, size_t want) {
    static char text[3000];
    size_t differ;
    text[0] = '\0';
    assert_false(compare(list));
    OK(alike_explain(harness_world, list, most, text, sizeof text, &differ));
    assert_int_equal(differ, want);
    if (rank) assert_string_equal(text, "");
    return text;
}

static void equal_values_are_equal(void **state) {
    alike_list list;
    (void)state;
    begin(&list);
    assert_true(compare(&list)); /* an empty list */
    alike_text(&list, "device", "cpu");
    alike_number(&list, "lr", 3e-4);
    alike_flag(&list, "audit", false);
    char own[16];
    snprintf(own, sizeof own, "rank %d", rank); /* the text does not matter */
    alike_data(&list, "data-path", own, "same", 4);
    assert_true(compare(&list));
    OK(alike_agree(harness_world, &list, "what"));
    alike_end(&list);
}

/* One rank differs, the last. */
static void the_smallest_difference_is_found(void **state) {
    (void)state;
    for (int what = 0; what < 4; what++) {
        alike_list list;
        begin(&list);
        bool other = rank == ranks - 1 && rank > 0;
        alike_number(&list, "first", 1);
        alike_number(&list, "lr", what == 0 && other ? nextafter(0.1, 1) : 0.1);
        alike_text(&list, what == 1 && other ? "beta2" : "beta1", "0.9");
        alike_flag(&list, "audit", what == 2 && other);
        alike_data(&list, "data", "text", what == 3 && other ? "b" : "a", 1);
        assert_int_equal(compare(&list), ranks == 1);
        alike_end(&list);
    }
}

static void lists_of_other_lengths_are_other_programs(void **state) {
    (void)state;
    alike_list list;
    bool same;
    begin(&list);
    if (ranks == 1) return alike_end(&list);
    for (int i = 0; i < (rank == 1 ? 3 : 2); i++) alike_number(&list, "x", 1);
    REFUSED(alike_compare(harness_world, &list, &same), TRINE_EAUDIT, "different builds");
    alike_end(&list);
}

static void who_has_what_is_said(void **state) {
    (void)state;
    alike_list list;
    char want[1000];
    begin(&list);
    if (ranks < 3) return alike_end(&list);
    alike_number(&list, "seed", 1);
    alike_number(&list, "lr", rank == 1 ? 0.002 : 0.001);
    alike_number(&list, "steps", rank);
    alike_flag(&list, "untied", rank == 0);
    const char *host = comm_host_names(harness_world)[0];
    const char *text = explain(&list, 1, 3);
    snprintf(want, sizeof want,
             "\n  --lr\n    0.001: ranks 0, 2%s, the first on %s\n    0.002: rank 1 on %s\n"
             "  and 2 more",
             ranks > 3 ? "-7" : "", host, host);
    if (rank == 0) assert_string_equal(text, want);
    trine_status status = alike_agree(harness_world, &list, "they differ");
    assert_int_equal(status, TRINE_EINVAL);
    const char *said = status_message();
    assert_int_equal(strncmp(said, "they differ:\n  --lr\n", 20) == 0, rank == 0);
    if (rank == 0 && ranks == 8) assert_non_null(strstr(said, "    3: rank 3 on "));
    if (rank == 0 && ranks == 8) assert_null(strstr(said, "    4: rank 4 on "));
    if (rank == 0 && ranks == 8) assert_non_null(strstr(said, "\n    and 4 other values"));
    alike_end(&list);
}

/* The report for world_size ranks with `values` values, in consecutive ranges or (scattered) round-robin. */
static void describe(char *text, size_t size, int world_size, int values, bool scattered) {
    trine_world world = {.size = world_size};
    writer w = {text, size};
    record *all = calloc((size_t)world_size, sizeof *all);
    world.hosts = calloc((size_t)world_size, sizeof *world.hosts);
    for (int r = 0; r < world_size; r++) {
        int value = scattered ? r % values : r * values / world_size;
        all[r].hash = (uint64_t)value;
        snprintf(all[r].text, sizeof all[r].text, "%d", value);
        snprintf(world.hosts[r].name, sizeof world.hosts[r].name, "node%d", r / 8);
    }
    text[0] = '\0';
    put_value(&w, &world, "seed", all);
    free(world.hosts);
    free(all);
}

static void a_thousand_ranks_are_few_words(void **state) {
    (void)state;
    char text[600];
    describe(text, sizeof text, 1000, 2, false);
    assert_string_equal(text, "\n  --seed\n    0: ranks 0-499, the first on node0\n"
                              "    1: ranks 500-999, the first on node62");
    describe(text, sizeof text, 1000, 2, true);
    assert_string_equal(
        text, "\n  --seed\n    0: ranks 0, 2, 4, 6, 8, 10, ... (500 ranks), the first on node0\n"
              "    1: ranks 1, 3, 5, 7, 9, 11, ... (500 ranks), the first on node0");
    describe(text, sizeof text, 1000, 1000, false);
    assert_string_equal(text, "\n  --seed\n    0: rank 0 on node0\n    1: rank 1 on node0\n"
                              "    2: rank 2 on node0\n    3: rank 3 on node0\n"
                              "    and 996 other values");
    char small[20]; /* text that does not fit is truncated */
    describe(small, sizeof small, 1000, 2, false);
    assert_string_equal(small, "\n  --seed\n    0: ra");
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_are_equal),
        cmocka_unit_test(the_smallest_difference_is_found),
        cmocka_unit_test(lists_of_other_lengths_are_other_programs),
        cmocka_unit_test(who_has_what_is_said),
        cmocka_unit_test(a_thousand_ranks_are_few_words),
    };
    return HARNESS_RUN(argc, argv, tests);
}

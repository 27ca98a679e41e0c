/* TEST np=0 */
/* The watchdog's report: the order of its lines, which ranks share a line, and that a thousand
 * ranks fit on one screen. The ranks are synthetic. */
#include <stdlib.h>
#include <string.h>

#include "comm/watch/places.h"
#include "harness.h"

enum { MOST = 1024 };

static sighting ranks[MOST];
static char text[PLACES_BYTES];

static void words(const int32_t w[PLACE_WORDS], char *out, size_t size) {
    snprintf(out, size, "FORWARD u%d", w[1]);
}

/* A rank of dp 8 x tp 8 x pp 16 that waits in the n-th all-gather of its dp group, in an instruction. */
static sighting waits_in(int rank, int instruction, uint64_t n) {
    sighting s = {.state = RANK_WAITS,
                  .at = {.rank = rank,
                         .size = MOST,
                         .pid = 1000 + rank,
                         .meshed = 1,
                         .coord = {[TRINE_AXIS_PP] = rank / 64,
                                   [TRINE_AXIS_DP] = rank / 8 % 8,
                                   [TRINE_AXIS_TP] = rank % 8},
                         .at = instruction,
                         .count = 96,
                         .words = {1, instruction},
                         .kind = TRINE_TALLY_ALL_GATHER,
                         .type = TRINE_F32,
                         .group = TRINE_DP,
                         .members = 8,
                         .first = rank - rank / 8 % 8 * 8,
                         .stride = 8,
                         .peer = -1,
                         .elements = 4096,
                         .number = n,
                         .waited = 600.25}};
    snprintf(s.at.host, sizeof s.at.host, "node%d", rank / 8);
    return s;
}

static void all_wait(void) {
    for (int r = 0; r < MOST; r++) ranks[r] = waits_in(r, 12, 37);
}

/* The report of the first `count` ranks; *line (rows) are its lines, the head first. Returns their
 * number. */
static int report(int count, const char *line[], int rows) {
    const places_head head = {
        .who = &ranks[1].at, .seconds = 600.25, .limit = 600, .limit_name = "timeout"};
    size_t length = places_print(text, sizeof text, &head, ranks, count, words);
    int n = 0;
    assert_int_equal(length, strlen(text));
    assert_int_equal(text[length - 1], '\n');
    for (char *at = text; *at; at = strchr(at, '\0') + 1) {
        assert_true(n < rows);
        line[n++] = at;
        *strchr(at, '\n') = '\0';
    }
    return n;
}

static void one_stopped_of_a_thousand(void **state) {
    (void)state;
    const char *line[40];
    all_wait();
    ranks[517].state = RANK_STOPPED;
    int n = report(MOST, line, 40);
    assert_int_equal(n, 3);
    assert_string_equal(line[0],
                        "trine: timed out: rank 1 [pp0 dp0 tp1] on node0 (pid 1001) waited 600.2 s "
                        "(timeout 600 s); the job aborts. State of all ranks, likely cause first:");
    assert_string_equal(
        line[1], "    rank 517 [pp8 dp0 tp5] on node64 (pid 1517): stopped by a signal or a "
                 "debugger, last call all-gather #37 of 4096 f32 over group dp; instruction 12 of "
                 "96, FORWARD u12");
    assert_string_equal(
        line[2], "    1023 ranks (0-516, 518-1023): waiting in all-gather #37 of 4096 f32 over "
                 "group dp, for 600.2 s; instruction 12 of 96, FORWARD u12");
}

/* Ranks with a known fault come before those that only wait, however few wait; then the smallest
 * set first. */
static void culprits_then_the_smallest_set(void **state) {
    (void)state;
    const char *line[40];
    static const struct {
        int rank;
        rank_status state;
        const char *says;
    } wrong[] = {{900, RANK_STOPPED, "stopped"},
                 {800, RANK_EXITED, "exited"},
                 {700, RANK_ABSENT, "no answer; check this node first"},
                 {600, RANK_STILL, "not running"},
                 {500, RANK_RUNS, "not communicating"}};
    all_wait();
    for (int r = 0; r < 300; r++) ranks[r] = waits_in(r, 11, 36);
    ranks[3] = waits_in(3, 10, 36);
    for (size_t i = 0; i < 5; i++) ranks[wrong[i].rank].state = (int32_t)wrong[i].state;
    int n = report(MOST, line, 40);
    assert_int_equal(n, 9);
    for (size_t i = 0; i < 5; i++) {
        char who[16];
        snprintf(who, sizeof who, "    rank %d ", wrong[i].rank);
        assert_int_equal(strncmp(line[1 + i], who, strlen(who)), 0);
        assert_non_null(strstr(line[1 + i], wrong[i].says));
    }
    assert_int_equal(strncmp(line[6], "    rank 3 ", 11), 0);
    assert_int_equal(strncmp(line[7], "    299 ranks (0-2, 4-299): ", 28), 0);
    assert_int_equal(strncmp(line[8], "    719 ranks (300-499, 501-599, ", 33), 0);
}

/* The number of the call distinguishes ranks in the same instruction of different steps. */
static void the_number_of_the_call_counts(void **state) {
    (void)state;
    const char *line[40];
    all_wait();
    ranks[9] = waits_in(9, 12, 36);
    assert_int_equal(report(MOST, line, 40), 4);
    assert_non_null(strstr(line[1], "every rank waits, but their calls do not match"));
    assert_non_null(strstr(line[2], "rank 9 "));
    assert_non_null(strstr(line[2], "all-gather #36 "));
    assert_non_null(strstr(line[2], "(ranks 1 9 17 25 33 41 49 57)"));
}

static void a_thousand_places_fit_on_a_screen(void **state) {
    (void)state;
    const char *line[40];
    for (int r = 0; r < MOST; r++) ranks[r] = waits_in(r, r % 96, (uint64_t)r);
    ranks[1000].state = RANK_RUNS;
    int n = report(MOST, line, 40);
    assert_int_equal(n, 1 + PLACES_LINES);
    assert_true(n <= 24);
    assert_non_null(strstr(line[1], "rank 1000 "));
    assert_non_null(strstr(line[n - 1], "... and 1013 more places (1013 ranks)"));
    for (int i = 1; i < n; i++) assert_true(strlen(line[i]) < 240);
}

/* A wait that has ended, or one for a disk, is no reason to abort a job. */
static void a_job_that_moves_is_alive(void **state) {
    (void)state;
    all_wait();
    assert_false(places_alive(ranks, MOST));
    ranks[700].state = RANK_FILES;
    assert_true(places_alive(ranks, MOST));
    ranks[700].state = RANK_STOPPED;
    assert_false(places_alive(ranks, MOST));
    ranks[3].moved = 1;
    assert_true(places_alive(ranks, MOST));
}

/* Every second rank: more ranges than a line shows. */
static void ranges_are_cut(void **state) {
    (void)state;
    const char *line[40];
    all_wait();
    for (int r = 0; r < MOST; r += 2) ranks[r] = waits_in(r, 13, 38);
    assert_int_equal(report(MOST, line, 40), 4);
    assert_non_null(strstr(line[2], "    512 ranks (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ...): "));
}

static void a_place_may_be_torn(void **state) {
    (void)state;
    const char *line[40];
    all_wait();
    ranks[0].at.kind = 77;
    ranks[1].at.group = -5;
    ranks[2].at.type = 99;
    ranks[3].at.count = -1;
    memset(ranks[4].at.host, 'x', sizeof ranks[4].at.host - 1);
    memset(ranks[5].at.words, 0x7f, sizeof ranks[5].at.words);
    assert_true(report(MOST, line, 40) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stopped_of_a_thousand),
        cmocka_unit_test(culprits_then_the_smallest_set),
        cmocka_unit_test(the_number_of_the_call_counts),
        cmocka_unit_test(a_thousand_places_fit_on_a_screen),
        cmocka_unit_test(a_job_that_moves_is_alive),
        cmocka_unit_test(ranges_are_cut),
        cmocka_unit_test(a_place_may_be_torn),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* TEST np=0 */
/* On which layout a run goes on when ranks are lost: a table, and random runs against brute force, which tries every
 * layout with trine_config_check and has a rule of its own. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "plan/layouts.h"
#include "plan/rehearse.h"
#include "trine.h"

/* ---- The table ---- */

/* A run of a model of 12 heads and 12 layers, 14 units, with micro-batches of 1. */
typedef struct {
    trine_layout asked;
    int batch;
    bool exact;
    int lanes, parts; /* --exact-dp, --exact-tp */
    int left;
    trine_layout best;
    int count;
} row;

#define L(d, t, p)                                                                                 \
    { .dp = (d), .tp = (t), .pp = (p) }

static const row rows[] = {
    /* All ranks are there, or more than were asked for. */
    {L(2, 2, 2), 12, true, 0, 0, 8, L(2, 2, 2), 8},
    {L(2, 2, 2), 12, true, 0, 0, 100, L(2, 2, 2), 8},
    /* 7 ranks would be a pipeline of 7; 6 with pp 2 would have another tp. */
    {L(2, 2, 2), 12, true, 0, 0, 7, L(3, 2, 1), 8},
    {L(2, 2, 2), 12, true, 0, 0, 6, L(3, 2, 1), 8},
    {L(2, 2, 2), 12, true, 0, 0, 4, L(1, 2, 2), 8},
    {L(2, 2, 2), 12, true, 0, 0, 3, L(3, 1, 1), 5},
    {L(2, 2, 2), 12, true, 0, 0, 1, L(1, 1, 1), 1},
    /* tp is kept, although dp 4 is larger; tp 3 would be another run. */
    {L(3, 4, 1), 12, true, 0, 0, 4, L(1, 4, 1), 7},
    {L(4, 6, 1), 24, true, 0, 0, 9, L(3, 3, 1), 8},
    {L(1, 6, 1), 1, true, 0, 0, 2, L(1, 1, 1), 1}, /* tp 2 would add three parts */
    {L(2, 6, 1), 12, true, 0, 0, 8, L(1, 6, 1), 8},
    {L(4, 4, 1), 24, true, 0, 0, 12, L(3, 4, 1), 8},
    {L(2, 2, 1), 24, true, 2, 0, 3, L(1, 2, 1), 3},
    /* The lanes are fewer than the micro-batches; the parts more than tp. */
    {L(4, 1, 1), 24, true, 4, 0, 3, L(2, 1, 1), 2},
    {L(4, 1, 1), 24, true, 24, 4, 3, L(3, 1, 1), 4},
    /* Without the promise dp 3 x tp 1 and others are valid as well, but not better. */
    {L(2, 2, 2), 12, false, 0, 0, 6, L(3, 2, 1), 8},
    {L(1, 4, 1), 1, false, 0, 0, 3, L(1, 3, 1), 3},
};

/* trine_config_check gives 0 as a default. */
static trine_config config_of(const row *r) {
    trine_config c = trine_config_default();
    c.data.data_path = "text.bin";
    c.model.seq_length = 768; /* exact-tp 6 divides it */
    c.parallel.layout = r->asked;
    c.global_batch_size = r->batch;
    c.parallel.exact = r->exact, c.parallel.exact_dp = r->lanes, c.parallel.exact_tp = r->parts;
    return c;
}

static int product(trine_layout l) {
    return l.dp * l.tp * l.pp;
}

static void the_best_layout_of_what_is_left(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        const row *r = &rows[n];
        trine_config c = config_of(r);
        layout_list list;
        OK(trine_config_check(&c, product(r->asked)));
        OK(layouts_find(&c, r->left < product(r->asked) ? r->left : product(r->asked), &list));
        trine_layout got = list.at[0], best = r->best;
        if (list.count != r->count || got.dp != best.dp || got.tp != best.tp || got.pp != best.pp)
            fail_msg("row %zu: %d layouts, dp %d tp %d pp %d; expected %d, dp %d tp %d pp %d", n,
                     list.count, got.dp, got.tp, got.pp, r->count, best.dp, best.tp, best.pp);
    }
}

/* ---- Brute force ---- */

static uint64_t random_state = 35;

/* splitmix64. */
static int draw(int n) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (int)((x ^ x >> 31) % (uint64_t)n);
}

static trine_config random_run(void) {
    static const trine_schedule schedules[] = {TRINE_1F1B, TRINE_ZBV, TRINE_INTERLEAVED};
    static const int heads[] = {1, 4, 6, 12}, batches[] = {1, 8, 12, 24};
    trine_config c = trine_config_default();
    c.data.data_path = "text.bin";
    c.model.num_attention_heads = heads[draw(4)];
    c.model.num_layers = 1 + draw(6);
    c.model.hidden_size = 48;
    c.model.seq_length = 8 + draw(2);
    c.micro_batch_size = 1 + draw(2);
    c.global_batch_size = c.micro_batch_size * batches[draw(4)];
    c.parallel.layout = (trine_layout)L(1 + draw(4), 1 + draw(4), 1 + draw(4));
    c.parallel.schedule = schedules[draw(3)];
    c.parallel.sequence_parallel = draw(3) == 0;
    if (!draw(6)) c.parallel.pp_split = "e,1+h", c.parallel.layout.pp = 2, c.model.num_layers = 1;
    c.parallel.exact = draw(3) > 0;
    return c;
}

/* Equal bits: a rank plays D / dp lanes, and 1, 2, 4, ... parts or all of them. */
static bool keeps(int lanes, int parts, trine_layout l) {
    bool all = l.tp == 1;
    for (int plays = 1; plays * l.tp <= parts; plays *= 2) all |= plays * l.tp == parts;
    return all && lanes / l.dp * l.dp == lanes;
}

/* The larger, the better: numbers of two digits each. */
static double score(trine_layout asked, trine_layout l) {
    double s = product(l);
    s = 2 * s + (l.tp == asked.tp);
    s = 2 * s + (l.pp == asked.pp);
    s = 100 * s + l.dp;
    return 100 * s + l.tp;
}

typedef struct {
    trine_layout layout;
    double score;
} candidate;

static int by_score(const void *a, const void *b) {
    double x = ((const candidate *)a)->score, y = ((const candidate *)b)->score;
    return (x < y) - (x > y);
}

enum { MOST = 64 * 64 };

static int try_all(const trine_config *c, int left, candidate *all) {
    trine_layout asked = c->parallel.layout;
    int count = 0;
    for (int n = 0; n < left * left * left; n++) {
        trine_layout l = L(1 + n % left, 1 + n / left % left, 1 + n / left / left);
        trine_config tried = *c;
        tried.parallel.layout = l;
        if (product(l) > left || l.pp > asked.pp) continue;
        if (c->parallel.exact && !keeps(c->parallel.exact_dp, c->parallel.exact_tp, l)) continue;
        bool valid = trine_config_check(&tried, product(l)) == TRINE_OK;
        status_clear();
        assert_true(count < MOST);
        if (valid) all[count++] = (candidate){l, score(asked, l)};
    }
    qsort(all, (size_t)count, sizeof *all, by_score);
    return count;
}

static void compare(const trine_config *c, int left) {
    static candidate all[MOST];
    layout_list list;
    int count = try_all(c, left, all);
    OK(layouts_find(c, left, &list));
    assert_int_equal(list.count, count < LAYOUTS_MOST ? count : LAYOUTS_MOST);
    for (int n = 0; n < list.count; n++)
        assert_memory_equal(&list.at[n], &all[n].layout, sizeof list.at[n]);
}

static void the_search_equals_brute_force(void **state) {
    (void)state;
    int runs = 0, promises = 0, none = 0;
    for (int tries = 0; runs < 300 && tries < 100000; tries++) {
        trine_config c = random_run();
        int ranks = product(c.parallel.layout), micros = c.global_batch_size / c.micro_batch_size;
        int dp = c.parallel.layout.dp, tp = c.parallel.layout.tp;
        if (c.parallel.exact) {
            c.parallel.exact_dp = draw(2) ? dp : micros;
            c.parallel.exact_tp = tp << draw(2);
        }
        bool valid = trine_config_check(&c, ranks) == TRINE_OK;
        status_clear();
        if (!valid || ranks > 32) continue;
        int left = 1 + draw(ranks);
        layout_list list;
        compare(&c, left);
        OK(layouts_find(&c, left, &list));
        runs++, promises += c.parallel.exact, none += list.count == 0;
    }
    assert_int_equal(runs, 300);
    assert_true(promises > 100 && none > 0);
}

/* ---- What --layouts prints ---- */

static char *printed(const trine_config *c, int ranks, char **why) {
    char *text;
    size_t size, words;
    FILE *out = open_memstream(&text, &size), *err = open_memstream(why, &words);
    OK(trine_layouts(c, ranks, out, err));
    fclose(out), fclose(err);
    return text;
}

static void expect(const trine_config *c, int ranks, const char *first, const char *rule) {
    char *why, *text = printed(c, ranks, &why);
    if (strncmp(text, first, strlen(first)) != 0) fail_msg("\"%s\" is not in \"%s\"", first, text);
    if (!strstr(why, rule)) fail_msg("\"%s\" is not in \"%s\"", rule, why);
    free(text), free(why);
}

static void the_options_and_the_rule_are_printed(void **state) {
    (void)state;
    trine_config c = config_of(&(row){.asked = L(2, 2, 2), .batch = 12, .exact = true});
    expect(&c, 7, "--dp 3 --tp 2 --pp 1 --exact-dp 12 --exact-tp 2\n",
           "7 ranks: dp 3 x tp 2 x pp 1 on 6, by rule: equal bits (dp divides 12; tp is 1, or 2 / "
           "tp a power of two), pp at most 2, the most ranks, then tp 2, then pp 2, then the "
           "largest dp\n");
    expect(&c, 0, "--dp 2 --tp 2 --pp 2 ", "8 ranks: ");
    expect(&c, 9, "--dp 2 --tp 2 --pp 2 ", "8 ranks: ");
    c.parallel.exact = false;
    expect(&c, 3, "--dp 3 --tp 1 --pp 1\n", "; without --exact another dp or tp changes the last");
    /* The batch would follow dp. */
    c.global_batch_size = 0;
    expect(&c, 4, "--dp 1 --tp 2 --pp 2 --global-batch-size 2\n", "4 ranks: ");
    c.parallel.layout.dp = 0, c.global_batch_size = 12;
    expect(&c, 16, "--dp 4 --tp 2 --pp 2\n", "16 ranks: dp 4 x tp 2 x pp 2 on 16, by rule: pp at");
}

/* Of the layouts that are listed without --memory those that fit, in the same order, and none that does not. */
static void memory_leaves_out_what_has_no_room(void **state) {
    (void)state;
    trine_config c = config_of(&(row){.asked = L(2, 2, 2), .batch = 12});
    c.model.vocab_size = 512;
    char *why;
    size_t bytes[LAYOUTS_MOST];
    int kept = 0;
    layout_list all, list;
    OK(layouts_find(&c, 8, &all));
    assert_true(all.count > 2);
    for (int n = 0; n < all.count; n++) {
        rehearsal r;
        trine_config one = c;
        one.parallel.layout = all.at[n];
        OK(rehearse(&r, &one, product(all.at[n]), REHEARSE_PLAN));
        OK(rehearsal_bytes(&r, &bytes[n]));
        rehearsal_end(&r);
    }
    c.parallel.memory = bytes[0] - 1; /* not the best one */
    OK(layouts_find(&c, 8, &list));
    assert_true(list.heavy > 0);
    for (int n = 0; n < all.count; n++)
        if (bytes[n] <= c.parallel.memory)
            assert_memory_equal(&list.at[kept++], &all.at[n], sizeof *all.at);
    free(printed(&c, 8, &why));
    assert_non_null(strstr(why, "by rule: what fits in --memory, pp at most 2"));
    free(why);
    c.parallel.memory = 1024;
    REFUSED(trine_layouts(&c, 8, stdout, NULL), TRINE_EINVAL, "fits in the --memory of a rank");
}

static void what_has_no_layout_is_refused(void **state) {
    (void)state;
    trine_config c = config_of(&(row){.asked = L(2, 2, 2), .batch = 12});
    c.parallel.pp_split = "e,12+h";
    REFUSED(trine_layouts(&c, 1, stdout, NULL), TRINE_EINVAL, "no valid layout of at most 1 ranks");
    c.parallel.pp_split = NULL;
    REFUSED(trine_layouts(&c, 200000, stdout, NULL), TRINE_EINVAL, "too many ranks: 200000");
    c.parallel.layout.tp = 5;
    REFUSED(trine_layouts(&c, 4, stdout, NULL), TRINE_EINVAL, "--tp 5");
    c.parallel.layout.tp = 0;
    REFUSED(trine_layouts(&c, 4, stdout, NULL), TRINE_EINVAL, "--tp 0");
    c.parallel.layout = (trine_layout)L(0, 2, 2);
    REFUSED(trine_layouts(&c, 0, stdout, NULL), TRINE_EINVAL, "--layouts requires --dp, or --ran");
    c.global_batch_size = 0;
    REFUSED(trine_layouts(&c, 4, stdout, NULL), TRINE_EINVAL, "--layouts requires --dp, or --ran");
}

/* The suggestions are for the ranks that were asked about; tp 5 on one replica is 5. */
static void others_are_for_the_ranks_that_were_asked_about(void **state) {
    (void)state;
    trine_config c = config_of(&(row){.asked = L(0, 5, 1), .batch = 48});
    REFUSED(trine_layouts(&c, 64, stdout, NULL), TRINE_EINVAL,
            "valid layouts for 64 ranks: --dp 16 --tp 4 --pp 1, or ");
    REFUSED(trine_layouts(&c, 1, stdout, NULL), TRINE_EINVAL,
            "valid layouts for 1 rank: --dp 1 --tp 1 --pp 1");
    c.parallel.layout.dp = 2;
    REFUSED(trine_layouts(&c, 64, stdout, NULL), TRINE_EINVAL, "valid layouts for 10 ranks: --dp ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_layout_of_what_is_left),
        cmocka_unit_test(the_search_equals_brute_force),
        cmocka_unit_test(the_options_and_the_rule_are_printed),
        cmocka_unit_test(memory_leaves_out_what_has_no_room),
        cmocka_unit_test(what_has_no_layout_is_refused),
        cmocka_unit_test(others_are_for_the_ranks_that_were_asked_about),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* TEST np=0 */
/* Sampling: the meaning of the options, the frequencies of tokens, and that the token depends only on
 * logits, options and position. */
#include "generate/exp64.h"
#include "generate/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { V = 11 };

static const float logits[V] = {0.5f,  -1.0f, 2.0f, 2.0f, -INFINITY, 1.0f,
                                -3.0f, 0.0f,  2.0f, 1.5f, -0.25f};

static int32_t token_at(const trine_sampling *s, uint64_t place) {
    int32_t ids[V], token = -1;
    OK(sample_token(logits, V, s, place, ids, &token));
    assert_in_range(token, 0, V - 1);
    return token;
}

static void zero_takes_the_first_of_the_largest(void **state) {
    (void)state;
    for (uint64_t place = 0; place < 50; place++)
        for (int k = 0; k < 13; k++)
            assert_int_equal(token_at(&(trine_sampling){.top_k = k, .seed = place}, place), 2);
}

/* With equal logits the lowest ids are kept. */
static void top_k_keeps_the_k_largest(void **state) {
    (void)state;
    static const int32_t order[] = {2, 3, 8, 9, 5, 0, 7, 10, 1, 6, 4};
    for (int k = 1; k <= V; k++) {
        int seen[V] = {0};
        trine_sampling s = {.temperature = 50.0, .top_k = k, .seed = 3};
        for (uint64_t place = 0; place < 2000; place++) seen[token_at(&s, place)]++;
        for (int i = 0; i < V; i++) assert_int_equal(seen[order[i]] > 0, i < k && i < V - 1);
    }
}

/* Probabilities at temperature 1, the largest first: three of 0.2145, then 0.1301, 0.0789, 0.0479, ... The set reaches
 * p with the token that makes the sum p or more; equal logits are kept lowest id first. */
static void check_nucleus(double temperature) {
    static const int32_t order[] = {2, 3, 8, 9, 5, 0, 7, 10, 1, 6, 4};
    double p[V], total = 0, sum = 0;
    for (int i = 0; i < V; i++) total += p[i] = exp((double)logits[order[i]] / temperature);
    for (int kept = 1; kept <= 10; kept++) {
        sum += p[kept - 1] / total;
        int seen[V] = {0};
        /* Halfway into the last token that is kept. */
        trine_sampling s = {.temperature = temperature, .seed = 3};
        s.top_p = sum - p[kept - 1] / total / 2;
        for (uint64_t place = 0; place < 4000; place++) seen[token_at(&s, place)]++;
        for (int i = 0; i < V; i++) assert_int_equal(seen[order[i]] > 0, i < kept);
        assert_true(seen[2] > 300);
    }
}

/* Of the tempered distribution: the temperature comes before top-p. */
static void top_p_keeps_the_smallest_set_that_reaches_it(void **state) {
    (void)state;
    check_nucleus(1.0);
    check_nucleus(2.0);
}

/* Top-k comes first: of two tokens with equal logits one half is the first, though it is a fifth of all. */
static void top_p_is_of_what_top_k_keeps(void **state) {
    (void)state;
    trine_sampling s = {.temperature = 1.0, .top_k = 2, .top_p = 0.49, .seed = 5};
    for (uint64_t place = 0; place < 200; place++) assert_int_equal(token_at(&s, place), 2);
    int seen = 0;
    s.top_p = 0.51;
    for (uint64_t place = 0; place < 200; place++) seen += token_at(&s, place) == 3;
    assert_in_range(seen, 70, 130);
}

/* The temperature comes before top-p: a high one flattens what p is the share of. */
static void top_p_is_of_the_tempered_distribution(void **state) {
    (void)state;
    int seen[V] = {0};
    trine_sampling s = {.temperature = 1000.0, .top_p = 0.95, .seed = 5};
    for (uint64_t place = 0; place < 2000; place++) seen[token_at(&s, place)]++;
    for (int v = 0; v < V; v++) assert_int_equal(seen[v] > 0, v != 4);
}

static void a_penalty_pulls_tokens_down_once(void **state) {
    (void)state;
    float own[V];
    int32_t marks[V];
    const int32_t tokens[] = {2, 1, 2, 4, 7, 2, 0};
    memcpy(own, logits, sizeof own);
    sample_penalize(own, V, 2.0, tokens, 7, marks);
    const float wanted[V] = {0.25f, -2.0f, 1.0f, 2.0f, -INFINITY, 1.0f,
                             -3.0f, 0.0f,  2.0f, 1.5f, -0.25f};
    assert_memory_equal(own, wanted, sizeof own);
    for (int off = 0; off < 2; off++) {
        memcpy(own, logits, sizeof own);
        sample_penalize(own, V, off, tokens, 7, marks);
        assert_memory_equal(own, logits, sizeof own);
    }
}

/* Pearson's test of `draws` draws with the softmax's probabilities: with nine degrees
 * of freedom (ten tokens), 27.9 is exceeded once in a thousand times. The draws are the same in every run. */
static void check_frequencies(double temperature, int top_k, int kept) {
    enum { DRAWS = 50000 };
    trine_sampling s = {.temperature = temperature, .top_k = top_k, .seed = 7};
    double p[V], total = 0, distance = 0;
    int seen[V] = {0};
    for (int v = 0; v < V; v++) {
        bool in = top_k == 0 || logits[v] >= 1.5f;
        total += p[v] = in ? exp((double)logits[v] / temperature) : 0;
    }
    for (uint64_t place = 0; place < DRAWS; place++) seen[token_at(&s, place)]++;
    for (int v = 0; v < V; v++) {
        double wanted = p[v] / total * DRAWS;
        if (wanted == 0)
            assert_int_equal(seen[v], 0);
        else
            distance += (seen[v] - wanted) * (seen[v] - wanted) / wanted;
        kept -= wanted > 0;
    }
    assert_int_equal(kept, 0);
    if (!(distance < 27.9)) fail_msg("temperature %g: chi-square %g", temperature, distance);
}

static void tokens_come_as_often_as_the_softmax_says(void **state) {
    (void)state;
    check_frequencies(1.0, 0, 10);
    check_frequencies(0.5, 0, 10);
    check_frequencies(3.0, 0, 10);
    check_frequencies(1.0, 4, 4);
}

/* The draws depend on each of the three, and on nothing else. */
static void a_choice_is_a_function(void **state) {
    (void)state;
    trine_sampling a = {.temperature = 1.0, .seed = 1}, b = a;
    int same = 0;
    b.seed = 2;
    for (uint64_t place = 0; place < 1000; place++) {
        assert_int_equal(token_at(&a, place), token_at(&a, place));
        same += token_at(&a, place) == token_at(&b, place);
    }
    assert_in_range(same, 50, 400); /* two independent draws agree in a fifth of the places */
}

/* Must never change, so that texts stay reproducible. */
static void choices_are_those_of_the_first_release(void **state) {
    (void)state;
    static const int32_t first[] = {5, 7, 3, 3, 3, 9, 3, 2, 3, 10, 2, 0};
    trine_sampling s = {.temperature = 1.0, .seed = 42};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_int_equal(token_at(&s, i + (i > 7 ? UINT64_C(1) << 33 : 0)), first[i]);
}

/* Against the maths library, which is within a unit in the last place. */
static void exponentials_are_exact_to_the_last_places(void **state) {
    (void)state;
    double worst = 0;
    for (int i = 0; i <= 1000000; i++) {
        double x = -708.0 * i / 1000000, wanted = exp(x);
        worst = fmax(worst, fabs(exp64_below(x) - wanted) / wanted);
    }
    if (!(worst < 4e-16)) fail_msg("relative error %g", worst);
    assert_true(exp64_below(0) == 1 && exp64_below(-708.001) == 0 && exp64_below(-INFINITY) == 0);
    assert_true(isnan(exp64_below(NAN)));
}

/* Large logits do not overflow exp, and a tiny temperature behaves like 0. */
static void large_logits_and_small_temperatures(void **state) {
    (void)state;
    const float large[3] = {-1e30f, 3e30f, 2.9e30f};
    int32_t ids[3], token;
    for (uint64_t place = 0; place < 20; place++) {
        OK(sample_token(large, 3, &(trine_sampling){.temperature = 1.0}, place, ids, &token));
        assert_int_equal(token, 1);
        int32_t cold = token_at(&(trine_sampling){.temperature = 1e-300}, place);
        assert_true(cold == 2 || cold == 3 || cold == 8);
    }
}

static void what_is_no_number_is_refused(void **state) {
    (void)state;
    float bad[V];
    int32_t ids[V], token;
    trine_sampling s = {.temperature = 1.0};
    memcpy(bad, logits, sizeof bad);
    bad[6] = NAN;
    REFUSED(sample_token(bad, V, &s, 0, ids, &token), TRINE_EMATH, "token 6 is NaN");
    s.temperature = 0;
    REFUSED(sample_token(bad, V, &s, 0, ids, &token), TRINE_EMATH, "NaN");
    bad[6] = INFINITY;
    REFUSED(sample_token(bad, V, &s, 0, ids, &token), TRINE_EMATH, "inf");
    for (int v = 0; v < V; v++) bad[v] = -INFINITY;
    REFUSED(sample_token(bad, V, &s, 0, ids, &token), TRINE_EMATH, "-inf");
}

static void senseless_options_are_refused(void **state) {
    (void)state;
    OK(sample_check(&(trine_sampling){0}));
    REFUSED(sample_check(&(trine_sampling){.temperature = -1}), TRINE_EINVAL, "temperature -1");
    REFUSED(sample_check(&(trine_sampling){.temperature = NAN}), TRINE_EINVAL, "temperature");
    REFUSED(sample_check(&(trine_sampling){.top_k = -1}), TRINE_EINVAL, "top-k -1");
    REFUSED(sample_check(&(trine_sampling){.top_p = 1.01}), TRINE_EINVAL, "top-p 1.01");
    REFUSED(sample_check(&(trine_sampling){.top_p = NAN}), TRINE_EINVAL, "top-p");
    REFUSED(sample_check(&(trine_sampling){.repetition_penalty = -1}), TRINE_EINVAL, "penalty -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_takes_the_first_of_the_largest),
        cmocka_unit_test(top_k_keeps_the_k_largest),
        cmocka_unit_test(top_p_keeps_the_smallest_set_that_reaches_it),
        cmocka_unit_test(top_p_is_of_what_top_k_keeps),
        cmocka_unit_test(top_p_is_of_the_tempered_distribution),
        cmocka_unit_test(a_penalty_pulls_tokens_down_once),
        cmocka_unit_test(tokens_come_as_often_as_the_softmax_says),
        cmocka_unit_test(a_choice_is_a_function),
        cmocka_unit_test(choices_are_those_of_the_first_release),
        cmocka_unit_test(exponentials_are_exact_to_the_last_places),
        cmocka_unit_test(large_logits_and_small_temperatures),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(senseless_options_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}

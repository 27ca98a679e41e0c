/* TEST np=0 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/sampler.h"

#define VOCAB 70000

/* The source under test: token i has id i, so that a sample shows its position; two shards. */
static char shards[2][48], glob_of_both[48];

static void write_shard(const char *path, int32_t first, int32_t count) {
    tokens_writer *w;
    OK(tokens_writer_open(&w, path, VOCAB, 0));
    for (int32_t id = first; id < first + count; id++) OK(tokens_writer_add(w, &id, 1));
    OK(tokens_writer_close(&w));
}

/* `count` tokens, 2 / 3 of them in the second shard. The caller closes it. */
static tokens *source(int32_t count) {
    tokens *t;
    write_shard(shards[0], 0, count / 3);
    write_shard(shards[1], count / 3, count - count / 3);
    OK(tokens_open(&t, glob_of_both));
    return t;
}

static void windows_are_counted(void **state) {
    (void)state;
    static const struct {
        int32_t tokens;
        size_t T;
        uint64_t windows;
    } rows[] = {{9, 8, 1},  {16, 8, 1}, {17, 8, 2},     {24, 8, 2},
                {25, 8, 3}, {10, 1, 9}, {1001, 10, 100}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tokens *t = source(rows[i].tokens);
        sampler s;
        OK(sampler_create(&s, t, rows[i].T, VOCAB, 1, SAMPLER_SHUFFLED));
        assert_int_equal(s.windows, rows[i].windows);
        tokens_close(&t);
    }
}

static void a_source_shorter_than_a_sample_is_refused(void **state) {
    (void)state;
    tokens *t = source(8);
    sampler s;
    REFUSED(sampler_create(&s, t, 8, VOCAB, 1, SAMPLER_SHUFFLED), TRINE_EDATA,
            "8 tokens are too few; one sample of sequence length 8 needs 9");
    REFUSED(sampler_create(&s, t, 1000, VOCAB, 1, SAMPLER_SEQUENTIAL), TRINE_EDATA,
            "8 tokens are too few; one sample of sequence length 1000 needs 1001");
    OK(sampler_create(&s, t, 7, VOCAB, 1, SAMPLER_SHUFFLED));
    tokens_close(&t);
}

/* Each epoch has every window once; returns the number of places in which two epochs agree. */
static void each_epoch_is_a_permutation_of_its_own(void **state) {
    (void)state;
    enum { T = 10, N = 100, EPOCHS = 5 };
    tokens *t = source(N * T + 1);
    sampler s;
    OK(sampler_create(&s, t, T, VOCAB, 1337, SAMPLER_SHUFFLED));
    assert_int_equal(s.windows, N);
    uint64_t window[EPOCHS][N];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool seen[N] = {false};
        int in_place = 0;
        for (uint64_t place = 0; place < N; place++) {
            uint64_t w = window[epoch][place] = sampler_window(&s, epoch * N + place);
            assert_true(w < N);
            assert_false(seen[w]);
            seen[w] = true;
            in_place += w == place;
        }
        /* Places where two random orders agree are Poisson(1): P(> 8) = 1e-6. */
        assert_true(in_place <= 8);
        for (uint64_t before = 0; before < epoch; before++) {
            int agree = 0;
            for (int place = 0; place < N; place++)
                agree += window[epoch][place] == window[before][place];
            assert_true(agree <= 8);
        }
    }
    tokens_close(&t);
}

static void the_order_is_a_pure_function(void **state) {
    (void)state;
    enum { T = 5, N = 64 };
    tokens *t = source(N * T + 1);
    sampler a, b, other;
    OK(sampler_create(&a, t, T, VOCAB, 7, SAMPLER_SHUFFLED));
    OK(sampler_create(&b, t, T, VOCAB, 7, SAMPLER_SHUFFLED));
    OK(sampler_create(&other, t, T, VOCAB, 8, SAMPLER_SHUFFLED));
    int agree = 0;
    uint64_t forward[3 * N];
    for (uint64_t g = 0; g < 3 * N; g++) {
        forward[g] = sampler_window(&a, g);
        agree += forward[g] == sampler_window(&other, g);
    }
    for (uint64_t g = 3 * N; g-- > 0;) { /* in reverse order, interleaved with other samples */
        int32_t inputs[T], targets[T];
        OK(sampler_load(&b, g / 2, inputs, targets, NULL));
        assert_int_equal(sampler_window(&b, g), forward[g]);
    }
    /* Another seed is another order: agreements are Poisson(3), P(> 14) = 6e-7. */
    assert_true(agree <= 14);
    uint64_t late = UINT64_MAX - 5; /* after very long training */
    assert_true(sampler_window(&a, late) < N);
    tokens_close(&t);
}

/* Computed by another implementation of Philox, XXH3 and the permutation. */
static void the_order_is_the_documented_one(void **state) {
    (void)state;
    static const uint64_t want[2][10] = {{2, 8, 0, 5, 7, 3, 1, 4, 9, 6},
                                         {3, 9, 6, 0, 5, 4, 1, 7, 8, 2}};
    tokens *t = source(41);
    sampler s;
    OK(sampler_create(&s, t, 4, VOCAB, 1337, SAMPLER_SHUFFLED));
    for (uint64_t g = 0; g < 20; g++) assert_int_equal(sampler_window(&s, g), want[g / 10][g % 10]);
    tokens_close(&t);
}

/* The last window ends at the last token, and some window crosses the shards' border. */
static void targets_are_the_inputs_shifted_by_one(void **state) {
    (void)state;
    enum { T = 7, N = 11 };
    tokens *t = source(N * T + 1);
    sampler s;
    OK(sampler_create(&s, t, T, VOCAB, 3, SAMPLER_SHUFFLED));
    for (uint64_t g = 0; g < 2 * N; g++) {
        int32_t inputs[T + 1], targets[T + 1];
        inputs[T] = targets[T] = -9;
        OK(sampler_load(&s, g, inputs, targets, NULL));
        int32_t first = (int32_t)sampler_window(&s, g) * T;
        for (int32_t i = 0; i < T; i++) {
            assert_int_equal(inputs[i], first + i);
            assert_int_equal(targets[i], first + i + 1);
        }
        assert_int_equal(inputs[T], -9);
        assert_int_equal(targets[T], -9);
    }
    tokens_close(&t);
}

static void samples_of_one_token(void **state) {
    (void)state;
    tokens *t = source(3);
    sampler s;
    int32_t input, target;
    OK(sampler_create(&s, t, 1, VOCAB, 0, SAMPLER_SEQUENTIAL));
    OK(sampler_load(&s, 1, &input, &target, NULL));
    assert_int_equal(input, 1);
    assert_int_equal(target, 2);
    tokens_close(&t);
}

static void sequential_order_goes_round(void **state) {
    (void)state;
    enum { T = 8, N = 12 };
    tokens *t = source(N * T + 5); /* four tokens at the end belong to no window */
    sampler s;
    OK(sampler_create(&s, t, T, VOCAB, 99, SAMPLER_SEQUENTIAL));
    for (uint64_t g = 0; g < 3 * N; g++) assert_int_equal(sampler_window(&s, g), g % N);
    int32_t inputs[T], targets[T];
    OK(sampler_load(&s, N + 2, inputs, targets, NULL));
    assert_int_equal(inputs[0], 2 * T);
    assert_int_equal(targets[T - 1], 3 * T);
    tokens_close(&t);
}

static void an_id_beyond_the_vocabulary_is_said(void **state) {
    (void)state;
    enum { T = 4 };
    tokens *t = source(9); /* ids 0 to 8 */
    sampler s;
    int32_t inputs[T], targets[T];
    OK(sampler_create(&s, t, T, 8, 1, SAMPLER_SEQUENTIAL));
    OK(sampler_load(&s, 0, inputs, targets, NULL));
    REFUSED(sampler_load(&s, 1, inputs, targets, NULL), TRINE_EDATA,
            "id 8 is outside the vocabulary of 8");
    OK(sampler_create(&s, t, T, 6, 1, SAMPLER_SEQUENTIAL)); /* among the inputs */
    REFUSED(sampler_load(&s, 1, inputs, targets, NULL), TRINE_EDATA,
            "id 6 is outside the vocabulary of 6");
    tokens_close(&t);
}

static const struct CMUnitTest sampler_tests[] = {
    cmocka_unit_test(windows_are_counted),
    cmocka_unit_test(a_source_shorter_than_a_sample_is_refused),
    cmocka_unit_test(each_epoch_is_a_permutation_of_its_own),
    cmocka_unit_test(the_order_is_a_pure_function),
    cmocka_unit_test(the_order_is_the_documented_one),
    cmocka_unit_test(targets_are_the_inputs_shifted_by_one),
    cmocka_unit_test(samples_of_one_token),
    cmocka_unit_test(sequential_order_goes_round),
    cmocka_unit_test(an_id_beyond_the_vocabulary_is_said),
};

int main(void) {
    char folder[] = "/tmp/trine-sampler-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    for (int i = 0; i < 2; i++) snprintf(shards[i], sizeof shards[i], "%s/%d.bin", folder, i);
    snprintf(glob_of_both, sizeof glob_of_both, "%s/?.bin", folder);
    int failed = HARNESS_RUN_ALONE(sampler_tests);
    for (int i = 0; i < 2; i++) unlink(shards[i]);
    return rmdir(folder) || failed;
}

/* TEST np=0 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define LAYER_KEY UINT64_C(0x30e72350cb81e1f8) /* of (1337, "h.3.ln_1.weight") */

/* The philox4x32 lines with 10 rounds of tests/kat_vectors in the Random123 distribution. */
static void philox_gives_the_published_words(void **state) {
    (void)state;
    const struct {
        uint32_t counter[4], key[2], words[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        rng_philox4x32(out, rows[i].counter, rows[i].key);
        assert_memory_equal(out, rows[i].words, sizeof out);
    }
}

static void a_stream_is_philox_over_its_blocks(void **state) {
    (void)state;
    uint64_t key = UINT64_C(0x1122334455667788), block = UINT64_C(0x99aabbccddeeff01);
    uint32_t out[4], want[4];
    rng_philox(out, key, block);
    rng_philox4x32(want, (uint32_t[4]){0xddeeff01, 0x99aabbcc, 0, 0},
                   (uint32_t[2]){0x55667788, 0x11223344});
    assert_memory_equal(out, want, sizeof out);
}

/* Values of the reference implementation of XXH3. */
static void keys_are_xxh3_of_the_name(void **state) {
    (void)state;
    assert_int_equal(rng_key(0, ""), UINT64_C(0x2d06800538d394c2));
    assert_int_equal(rng_key(1337, "h.3.ln_1.weight"), LAYER_KEY);
    assert_int_equal(rng_key((UINT64_C(1) << 63) + 5, "data.epoch.0"),
                     UINT64_C(0x64682b279aa4824b));
}

/* The same formula in double precision, computed by another implementation. Lanes 0 to 3, the
 * next block, and a block whose index does not fit 32 bits when multiplied by 4. */
static void normal_values_are_those_of_the_formula(void **state) {
    (void)state;
    const struct {
        uint64_t index;
        double value;
    } rows[] = {
        {0, 0.030631148021100407},
        {1, 0.036269894137328215},
        {2, -0.009828048287163176},
        {3, -0.0016657983247603426},
        {4, 0.0012218289096906495},
        {7, 0.008632863347849436},
        {(UINT64_C(1) << 34) + 1, -0.036056342281766136},
        {(UINT64_C(1) << 34) + 2, -0.001533481933203941},
        {419929560,
         -0.09716894079358403}, /* its uniform number is 3: so small that half a step shows */
        {419929561, 0.08544328172882447},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float got;
        rng_normal(&got, LAYER_KEY, rows[i].index, 1, 0.02);
        /* Half a unit in the last place of a float is 2^-24 of its value = 6e-8; the libraries'
         * logarithms may differ in the last bit of a double. */
        assert_true(fabs(got - rows[i].value) <= 6.1e-8 * fabs(rows[i].value));
    }
}

static void parts_of(void (*draw)(float *out, uint64_t key, uint64_t first, size_t count,
                                  double std)) {
    enum { COUNT = 64 };
    const uint64_t origin = (UINT64_C(1) << 34) - 30; /* blocks cross 2^32 */
    float all[COUNT], part[COUNT];
    draw(all, 7, origin, COUNT, 0.5);
    for (size_t first = 0; first < COUNT; first++)
        for (size_t count = 0; count <= COUNT - first; count++) {
            memset(part, 0x5a, sizeof part);
            draw(part, 7, origin + first, count, 0.5);
            assert_memory_equal(part, all + first, count * sizeof *part);
            if (count < COUNT) assert_int_equal(((unsigned char *)(part + count))[0], 0x5a);
        }
}

static void any_part_has_the_bits_of_the_whole(void **state) {
    (void)state;
    parts_of(rng_normal);
    parts_of(rng_uniform);
}

static void normal_numbers_have_their_moments(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    float *x = malloc(COUNT * sizeof *x);
    assert_non_null(x);
    rng_normal(x, rng_key(1, "wte.weight"), 0, COUNT, 2.0);
    double sum = 0, squares = 0, fourth = 0, neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        double z = x[i] / 2.0;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
        if (i) neighbours += z * x[i - 1] / 2.0;
    }
    free(x);
    /* Five standard errors of n = 2^20 draws: those of the mean and of the product of neighbours
     * are 1/sqrt(n), of the variance sqrt(2/n), of the fourth moment sqrt(96/n). */
    double error = 5 / sqrt(COUNT);
    assert_true(fabs(sum / COUNT) < error);
    assert_true(fabs(neighbours / COUNT) < error);
    assert_true(fabs(squares / COUNT - 1) < error * sqrt(2));
    assert_true(fabs(fourth / COUNT - 3) < error * sqrt(96));
}

static void permute_is_a_bijection(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4096, 4097};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t key = 0; key < 5; key++) {
            bool seen[4097] = {false};
            for (uint64_t i = 0; i < sizes[s]; i++) {
                uint64_t image = rng_permute(key, sizes[s], i);
                assert_true(image < sizes[s]);
                assert_false(seen[image]);
                seen[image] = true;
            }
        }
}

/* Computed by another implementation. */
static void permute_gives_the_expected_order(void **state) {
    (void)state;
    static const uint64_t order[] = {8, 9, 2, 6, 5, 3, 4, 7, 1, 0};
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(rng_permute(LAYER_KEY, 10, i), order[i]);
    /* A power of four: the network has exactly that width. */
    static const uint64_t full[] = {8, 9, 2, 6, 5, 3, 4, 13, 1, 0, 15, 10, 7, 12, 14, 11};
    for (uint64_t i = 0; i < 16; i++) assert_int_equal(rng_permute(LAYER_KEY, 16, i), full[i]);
    uint64_t n = (UINT64_C(1) << 40) + 7;
    assert_int_equal(rng_permute(LAYER_KEY, n, UINT64_C(12345678901)), UINT64_C(546974227343));
}

static void permute_takes_the_largest_domains(void **state) {
    (void)state;
    static const uint64_t sizes[] = {UINT64_C(1) << 62, (UINT64_C(1) << 62) + 1, UINT64_MAX};
    for (size_t s = 0; s < 3; s++) {
        uint64_t a = rng_permute(3, sizes[s], 0), b = rng_permute(3, sizes[s], sizes[s] - 1);
        assert_true(a < sizes[s] && b < sizes[s] && a != b);
    }
}

static void permute_leaves_few_in_place(void **state) {
    (void)state;
    int fixed = 0, ascending = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        fixed += rng_permute(11, 4000, i) == i;
        if (i) ascending += rng_permute(11, 4000, i) > rng_permute(11, 4000, i - 1);
    }
    /* Of a random permutation: fixed points are Poisson(1), P(> 8) = 1e-6; ascents have mean 1999.5
     * and deviation sqrt(4001 / 12) = 18.3, five of which are 92. */
    assert_true(fixed <= 8);
    assert_true(abs(ascending - 2000) < 93);
}

static const struct CMUnitTest rng_tests[] = {
    cmocka_unit_test(philox_gives_the_published_words),
    cmocka_unit_test(a_stream_is_philox_over_its_blocks),
    cmocka_unit_test(keys_are_xxh3_of_the_name),
    cmocka_unit_test(normal_values_are_those_of_the_formula),
    cmocka_unit_test(any_part_has_the_bits_of_the_whole),
    cmocka_unit_test(normal_numbers_have_their_moments),
    cmocka_unit_test(permute_is_a_bijection),
    cmocka_unit_test(permute_gives_the_expected_order),
    cmocka_unit_test(permute_takes_the_largest_domains),
    cmocka_unit_test(permute_leaves_few_in_place),
};

int main(void) {
    return HARNESS_RUN_ALONE(rng_tests);
}

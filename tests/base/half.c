/* TEST np=0 */
/* Every 16-bit number, and values between neighbours, against a conversion in double that follows the
 * definition of IEEE 754. */
#include "base/half.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"

typedef struct {
    int exponent_bits, mantissa_bits;
    float (*load)(uint16_t h);
    uint16_t (*store)(float x);
} format;

static const format formats[] = {{8, 7, bf16_load, bf16_store}, {5, 10, f16_load, f16_store}};

#define EACH_FORMAT(f) for (const format *f = formats; f < formats + 2; f++)

/* IEEE 754, section 3.4: the value of sign, exponent and mantissa. */
static double meaning(const format *f, uint16_t h) {
    int top = (1 << f->exponent_bits) - 1, bias = top / 2;
    int exponent = h >> f->mantissa_bits & top, mantissa = h & ((1 << f->mantissa_bits) - 1);
    double sign = h >> 15 ? -1.0 : 1.0, part = ldexp(mantissa, -f->mantissa_bits);
    if (exponent == top) return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(part, 1 - bias);
    return sign * ldexp(1.0 + part, exponent - bias);
}

static uint16_t infinity_of(const format *f) {
    return (uint16_t)(((1 << f->exponent_bits) - 1) << f->mantissa_bits);
}

static void every_number_is_loaded_and_stored_again(void **state) {
    (void)state;
    EACH_FORMAT(f)
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        double want = meaning(f, h), got = (double)f->load(h);
        if (isnan(want)) {
            assert_true(isnan(got) && isnan((double)f->load(f->store(f->load(h)))));
            continue;
        }
        assert_true(got == want && signbit(got) == signbit(want));
        assert_int_equal(f->store(f->load(h)), h);
    }
}

/* A value is stored as its nearer neighbour; half way between two as the even one, whose last bit is 0. For
 * rounding, the successor of the largest number counts as infinity. */
static void what_lies_between_goes_to_the_nearest(void **state) {
    (void)state;
    EACH_FORMAT(f)
    for (uint16_t h = 0; h < infinity_of(f); h++) {
        double low = meaning(f, h), step = h ? low - meaning(f, (uint16_t)(h - 1)) : 0.0;
        double high = meaning(f, (uint16_t)(h + 1));
        if (isinf(high)) high = low + step;
        float half = (float)(low / 2 + high / 2);
        assert_true((double)half == low / 2 + high / 2); /* fp32 has one more bit */
        uint16_t even = (uint16_t)(h + (h & 1)), up = (uint16_t)(h + 1);
        assert_int_equal(f->store(half), even);
        assert_int_equal(f->store(nextafterf(half, 0.0f)), h);
        assert_int_equal(f->store(nextafterf(half, INFINITY)), up);
        assert_int_equal(f->store(-half), even | 0x8000);
        assert_int_equal(f->store(-nextafterf(half, 0.0f)), h | 0x8000);
        assert_int_equal(f->store(-nextafterf(half, INFINITY)), up | 0x8000);
    }
}

static void what_is_too_large_is_infinite(void **state) {
    (void)state;
    const float large[] = {3.4e38f, 3.40282347e38f, INFINITY};
    EACH_FORMAT(f)
    for (size_t i = 0; i < 3; i++) {
        if (i == 0 && f == formats) continue; /* not for bf16 */
        assert_int_equal(f->store(large[i]), infinity_of(f));
        assert_int_equal(f->store(-large[i]), infinity_of(f) | 0x8000);
    }
    assert_int_equal(f16_store(65504.0f), 0x7BFF);
    assert_int_equal(f16_store(65519.99f), 0x7BFF);
    assert_int_equal(f16_store(65520.0f), 0x7C00);
}

/* A NaN stays NaN whatever its bits, even if its upper half is that of an infinity. */
static void a_nan_stays_one(void **state) {
    (void)state;
    const uint32_t bits[] = {0x7F800001u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FFFFFFFu};
    EACH_FORMAT(f)
    for (size_t i = 0; i < 4; i++)
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint16_t h = f->store(half_float(bits[i] | sign << 31));
            assert_true(isnan(meaning(f, h)));
            assert_int_equal(h >> 15, sign);
            assert_true(h & 1 << (f->mantissa_bits - 1)); /* quiet */
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_loaded_and_stored_again),
        cmocka_unit_test(what_lies_between_goes_to_the_nearest),
        cmocka_unit_test(what_is_too_large_is_infinite),
        cmocka_unit_test(a_nan_stays_one),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* TEST np=0 */
/* The approximations of the cpu kernels against the C library in double, over their full range, and
 * the errors stated in their headers. */
#include "ops/staged.h"

#include "device/cpu/exp.h"

static void exp_keeps_its_stated_error(void **state) {
    (void)state;
    double worst = 0.0, worst_at = 0.0;
    for (double x = -87.3; x < 88.7; x += 1.0 / 8192.0) {
        double want = exp((double)(float)x), got = (double)exp_fast((float)x);
        double error = fabs(got - want) / want;
        if (error > worst) worst = error, worst_at = x;
    }
    if (worst > 1e-7) fail_msg("exp_fast(%.9g) is off by %.3g of its value", worst_at, worst);
}

static void exp_has_the_right_ends(void **state) {
    (void)state;
    assert_true(exp_fast(0.0f) == 1.0f);
    assert_true(exp_fast(-INFINITY) == 0.0f);
    assert_true(exp_fast(-104.0f) == 0.0f);
    assert_true(exp_fast(-1e30f) == 0.0f);
    assert_true(exp_fast(INFINITY) == INFINITY);
    assert_true(exp_fast(89.0f) == INFINITY);
    assert_true(isfinite(exp_fast(88.7f)));
    assert_true(isnan(exp_fast(NAN)));
    assert_true(isnan(exp_fast(-NAN)));
    /* Below the normal numbers the spacing is 1.4e-45 and the error at most one of it. */
    for (double x = -103.9; x < -87.4; x += 0.01)
        assert_true(fabs((double)exp_fast((float)x) - exp((double)(float)x)) <= 1.5e-45);
}

/* The one-step form: the same error down to -86, and nothing below. */
static void exp_below_keeps_its_stated_error(void **state) {
    (void)state;
    for (double x = -86.0; x <= 0.0; x += 1.0 / 8192.0) {
        double want = exp((double)(float)x), got = (double)exp_below((float)x);
        if (fabs(got - want) > 1e-7 * want)
            fail_msg("exp_below(%.9g) is off by %.3g of its value", x, fabs(got - want) / want);
    }
    assert_true(exp_below(0.0f) == 1.0f && exp_below(-0.0f) == 1.0f);
    assert_true(exp_below(-86.01f) == 0.0f && exp_below(-1e30f) == 0.0f);
    assert_true(exp_below(-INFINITY) == 0.0f);
    assert_true(isnan(exp_below(NAN)) && isnan(exp_below(-NAN)));
}

static double gelu(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x) {
    double c = sqrt(2.0 / acos(-1.0)), t = tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x);
}

static void gelu_keeps_its_stated_errors(void **state) {
    (void)state;
    enum { COUNT = 200001 };
    float *x = fixture_bytes(COUNT * sizeof *x), *y = fixture_bytes(COUNT * sizeof *y);
    float *one = fixture_bytes(COUNT * sizeof *one), *dx = fixture_bytes(COUNT * sizeof *dx);
    for (size_t i = 0; i < COUNT; i++) x[i] = (float)i * 2e-4f - 20.0f, one[i] = 1.0f;
    EACH_DEVICE(d) {
        OK(d->ops->gelu_forward(d, y, x, COUNT));
        OK(d->ops->gelu_backward(d, dx, one, x, COUNT));
        for (size_t i = 0; i < COUNT; i++) {
            double at = (double)x[i], error = fabs((double)y[i] - gelu(at));
            if (error > 1.5e-7 * fmax(fabs(at), 1e-30))
                fail_msg("%s: gelu(%.9g) is off by %.3g", d->name, at, error);
            error = fabs((double)dx[i] - gelu_slope(at));
            if (error > 3e-7) fail_msg("%s: gelu'(%.9g) is off by %.3g", d->name, at, error);
        }
    }
    free(x), free(y), free(one), free(dx);
}

static void gelu_of_the_extremes(void **state) {
    (void)state;
    const float x[] = {1e20f, 3e38f, -1e20f, -3e38f, INFINITY, -INFINITY, NAN, 0.0f};
    const float one[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    EACH_DEVICE(d) {
        float y[8], dx[8];
        OK(d->ops->gelu_forward(d, y, x, 8));
        OK(d->ops->gelu_backward(d, dx, one, x, 8));
        assert_true(y[0] == x[0] && y[1] == x[1] && y[2] == 0.0f && y[3] == 0.0f && y[7] == 0.0f);
        assert_true(dx[0] == 1.0f && dx[1] == 1.0f && fabsf(dx[2]) < 1e-17f && dx[7] == 0.5f);
        for (int i = 4; i < 7; i++) assert_true(!isfinite(y[i]) && !isfinite(dx[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_keeps_its_stated_error),
        cmocka_unit_test(exp_has_the_right_ends),
        cmocka_unit_test(exp_below_keeps_its_stated_error),
        cmocka_unit_test(gelu_keeps_its_stated_errors),
        cmocka_unit_test(gelu_of_the_extremes),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* TEST np=0 */
/* The approximations of the cpu kernels against the C library in double, over their full range, and
 * the errors stated in their headers. */
#include "ops/staged.h"

#include "device/cpu/exp.h"

/* exp_vec: every lane gives the same. */
static float exp_lane(float x) {
    const vec out = exp_vec(vec_of(x));
    float row[VEC];
    memcpy(row, &out, sizeof row);
    for (size_t i = 1; i < VEC; i++) assert_memory_equal(&row[i], &row[0], sizeof *row);
    return row[0];
}

static void check_error(float (*of)(float)) {
    double worst = 0.0, worst_at = 0.0;
    for (double x = -87.3; x < 88.7; x += 1.0 / 8192.0) {
        double want = exp((double)(float)x), got = (double)of((float)x);
        double error = fabs(got - want) / want;
        if (error > worst) worst = error, worst_at = x;
    }
    if (worst > 1e-7) fail_msg("e^%.9g is off by %.3g of its value", worst_at, worst);
}

static void check_ends(float (*of)(float)) {
    assert_true(of(0.0f) == 1.0f);
    assert_true(of(-INFINITY) == 0.0f);
    assert_true(of(-104.0f) == 0.0f);
    assert_true(of(-1e30f) == 0.0f);
    assert_true(of(INFINITY) == INFINITY);
    assert_true(of(89.0f) == INFINITY);
    assert_true(isfinite(of(88.7f)));
    assert_true(isnan(of(NAN)));
    assert_true(isnan(of(-NAN)));
    /* Below the normal numbers the spacing is 1.4e-45 and the error at most one of it. */
    for (double x = -103.9; x < -87.4; x += 0.01)
        assert_true(fabs((double)of((float)x) - exp((double)(float)x)) <= 1.5e-45);
}

static void exp_keeps_its_stated_error(void **state) {
    (void)state;
    check_error(exp_fast);
    check_error(exp_lane);
}

static void exp_has_the_right_ends(void **state) {
    (void)state;
    check_ends(exp_fast);
    check_ends(exp_lane);
}

/* Where e^x is a normal number both have the same bits, so that it does not matter which one an operator calls. */
static void exp_of_a_vector_has_the_bits_of_exp(void **state) {
    (void)state;
    for (double x = -87.3; x < 88.7; x += 1.0 / 1024.0)
        assert_true(exp_lane((float)x) == exp_fast((float)x));
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

static double silu(double g) {
    return g / (1.0 + exp(-g));
}

static double silu_slope(double g) {
    double s = 1.0 / (1.0 + exp(-g));
    return s + g * s / (1.0 + exp(g));
}

/* Gates from -40 to 40, where silu is above 1e-16; up and dy are 1 or 3. Above -87.3 the exponential is a normal
 * number, so errors of silu are relative. */
static void swiglu_keeps_its_stated_errors(void **state) {
    (void)state;
    enum { F = 200001 };
    float *x = fixture_bytes(2 * F * sizeof *x), *y = fixture_bytes(F * sizeof *y);
    float *dy = fixture_bytes(F * sizeof *dy), *dx = fixture_bytes(2 * F * sizeof *dx);
    for (size_t f = 0; f < F; f++)
        x[f] = (float)f * 4e-4f - 40.0f, x[F + f] = f % 2 ? 1.0f : 3.0f,
        dy[f] = f % 3 ? 1.0f : 3.0f;
    EACH_DEVICE(d) {
        OK(d->ops->swiglu_forward(d, y, x, 1, F));
        OK(d->ops->swiglu_backward(d, dx, dy, x, 1, F));
        for (size_t f = 0; f < F; f++) {
            double gate = (double)x[f], up = (double)x[F + f], slope = (double)dy[f];
            double error = fabs((double)y[f] - silu(gate) * up);
            if (error > 3e-7 * fabs(silu(gate) * up))
                fail_msg("%s: swiglu(%.9g, %g) is off by %.3g", d->name, gate, up, error);
            error = fabs((double)dx[f] - slope * up * silu_slope(gate));
            if (error > 3e-7 * slope * up)
                fail_msg("%s: the gradient of gate %.9g is off by %.3g", d->name, gate, error);
            error = fabs((double)dx[F + f] - slope * silu(gate));
            if (error > 3e-7 * fabs(slope * silu(gate)))
                fail_msg("%s: the gradient of up at %.9g is off by %.3g", d->name, gate, error);
        }
    }
    free(x), free(y), free(dy), free(dx);
}

static void swiglu_of_the_extremes(void **state) {
    (void)state;
    enum { F = 8 };
    const float x[2 * F] = {1e20f, 3e38f, -1e20f, -3e38f, INFINITY, -INFINITY, NAN,  0.0f,
                            1.0f,  1.0f,  1.0f,   1.0f,   1.0f,     1.0f,      1.0f, 1.0f};
    const float one[F] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    EACH_DEVICE(d) {
        float y[F], dx[2 * F], *up = dx + F;
        OK(d->ops->swiglu_forward(d, y, x, 1, F));
        OK(d->ops->swiglu_backward(d, dx, one, x, 1, F));
        assert_true(y[0] == x[0] && y[1] == x[1] && y[2] == 0.0f && y[3] == 0.0f && y[7] == 0.0f);
        assert_true(dx[0] == 1.0f && dx[1] == 1.0f && dx[7] == 0.5f);
        assert_true(up[0] == x[0] && up[1] == x[1] && up[7] == 0.0f);
        for (int i = 2; i < 4; i++) assert_true(fabsf(dx[i]) < 1e-32f && fabsf(up[i]) < 1e-32f);
        for (int i = 4; i < 7; i++)
            assert_true(!isfinite(y[i]) && !isfinite(dx[i]) && !isfinite(up[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_keeps_its_stated_error),
        cmocka_unit_test(exp_has_the_right_ends),
        cmocka_unit_test(exp_of_a_vector_has_the_bits_of_exp),
        cmocka_unit_test(exp_below_keeps_its_stated_error),
        cmocka_unit_test(gelu_keeps_its_stated_errors),
        cmocka_unit_test(gelu_of_the_extremes),
        cmocka_unit_test(swiglu_keeps_its_stated_errors),
        cmocka_unit_test(swiglu_of_the_extremes),
    };
    return HARNESS_RUN_ALONE(tests);
}

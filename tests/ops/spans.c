/* TEST np=0 */
/* Marks around the operators of the cuda device, on the emulated GPU: the counts, that operators and
 * gaps sum to the step, and that marks change no bit of a result; and other device functions for
 * benchmarks: rates of its memory and its products, the library's products. */
#include "profile/spans.h"

#include <unistd.h>

#include "base/status.h"
#include "device/cuda_open.h"
#include "profile/limits.h"
#include "ops/fixture.h"

#define COUNT 1000

static char library[4200];

static device *open_cuda(device_precision precision) {
    const device_config config = {
        .kind = DEVICE_CUDA, .threads = 1, .library = library, .precision = precision};
    device *d;
    OK(device_open_with(&d, &config));
    return d;
}

static float *take(device *d, size_t n, uint64_t seed) {
    void *p;
    float *x = fixture_random(n, seed, 1.0);
    OK(device_alloc(d, &p, n * sizeof *x));
    OK(device_write(d, p, x, n * sizeof *x));
    free(x);
    return p;
}

/* y becomes gelu(x), then y + y, on device `d`. */
static void run(device *d, float *y, const float *x) {
    OK(d->ops->gelu_forward(d, y, x, COUNT));
    device_copy(d, y + COUNT, y, COUNT * sizeof *y);
    OK(d->ops->add(d, y, y + COUNT, COUNT));
    OK(d->ops->gelu_forward(d, y + COUNT, x, COUNT));
}

static void operators_and_gaps_are_the_step(void **state) {
    (void)state;
    device *d = open_cuda(DEVICE_FP32);
    float *x = take(d, COUNT, 1), *y = take(d, 2 * COUNT, 2), plain[2 * COUNT], marked[2 * COUNT];
    device_spans *spans;
    spans_sum sum;
    run(d, y, x);
    OK(device_read(d, plain, y, sizeof plain));
    OK(spans_create(&spans, d, 4));
    for (int turn = 0; turn < 3; turn++) {
        device_profile p;
        device_profile_init(&p, d);
        p.spans = spans;
        OK(spans_begin(spans));
        run(&p.device, y, x);
        OK(spans_end(spans, &sum));
        OK(device_read(d, marked, y, sizeof marked));
        assert_memory_equal(plain, marked, sizeof plain);
        assert_int_equal(sum.count, 4);
        assert_true(sum.starved >= 0 && sum.starved < 4);
        assert_int_equal(p.times[TIMED_gelu_forward].calls, 2);
        assert_int_equal(p.times[TIMED_gelu_forward].work, 2 * 2 * COUNT * sizeof(float));
        assert_int_equal(p.times[TIMED_copy].calls, 1);
        assert_true(sum.span[TIMED_add] > 0 && sum.span[TIMED_gelu_forward] > 0);
        assert_true(sum.span[TIMED_adamw] == 0 && sum.gap[TIMED_adamw] == 0);
        assert_true(fabs(sum.operators + sum.gaps - sum.step) <= 1e-4 * sum.step);
        double spans_of = 0, gaps_of = 0;
        for (int n = 0; n < DEVICE_TIMED; n++) spans_of += sum.span[n];
        for (int n = 0; n <= DEVICE_TIMED; n++) gaps_of += sum.gap[n];
        assert_true(fabs(spans_of - sum.operators) <= 1e-9 * sum.step);
        assert_true(fabs(gaps_of - sum.gaps) <= 1e-9 * sum.step);
    }
    spans_destroy(&spans);
    assert_null(spans);
    device_free(d, x, COUNT * sizeof *x);
    device_free(d, y, 2 * COUNT * sizeof *y);
    device_close(&d);
}

static const device_memory *own_memory;
static int waits;

static trine_status count_wait(device *d) {
    waits++;
    return own_memory->wait(d);
}

/* A device that has finished an operator before it gets the next has waited for the host. */
static void waiting_for_the_host_is_counted(void **state) {
    (void)state;
    device *d = open_cuda(DEVICE_FP32);
    float *x = take(d, COUNT, 1), *y = take(d, COUNT, 2);
    device_memory counted = *(own_memory = d->memory);
    device_spans *spans;
    device_profile p;
    spans_sum sum;
    counted.wait = count_wait;
    d->memory = &counted;
    OK(spans_create(&spans, d, 3));
    device_profile_init(&p, d);
    p.spans = spans;
    OK(spans_begin(spans));
    for (int i = 0; i < 3; i++) {
        OK(p.table.gelu_forward(&p.device, y, x, COUNT));
        OK(device_wait(d));
    }
    assert_int_equal(waits, 3); /* between marks the profile itself waits for nothing */
    OK(spans_end(spans, &sum));
    assert_int_equal(sum.starved, 2);
    d->memory = own_memory;
    spans_destroy(&spans);
    device_free(d, x, COUNT * sizeof *x);
    device_free(d, y, COUNT * sizeof *y);
    device_close(&d);
}

static void a_step_that_is_too_long_is_no_measurement(void **state) {
    (void)state;
    device *d = open_cuda(DEVICE_FP32);
    float *x = take(d, COUNT, 1), *y = take(d, 2 * COUNT, 2);
    device_spans *spans;
    device_profile p;
    spans_sum sum;
    OK(spans_create(&spans, d, 3));
    device_profile_init(&p, d);
    p.spans = spans;
    OK(spans_begin(spans));
    run(&p.device, y, x);
    assert_int_equal(spans_end(spans, &sum), TRINE_EINVAL);
    assert_non_null(strstr(status_message(),
                           "the step has 4 operators, but there is memory for the spans of 3"));
    status_clear();
    spans_destroy(&spans);
    device_free(d, x, COUNT * sizeof *x);
    device_free(d, y, 2 * COUNT * sizeof *y);
    device_close(&d);
}

static void only_a_gpu_has_marks(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    assert_null(cuda_measures(d));
    device_close(&d);
}

static void rates_of_memory_that_the_host_cannot_touch(void **state) {
    (void)state;
    device *d = open_cuda(DEVICE_FP32);
    limit_matmul m;
    double rate = 0;
    OK(limit_triad_rate(d, 1 << 16, &rate));
    assert_true(isfinite(rate) && rate > 0);
    OK(limit_matmul_rates(d, 8, 12, 16, &m));
    assert_true(m.forward > 0 && m.backward_input > 0 && m.backward_weight > 0);
    device_close(&d);
}

/* ---- The library's products, against the device's own ---- */

#define ROWS    24
#define COLUMNS 32
#define TERMS   40

static void compare(device *d, cuda_product_kind kind, bool biased, double bound) {
    const cuda_measure *m = cuda_measures(d);
    const struct ops *o = d->ops;
    const size_t most = COLUMNS * TERMS;
    float *out = take(d, most, 1), *own = take(d, most, 1), *left = take(d, most, 2);
    float *right = take(d, most, 3), *bias = biased ? take(d, COLUMNS, 4) : NULL;
    const cuda_product_config config = {
        .kind = kind, .biased = biased, .T = ROWS, .N = COLUMNS, .K = TERMS};
    cuda_product *p;
    OK(m->product_create(d, &p, &config));
    OK(m->product_run(p, out, left, right, bias));
    if (kind == CUDA_PRODUCT_Y)
        OK(o->linear_forward(d, own, right, bias, left, ROWS, COLUMNS, TERMS));
    else if (kind == CUDA_PRODUCT_DX)
        OK(o->linear_backward_input(d, own, right, left, ROWS, COLUMNS, TERMS));
    else
        OK(o->linear_backward_weight(d, own, NULL, left, right, ROWS, COLUMNS, TERMS,
                                     kind == CUDA_PRODUCT_DW_ADD ? GRAD_ADD : GRAD_SET));
    float got[COLUMNS * TERMS], want[COLUMNS * TERMS];
    OK(device_read(d, got, out, sizeof got));
    OK(device_read(d, want, own, sizeof want));
    fixture_near("a library's product", got, want, most, bound, 1.0);
    m->product_destroy(&p);
    assert_null(p);
    float *all[] = {out, own, left, right};
    for (int i = 0; i < 4; i++) device_free(d, all[i], most * sizeof(float));
    device_free(d, bias, COLUMNS * sizeof(float));
}

static void products_are_those_of_the_device(void **state) {
    (void)state;
    for (int p = DEVICE_FP32; p <= DEVICE_TF32; p++) {
        device *d = open_cuda((device_precision)p);
        compare(d, CUDA_PRODUCT_Y, true, TERMS * EPS);
        compare(d, CUDA_PRODUCT_Y, false, TERMS * EPS);
        compare(d, CUDA_PRODUCT_DX, false, COLUMNS * EPS);
        compare(d, CUDA_PRODUCT_DW_ADD, false, ROWS * EPS);
        compare(d, CUDA_PRODUCT_DW_SET, false, ROWS * EPS);
        device_close(&d);
    }
}

static void the_library_has_so_many_answers(void **state) {
    (void)state;
    device *d = open_cuda(DEVICE_FP32);
    const cuda_product_config config = {
        .kind = CUDA_PRODUCT_DX, .T = ROWS, .N = COLUMNS, .K = TERMS, .choice = 15};
    cuda_product *p;
    OK(cuda_measures(d)->product_create(d, &p, &config));
    assert_null(p);
    device_close(&d);
}

/* TF32 has 10 bits of mantissa: 1 + 2^-12 is 1 there. */
static void tf32_rounds_the_factors_when_it_was_asked_for(void **state) {
    (void)state;
    const float x[] = {1 + 0x1p-12f}, w[] = {1};
    float y[2];
    for (int p = DEVICE_FP32; p <= DEVICE_TF32; p++) {
        device *d = open_cuda((device_precision)p);
        float *at[] = {take(d, 1, 1), take(d, 1, 2), take(d, 1, 3)};
        OK(device_write(d, at[1], w, sizeof w));
        OK(device_write(d, at[2], x, sizeof x));
        OK(d->ops->linear_forward(d, at[0], at[1], NULL, at[2], 1, 1, 1));
        OK(device_read(d, &y[p], at[0], sizeof *y));
        for (int i = 0; i < 3; i++) device_free(d, at[i], sizeof(float));
        device_close(&d);
    }
    assert_true(y[DEVICE_FP32] == x[0]);
    assert_true(y[DEVICE_TF32] == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_and_gaps_are_the_step),
        cmocka_unit_test(waiting_for_the_host_is_counted),
        cmocka_unit_test(a_step_that_is_too_long_is_no_measurement),
        cmocka_unit_test(only_a_gpu_has_marks),
        cmocka_unit_test(rates_of_memory_that_the_host_cannot_touch),
        cmocka_unit_test(products_are_those_of_the_device),
        cmocka_unit_test(the_library_has_so_many_answers),
        cmocka_unit_test(tf32_rounds_the_factors_when_it_was_asked_for),
    };
    const char *build = getenv("BUILD");
    snprintf(library, sizeof library, "%s/emu/" CUDA_LIBRARY, build ? build : "build");
    if (access(library, R_OK) != 0) return harness_skip("no build/emu/" CUDA_LIBRARY);
    return HARNESS_RUN_ALONE(tests);
}

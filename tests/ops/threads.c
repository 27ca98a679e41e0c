/* TEST np=0 */
/* A cpu device with exact_threads: random products in every type have the same bits with 1, 2, 3 and 5 threads; what
 * is prepared is all that they need. TRINE_SEED and TRINE_PRODUCTS make another and a longer run. */
#include "ops/fixture.h"

#include "base/half.h"
#include "device/cpu/cpu.h"

typedef struct {
    trine_dtype compute, grads;
} types;

static const types pairs[] = {{TRINE_F32, TRINE_F32},
                              {TRINE_BF16, TRINE_F32},
                              {TRINE_BF16, TRINE_BF16},
                              {TRINE_F16, TRINE_F32},
                              {TRINE_F16, TRINE_F16}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static const int threads[] = {1, 2, 3, 5};
enum { TEAMS = sizeof threads / sizeof *threads };

static device *open_exact(types t, int count, bool exact) {
    const device_config config = {.kind = DEVICE_CPU,
                                  .threads = count,
                                  .compute = t.compute,
                                  .grads = t.grads,
                                  .exact_threads = exact};
    device *d;
    OK(device_open_with(&d, &config));
    return d;
}

static bool possible(trine_dtype compute) {
    if (fixture_exact_threads(compute)) return true;
    print_message("# not tested: %s\n", status_message());
    status_clear();
    return false;
}

/* ---- The products of a layer ---- */

static uint64_t random_state = 1;

static size_t below(size_t n) {
    return (size_t)((fixture_uniform(&random_state) + 1.0) / 2.0 * (double)n);
}

/* One in four is small, one any number, one a multiple of 16, one a power of two. */
static size_t draw(size_t most) {
    switch (below(4)) {
    case 0: return 1 + below(most < 40 ? most : 40);
    case 1: return 1 + below(most);
    case 2: return most < 16 ? most : 16 * (1 + below(most / 16));
    default: break;
    }
    size_t power = 1;
    while (power * 2 <= most && below(12)) power *= 2;
    return power;
}

typedef struct {
    size_t T, N, K;
} sizes;

/* Every other product has the many rows at which sums are split between threads, and few columns. */
static sizes draw_sizes(bool tall) {
    enum { MOST = 1 << 21 };
    size_t T = tall ? below(2) ? 2048u << below(2) : 2048 + below(3000) : draw(700);
    size_t N = draw(tall ? 200 : 800), K = draw(tall ? 200 : 800);
    while (T * N * K > MOST && N * K > 1) *(N > K ? &N : &K) /= 2;
    return (sizes){T, N, K};
}

static void *numbers(trine_dtype type, size_t n) {
    uint16_t *half = fixture_bytes(n * sizeof(float));
    float *wide = (float *)(void *)half;
    for (size_t i = 0; i < n; i++) {
        float x = (float)fixture_uniform(&random_state);
        if (type == TRINE_F32)
            wide[i] = x;
        else
            half[i] = type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
    }
    return half;
}

/* y with and without a bias, dx, dw and dbias set and added, one after the other; `bytes` of each. */
enum { Y, Y_BIASED, DX, DW_SET, DB_SET, DW_ADD, DB_ADD, RESULTS };

typedef struct {
    sizes s;
    void *x, *w, *bias, *dy;
    size_t bytes[RESULTS], all;
    char *before; /* of the results */
} layer;

static layer layer_of(types t, sizes s) {
    size_t e = trine_dtype_bytes(t.compute), g = trine_dtype_bytes(t.grads);
    layer l = {.s = s,
               .x = numbers(t.compute, s.T * s.K),
               .w = numbers(t.compute, s.N * s.K),
               .bias = numbers(t.compute, s.N),
               .dy = numbers(t.compute, s.T * s.N)};
    const size_t bytes[RESULTS] = {
        [Y] = s.T * s.N * e,      [Y_BIASED] = s.T * s.N * e, [DX] = s.T * s.K * e,
        [DW_SET] = s.N * s.K * g, [DB_SET] = s.N * g,         [DW_ADD] = s.N * s.K * g,
        [DB_ADD] = s.N * g};
    memcpy(l.bytes, bytes, sizeof bytes);
    for (int i = 0; i < RESULTS; i++) l.all += (bytes[i] + 63) / 64 * 64;
    l.before = numbers(t.grads, l.all / g);
    return l;
}

static void layer_free(layer *l) {
    free(l->x), free(l->w), free(l->bias), free(l->dy), free(l->before);
}

static char *result(const layer *l, char *all, int which) {
    for (int i = 0; i < which; i++) all += (l->bytes[i] + 63) / 64 * 64;
    return all;
}

static void multiply(device *d, const layer *l, char *out) {
    const size_t T = l->s.T, N = l->s.N, K = l->s.K;
    const ops *o = d->ops;
    memcpy(out, l->before, l->all);
    OK(o->linear_forward(d, result(l, out, Y), l->w, NULL, l->x, T, N, K));
    OK(o->linear_forward(d, result(l, out, Y_BIASED), l->w, l->bias, l->x, T, N, K));
    OK(o->linear_backward_input(d, result(l, out, DX), l->w, l->dy, T, N, K));
    OK(o->linear_backward_weight(d, result(l, out, DW_SET), result(l, out, DB_SET), l->dy, l->x, T,
                                 N, K, GRAD_SET));
    OK(o->linear_backward_weight(d, result(l, out, DW_ADD), result(l, out, DB_ADD), l->dy, l->x, T,
                                 N, K, GRAD_ADD));
}

static const char *const names[RESULTS] = {"y",     "y with bias", "dx",         "dw",
                                           "dbias", "dw added",    "dbias added"};

/* The first result that differs; RESULTS: none. */
static int difference(const layer *l, char *a, char *b) {
    for (int i = 0; i < RESULTS; i++)
        if (memcmp(result(l, a, i), result(l, b, i), l->bytes[i]) != 0) return i;
    return RESULTS;
}

/* ---- Cases ---- */

static size_t number_of(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void compare_teams(device *const d[TEAMS], types t, sizes s) {
    layer l = layer_of(t, s);
    char *one = fixture_bytes(l.all), *other = fixture_bytes(l.all);
    multiply(d[0], &l, one);
    for (int i = 1; i < TEAMS; i++) {
        multiply(d[i], &l, other);
        int at = difference(&l, one, other);
        if (at < RESULTS)
            fail_msg("type %d, gradients %d, T %zu, N %zu, K %zu: %s differs with %d threads",
                     (int)t.compute, (int)t.grads, s.T, s.N, s.K, names[at], threads[i]);
    }
    free(one), free(other);
    layer_free(&l);
}

static void products_have_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    size_t products = number_of("TRINE_PRODUCTS", 20);
    random_state = number_of("TRINE_SEED", 1);
    for (int p = 0; p < PAIRS; p++) {
        if (!possible(pairs[p].compute)) continue;
        device *d[TEAMS];
        for (int i = 0; i < TEAMS; i++) d[i] = open_exact(pairs[p], threads[i], true);
        for (size_t n = 0; n < products; n++) compare_teams(d, pairs[p], draw_sizes(n % 2));
        compare_teams(d, pairs[p],
                      (sizes){2048, 192, 64}); /* more threads than blocks of columns */
        compare_teams(d, pairs[p],
                      (sizes){513, 1030, 520}); /* the library's GEMM, and fp16's tiles */
        for (int i = 0; i < TEAMS; i++) device_close(&d[i]);
    }
}

static double element(trine_dtype type, const char *at, size_t i) {
    if (type == TRINE_F32) return (double)((const float *)(const void *)at)[i];
    uint16_t half = ((const uint16_t *)(const void *)at)[i];
    return (double)(type == TRINE_BF16 ? bf16_load(half) : f16_load(half));
}

/* A sum of n products of numbers in [-1, 1) stays below 2 sqrt(n), six standard deviations, and is rounded n times, by
 * half an EPS of that at most; then, to 16 bits, to what ref rounds to or its neighbour, a `unit` of it away. */
static void compare_with_ref(const layer *l, types t, char *got, char *want) {
    size_t n = l->s.T > l->s.N ? l->s.T : l->s.N;
    if (n < l->s.K) n = l->s.K;
    for (int r = 0; r < RESULTS; r++) {
        trine_dtype type = r <= DX ? t.compute : t.grads;
        double unit = type == TRINE_BF16 ? 0x1p-7 : type == TRINE_F16 ? 0x1p-10 : 0;
        double sum = (double)n * EPS / 2 * 2 * sqrt((double)n);
        for (size_t i = 0; i < l->bytes[r] / trine_dtype_bytes(type); i++) {
            double a = element(type, result(l, got, r), i);
            double b = element(type, result(l, want, r), i);
            if (!(fabs(a - b) <= sum + unit * fabs(b)))
                fail_msg("type %d: %s: element %zu is %.9g, not %.9g", (int)t.compute, names[r], i,
                         a, b);
        }
    }
}

/* Odd sizes, and all tiles of fp16. */
static void products_are_those_of_ref(void **state) {
    (void)state;
    static const sizes all[] = {{6, 10, 8}, {513, 130, 70}, {33, 1030, 20}, {17, 40, 1100}};
    for (int p = 0; p < PAIRS; p++) {
        if (!possible(pairs[p].compute)) continue;
        const device_config config = {
            .kind = DEVICE_REF, .threads = 1, .compute = pairs[p].compute, .grads = pairs[p].grads};
        device *exact = open_exact(pairs[p], 2, true), *ref;
        OK(device_open_with(&ref, &config));
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            layer l = layer_of(pairs[p], all[i]);
            char *got = fixture_bytes(l.all), *want = fixture_bytes(l.all);
            multiply(exact, &l, got);
            multiply(ref, &l, want);
            compare_with_ref(&l, pairs[p], got, want);
            free(got), free(want);
            layer_free(&l);
        }
        device_close(&exact);
        device_close(&ref);
    }
}

/* Otherwise the first case shows nothing: these sums are split between two threads. */
static void without_exact_threads_sums_are_split(void **state) {
    (void)state;
    static const sizes split[] = {{2048, 192, 64}, {3026, 3, 58}, {4784, 96, 6}};
    device *one = open_exact(pairs[0], 1, false), *two = open_exact(pairs[0], 2, false);
    int differ = 0;
    for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
        layer l = layer_of(pairs[0], split[i]);
        char *a = fixture_bytes(l.all), *b = fixture_bytes(l.all);
        multiply(one, &l, a);
        multiply(two, &l, b);
        differ += difference(&l, a, b) == DW_SET;
        free(a), free(b);
        layer_free(&l);
    }
    assert_true(differ > 0);
    device_close(&one);
    device_close(&two);
}

/* So a trainer that has prepared its products is not refused later. The sizes of fp16 have all tiles. */
static void what_is_prepared_is_all_that_products_need(void **state) {
    (void)state;
    static const sizes all[] = {{6, 10, 8}, {1, 10, 8}, {1030, 520, 1100}};
    for (int p = 0; p < PAIRS; p++) {
        if (!possible(pairs[p].compute)) continue;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            layer l = layer_of(pairs[p], all[i]);
            char *out = fixture_bytes(l.all);
            device *d = open_exact(pairs[p], 2, true);
            OK(device_prepare_linear(d, false, l.s.T, l.s.N, l.s.K));
            OK(device_prepare_linear(d, true, l.s.T, l.s.N, l.s.K));
            size_t before = cpu_matmul_count(d);
            assert_true(before > 0);
            multiply(d, &l, out);
            assert_int_equal(cpu_matmul_count(d), before);
            device_close(&d);
            free(out);
            layer_free(&l);
        }
    }
}

static void other_devices_prepare_nothing(void **state) {
    (void)state;
    device *plain = open_exact(pairs[0], 2, false), *ref;
    const device_config config = {.kind = DEVICE_REF, .threads = 2, .exact_threads = true};
    OK(device_open_with(&ref, &config));
    OK(device_prepare_linear(plain, true, 6, 10, 8));
    OK(device_prepare_linear(ref, true, 6, 10, 8));
    assert_int_equal(cpu_matmul_count(plain), 0);
    device_close(&plain);
    device_close(&ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(products_are_those_of_ref),
        cmocka_unit_test(without_exact_threads_sums_are_split),
        cmocka_unit_test(what_is_prepared_is_all_that_products_need),
        cmocka_unit_test(other_devices_prepare_nothing),
    };
    if (!fixture_exact_threads(TRINE_F32))
        return harness_skip("oneDNN has no brgemm for fp32 on this processor");
    return HARNESS_RUN_ALONE(tests);
}

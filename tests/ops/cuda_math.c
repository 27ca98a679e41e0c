/* TEST np=0 */
/* The products and attention of the cuda device against ref, with everything that the seam between
 * host and device can get wrong: the object of build/emu, whose memory the host cannot touch and
 * whose queue runs late, and in it an emulated cuBLASLt that holds us to what we claim. */
#include "ops/fixture.h"

#include <dlfcn.h>
#include <unistd.h>

#include "device/cuda/backend.h"

static const cuda_backend *backend;
static uint64_t (*plans)(void); /* asked for so far; NULL: not the emulation */

/* ---- The device ---- */

static trine_status raise_error(trine_status status, const char *file, int line, const char *func,
                                const char *message) {
    return status_raise(status, file, line, func, "%s", message);
}

static device open_cuda(void) {
    device d = {.name = "cuda", .compute = TRINE_F32, .threads = 1};
    d.ops = backend->ops, d.memory = backend->memory;
    OK(backend->open(&d, 0));
    return d;
}

static void *on_device(device *d, const void *host, size_t bytes) {
    void *p;
    OK(d->memory->alloc(d, &p, bytes + 1));
    if (host && bytes) OK(d->memory->write(d, p, host, bytes));
    return p;
}

static void off_device(device *d, void *p, size_t bytes) {
    d->memory->free(d, p, bytes + 1);
}

/* ---- Cases: named tensors, each read or written by the operator ---- */

#define TENSORS 6
typedef enum { UNUSED, INPUT, OUTPUT } role;

typedef struct {
    role role;
    size_t count;
} tensor;

typedef struct {
    size_t n[6];
} dims;

typedef struct {
    const char *name;
    void (*tensors)(const dims *s, tensor t[TENSORS]);
    void (*run)(device *d, const dims *s, float *const t[TENSORS]);
    size_t (*terms)(const dims *s); /* of the longest sum */
    double spread;                  /* of the inputs */
} op_case;

#define DIMS(a, b, c, e)                                                                           \
    const size_t a = s->n[0], b = s->n[1], c = s->n[2], e = s->n[3];                               \
    (void)a, (void)b, (void)c, (void)e

enum { X, W, BIAS, OUT, DBIAS };

static void y_tensors(const dims *s, tensor t[TENSORS]) {
    DIMS(T, N, K, biased);
    t[X] = (tensor){INPUT, T * K}, t[W] = (tensor){INPUT, N * K}, t[OUT] = (tensor){OUTPUT, T * N};
    if (biased) t[BIAS] = (tensor){INPUT, N};
}

static void y_run(device *d, const dims *s, float *const t[TENSORS]) {
    DIMS(T, N, K, biased);
    OK(d->ops->linear_forward(d, t[OUT], t[W], t[BIAS], t[X], T, N, K));
}

static size_t y_terms(const dims *s) {
    return s->n[2];
}

static void dx_tensors(const dims *s, tensor t[TENSORS]) {
    DIMS(T, N, K, unused);
    t[X] = (tensor){INPUT, T * N}, t[W] = (tensor){INPUT, N * K}, t[OUT] = (tensor){OUTPUT, T * K};
}

static void dx_run(device *d, const dims *s, float *const t[TENSORS]) {
    DIMS(T, N, K, unused);
    OK(d->ops->linear_backward_input(d, t[OUT], t[W], t[X], T, N, K));
}

static size_t dx_terms(const dims *s) {
    return s->n[1];
}

/* n[4] is the grad_mode. */
static void dw_tensors(const dims *s, tensor t[TENSORS]) {
    DIMS(T, N, K, biased);
    t[X] = (tensor){INPUT, T * N}, t[W] = (tensor){INPUT, T * K}, t[OUT] = (tensor){OUTPUT, N * K};
    if (biased) t[DBIAS] = (tensor){OUTPUT, N};
}

static void dw_run(device *d, const dims *s, float *const t[TENSORS]) {
    DIMS(T, N, K, biased);
    OK(d->ops->linear_backward_weight(d, t[OUT], t[DBIAS], t[X], t[W], T, N, K,
                                      (grad_mode)s->n[4]));
}

static size_t dw_terms(const dims *s) {
    return s->n[0];
}

enum { QKV, DY, Y, LSE, DQKV, DQKV_AGAIN };

/* Everything at once: forward, then backward from what forward kept. */
static void attention_tensors(const dims *s, tensor t[TENSORS]) {
    DIMS(B, T, H, D);
    size_t n = B * T * H * D;
    t[QKV] = (tensor){INPUT, 3 * n}, t[DY] = (tensor){INPUT, n}, t[Y] = (tensor){OUTPUT, n};
    t[LSE] = (tensor){OUTPUT, B * T * H}, t[DQKV] = (tensor){OUTPUT, 3 * n};
}

/* Work that is not the host's: what is read before it is written shows as the NaNs that the
 * emulation's fresh memory is filled with. */
static void attention_run(device *d, const dims *s, float *const t[TENSORS]) {
    DIMS(B, T, H, D);
    size_t bytes = d->ops->attention_workspace(d, B, T, H, D);
    void *work;
    OK(d->memory->alloc(d, &work, bytes + 1));
    OK(d->ops->attention_forward(d, t[Y], t[LSE], t[QKV], work, B, T, H, D));
    OK(d->ops->attention_backward(d, t[DQKV], t[DY], t[QKV], t[Y], t[LSE], work, B, T, H, D));
    OK(d->memory->wait(d));
    d->memory->free(d, work, bytes + 1);
}

static size_t attention_terms(const dims *s) {
    return s->n[1] > s->n[3] ? s->n[1] : s->n[3];
}

static const op_case y_case = {"linear_forward", y_tensors, y_run, y_terms, 1.0};
static const op_case dx_case = {"linear_backward_input", dx_tensors, dx_run, dx_terms, 1.0};
static const op_case dw_case = {"linear_backward_weight", dw_tensors, dw_run, dw_terms, 1.0};
static const op_case attention_case = {"attention", attention_tensors, attention_run,
                                       attention_terms, 2.0};

typedef struct {
    const op_case *op;
    dims shape;
} test_case;

/* T, N, K, with bias or without, mode: one element, odd sizes, GPT-2's width, empty ones, and a sum
 * long enough for a library to split. T, H, D of attention: around the tiles of 32 and 64, every
 * width that has kernels of its own, and those in between. */
static const test_case cases[] = {
    {&y_case, {{1, 1, 1, 1}}},
    {&y_case, {{5, 7, 3, 0}}},
    {&y_case, {{33, 65, 17, 1}}},
    {&y_case, {{24, 2304, 768, 1}}},
    {&y_case, {{1030, 60, 257, 1}}},
    {&y_case, {{0, 4, 4, 1}}},
    {&y_case, {{4, 0, 4, 1}}},
    {&y_case, {{4, 5, 0, 1}}},
    {&y_case, {{4, 5, 0, 0}}},
    {&dx_case, {{1, 1, 1}}},
    {&dx_case, {{5, 7, 3}}},
    {&dx_case, {{33, 65, 17}}},
    {&dx_case, {{24, 3072, 768}}},
    {&dx_case, {{4, 0, 5}}},
    {&dx_case, {{0, 4, 5}}},
    {&dw_case, {{1, 1, 1, 1, GRAD_ADD}}},
    {&dw_case, {{1, 1, 1, 1, GRAD_SET}}},
    {&dw_case, {{5, 7, 3, 0, GRAD_ADD}}},
    {&dw_case, {{5, 7, 3, 0, GRAD_SET}}},
    {&dw_case, {{33, 65, 17, 1, GRAD_ADD}}},
    {&dw_case, {{1030, 130, 65, 1, GRAD_ADD}}},
    {&dw_case, {{1030, 130, 65, 1, GRAD_SET}}},
    {&dw_case, {{32, 768, 768, 0, GRAD_ADD}}},
    {&dw_case, {{0, 4, 5, 1, GRAD_ADD}}},
    {&dw_case, {{0, 4, 5, 1, GRAD_SET}}},
    {&dw_case, {{4, 5, 0, 1, GRAD_SET}}},
    {&attention_case, {{1, 1, 1, 1}}},
    {&attention_case, {{2, 1, 3, 64}}},
    {&attention_case, {{2, 7, 3, 5}}},
    {&attention_case, {{1, 130, 1, 5}}},
    {&attention_case, {{1, 64, 2, 64}}},
    {&attention_case, {{1, 65, 3, 64}}},
    {&attention_case, {{2, 150, 1, 64}}},
    {&attention_case, {{1, 100, 2, 80}}},
    {&attention_case, {{1, 70, 1, 96}}},
    {&attention_case, {{1, 130, 1, 128}}},
    {&attention_case, {{1, 67, 1, 130}}},
    {&attention_case, {{1, 40, 1, 256}}},
    {&attention_case, {{1, 24, 12, 64}}},
    {&attention_case, {{0, 4, 2, 4}}},
    {&attention_case, {{2, 0, 2, 4}}},
};

#define CASES (sizeof cases / sizeof *cases)

/* ---- Running one ---- */

typedef struct {
    tensor of[TENSORS];
    float *host[TENSORS];
} tensors;

/* Inputs and outputs are filled alike for both devices; `=` and `+=` show. Input element `at`,
 * counted over all inputs, becomes `poison`. */
static void fill(tensors *t, const test_case *c, size_t at, float poison) {
    memset(t, 0, sizeof *t);
    c->op->tensors(&c->shape, t->of);
    for (size_t i = 0; i < TENSORS; i++) {
        if (t->of[i].role == UNUSED) continue;
        t->host[i] = fixture_random(t->of[i].count, i + 1, c->op->spread);
        if (t->of[i].role != INPUT) continue;
        if (at < t->of[i].count) t->host[i][at] = poison;
        at = at < t->of[i].count ? SIZE_MAX : at - t->of[i].count;
    }
}

static void release(tensors *t) {
    for (size_t i = 0; i < TENSORS; i++) free(t->host[i]);
}

static size_t inputs_of(const test_case *c) {
    tensor of[TENSORS] = {{UNUSED, 0}};
    size_t count = 0;
    c->op->tensors(&c->shape, of);
    for (size_t i = 0; i < TENSORS; i++) count += of[i].role == INPUT ? of[i].count : 0;
    return count;
}

/* Each tensor in an allocation of its own, `off` floats behind its beginning. */
static void run_on_cuda(device *d, const test_case *c, tensors *t, size_t off) {
    float *base[TENSORS] = {NULL}, *at[TENSORS] = {NULL};
    size_t bytes[TENSORS];
    for (size_t i = 0; i < TENSORS; i++) {
        if (t->of[i].role == UNUSED) continue;
        bytes[i] = t->of[i].count * sizeof(float);
        base[i] = on_device(d, NULL, bytes[i] + off * sizeof(float));
        at[i] = base[i] + off;
        if (bytes[i]) OK(d->memory->write(d, at[i], t->host[i], bytes[i]));
    }
    c->op->run(d, &c->shape, at);
    for (size_t i = 0; i < TENSORS; i++) {
        if (t->of[i].role == UNUSED) continue;
        if (bytes[i]) OK(d->memory->read(d, t->host[i], at[i], bytes[i]));
        off_device(d, base[i], bytes[i] + off * sizeof(float));
    }
}

static void label(char *text, size_t size, const test_case *c, size_t i) {
    const size_t *n = c->shape.n;
    snprintf(text, size, "%s (%zu, %zu, %zu, %zu, %zu), tensor %zu", c->op->name, n[0], n[1], n[2],
             n[3], n[4], i);
}

/* The bound of cpu.c and its reason: a sum of K products of numbers of size 1 is of size sqrt(K) / 3,
 * and its K roundings, each up to half an EPS of the sum so far, walk at random; beside sums, up to
 * 16 roundings (an exponential, a division, stored statistics). */
static void near_in(const test_case *c, const tensors *got, const tensors *want) {
    double root = sqrt((double)c->op->terms(&c->shape));
    for (size_t i = 0; i < TENSORS; i++) {
        char text[128];
        label(text, sizeof text, c, i);
        if (got->of[i].role == OUTPUT)
            fixture_near(text, got->host[i], want->host[i], got->of[i].count, EPS * (8.0 + root),
                         1.0 + root / 3.0);
    }
}

static void both(device *cuda, device *ref, const test_case *c, size_t at, float poison,
                 tensors *got, tensors *want) {
    fill(got, c, at, poison);
    fill(want, c, at, poison);
    run_on_cuda(cuda, c, got, 0);
    c->op->run(ref, &c->shape, want->host);
}

/* ---- Tests ---- */

static void values_are_those_of_ref(void **state) {
    (void)state;
    device cuda = open_cuda(), *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < CASES; i++) {
        tensors got, want;
        both(&cuda, ref, &cases[i], SIZE_MAX, 0.0f, &got, &want);
        near_in(&cases[i], &got, &want);
        release(&got), release(&want);
    }
    device_close(&ref);
    backend->close(&cuda);
}

/* An address that is a multiple of 4 bytes only is as good, if slower. Attention's sums do not
 * change; a product may be another algorithm's. */
static void any_address_will_do(void **state) {
    (void)state;
    device cuda = open_cuda();
    for (size_t i = 0; i < CASES; i++) {
        tensors got, want;
        fill(&got, &cases[i], SIZE_MAX, 0.0f);
        fill(&want, &cases[i], SIZE_MAX, 0.0f);
        run_on_cuda(&cuda, &cases[i], &got, 1);
        run_on_cuda(&cuda, &cases[i], &want, 0);
        near_in(&cases[i], &got, &want);
        for (size_t k = 0; k < TENSORS && cases[i].op == &attention_case; k++)
            if (memcmp(got.host[k], want.host[k], got.of[k].count * sizeof(float)) != 0)
                fail_msg("attention: other bits at another address");
        release(&got), release(&want);
    }
    backend->close(&cuda);
}

/* The emulation runs threads, blocks and streams in another order each time. */
static void equal_bits_from_run_to_run(void **state) {
    (void)state;
    device cuda = open_cuda();
    for (size_t i = 0; i < CASES; i++) {
        tensors first;
        fill(&first, &cases[i], SIZE_MAX, 0.0f);
        run_on_cuda(&cuda, &cases[i], &first, 0);
        for (int round = 0; round < 3; round++) {
            tensors again;
            fill(&again, &cases[i], SIZE_MAX, 0.0f);
            run_on_cuda(&cuda, &cases[i], &again, 0);
            for (size_t k = 0; k < TENSORS; k++)
                if (memcmp(first.host[k], again.host[k], first.of[k].count * sizeof(float)) != 0)
                    fail_msg("%s: other bits in another run", cases[i].op->name);
            release(&again);
        }
        release(&first);
    }
    backend->close(&cuda);
}

static size_t count_nan(const tensors *t) {
    size_t count = 0;
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t n = 0; n < t->of[i].count && t->of[i].role == OUTPUT; n++)
            if (isnan(t->host[i][n])) count++;
    return count;
}

/* One NaN at several places of the input makes the outputs NaN that it does in ref, and no others:
 * near_in compares both. Returns how many outputs there are, NaN or not. */
static size_t check_nan(device *cuda, device *ref, const test_case *c, size_t *seen) {
    size_t count = inputs_of(c), outputs = 0;
    if (count == 0 || count > 100000) return 0;
    for (size_t k = 0; k < 7; k++) {
        tensors got, want;
        both(cuda, ref, c, k * (count - 1) / 6, NAN, &got, &want);
        near_in(c, &got, &want);
        *seen += count_nan(&want);
        for (size_t i = 0; i < TENSORS; i++)
            outputs += want.of[i].role == OUTPUT ? want.of[i].count : 0;
        release(&got), release(&want);
    }
    return outputs;
}

static void nan_comes_out_where_ref_says(void **state) {
    (void)state;
    device cuda = open_cuda(), *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < CASES; i++) {
        size_t seen = 0, outputs = check_nan(&cuda, ref, &cases[i], &seen);
        if (outputs > 0 && seen == 0) fail_msg("%s: no NaN came out", cases[i].op->name);
    }
    device_close(&ref);
    backend->close(&cuda);
}

/* An element that ref leaves finite is finite and near, any other is not finite. */
static void infinity_is_not_lost(void **state) {
    (void)state;
    device cuda = open_cuda(), *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < CASES; i++) {
        size_t count = inputs_of(&cases[i]);
        if (count == 0 || count > 100000) continue;
        for (size_t k = 0; k < 6; k++) {
            tensors got, want;
            both(&cuda, ref, &cases[i], k / 2 * (count - 1) / 2, k % 2 ? INFINITY : -INFINITY, &got,
                 &want);
            for (size_t t = 0; t < TENSORS; t++)
                for (size_t n = 0; n < want.of[t].count; n++)
                    if (!isfinite(want.host[t][n]) && !isfinite(got.host[t][n]))
                        want.host[t][n] = got.host[t][n] = 0.0f;
            near_in(&cases[i], &got, &want);
            release(&got), release(&want);
        }
    }
    device_close(&ref);
    backend->close(&cuda);
}

/* A row whose first tile of keys gives nothing but -infinity goes on with the next. */
static void a_row_may_begin_with_nothing(void **state) {
    (void)state;
    enum { T = 70, D = 4, ROW = 3 * D };
    device cuda = open_cuda(), *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    const test_case c = {&attention_case, {{1, T, 1, D}}};
    tensors got, want;
    fill(&got, &c, SIZE_MAX, 0.0f);
    for (size_t t = 0; t < T; t++) {
        got.host[QKV][t * ROW] = 1.0f;                             /* q */
        if (t < 64) got.host[QKV][t * ROW + D] = -INFINITY; /* k */
    }
    fill(&want, &c, SIZE_MAX, 0.0f);
    memcpy(want.host[QKV], got.host[QKV], got.of[QKV].count * sizeof(float));
    run_on_cuda(&cuda, &c, &got, 0);
    c.op->run(ref, &c.shape, want.host);
    for (size_t t = 64; t < T; t++) {
        assert_true(isfinite(want.host[Y][t * D]));
        fixture_near("y", got.host[Y] + t * D, want.host[Y] + t * D, D, 16 * EPS, 4.0);
        fixture_near("lse", got.host[LSE] + t, want.host[LSE] + t, 1, 16 * EPS, 4.0);
    }
    release(&got), release(&want);
    device_close(&ref);
    backend->close(&cuda);
}

/* Scores of thousands: the maximum keeps the exponentials finite. */
static void large_scores_do_not_overflow(void **state) {
    (void)state;
    device cuda = open_cuda(), *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    const test_case c = {&attention_case, {{1, 130, 1, 64}}};
    tensors got, want;
    fill(&got, &c, SIZE_MAX, 0.0f);
    fill(&want, &c, SIZE_MAX, 0.0f);
    for (size_t i = 0; i < got.of[QKV].count; i++)
        got.host[QKV][i] = want.host[QKV][i] = 20.0f * got.host[QKV][i];
    run_on_cuda(&cuda, &c, &got, 0);
    c.op->run(ref, &c.shape, want.host);
    /* A score of some 2000 has roundings of 64 EPS / 2 of that: their exponentials differ by percents
     * between neighbours, but the one that is ahead by more than the roundings stays ahead. */
    for (size_t i = 0; i < got.of[LSE].count; i++) {
        assert_true(isfinite(got.host[LSE][i]));
        fixture_near("lse", got.host[LSE] + i, want.host[LSE] + i, 1, 16 * EPS, 4000.0);
    }
    for (size_t i = 0; i < got.of[DQKV].count; i++) assert_true(isfinite(got.host[DQKV][i]));
    release(&got), release(&want);
    device_close(&ref);
    backend->close(&cuda);
}

static void heads_too_wide_are_refused(void **state) {
    (void)state;
    device cuda = open_cuda();
    float *p = on_device(&cuda, NULL, 3 * 257 * sizeof *p);
    REFUSED(cuda.ops->attention_forward(&cuda, p, p, p, p, 1, 1, 1, 257), TRINE_EUNSUPPORTED,
            "257");
    REFUSED(cuda.ops->attention_backward(&cuda, p, p, p, p, p, p, 1, 1, 1, 257),
            TRINE_EUNSUPPORTED, "257");
    off_device(&cuda, p, 3 * 257 * sizeof *p);
    backend->close(&cuda);
}

/* GRAD_SET and GRAD_ADD share a plan, other layers of a shape too, another alignment does not. */
static void a_second_step_asks_for_no_plans(void **state) {
    (void)state;
    static const struct {
        test_case c;
        size_t off;
        uint64_t more;
    } steps[] = {
        {{&y_case, {{6, 10, 8, 1}}}, 0, 1},          {{&y_case, {{6, 10, 8, 1}}}, 0, 0},
        {{&y_case, {{6, 10, 8, 0}}}, 0, 1},          {{&y_case, {{6, 10, 8, 1}}}, 1, 1},
        {{&dx_case, {{6, 10, 8}}}, 0, 1},            {{&dw_case, {{6, 10, 8, 1, GRAD_SET}}}, 0, 1},
        {{&dw_case, {{6, 10, 8, 1, GRAD_ADD}}}, 0, 0}, {{&dx_case, {{6, 10, 9}}}, 0, 1},
        {{&dx_case, {{6, 10, 8}}}, 0, 0},            {{&y_case, {{6, 10, 8, 1}}}, 1, 0},
    };
    if (!plans) return;
    device cuda = open_cuda();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t before = plans();
        tensors t;
        fill(&t, &steps[i].c, SIZE_MAX, 0.0f);
        run_on_cuda(&cuda, &steps[i].c, &t, steps[i].off);
        assert_int_equal(plans() - before, steps[i].more);
        release(&t);
    }
    backend->close(&cuda);
}

/* ---- The object, beside the tests in the build folder ---- */

static bool load(void) {
    static const cuda_host host = {raise_error, status_frame, status_assert_failed};
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    if (length <= 0) return false;
    path[length] = '\0';
    char *folder = strstr(path, "/tests/ops/");
    if (!folder) return false;
    strcpy(folder, "/emu/" CUDA_LIBRARY);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) return false;
    cuda_load entry;
    *(void **)&entry = dlsym(object, CUDA_LOAD);
    *(void **)&plans = dlsym(object, "emu_blas_heuristics");
    backend = entry ? entry(&host) : NULL;
    return backend != NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_ref),
        cmocka_unit_test(any_address_will_do),
        cmocka_unit_test(equal_bits_from_run_to_run),
        cmocka_unit_test(nan_comes_out_where_ref_says),
        cmocka_unit_test(infinity_is_not_lost),
        cmocka_unit_test(a_row_may_begin_with_nothing),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(heads_too_wide_are_refused),
        cmocka_unit_test(a_second_step_asks_for_no_plans),
    };
    if (!load()) return harness_skip("no build/emu/" CUDA_LIBRARY);
    return HARNESS_RUN_ALONE(tests);
}

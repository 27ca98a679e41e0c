/* TEST np=2,4 */
/* What runs beside what over tp: the products of a layer and its calls, in their order, on the host and on the emulated
 * GPU over NCCL; and how many of a layer's calls have a product between their start and the wait for them. */
#include "model/fixture.h"

#include <stdio.h>

#include "comm/api/observe.h"
#include "gpu_device.h"
#include "model/families.h"
#include "tp/fixture.h"

/* ---- A device and an observer that note ------------------------------------------------------- */

#define MOST 64

/* x, w: a product of a backward pass, for the input's gradient and for the weight's; f: forward. A gather is g at its
 * start and G at the wait for it, a sum s and S; A: a sum that blocks. Blocking gathers are a start and a wait. */
static char noted[MOST + 1];
static device *real, watched;
static ops watched_ops;

static void note(char what) {
    size_t n = strlen(noted);
    assert_true(n < MOST);
    noted[n] = what, noted[n + 1] = 0;
}

static trine_status noted_forward(device *d, void *y, const void *w, const void *bias,
                                  const void *x, size_t T, size_t N, size_t K) {
    (void)d;
    note('f');
    return real->ops->linear_forward(real, y, w, bias, x, T, N, K);
}

static trine_status noted_input(device *d, void *dx, const void *w, const void *dy, size_t T,
                                size_t N, size_t K) {
    (void)d;
    note('x');
    return real->ops->linear_backward_input(real, dx, w, dy, T, N, K);
}

static trine_status noted_weight(device *d, void *dw, void *dbias, const void *dy, const void *x,
                                 size_t T, size_t N, size_t K, grad_mode mode) {
    (void)d;
    note('w');
    return real->ops->linear_backward_weight(real, dw, dbias, dy, x, T, N, K, mode);
}

static device *watch(device *d) {
    real = d;
    watched = *d;
    watched_ops = *d->ops;
    watched_ops.linear_forward = noted_forward;
    watched_ops.linear_backward_input = noted_input;
    watched_ops.linear_backward_weight = noted_weight;
    watched.ops = &watched_ops;
    return &watched;
}

static void begins(void *context, const comm_called *call) {
    (void)context;
    bool gathers = call->kind == TRINE_TALLY_ALL_GATHER;
    if (call->group != TRINE_TP) return;
    if (call->part == COMM_CALL_WHOLE)
        note('A');
    else if (call->part == COMM_CALL_START)
        note(gathers ? 'g' : 's');
    else
        note(gathers ? 'G' : 'S');
}

static void ends(void *context) {
    (void)context;
}

static const comm_observer observer = {NULL, begins, ends};

static void expect_noted(const char *want) {
    if (strcmp(noted, want) != 0) fail_msg("%s instead of %s", noted, want);
    noted[0] = 0;
}

/* ---- One layer -------------------------------------------------------------------------------- */

enum { N = 8, I = 24, O = 48, BYTES = 1 << 16 };

/* A column-parallel layer in one piece of memory, which the host sees at `seen`. What is not an input is NaN there. */
typedef struct {
    tp_region r;
    tp_linear l;
    gpu_device *gpu; /* NULL: the host's own memory */
    float *x, *dy, *dx, *dw;
    size_t rows, own;
    char *seen, *next;
} layer;

/* Places n numbers. */
static void *place(layer *a, const float *values, size_t n) {
    char *here = a->next;
    if (values) memcpy(here, values, n * sizeof *values);
    a->next += (n * sizeof *values + 255) / 256 * 256;
    assert_true(a->next <= a->seen + BYTES);
    return a->gpu ? gpu_device_at(a->gpu, here) : here;
}

static layer make_layer(trine_comm *comm, device *d, gpu_device *gpu, bool sequence) {
    size_t share = N / P, own = O / P;
    char *seen = gpu ? gpu->seen : malloc(BYTES);
    layer a = {.r = {.comm = comm, .dev = watch(d)}, .gpu = gpu, .own = own, .seen = seen};
    float *x = normals("x", N * I), *dy = normals("dy", N * O), *w = normals("w", O * I);
    float *dy_own = submatrix(dy, O, 0, N, rank * own, own);
    assert_non_null(seen);
    memset(seen, 0xff, BYTES);
    a.rows = sequence ? share : N;
    a.next = seen;
    a.x = place(&a, x + (sequence ? rank * share * I : 0), a.rows * I);
    a.dy = place(&a, dy_own, N * own);
    a.l.weight.w = place(&a, w + rank * own * I, own * I);
    a.dx = place(&a, NULL, a.rows * I);
    a.l.weight.mode = GRAD_SET;
    a.l.weight.dw = a.dw = place(&a, NULL, own * I);
    a.l.bias.dw = place(&a, NULL, own);
    if (sequence) a.r.full = place(&a, NULL, N * I), a.r.sum = place(&a, NULL, N * I);
    if (gpu) gpu_device_send(gpu, seen, BYTES);
    free(x), free(dy), free(w), free(dy_own);
    return a;
}

/* What the host has then is the caller's: dx, then dw, then dbias. */
static float *results(layer *a) {
    size_t dx = a->rows * I, dw = a->own * I;
    float *all = zeros(dx + dw + a->own);
    OK(device_read(real, all, a->dx, dx * sizeof *all));
    OK(device_read(real, all + dx, a->dw, dw * sizeof *all));
    OK(device_read(real, all + dx + dw, a->l.bias.dw, a->own * sizeof *all));
    for (size_t i = 0; i < dx + dw + a->own; i++) assert_true(isfinite(all[i]));
    if (!a->gpu) free(a->seen);
    return all;
}

/* The whole backward pass computes the bits of its halves, each of which waits at once. */
static void check_column(trine_comm *comm, device *d, gpu_device *gpu, bool sequence) {
    layer a = make_layer(comm, d, gpu, sequence);
    comm_observe(harness_world, &observer);
    OK(tp_column_backward_input(&a.r, a.dx, &a.l, a.dy, N, O, I));
    expect_noted("xA");
    OK(tp_column_backward_weight(&a.r, &a.l, a.dy, a.x, N, O, I));
    expect_noted(sequence ? "gGw" : "w");
    float *want = results(&a);
    a = make_layer(comm, d, gpu, sequence);
    OK(tp_column_backward(&a.r, a.dx, &a.l, a.dy, a.x, N, O, I));
    expect_noted(sequence ? "gxsGwS" : "xswS");
    comm_observe_end(harness_world, &observer);
    float *got = results(&a);
    assert_memory_equal(got, want, (a.rows * I + a.own * I + a.own) * sizeof *got);
    free(got), free(want);
}

static void a_column_starts_before_its_products(void **state) {
    (void)state;
    check_column(tp.comm, dev, NULL, false);
    check_column(tp.comm, dev, NULL, true);
}

/* Streams run late and in any order that events permit; NCCL's queue: see emu/nccl.h. */
static void so_it_does_over_nccl(void **state) {
    (void)state;
    static const char *const queues[] = {"0", "1", "2", "3"};
    const gpu_wish wish = {(int)rank, BYTES, false};
    for (int q = 0; q < 4; q++) {
        gpu_device gpu;
        setenv("TRINE_EMU_NCCL_QUEUE", queues[q], 1);
        gpu_device_create(&gpu, tp_mesh, &wish);
        assert_string_equal(trine_comm_transport(tp.comm), "nccl");
        for (int n = 0; n < 10; n++) check_column(tp.comm, gpu.dev, &gpu, n % 2);
        gpu_device_destroy(&gpu);
    }
    unsetenv("TRINE_EMU_NCCL_QUEUE");
}

/* ---- A block ---------------------------------------------------------------------------------- */

/* Calls that were noted, and those with a product between start and wait. */
static void count_noted(int *calls, int *hidden) {
    *calls = *hidden = 0;
    for (const char *at = noted; *at; at++) {
        if (!strchr("gsA", *at)) continue;
        const char *end = *at == 'A' ? at : strchr(at, *at == 'g' ? 'G' : 'S');
        assert_non_null(end);
        ++*calls;
        *hidden += strcspn(at, "fxw") < (size_t)(end - at);
    }
    noted[0] = 0;
}

static void run_block(model *m, bool splits) {
    gpt_keep keep;
    arena a;
    void *memory;
    size_t bytes;
    OK(gpt_forward(&m->run, &m->unit[1], &m->acts[1], m->x[2], m->x[1], &m->batch));
    if (!splits) {
        OK(gpt_backward(&m->run, &m->unit[1], &m->acts[1], m->d, m->x[1], &m->batch));
        return;
    }
    arena_init(&a, NULL, 0);
    gpt_keep_take(&a, &m->s, m->dev, false, &keep);
    OK(device_alloc(m->dev, &memory, bytes = a.used));
    arena_init(&a, memory, bytes);
    gpt_keep_take(&a, &m->s, m->dev, false, &keep);
    OK(gpt_backward_input(&m->run, &m->unit[1], &m->acts[1], &keep, m->d, m->x[1], &m->batch));
    OK(gpt_backward_weight(&m->run, &m->unit[1], &m->acts[1], &keep, m->x[1], &m->batch));
    device_free(m->dev, memory, bytes);
}

static void check_block(const trine_family *family, bool sequence, bool splits) {
    gpt_shape s = {.B = 2, .T = 6, .C = 24, .H = 12, .F = 36, .L = 1, .V = 13};
    model m;
    int calls, hidden, columns = 0, rows = 0;
    s.family = family;
    s.sequence = sequence;
    model_open(&m, s, DEVICE_REF, tp.comm);
    m.run.dev = m.tp.dev = watch(m.dev);
    for (const trine_layer *l = gpt_unit_rows(&m.s, UNIT_BLOCK); l->kind; l++)
        columns += l->kind == TRINE_LAYER_COLUMN, rows += l->kind == TRINE_LAYER_ROW;
    comm_observe(harness_world, &observer);
    run_block(&m, splits);
    comm_observe_end(harness_world, &observer);
    count_noted(&calls, &hidden);
    assert_int_equal(calls, !sequence ? columns + rows
                            : splits  ? 3 * (columns + rows)
                                      : 3 * columns + 2 * rows);
    assert_int_equal(hidden, splits ? 0 : sequence ? 2 * columns : columns);
    model_close(&m);
}

/* Of GPT-2's and Llama's four layers with weights: 4 of 10 calls with sequence parallelism, 2 of 4 without. */
static void a_block_hides_a_part_of_its_calls(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof test_families / sizeof *test_families; f++)
        for (int n = 0; n < 4; n++) check_block(test_families[f], n % 2, n / 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_column_starts_before_its_products, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(so_it_does_over_nccl, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(a_block_hides_a_part_of_its_calls, tp_setup, tp_teardown),
    };
    if (!gpu_library()) return harness_skip_ranks(argc, argv, "no emulated GPU");
    return HARNESS_RUN(argc, argv, tests);
}

/* TEST np=1,2,3,4 */
/* A column-parallel linear followed by a row-parallel one, against the unsharded product. */
#include "profile/timed_device.h"
#include "tp/fixture.h"

#define N 7u
#define I 24u
#define H 48u /* hidden features: between the two layers; 1, 2, 3 and 4 divide it */
#define O 20u

/* One column + row pair: y = ((x w1^T + b1) w2^T + b2) + residual. */
typedef struct {
    size_t hidden; /* of this rank */
    float *w1, *b1, *w2, *b2, *dw1, *db1, *dw2, *db2;
    float *h, *y, *dh, *dx;
} pair;

static pair pair_open(size_t parts, size_t part) {
    size_t own = H / parts, first = part * own;
    float *w1 = normals("w1", H * I), *b1 = normals("b1", H), *w2 = normals("w2", O * H);
    pair p = {.hidden = own,
              .w1 = submatrix(w1, I, first, own, 0, I),
              .b1 = submatrix(b1, 1, first, own, 0, 1),
              .w2 = submatrix(w2, H, 0, O, first, own),
              .b2 = normals("b2", O),
              .dw1 = zeros(own * I),
              .db1 = zeros(own),
              .dw2 = zeros(O * own),
              .db2 = zeros(O),
              .h = zeros(N * own),
              .y = zeros(N * O),
              .dh = zeros(N * own),
              .dx = zeros(N * I)};
    free(w1);
    free(b1);
    free(w2);
    return p;
}

static void pair_close(pair *p) {
    float *all[] = {p->w1,  p->b1,  p->w2, p->b2, p->dw1, p->db1,
                    p->dw2, p->db2, p->h,  p->y,  p->dh,  p->dx};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void pair_run(const tp_region *r, pair *p, const float *x, const float *residual,
                     const float *dy) {
    tp_linear column = {{.w = p->w1, .dw = p->dw1}, {.w = p->b1, .dw = p->db1}, NULL};
    tp_linear row = {{.w = p->w2, .dw = p->dw2}, {.w = p->b2, .dw = p->db2}, NULL};
    OK(tp_column_forward(r, p->h, &column, x, N, H, I));
    OK(tp_row_forward(r, p->y, &row, p->h, residual, NULL, N, O, H));
    OK(tp_row_backward(r, p->dh, &row, dy, p->h, N, O, H));
    OK(tp_column_backward(r, p->dx, &column, p->dh, x, N, H, I));
}

static void pair_equals_the_unsharded_product(void **state) {
    (void)state;
    float *x = normals("x", N * I), *residual = normals("residual", N * O);
    float *dy = normals("dy", N * O);
    pair full = pair_open(1, 0), own = pair_open(P, rank);
    pair_run(&serial, &full, x, residual, dy);
    pair_run(&tp, &own, x, residual, dy);
    size_t first = rank * own.hidden;
    float *h = submatrix(full.h, H, 0, N, first, own.hidden);
    float *dh = submatrix(full.dh, H, 0, N, first, own.hidden);
    float *dw2 = submatrix(full.dw2, H, 0, O, first, own.hidden);
    expect_close("y", own.y, full.y, N * O);
    expect_close("dx", own.dx, full.dx, N * I);
    expect_close("hidden", own.h, h, N * own.hidden);
    expect_close("dhidden", own.dh, dh, N * own.hidden);
    expect_close("dw1", own.dw1, full.dw1 + first * I, own.hidden * I);
    expect_close("db1", own.db1, full.db1 + first, own.hidden);
    expect_close("dw2", own.dw2, dw2, O * own.hidden);
    expect_close("db2", own.db2, full.db2, O);
    expect_replicated("y", own.y, N * O);
    expect_replicated("dx", own.dx, N * I);
    expect_replicated("db2", own.db2, O);
    free(h);
    free(dh);
    free(dw2);
    free(x);
    free(residual);
    free(dy);
    pair_close(&full);
    pair_close(&own);
}

/* With h = 0, y equals the bias bit for bit, on any number of ranks. */
static void row_bias_counts_once(void **state) {
    (void)state;
    pair own = pair_open(P, rank);
    tp_linear row = {{.w = own.w2, .dw = own.dw2}, {.w = own.b2, .dw = own.db2}, NULL};
    OK(tp_row_forward(&tp, own.y, &row, own.h, NULL, NULL, N, O, H)); /* h is zero */
    for (size_t i = 0; i < N * O; i++) assert_true(own.y[i] == own.b2[i % O]);
    pair_close(&own);
}

/* dbias of the row-parallel layer is the column sum of dy, added once to the gradient. */
static void row_bias_gradient_counts_once(void **state) {
    (void)state;
    pair own = pair_open(P, rank);
    float *ones = zeros(N * O);
    for (size_t i = 0; i < N * O; i++) ones[i] = 1;
    for (size_t i = 0; i < O; i++) own.db2[i] = 0.5f;
    tp_linear row = {{.w = own.w2, .dw = own.dw2}, {.w = own.b2, .dw = own.db2}, NULL};
    OK(tp_row_backward(&tp, own.dh, &row, ones, own.h, N, O, H));
    for (size_t i = 0; i < O; i++) assert_true(own.db2[i] == N + 0.5f);
    free(ones);
    pair_close(&own);
}

/* One all-reduce in each direction and nothing else: (N, O) forward, (N, I) backward. */
static void pair_sends_one_sum_each_way(void **state) {
    (void)state;
    float *x = normals("x", N * I), *dy = normals("dy", N * O);
    pair own = pair_open(P, rank);
    trine_tally before[TRINE_TALLY_KINDS];
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++)
        before[k] = trine_comm_tally(tp.comm, k);
    pair_run(&tp, &own, x, NULL, dy);
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++) {
        uint64_t calls = trine_comm_tally(tp.comm, k).calls - before[k].calls;
        assert_int_equal(calls, k == TRINE_TALLY_ALL_REDUCE ? 2 : 0);
    }
    free(x);
    free(dy);
    pair_close(&own);
}

/* The product itself adds the residual if there is no sum over tp and no dropout between them, and
 * the device supports it. */
static void alone_a_row_adds_its_residual_itself(void **state) {
    (void)state;
    float *residual = normals("residual", N * O);
    const dropout_args drop = {.p = 0.5f, .T = N};
    pair own = pair_open(P, rank);
    device_profile p;
    device_profile_init(&p, dev);
    const tp_region region = {.comm = tp.comm, .dev = &p.device};
    tp_linear row = {{.w = own.w2, .dw = own.dw2}, {.w = own.b2, .dw = own.db2}, NULL};
    OK(tp_row_forward(&region, own.y, &row, own.h, residual, NULL, N, O, H));
    assert_int_equal(p.times[TIMED_linear_residual].calls, P == 1 ? 1 : 0);
    assert_int_equal(p.times[TIMED_bias_residual].calls, P == 1 ? 0 : 1);
    OK(tp_row_forward(&region, own.y, &row, own.h, residual, &drop, N, O, H));
    p.table.linear_residual = NULL;
    OK(tp_row_forward(&region, own.y, &row, own.h, residual, NULL, N, O, H));
    assert_int_equal(p.times[TIMED_linear_residual].calls, P == 1 ? 1 : 0);
    assert_int_equal(p.times[TIMED_bias_residual].calls, P == 1 ? 1 : 2);
    free(residual);
    pair_close(&own);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pair_equals_the_unsharded_product, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(row_bias_counts_once, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(row_bias_gradient_counts_once, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(alone_a_row_adds_its_residual_itself, tp_setup,
                                        tp_teardown),
        cmocka_unit_test_setup_teardown(pair_sends_one_sum_each_way, tp_setup, tp_teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}

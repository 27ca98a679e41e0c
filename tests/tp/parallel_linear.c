/* TEST np=1,2,3,4 */
/* The public column- and row-parallel linear: forward and backward against the unsharded layer,
 * which runs on a group of one. */
#include "tp/fixture.h"
#include "trine_linear.h"

#define ROWS 5u
#define IN   24u
#define OUT  36u

static trine_linear_config config(trine_linear_split split) {
    return (trine_linear_config){.split = split,
                                 .in = IN,
                                 .out = OUT,
                                 .max_rows = ROWS + 2,
                                 .device = "ref",
                                 .seed = 3,
                                 .name = "layer"};
}

/* Nonzero biases: with zero, a bias that is counted tp times would be hidden. */
static trine_linear *open_on(const char *where, trine_comm *comm, trine_linear_split split) {
    trine_linear *l;
    trine_linear_config c = config(split);
    c.device = where;
    OK(trine_linear_create(&l, comm, &c));
    trine_linear_shard s = trine_linear_local(l);
    float *bias = normals("bias", OUT);
    memcpy(s.bias, bias + s.first_row, s.rows * sizeof *bias);
    free(bias);
    return l;
}

static trine_linear *open_layer(trine_comm *comm, trine_linear_split split) {
    return open_on("ref", comm, split);
}

/* The weight of the shard, or its gradient, compared with the same part of the unsharded one. */
static void expect_piece(const char *what, trine_linear_shard s, const float *got,
                         const float *full) {
    float *want = submatrix(full, IN, s.first_row, s.rows, s.first_col, s.cols);
    expect_close(what, got, want, s.rows * s.cols);
    free(want);
}

static void shards_equal_the_unsharded_layer(trine_linear_split split) {
    trine_linear *own = open_layer(tp.comm, split), *full = open_layer(serial.comm, split);
    trine_linear_shard s = trine_linear_local(own), w = trine_linear_local(full);
    assert_int_equal(s.rows, split == TRINE_COLUMN ? OUT / P : OUT);
    assert_int_equal(s.cols, split == TRINE_ROW ? IN / P : IN);
    float *want = submatrix(w.weight, IN, s.first_row, s.rows, s.first_col, s.cols);
    assert_memory_equal(s.weight, want, s.rows * s.cols * sizeof *want);
    free(want);
    trine_linear_destroy(&own);
    trine_linear_destroy(&full);
    assert_null(own);
}

static void forward_and_backward_on(const char *where, trine_linear_split split) {
    trine_linear *own = open_on(where, tp.comm, split), *full = open_layer(serial.comm, split);
    trine_linear_shard s = trine_linear_local(own), w = trine_linear_local(full);
    float *x = normals("x", ROWS * IN), *dy = normals("dy", ROWS * OUT);
    float *y = zeros(ROWS * OUT), *y1 = zeros(ROWS * OUT);
    float *dx = zeros(ROWS * IN), *dx1 = zeros(ROWS * IN);
    for (int twice = 0; twice < 2; twice++) { /* gradients accumulate */
        OK(trine_linear_forward(full, y1, x, ROWS));
        OK(trine_linear_backward(full, dx1, dy, ROWS));
        OK(trine_linear_forward(own, y, rank == 0 ? x : NULL, ROWS));
        OK(trine_linear_backward(own, rank == 0 ? dx : NULL, dy, ROWS));
    }
    expect_close("y", y, y1, ROWS * OUT);
    expect_replicated("y", y, ROWS * OUT);
    if (rank == 0) expect_close("dx", dx, dx1, ROWS * IN);
    expect_piece("dweight", s, s.weight_grad, w.weight_grad);
    expect_close("dbias", s.bias_grad, w.bias_grad + s.first_row, s.rows);
    if (split == TRINE_ROW) expect_replicated("dbias", s.bias_grad, s.rows);
    float *all[] = {x, dy, y, y1, dx, dx1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    trine_linear_destroy(&own);
    trine_linear_destroy(&full);
}

/* Shards on cpu are compared with the unsharded layer on ref. */
static void forward_and_backward(trine_linear_split split) {
    forward_and_backward_on("ref", split);
    forward_and_backward_on("cpu", split);
}

/* The layer on one rank against the definition in double: the reference of the other tests. */
static void unsharded_layer(trine_linear_split split) {
    trine_linear *l = open_layer(serial.comm, split);
    trine_linear_shard s = trine_linear_local(l);
    float *x = normals("x", ROWS * IN), *dy = normals("dy", ROWS * OUT);
    float *y = zeros(ROWS * OUT), *dx = zeros(ROWS * IN);
    float *y1 = zeros(ROWS * OUT), *dx1 = zeros(ROWS * IN), *dw1 = zeros(OUT * IN);
    OK(trine_linear_forward(l, y, x, ROWS));
    OK(trine_linear_backward(l, dx, dy, ROWS));
    for (size_t t = 0; t < ROWS; t++)
        for (size_t o = 0; o < OUT; o++) {
            double sum = s.bias[o];
            for (size_t i = 0; i < IN; i++) {
                sum += (double)x[t * IN + i] * s.weight[o * IN + i];
                dx1[t * IN + i] += dy[t * OUT + o] * s.weight[o * IN + i];
                dw1[o * IN + i] += dy[t * OUT + o] * x[t * IN + i];
            }
            y1[t * OUT + o] = (float)sum;
        }
    expect_close("y", y, y1, ROWS * OUT);
    expect_close("dx", dx, dx1, ROWS * IN);
    expect_close("dweight", s.weight_grad, dw1, OUT * IN);
    float *all[] = {x, dy, y, dx, y1, dx1, dw1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    trine_linear_destroy(&l);
}

#define BOTH(function)                                                                             \
    static void function##_column(void **state) {                                                  \
        (void)state;                                                                               \
        function(TRINE_COLUMN);                                                                    \
    }                                                                                              \
    static void function##_row(void **state) {                                                     \
        (void)state;                                                                               \
        function(TRINE_ROW);                                                                       \
    }
BOTH(shards_equal_the_unsharded_layer)
BOTH(forward_and_backward)
BOTH(unsharded_layer)

/* A column-parallel layer sends its input once and gathers its output; a row-parallel one scatters
 * its input and sums its output. Backward is the conjugate. */
static void messages(void **state) {
    (void)state;
    static const trine_tally_kind used[2][3] = {
        {TRINE_TALLY_BROADCAST, TRINE_TALLY_ALL_GATHER, TRINE_TALLY_REDUCE},
        {TRINE_TALLY_SCATTER, TRINE_TALLY_ALL_REDUCE, TRINE_TALLY_GATHER}};
    float *x = normals("x", ROWS * IN), *y = zeros(ROWS * OUT), *dx = zeros(ROWS * IN);
    for (int split = 0; split < 2; split++) {
        trine_linear *l = open_layer(tp.comm, (trine_linear_split)split);
        trine_tally before[TRINE_TALLY_KINDS];
        for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++)
            before[k] = trine_comm_tally(tp.comm, k);
        OK(trine_linear_forward(l, y, x, ROWS));
        OK(trine_linear_backward(l, dx, y, ROWS));
        for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++) {
            uint64_t calls = trine_comm_tally(tp.comm, k).calls - before[k].calls, want = 0;
            for (int i = 0; i < 3; i++) want += used[split][i] == (trine_tally_kind)k;
            assert_int_equal(calls, want);
        }
        trine_linear_destroy(&l);
    }
    free(x);
    free(y);
    free(dx);
}

static void refusals(void **state) {
    (void)state;
    trine_linear *l = NULL;
    trine_linear_config c = config(TRINE_COLUMN);
    if (P > 1) {
        c.out = OUT + 1;
        REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL,
                "out (37) must be a multiple of tp");
        assert_null(l);
        c = config(TRINE_ROW);
        c.in = IN + 1;
        REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL,
                "in (25) must be a multiple of tp");
    }
    c = config(TRINE_ROW);
    c.max_rows = 0;
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL, "max_rows (0)");
    c = config(TRINE_ROW);
    c.in = c.out = (size_t)1 << 40;
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL, "more than 2^50 elements");
    c = config(TRINE_ROW);
    c.max_rows = (size_t)1 << 60;
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL, "more than 2^50 elements");
    c = config(TRINE_ROW);
    c.device = "abacus";
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL, "unknown device \"abacus\"");
    c = config(TRINE_ROW);
    c.device = "cuda"; /* whether there is a GPU or not */
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EUNSUPPORTED,
            "does not support device cuda; use device cpu or ref");
    c = config(TRINE_ROW);
    c.name = "a name of more than two dozen letters";
    REFUSED(trine_linear_create(&l, tp.comm, &c), TRINE_EINVAL, "use at most 24 bytes");
    l = open_layer(tp.comm, TRINE_ROW);
    float *x = normals("x", (ROWS + 3) * IN), *y = zeros((ROWS + 3) * OUT);
    REFUSED(trine_linear_forward(l, y, x, ROWS + 3), TRINE_EINVAL, "8 rows");
    REFUSED(trine_linear_backward(l, x, y, ROWS), TRINE_EINVAL, "kept 0");
    OK(trine_linear_forward(l, y, x, ROWS + 2));
    REFUSED(trine_linear_backward(l, x, y, ROWS), TRINE_EINVAL, "kept 7");
    OK(trine_linear_backward(l, x, y, ROWS + 2));
    /* The kept input is overwritten. */
    REFUSED(trine_linear_backward(l, x, y, ROWS + 2), TRINE_EINVAL, "kept 0");
    free(x);
    free(y);
    trine_linear_destroy(&l);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unsharded_layer_column, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(unsharded_layer_row, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(shards_equal_the_unsharded_layer_column, tp_setup,
                                        tp_teardown),
        cmocka_unit_test_setup_teardown(shards_equal_the_unsharded_layer_row, tp_setup,
                                        tp_teardown),
        cmocka_unit_test_setup_teardown(forward_and_backward_column, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(forward_and_backward_row, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(messages, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(refusals, tp_setup, tp_teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}

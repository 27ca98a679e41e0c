/* TEST np=1,2,4,6,8 */
/* The gradient norm: every element counts once, padding never, and the bits are the same on every
 * rank and for every pipeline depth. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "norm/grad_norm.h"

#define UNITS 8

/* ---- One rank ---- */

/* 100 sharded elements at 0, 70 replicated at 128, 30 sharded at 256; integers, whose squares add up exactly. */
static flat_range range_of(int dp, int tp_rank) {
    static const struct {
        size_t cols;
        tensor_split split;
    } tensors[] = {{100, SPLIT_ROWS}, {70, SPLIT_NONE}, {30, SPLIT_COLS}};
    flat_range range = {0};
    for (int i = 0; i < 3; i++) {
        tensor t = {.parts = 1, .rows = 1, .cols = tensors[i].cols, .split = tensors[i].split};
        t.copy = t.split == SPLIT_NONE && tp_rank;
        flat_add(&range, &t);
    }
    flat_finish(&range, dp);
    return range;
}

static double squares(int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += (double)i * i;
    return sum;
}

/* As exec: the device's sums of all tensors that count, then their sum. */
static double local(device *d, const flat_range *range, size_t begin, size_t count,
                    const float *g) {
    double sums[FLAT_TENSORS + 1];
    int n = norm_count(range, begin, count);
    assert_in_range(n, 0, range->tensor_count);
    for (int i = 0; i <= n; i++) sums[i] = -1;
    OK(norm_local(d, range, begin, count, g, sums));
    assert_true(sums[n] == -1);
    return norm_add(sums, n);
}

/* The slices of dp ranks add up to the full range: on tp rank 0 with the tensors replicated over tp, on the
 * others without. */
static void check_slices(device *ref, int dp, int tp_rank) {
    flat_range range = range_of(dp, tp_rank);
    float *g = calloc(range.count, sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < range.count; i++) g[i] = (float)i;
    size_t slice = range.count / (size_t)dp;
    double all = 0;
    for (int d = 0; d < dp; d++) {
        size_t begin = (size_t)d * slice;
        all += local(ref, &range, begin, slice, g + begin);
    }
    double want = squares(0, 100) + squares(256, 286);
    assert_true(all == want + (tp_rank ? 0 : squares(128, 198)));
    free(g);
}

static void test_every_element_counts_once(void **state) {
    (void)state;
    device *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    for (int dp = 1; dp <= 12; dp++)
        for (int tp_rank = 0; tp_rank < 3; tp_rank++) check_slices(ref, dp, tp_rank);
    device_close(&ref);
}

static void test_an_empty_slice_is_zero(void **state) {
    (void)state;
    device *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    flat_range range = range_of(1, 0);
    float g[FLAT_ALIGN] = {1};
    assert_true(local(ref, &range, range.count, 0, g) == 0);
    device_close(&ref);
}

/* ---- All ranks ---- */

/* A rank's part of a unit: thirds and sevenths, so that a different order of additions changes bits. */
static double share(int unit, int tp, int dp) {
    return 1.0 / (3.0 + 7 * unit + 11 * tp + 13 * dp) + 1e5 / (double)(1 + unit + tp * dp);
}

static double loss_of(int dp) {
    return 1.0 / (3.0 + dp);
}

/* The documented order, in one loop. */
static void reference(trine_layout l, double *square, double *loss) {
    *square = *loss = 0;
    for (int u = 0; u < UNITS; u++) {
        double unit = 0;
        for (int tp = 0; tp < l.tp; tp++)
            for (int dp = 0; dp < l.dp; dp++) unit += share(u, tp, dp);
        *square += unit;
    }
    for (int dp = 0; dp < l.dp; dp++) *loss += loss_of(dp);
}

/* As many elements as there are sums, so that a workspace that is too small breaks nothing else. */
#define GUARD (UNITS * 64)

static void check_layout(trine_layout l) {
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    trine_coord at = trine_mesh_coord(mesh);
    double own[UNITS] = {0}, square, loss, want_square, want_loss;
    for (int u = 0; u < UNITS; u++)
        if (u * l.pp / UNITS == at.pp) own[u] = share(u, at.tp, at.dp);
    norm_sums sums = {own, at.pp == l.pp - 1 ? loss_of(at.dp) : 0};
    size_t room = norm_scratch(UNITS, l);
    double *scratch = malloc((room + GUARD) * sizeof *scratch);
    assert_non_null(scratch);
    for (size_t i = 0; i < GUARD; i++) scratch[room + i] = -1;
    OK(norm_global(mesh, &sums, UNITS, scratch, &square, &loss));
    for (size_t i = 0; i < GUARD; i++) assert_true(scratch[room + i] == -1);
    reference(l, &want_square, &want_loss);
    assert_memory_equal(&square, &want_square, sizeof square);
    assert_memory_equal(&loss, &want_loss, sizeof loss);
    free(scratch);
    trine_mesh_destroy(&mesh);
}

static void test_global_sums_have_a_fixed_order(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; pp <= ranks; pp++)
            if (ranks % (tp * pp) == 0)
                check_layout((trine_layout){.dp = ranks / (tp * pp), .tp = tp, .pp = pp});
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_counts_once),
        cmocka_unit_test(test_an_empty_slice_is_zero),
        cmocka_unit_test(test_global_sums_have_a_fixed_order),
    };
    return HARNESS_RUN(argc, argv, tests);
}

/* The same ranks twice: as one tp group, and as groups of one, where every rank computes the full
 * result serially. Parallel results are compared with the serial ones. */
#ifndef TRINE_TESTS_TP_FIXTURE_H
#define TRINE_TESTS_TP_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/ops.h"
#include "harness.h"
#include "tp/tp.h"

static trine_mesh *tp_mesh, *serial_mesh;
static device *dev;
static tp_region tp, serial;
static size_t P, rank;

static int tp_setup(void **state) {
    (void)state;
    P = (size_t)trine_world_size(harness_world);
    OK(trine_mesh_create(&tp_mesh, harness_world, (trine_layout){.dp = 1, .tp = (int)P, .pp = 1}, 0));
    OK(trine_mesh_create(&serial_mesh, harness_world, (trine_layout){.dp = (int)P, .tp = 1, .pp = 1}, 0));
    OK(device_open(&dev, DEVICE_REF, 1));
    tp = (tp_region){.comm = trine_mesh_group(tp_mesh, TRINE_TP), .dev = dev};
    serial = (tp_region){.comm = trine_mesh_group(serial_mesh, TRINE_TP), .dev = dev};
    rank = (size_t)trine_comm_rank(tp.comm);
    return 0;
}

static int tp_teardown(void **state) {
    (void)state;
    device_close(&dev);
    trine_mesh_destroy(&serial_mesh);
    trine_mesh_destroy(&tp_mesh);
    return 0;
}

/* n floats, zero. */
static inline float *zeros(size_t n) {
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

/* n standard normal floats, the same on every rank. */
static inline float *normals(const char *name, size_t n) {
    float *x = zeros(n);
    rng_normal(x, rng_key(1, name), 0, n, 1.0);
    return x;
}

/* Rows [row, row + rows) and columns [col, col + cols) of x (?, width), packed. */
static inline float *submatrix(const float *x, size_t width, size_t row, size_t rows, size_t col,
                           size_t cols) {
    float *out = zeros(rows * cols);
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * cols, x + (row + i) * width + col, cols * sizeof *out);
    return out;
}

/* Splitting a sum of K terms over ranks changes its rounding by at most K eps times the sum of the
 * terms' magnitudes. The sums of these tests have at most 48 terms, K eps = 48 * 6e-8 = 3e-6, and
 * pass through two layers: 1e-5 of the largest element. */
#define SUM_TOLERANCE 1e-5

static inline void expect_close(const char *what, const float *got, const float *want, size_t n) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(got[i]));
        largest = fmax(largest, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    }
    if (worst > SUM_TOLERANCE * largest)
        fail_msg("%s: differs by %.3e where the largest is %.3e", what, worst, largest);
}

/* The bits of x (n) are the same on every rank of the tp group. */
static inline void expect_replicated(const char *what, const float *x, size_t n) {
    float *all = zeros(P * n);
    OK(trine_all_gather(tp.comm, all, x, P * n, TRINE_F32));
    for (size_t p = 0; p < P; p++)
        if (memcmp(all + p * n, x, n * sizeof *x) != 0)
            fail_msg("%s: ranks %zu and %zu differ", what, rank, p);
    free(all);
}

#endif

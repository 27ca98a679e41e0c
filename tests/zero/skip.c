/* TEST np=1,4 */
/* A NaN gradient: every rank reports that the step is skipped, no bit of a parameter or moment changes, and
 * training continues once the cause is gone. With every layout and ZeRO stage. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- State that an update changes ------------------------------------------------------------ */

typedef struct {
    char *bytes; /* NULL: only count */
    size_t used;
} copy;

static void add(copy *to, const void *from, size_t count) {
    if (to->bytes) memcpy(to->bytes + to->used, from, count * sizeof(float));
    to->used += count * sizeof(float);
}

static void copy_state(const trine_trainer *t, copy *to) {
    const zero_row *row = spec_zero(&t->spec);
    size_t d = (size_t)t->config.parallel.layout.dp;
    for (int n = 0; n < t->held.count; n++) {
        const held_unit *u = &t->held.units[n];
        for (int r = 0; r < u->layout.range_count; r++) {
            size_t count = u->layout.ranges[r].count;
            if (u->borrowed[r]) continue;
            add(to, u->params[r], row->params == SHARD ? count / d : count);
            add(to, u->moment1[r], row->optimizer == SHARD ? count / d : count);
            add(to, u->moment2[r], row->optimizer == SHARD ? count / d : count);
        }
    }
}

static copy snapshot(const trine_trainer *t) {
    copy size = {0}, out = {0};
    copy_state(t, &size);
    out.bytes = malloc(size.used);
    assert_non_null(out.bytes);
    copy_state(t, &out);
    return out;
}

/* ---- Skipping -------------------------------------------------------------------------------- */

/* On every rank that has the element (all dp replicas, or the owner of the shard), so that replicas
 * stay equal. */
static void expect_skipped(trine_trainer *t, const char *name, float poison) {
    trine_metrics m;
    float *x = training_tensor(t, name, NULL), good = x ? *x : 0;
    int64_t updates = t->updates, steps = t->steps;
    if (x) *x = poison;
    copy before = snapshot(t);
    for (int i = 0; i < 2; i++) {
        OK(trine_trainer_step(t, &m));
        assert_true(m.skipped);
        assert_false(isfinite(m.grad_norm) != 0);
    }
    copy after = snapshot(t);
    assert_int_equal(before.used, after.used);
    assert_memory_equal(before.bytes, after.bytes, before.used);
    assert_int_equal(t->updates, updates);
    assert_int_equal(t->steps, steps + 2);
    if (x) *x = good;
    OK(trine_trainer_step(t, &m));
    assert_false(m.skipped);
    assert_int_equal(t->updates, updates + 1);
    free(before.bytes);
    free(after.bytes);
}

static void visit(trine_layout layout) {
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = training_config();
        trine_trainer *t;
        trine_metrics m;
        c.parallel.layout = layout;
        c.parallel.zero = (trine_zero)zero;
        c.model.untied = zero % 2;
        c.global_batch_size = 2 * layout.dp;
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_step(t, &m));
        expect_skipped(t, "h.4.attn.c_attn.weight", NAN);
        expect_skipped(t, "ln_f.bias", INFINITY);
        expect_skipped(t, "wpe.weight", -NAN);
        trine_trainer_destroy(&t);
    }
}

static void every_layout(void **state) {
    (void)state;
    training_layouts(visit);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};
    return HARNESS_RUN(argc, argv, tests);
}

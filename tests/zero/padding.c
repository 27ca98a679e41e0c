/* TEST np=1,2,4 */
/* What lies between tensors, behind the last one and in vocabulary rows that only tp needs is zero
 * and stays zero, in parameters, gradients and moments, with every layout and ZeRO stage. */
#include "training.h"

/* Whether a tensor of the range has a value at this element. */
static bool is_value(const flat_range *range, size_t element) {
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        if (element < t->offset || element >= t->offset + tensor_count(t)) continue;
        size_t row = (element - t->offset) / t->cols % t->rows;
        return t->first_row + row < t->global_rows;
    }
    return false;
}

static size_t gaps;

/* x holds elements [part.begin, part.begin + part.count). */
static void expect_zero_gaps(const char *what, const held_unit *u, int r, flat_part part,
                             const float *x) {
    for (size_t i = 0; i < part.count; i++) {
        if (is_value(&u->layout.ranges[r], part.begin + i)) continue;
        gaps++;
        if (x[i] != 0)
            fail_msg("%s of unit %d, range %d, element %zu: %g in the padding", what, u->unit, r,
                     part.begin + i, (double)x[i]);
    }
}

static void check_range(const holding *h, const held_unit *u, int r) {
    const zero_row *row = zero_stage(h->config.spec->zero);
    flat_part all = {0, u->layout.ranges[r].count}, slice = holding_slice(h, u, r);
    expect_zero_gaps("gradients", u, r, row->full_grads ? all : slice, u->grads[r]);
    if (u->borrowed[r]) return;
    expect_zero_gaps("parameters", u, r, row->params == SHARD ? slice : all, u->params[r]);
    expect_zero_gaps("moments", u, r, holding_owned(h, u, r), u->moment1[r]);
    expect_zero_gaps("moments", u, r, holding_owned(h, u, r), u->moment2[r]);
}

static void check(trine_layout layout, int zero, bool untied) {
    trine_config c = training_config();
    trine_trainer *t;
    trine_metrics m;
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.model.untied = untied;
    c.optimizer.decay_all = true;
    c.global_batch_size = 3 * layout.dp;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int i = 0; i < 3; i++) OK(trine_trainer_step(t, &m));
    for (int n = 0; n < t->held.count; n++)
        for (int r = 0; r < t->held.units[n].layout.range_count; r++)
            check_range(&t->held, &t->held.units[n], r);
    trine_trainer_destroy(&t);
}

static void visit(trine_layout layout) {
    for (int zero = 0; zero <= 3; zero++) {
        check(layout, zero, false);
        check(layout, zero, true);
    }
}

static void every_layout(void **state) {
    (void)state;
    training_layouts(visit);
    assert_true(gaps > 0);
    print_message("# %zu elements of padding on rank 0\n", gaps);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};
    return HARNESS_RUN(argc, argv, tests);
}

/* TEST np=1,4 */
/* The padding between tensors, after the last tensor and in vocabulary rows that exist only for tp is zero and
 * stays zero, in parameters, gradients, masters and moments, with every layout and ZeRO stage, in
 * fp32 and in 16 bits, of which one has a tied token matrix. */
#include "training.h"

#include <string.h>

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

/* x holds elements [part.begin, part.begin + part.count), of `bytes` bytes each. */
static void expect_zero_gaps(const char *what, const held_unit *u, int r, flat_part part,
                             const void *x, size_t bytes) {
    for (size_t i = 0; i < part.count; i++) {
        uint32_t bits = 0;
        if (is_value(&u->layout.ranges[r], part.begin + i)) continue;
        gaps++;
        memcpy(&bits, (const char *)x + i * bytes, bytes);
        if (bits & ~(UINT32_C(1) << (8 * bytes - 1))) /* zero has two signs */
            fail_msg("%s of unit %d, range %d, element %zu: bits %x in the padding", what, u->unit,
                     r, part.begin + i, (unsigned)bits);
    }
}

static void check_range(const rank_state *h, const held_unit *u, int r) {
    const zero_row *row = spec_zero(h->config.spec);
    flat_part all = {0, u->layout.ranges[r].count}, slice = state_slice(h, u, r);
    expect_zero_gaps("gradients", u, r, row->full_grads ? all : slice, u->grads[r],
                     state_grad_bytes(h));
    if (u->borrowed[r]) return;
    expect_zero_gaps("parameters", u, r, row->params == SHARD ? slice : all, u->params[r],
                     state_param_bytes(h));
    flat_part own = state_owned(h, u, r);
    expect_zero_gaps("moments", u, r, own, u->moment1[r], sizeof(float));
    expect_zero_gaps("moments", u, r, own, u->moment2[r], sizeof(float));
    if (u->master[r]) expect_zero_gaps("master", u, r, own, u->master[r], sizeof(float));
}

static void check(trine_layout layout, int zero, bool untied, trine_precision precision) {
    trine_config c = training_config();
    trine_trainer *t;
    trine_metrics m;
    c.precision = precision;
    if (precision.bf16) c.parallel.device = "ref";
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.model.untied = untied;
    c.optimizer.decay_all = true;
    c.global_batch_size = 3 * layout.dp;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
    for (int n = 0; n < t->held.count; n++)
        for (int r = 0; r < t->held.units[n].layout.range_count; r++)
            check_range(&t->held, &t->held.units[n], r);
    trine_trainer_destroy(&t);
}

static void visit(trine_layout layout) {
    for (int zero = 0; zero <= 3; zero++) {
        trine_precision fp32 = trine_config_default().precision, mixed = fp32;
        mixed.bf16 = true;
        if (zero % 2 == layout.pp % 2) mixed.grads = TRINE_BF16;
        bool untied = (zero + layout.pp / 2 + layout.tp / 2) % 2;
        check(layout, zero, untied, fp32);
        check(layout, zero, !untied, mixed);
    }
}

static void every_layout(void **state) {
    (void)state;
    gaps = 0;
    training_layouts(visit);
    assert_true(gaps > 0);
    print_message("# %zu elements of padding on rank 0\n", gaps);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};
    return HARNESS_RUN(argc, argv, tests);
}

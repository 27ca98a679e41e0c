/* TEST np=2,4 */
/* Audit finds no difference between replicas after any step of any layout and ZeRO stage, and reports a single wrong
 * bit, with the tensor's name, wherever two ranks have the same value. */
#include "training.h"

#include <math.h>

#include "run/replicas.h"

static trine_config audited(trine_layout layout, int zero) {
    trine_config c = training_config();
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.parallel.audit = true;
    c.global_batch_size = 3 * layout.dp;
    return c;
}

static void audit_layout(trine_layout layout) {
    for (int zero = 0; zero <= 3; zero++)
        for (int untied = 0; untied < 2; untied++) {
            trine_config c = audited(layout, zero);
            c.model.untied = untied;
            training_run(harness_world, &c, 3);
        }
}

static void all_agree(void **state) {
    (void)state;
    training_layouts(audit_layout);
}

/* Flips one bit of the last rank's first element. */
static void corrupt(const trine_trainer *t, const char *name, int bit) {
    if (trine_world_rank(harness_world) != trine_world_size(harness_world) - 1) return;
    union {
        float value;
        uint32_t bits;
    } *x = (void *)training_tensor(t, name, NULL);
    assert_non_null(x);
    x->bits ^= UINT32_C(1) << bit;
}

/* Audit names the tensor for a wrong lowest bit. A wrong bit that survives rounding is also found after
 * the next step, when it may have spread (with ZeRO-1/2 over dp the gather from the owner may have repaired it
 * instead). Every rank of the job must be in the group, so that every rank returns the error. */
static void expect_caught(trine_layout layout, int zero, const char *name, bool lasts) {
    trine_config c = audited(layout, zero);
    trine_trainer *t;
    trine_metrics m;
    char text[64];
    snprintf(text, sizeof text, "%s differs", name);
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(trine_trainer_step(t, &m));
    OK(replicas_agree(&t->held, t->dev, t->mesh));
    corrupt(t, name, 0);
    REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, text);
    corrupt(t, name, 22);
    if (lasts) REFUSED(trine_trainer_step(t, &m), TRINE_EAUDIT, "differs");
    trine_trainer_destroy(&t);
}

static void one_bit_over_dp(void **state) {
    (void)state;
    trine_layout layout = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    for (int zero = 0; zero <= 2; zero++) {
        expect_caught(layout, zero, "h.3.mlp.c_fc.weight", zero == 0);
        expect_caught(layout, zero, "wte.weight", zero == 0);
        expect_caught(layout, zero, "ln_f.bias", zero == 0);
    }
}

static void one_bit_over_tp(void **state) {
    (void)state;
    trine_layout layout = {.dp = 1, .tp = trine_world_size(harness_world), .pp = 1};
    for (int zero = 0; zero <= 3; zero++) {
        expect_caught(layout, zero, "h.6.ln_1.weight", true);
        expect_caught(layout, zero, "h.0.mlp.c_proj.bias", true);
        expect_caught(layout, zero, "wpe.weight", true);
    }
}

static void one_bit_of_a_tied_matrix(void **state) {
    (void)state;
    if (trine_world_size(harness_world) != 2) return; /* inner stages would not see the error */
    for (int zero = 0; zero <= 3; zero++)
        expect_caught((trine_layout){.dp = 1, .tp = 1, .pp = 2}, zero, "wte.weight", true);
}

/* With 16-bit parameters each rank also has the fp32 numbers that they are the rounding of. */
static void one_bit_of_a_master(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    trine_config c = audited((trine_layout){.dp = ranks, .tp = 1, .pp = 1}, 0);
    trine_trainer *t;
    c.precision.bf16 = true;
    c.parallel.device = "ref";
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(replicas_agree(&t->held, t->dev, t->mesh));
    float *master = t->held.units[2].master[0];
    assert_non_null(master);
    if (trine_world_rank(harness_world) == ranks - 1) master[0] = nextafterf(master[0], 2.0f);
    REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, "h.1.ln_1.weight differs");
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_agree),           cmocka_unit_test(one_bit_over_dp),
        cmocka_unit_test(one_bit_over_tp),     cmocka_unit_test(one_bit_of_a_tied_matrix),
        cmocka_unit_test(one_bit_of_a_master),
    };
    return HARNESS_RUN(argc, argv, tests);
}

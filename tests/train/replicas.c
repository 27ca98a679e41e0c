/* TEST np=2 */
/* The audit of replicas: one bit that differs between two copies is found, and its tensor named. */
#include "training.h"

#include "run/replicas.h"

static trine_trainer *trained(trine_layout layout, trine_zero zero) {
    trine_config c = training_config();
    c.parallel.layout = layout;
    c.parallel.zero = zero;
    c.global_batch_size = 2 * layout.dp;
    trine_trainer *t;
    trine_metrics m;
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(trine_trainer_step(t, &m));
    OK(replicas_agree(&t->held, t->dev, t->mesh));
    return t;
}

/* Flips the lowest bit of the last element of a tensor, on the last rank. */
static void flip(const held_unit *u, int range, int index) {
    const tensor *t = &u->layout.ranges[range].tensors[index];
    float *w = u->params[range];
    unsigned char *last = (unsigned char *)(w + t->offset + tensor_count(t) - 1);
    if (trine_world_rank(harness_world) == trine_world_size(harness_world) - 1) *last ^= 1;
}

static void over_dp(void **state) {
    (void)state;
    for (int zero = 0; zero < 3; zero++) {
        trine_trainer *t = trained((trine_layout){.dp = 2, .tp = 1, .pp = 1}, (trine_zero)zero);
        flip(state_unit(&t->held, 3), 0, 4);
        REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, "h.2.attn.c_proj.weight");
        trine_trainer_destroy(&t);
    }
}

/* With tp, only tensors that tp does not split have copies. */
static void over_tp(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        trine_trainer *t = trained((trine_layout){.dp = 1, .tp = 2, .pp = 1}, (trine_zero)zero);
        flip(state_unit(&t->held, 3), 0, 2);
        OK(replicas_agree(&t->held, t->dev, t->mesh));
        flip(state_unit(&t->held, 3), 0, 5);
        REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, "h.2.attn.c_proj.bias");
        trine_trainer_destroy(&t);
    }
}

static void over_the_tie(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        trine_trainer *t = trained((trine_layout){.dp = 1, .tp = 1, .pp = 2}, (trine_zero)zero);
        const held_unit *u = &t->held.units[t->held.units[0].unit == 0 ? 0 : t->held.count - 1];
        flip(u, 0, 0);
        REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, "wte.weight");
        trine_trainer_destroy(&t);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_dp),
        cmocka_unit_test(over_tp),
        cmocka_unit_test(over_the_tie),
    };
    return HARNESS_RUN(argc, argv, tests);
}

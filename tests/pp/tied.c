/* TEST np=2,3,4,8 */
/* The token matrix that the first and the last stage share: both copies have the same bits after several steps,
 * with every ZeRO stage, and have changed; an untied head differs. */
#include "training.h"

#include <stdlib.h>
#include <string.h>

/* The other stage's copy; `count` floats, to be freed. */
static float *other_copy(const trine_trainer *t, const float *own, size_t count) {
    trine_comm *tie = trine_mesh_group(t->mesh, TRINE_TIE);
    float *other = malloc(count * sizeof *other);
    assert_non_null(other);
    if (trine_comm_rank(tie) == 0) OK(trine_send(tie, own, count, TRINE_F32, 1));
    OK(trine_recv(tie, other, count, TRINE_F32, 1 - trine_comm_rank(tie)));
    if (trine_comm_rank(tie) == 1) OK(trine_send(tie, own, count, TRINE_F32, 0));
    return other;
}

static bool copies_equal(const trine_trainer *t, const char *name) {
    size_t count;
    const float *own = training_tensor(t, name, &count);
    assert_non_null(own);
    float *other = other_copy(t, own, count);
    bool equal = !memcmp(own, other, count * sizeof *own);
    free(other);
    return equal;
}

static void check(trine_layout layout, int zero, bool untied) {
    trine_config c = training_config();
    trine_trainer *t;
    trine_metrics m;
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.model.untied = untied;
    c.global_batch_size = 3 * layout.dp;
    OK(trine_trainer_create(&t, harness_world, &c));
    bool holder = trine_comm_size(trine_mesh_group(t->mesh, TRINE_TIE)) == 2;
    const char *name = untied && trine_mesh_coord(t->mesh).pp > 0 ? "lm_head.weight" : "wte.weight";
    float before = holder ? *training_tensor(t, name, NULL) : 0;
    for (int i = 0; i < 4; i++) OK(trine_trainer_step(t, &m));
    if (holder) {
        assert_true(before != *training_tensor(t, name, NULL));
        assert_int_equal(copies_equal(t, name), !untied);
    }
    trine_trainer_destroy(&t);
}

static void visit(trine_layout layout) {
    for (int zero = 0; layout.pp > 1 && zero <= 3; zero++) {
        check(layout, zero, false);
        check(layout, zero, true);
    }
}

static void both_copies(void **state) {
    (void)state;
    training_layouts(visit);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_copies)};
    return HARNESS_RUN(argc, argv, tests);
}

/* TEST np=1,2,4 */
/* Evaluation: the mean loss over the first global batches of another file, in every layout; training
 * continues as if there had been no evaluation. */
#include "training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 4, BATCHES = 3, SEQUENCE = 8, TOKENS = BATCHES * BATCH * SEQUENCE + 1 };

static char path[] = "/tmp/trine-evaluation-XXXXXX";

/* Exactly enough tokens for all batches. */
static int write_file(void **state) {
    (void)state;
    int32_t header[256] = {20240520, 1, TOKENS};
    uint16_t words[TOKENS];
    for (unsigned i = 0; i < TOKENS; i++)
        words[i] = (uint16_t)((i * i + 31 * i + 3) % TRAINING_VOCAB);
    snprintf(path, sizeof path, "/tmp/trine-evaluation-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, header, sizeof header), sizeof header);
    assert_int_equal(write(file, words, sizeof words), sizeof words);
    return close(file);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

/* Each axis with all ranks, with a different ZeRO stage. */
static trine_config config(int axis) {
    int ranks = trine_world_size(harness_world);
    const struct {
        trine_layout layout;
        trine_zero zero;
    } rows[] = {{{.dp = ranks, .tp = 1, .pp = 1}, TRINE_ZERO_3},
                {{.dp = 1, .tp = ranks, .pp = 1}, TRINE_ZERO_0},
                {{.dp = 1, .tp = 1, .pp = ranks}, TRINE_ZERO_1}};
    trine_config c = training_config();
    c.parallel.layout = rows[axis].layout;
    c.parallel.zero = rows[axis].zero;
    c.global_batch_size = BATCH;
    c.data.val_data_path = path;
    c.eval_iters = BATCHES;
    return c;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

/* The loss of one training step whose global batch is the entire file: the same samples in another
 * order, so sums are rounded differently. */
static double loss_of_file(trine_config c) {
    c.data.data_path = path;
    c.global_batch_size = BATCHES * BATCH;
    return training_run(harness_world, &c, 1).loss[0];
}

static void loss_is_the_mean_over_the_file(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        trine_config c = config(axis);
        double want = loss_of_file(c), got, again;
        trine_trainer *t = create(&c);
        uint64_t params = training_fingerprint(t);
        OK(trine_trainer_eval(t, &got));
        OK(trine_trainer_eval(t, &again));
        if (!(fabs(got / want - 1) <= 1e-6))
            fail_msg("axis %d: loss %.17g instead of %.17g", axis, got, want);
        assert_true(got == again);
        assert_true(training_fingerprint(t) == params);
        trine_trainer_destroy(&t);
    }
}

static void training_is_not_disturbed(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        trine_config c = config(axis);
        training_result want = training_run(harness_world, &c, 3), got = {.steps = 3};
        trine_trainer *t = create(&c);
        for (int i = 0; i < 3; i++) {
            trine_metrics m;
            double loss;
            OK(trine_trainer_eval(t, &loss));
            OK(trine_trainer_step(t, &m));
            got.loss[i] = m.loss;
            got.norm[i] = m.grad_norm;
            got.params[i] = training_fingerprint(t);
        }
        if (!training_same_bits(&got, &want)) fail_msg("axis %d: the bits differ", axis);
        trine_trainer_destroy(&t);
    }
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, write_file, remove_file)
    const struct CMUnitTest tests[] = {
        CASE(loss_is_the_mean_over_the_file),
        CASE(training_is_not_disturbed),
    };
    return HARNESS_RUN(argc, argv, tests);
}

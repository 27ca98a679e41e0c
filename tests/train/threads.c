/* TEST np=1,2 */
/* --exact-threads: a run has the same losses, gradient norms and parameters on 1, 2 and 3 threads a rank, in every type,
 * and another run without it. The model is so narrow, and a micro-batch has so many rows, that the library splits
 * weight gradients between threads. */
#include "training.h"

#include "device/device.h"
#include "model/family.h"

enum { STEPS = 1 };

#define NO_BRGEMM "oneDNN has no brgemm for fp32 on this processor"

static trine_config config_of(int tp) {
    trine_config c = training_config();
    int ranks = trine_world_size(harness_world);
    c.model.num_layers = 1;
    c.model.num_attention_heads = 4;
    c.model.hidden_size = 32;
    c.model.seq_length = 128;
    c.micro_batch_size = 16;
    c.parallel.layout = (trine_layout){.dp = ranks / tp, .tp = tp, .pp = 1};
    /* Two micro-batches: gradients are set, and added. */
    c.global_batch_size = 2 * c.micro_batch_size * c.parallel.layout.dp;
    c.optimizer.lr_warmup_iters = 0;
    c.parallel.exact_threads = true;
    return c;
}

static training_result run(trine_config c, int threads) {
    c.parallel.threads = threads;
    return training_run(harness_world, &c, STEPS);
}

static void expect_same_bits(const trine_config *c) {
    training_result one = run(*c, 1), two = run(*c, 2), three = run(*c, 3);
    assert_true(training_same_bits(&one, &two));
    assert_true(training_same_bits(&one, &three));
}

static void in_fp32(void **state) {
    (void)state;
    trine_config c = config_of(1);
    c.model.hidden_dropout = c.model.attention_dropout = 0.1;
    c.parallel.zero = TRINE_ZERO_2;
    expect_same_bits(&c);
}

/* The other half of the operators, and fewer columns on each rank. */
static void in_bf16(void **state) {
    (void)state;
    trine_config c = config_of(trine_world_size(harness_world));
    if (!training_has_bf16()) {
        harness_skipped(HARNESS_NO_BF16);
        return;
    }
    OK(family_find(&c.model.family, "qwen3"));
    c.model.num_query_groups = 2;
    c.precision.bf16 = true;
    expect_same_bits(&c);
}

static void in_fp16(void **state) {
    (void)state;
    trine_config c = config_of(1);
    if (trine_world_size(harness_world) > 1) return; /* threads are a matter of each rank */
    c.micro_batch_size = 4, c.global_batch_size = 8; /* tiles have at most 512 terms */
    c.precision.fp16 = true;
    c.precision.grads = TRINE_F16;
    c.precision.initial_loss_scale = 1024;
    expect_same_bits(&c);
}

static void without_it_threads_change_bits(void **state) {
    (void)state;
    trine_config c = config_of(1);
    if (trine_world_size(harness_world) > 1) return;
    c.parallel.exact_threads = false;
    training_result one = run(c, 1), two = run(c, 2);
    assert_false(training_same_bits(&one, &two));
}

static bool is_refused(void) {
    const device_config config = {.kind = DEVICE_CPU, .threads = 1, .exact_threads = true};
    device *d;
    OK(device_open_with(&d, &config));
    trine_status status = device_prepare_linear(d, true, 64, 64, 64);
    device_close(&d);
    status_clear();
    return status == TRINE_EUNSUPPORTED;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_fp32),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(in_fp16),
        cmocka_unit_test(without_it_threads_change_bits),
    };
    if (is_refused()) return harness_skip_ranks(argc, argv, NO_BRGEMM);
    return HARNESS_RUN(argc, argv, tests);
}

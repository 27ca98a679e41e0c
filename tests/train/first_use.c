/* TEST np=1,2 */
/* Libraries allocate GPU memory at the first use of a function: here each kernel and each matmul of a new
 * size does (TRINE_EMU_FIRST_USE). All first uses happen when a trainer is created, before it allocates its
 * plan: steps and evaluations allocate nothing more. Ranks share one GPU, so that groups add on the host;
 * NCCL's memory is not tested here. */
#include "training.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "device/cuda/sizes.h"

/* Everything counts as unused again. */
static void forget(const trine_config *c) {
    void (*emu_forget_uses)(void);
    void *object = dlopen(c->parallel.cuda_library, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(object);
    *(void **)&emu_forget_uses = dlsym(object, "emu_forget_uses");
    assert_non_null(*(void **)&emu_forget_uses);
    emu_forget_uses();
}

static uint64_t free_bytes(const trine_trainer *t) {
    cuda_gpu gpu;
    OK(cuda_describe(t->dev, &gpu));
    return gpu.info.free_bytes;
}

static trine_config config_of(trine_layout layout, trine_zero zero) {
    trine_config c = training_config();
    training_on_gpu(&c);
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.parallel.layout = layout;
    c.parallel.zero = zero;
    c.micro_batch_size = 2;
    c.global_batch_size = 4 * layout.dp;
    c.data.val_data_path = training_tokens();
    c.eval_iters = 1;
    return c;
}

static void expect_no_later_use(trine_config c, const char *what) {
    trine_trainer *t;
    trine_metrics m;
    double loss;
    forget(&c);
    OK(trine_trainer_create(&t, harness_world, &c));
    const cuda_info *seen = &t->gpus[trine_world_rank(harness_world)].info;
    const uint64_t own = CUDA_SCRATCH_BYTES + CUDA_WORKSPACE, before = free_bytes(t);
    if (seen->bytes - seen->free_bytes <= own) fail_msg("%s: nothing was loaded", what);
    for (int i = 0; i < 2; i++) {
        OK(trine_trainer_step(t, &m));
        if (free_bytes(t) != before) fail_msg("%s: step %d allocates GPU memory", what, i + 1);
    }
    OK(trine_trainer_eval(t, &loss));
    if (free_bytes(t) != before) fail_msg("%s: an evaluation allocates GPU memory", what);
    trine_trainer_destroy(&t);
}

static void in_every_type(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    trine_config c = config_of((trine_layout){.dp = ranks, .tp = 1, .pp = 1}, TRINE_ZERO_0);
    expect_no_later_use(c, "fp32");
    c.precision.bf16 = true;
    c.model.attention_dropout = c.model.hidden_dropout = 0.1;
    expect_no_later_use(c, "bf16 with dropout");
    c.precision.bf16 = false, c.precision.fp16 = true, c.precision.grads = TRINE_F16;
    c.precision.loss_scale = 1024;
    c.parallel.recompute = TRINE_RECOMPUTE_FULL;
    expect_no_later_use(c, "fp16 throughout with recomputation");
    c.data.data_path = c.data.val_data_path = training_windows(c.model.seq_length);
    expect_no_later_use(c, "fp16 over documents");
}

/* 16 rows a micro-batch: chunks of 6, 6 and 4. */
static void in_every_layout(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    trine_config c = config_of((trine_layout){.dp = 1, .tp = ranks, .pp = 1}, TRINE_ZERO_0);
    c.parallel.loss_chunk = 6;
    expect_no_later_use(c, "tp and a shorter last chunk");
    c.parallel.sequence_parallel = true;
    expect_no_later_use(c, "sequence parallelism");
    expect_no_later_use(config_of((trine_layout){.dp = 1, .tp = 1, .pp = ranks}, TRINE_ZERO_1),
                        "pp");
    expect_no_later_use(config_of((trine_layout){.dp = ranks, .tp = 1, .pp = 1}, TRINE_ZERO_3),
                        "zero 3");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_type),
        cmocka_unit_test(in_every_layout),
    };
    if (getenv("TRINE_CUDA_LIBRARY"))
        return harness_skip("only the emulation reports its allocations");
    setenv("TRINE_EMU_FIRST_USE", "65536", 1);
    setenv("TRINE_EMU_GPUS", "1", 1);
    return HARNESS_RUN(argc, argv, tests);
}

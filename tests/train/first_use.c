/* TEST np=1,2 */
/* Libraries allocate GPU memory at the first use of a function: here each kernel and each matmul of a new
 * size does (TRINE_EMU_FIRST_USE). All first uses happen when a trainer is created, before it allocates its
 * plan: steps and evaluations allocate nothing more. Ranks share one GPU, so that groups add on the host, or have one
 * each: then NCCL's emulation takes memory for connections and algorithms (TRINE_EMU_NCCL_MEMORY), and a dry run's
 * estimate is not below that. */
#include "training.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "device/cuda/sizes.h"
#include "plan/outside_plan.h"

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

/* Returns the bytes of NCCL's groups. */
static uint64_t expect_no_later_use(trine_config c, const char *what) {
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
    uint64_t nccl = t->nccl_bytes;
    trine_trainer_destroy(&t);
    return nccl;
}

static void in_every_type(void **state) {
    (void)state;
    if (trine_world_size(harness_world) > 1) return; /* no type depends on the ranks */
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1}, TRINE_ZERO_0);
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

/* A GPU for each rank. */
static trine_config over_nccl(trine_layout layout, trine_zero zero, const trine_family *family) {
    trine_config c = config_of(layout, zero);
    c.parallel.transport = TRINE_TRANSPORT_NCCL;
    c.model.family = family;
    if (family == &trine_gpt2) return c;
    c.model.num_query_groups = 2;
    c.model.untied = true;
    return c;
}

/* The kernels that add are loaded with the groups; of the estimate they are in CUDA_CONTEXT. */
#define ADDING_KERNELS ((uint64_t)18 * 65536) /* TRINE_EMU_FIRST_USE */

static uint64_t expect_estimated(trine_config c, const char *what) {
    uint64_t taken = expect_no_later_use(c, what), estimate = outside_plan_nccl(&c);
    if (taken == 0) fail_msg("%s: NCCL takes no memory", what);
    if (taken > estimate + ADDING_KERNELS)
        fail_msg("%s: NCCL takes %.1f MiB, the estimate is %.1f", what, (double)taken / 1048576,
                 (double)estimate / 1048576);
    return taken;
}

static void in_groups_of_nccl(void **state) {
    (void)state;
    const trine_layout dp = {.dp = 2, .tp = 1, .pp = 1}, tp = {.dp = 1, .tp = 2, .pp = 1};
    if (trine_world_size(harness_world) != 2) return;
    for (int ordered = 0; ordered < 2; ordered++) {
        trine_config c = over_nccl(dp, TRINE_ZERO_0, &trine_llama);
        c.parallel.ordered_reductions = ordered;
        uint64_t taken = expect_estimated(c, ordered ? "llama, dp, ordered" : "llama, dp");
        c = over_nccl(tp, TRINE_ZERO_0, &trine_qwen3);
        c.parallel.ordered_reductions = c.parallel.sequence_parallel = ordered;
        (void)expect_estimated(c, ordered ? "qwen3, tp, ordered" : "qwen3, tp");
        c = over_nccl(dp, TRINE_ZERO_3, &trine_qwen3);
        c.parallel.ordered_reductions = ordered;
        c.precision.bf16 = true;
        (void)expect_estimated(c, ordered ? "qwen3, zero 3, ordered" : "qwen3, zero 3");
        /* 32 channels to the other rank, of 10 and 4 MiB. */
        if (ordered) assert_true(taken >= (uint64_t)(32 * 14) << 20);
        if (!ordered) assert_true(taken < (uint64_t)(64 * 14) << 20);
    }
    trine_config c = over_nccl(dp, TRINE_ZERO_0, &trine_llama);
    c.parallel.exact = true;
    (void)expect_estimated(c, "llama, dp, exact");
}

/* Gradients of more than 8 MiB, for which NCCL has another algorithm. */
static void in_large_calls(void **state) {
    (void)state;
    if (trine_world_size(harness_world) != 2) return;
    trine_config c =
        over_nccl((trine_layout){.dp = 2, .tp = 1, .pp = 1}, TRINE_ZERO_1, &trine_llama);
    c.model.num_layers = 1;
    c.model.vocab_size = 100000;
    c.global_batch_size = 2 * (c.micro_batch_size = 1);
    (void)expect_estimated(c, "llama, a large vocabulary");
}

/* A stage has a channel for each thread block that a lane's kernel may have. The stages of a model that is not tied
 * have no other messages. */
static void in_lanes(void **state) {
    (void)state;
    const trine_layout pp = {.dp = 1, .tp = 1, .pp = 2};
    const trine_family *const families[] = {&trine_gpt2, &trine_llama};
    const uint64_t channel = (uint64_t)14 << 20, tie = 32 * channel;
    if (trine_world_size(harness_world) != 2) return;
    for (int f = 0; f < 2; f++)
        for (int ctas = 0; ctas <= 8; ctas += 4) {
            trine_config c = over_nccl(pp, TRINE_ZERO_0, families[f]);
            c.parallel.nccl_lane_ctas = ctas;
            uint64_t taken = expect_estimated(c, f ? "llama, pp" : "gpt2, pp");
            assert_int_equal(taken / channel * channel,
                             (ctas ? (uint64_t)ctas : 32) * channel + (f ? 0 : tie));
        }
}

/* As in a run in which ranks have GPUs of their own. */
static int with_gpus(void **state) {
    (void)state;
    setenv("TRINE_EMU_GPUS", "2", 1);
    setenv("TRINE_EMU_NCCL_MEMORY", "1", 1);
    return 0;
}

static int with_one(void **state) {
    (void)state;
    setenv("TRINE_EMU_GPUS", "1", 1);
    unsetenv("TRINE_EMU_NCCL_MEMORY");
    return 0;
}

#define OVER_NCCL(test) cmocka_unit_test_setup_teardown(test, with_gpus, with_one)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_type),
        cmocka_unit_test(in_every_layout),
        OVER_NCCL(in_groups_of_nccl),
        OVER_NCCL(in_large_calls),
        OVER_NCCL(in_lanes),
    };
    if (getenv("TRINE_CUDA_LIBRARY"))
        return harness_skip("only the emulation reports its allocations");
    setenv("TRINE_EMU_FIRST_USE", "65536", 1);
    (void)with_one(NULL);
    return HARNESS_RUN(argc, argv, tests);
}

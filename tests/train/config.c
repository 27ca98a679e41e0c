/* TEST np=0 */
/* The configuration as users see it: defaults, error messages, the command line, and the learning rate,
 * which is computed by hand. */
#include "harness.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/resolve.h"
#include "trine.h"

/* ---- Checking ---- */

static trine_config legal(void) {
    trine_config c = trine_config_default();
    c.data.data_path = "text.bin"; /* the check opens no file */
    return c;
}

static void the_defaults_need_only_data(void **state) {
    (void)state;
    trine_config c = trine_config_default();
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL, "--data-path is required");
    c = legal();
    OK(trine_config_check(&c, 1));
    assert_int_equal(c.parallel.layout.dp, 1);
    assert_int_equal(c.global_batch_size, 1);
    assert_int_equal(c.model.ffn_hidden_size, 4 * 768);
    assert_int_equal(c.optimizer.lr_decay_iters, c.train_iters);
}

static void dp_is_what_is_left_of_the_ranks(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.layout = (trine_layout){.dp = 0, .tp = 2, .pp = 2};
    c.micro_batch_size = 3;
    OK(trine_config_check(&c, 24));
    assert_int_equal(c.parallel.layout.dp, 6);
    assert_int_equal(c.global_batch_size, 18);
}

static void a_refused_configuration_is_left_as_it_was(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.layout.tp = 5;
    trine_config before = c;
    REFUSED(trine_config_check(&c, 10), TRINE_EINVAL, "--tp 5");
    assert_memory_equal(&c.parallel.layout, &before.parallel.layout, sizeof c.parallel.layout);
    assert_int_equal(c.global_batch_size, 0);
    assert_int_equal(c.optimizer.lr_decay_iters, 0);
}

/* A product of three that overflows int is an error, not another number. */
static void a_layout_of_too_many_ranks_is_not_looked_at(void **state) {
    (void)state;
    trine_config c = legal();
    c.model.vocab_size = 256;
    c.parallel.layout = (trine_layout){.dp = 0, .tp = 65536, .pp = 65537};
    REFUSED(trine_dry_run(&c, 0, stdout), TRINE_EINVAL,
            "--dp 0 --tp 65536 --pp 65537: too many ranks: 4295032832 (at most 2147483647)");
    REFUSED(trine_explain(&c, 0, stdout), TRINE_EINVAL,
            ": too many ranks: 4295032832 (at most 2147483647)");
}

/* Programs for one queue: with NCCL, whether required or possible, and where requested. */
static void who_gets_one_queue(void **state) {
    (void)state;
    static const struct {
        trine_transport transport;
        const char *device;
        bool asked;
        program_queue queue;
    } table[] = {
        {TRINE_TRANSPORT_AUTO, "cpu", false, QUEUES_PER_EDGE},
        {TRINE_TRANSPORT_AUTO, "cpu", true, ONE_QUEUE},
        {TRINE_TRANSPORT_MPI, "ref", true, ONE_QUEUE},
        {TRINE_TRANSPORT_AUTO, "cuda", false, ONE_QUEUE},
        {TRINE_TRANSPORT_NCCL, "cuda", false, ONE_QUEUE},
        {TRINE_TRANSPORT_MPI, "cuda", false, QUEUES_PER_EDGE},
        {TRINE_TRANSPORT_SHM, "cuda", false, QUEUES_PER_EDGE},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        trine_config c = legal();
        program_spec spec;
        c.model.vocab_size = 256;
        OK(trine_config_check(&c, 1));
        c.parallel.transport = table[n].transport;
        c.parallel.device = table[n].device;
        c.parallel.one_queue = table[n].asked;
        OK(resolve_spec(&c, &spec));
        assert_int_equal(spec.queue, table[n].queue);
    }
}

/* One fault per row, on 12 ranks; the text that the message must have. */
typedef struct {
    void (*spoil)(trine_config *c);
    const char *says;
} fault;

#define FAULT(name, ...)                                                                           \
    static void name(trine_config *c) {                                                            \
        __VA_ARGS__;                                                                               \
    }
FAULT(no_layers, c->model.num_layers = 0)
FAULT(many_layers, c->model.num_layers = 32001)
FAULT(no_width, c->model.hidden_size = 0)
FAULT(huge_width, c->model.hidden_size = INT_MAX)
FAULT(huge_model, c->model.hidden_size = 12 << 22; c->model.num_layers = 1000)
FAULT(huge_flight, c->parallel.schedule = TRINE_GPIPE; c->micro_batch_size = 1 << 13;
      c->global_batch_size = 12 << 26)
FAULT(no_heads, c->model.num_attention_heads = 0)
FAULT(odd_heads, c->model.num_attention_heads = 11)
FAULT(negative_mlp, c->model.ffn_hidden_size = -1)
FAULT(no_sequence, c->model.seq_length = 0)
FAULT(negative_vocab, c->model.vocab_size = -1)
FAULT(zero_four, c->parallel.zero = (trine_zero)4)
FAULT(no_schedule, c->parallel.schedule = TRINE_SCHEDULES)
FAULT(negative_virtual, c->parallel.virtual_stages = -1)
FAULT(huge_virtual, c->parallel.virtual_stages = 65; c->parallel.schedule = TRINE_BFS)
FAULT(virtual_of_1f1b, c->parallel.virtual_stages = 3)
FAULT(virtual_of_zbv, c->parallel.virtual_stages = 3; c->parallel.schedule = TRINE_ZBV)
FAULT(deep_v, c->parallel.layout.pp = 12; c->parallel.schedule = TRINE_ZBV)
FAULT(deep_loop, c->parallel.layout.pp = 3; c->parallel.schedule = TRINE_INTERLEAVED;
      c->parallel.virtual_stages = 5)
FAULT(many_chunks, c->parallel.layout.pp = 24; c->parallel.schedule = TRINE_BFS;
      c->parallel.virtual_stages = 64; c->model.num_layers = 2000)
FAULT(split_of_chunks, c->parallel.layout.pp = 3; c->parallel.schedule = TRINE_INTERLEAVED;
      c->parallel.virtual_stages = 2; c->parallel.pp_split = "4,4,4")
FAULT(split_of_v, c->parallel.layout.pp = 3; c->parallel.schedule = TRINE_V_HALF;
      c->parallel.pp_split = "3,3,3,3,h")
FAULT(idle_keep, c->parallel.keep_recomputed = true)
FAULT(idle_keep_of_file, c->parallel.keep_recomputed = true;
      c->parallel.schedule_file = "order.csv"; c->parallel.recompute = TRINE_RECOMPUTE_SELECTIVE)
FAULT(no_buffers, c->parallel.gather_buffers = 0)
FAULT(no_reduce_buffers, c->parallel.reduce_buffers = 0)
FAULT(no_device, c->parallel.device = "gpu")
FAULT(null_device, c->parallel.device = NULL)
FAULT(negative_threads, c->parallel.threads = -1)
FAULT(negative_node, c->parallel.ranks_per_node = -2)
FAULT(negative_timeout, c->parallel.timeout = -1)
FAULT(no_micro, c->micro_batch_size = 0)
FAULT(huge_micro, c->micro_batch_size = INT_MAX)
FAULT(negative_batch, c->global_batch_size = -5)
FAULT(negative_iters, c->train_iters = -1)
FAULT(no_eval, c->data.val_data_path = "val.bin"; c->eval_iters = 0)
FAULT(nan_lr, c->optimizer.lr = NAN)
FAULT(infinite_lr, c->optimizer.lr = INFINITY)
FAULT(high_min_lr, c->optimizer.min_lr = 1)
FAULT(negative_warmup, c->optimizer.lr_warmup_iters = -1)
FAULT(negative_decay, c->optimizer.weight_decay = -0.1)
FAULT(beta_one, c->optimizer.adam_beta1 = 1)
FAULT(nan_beta, c->optimizer.adam_beta2 = NAN)
FAULT(no_eps, c->optimizer.adam_eps = 0)
FAULT(infinite_decay, c->optimizer.weight_decay = INFINITY)
FAULT(beta_one_in_fp32, c->optimizer.adam_beta2 = 0.999999999)
FAULT(eps_zero_in_fp32, c->optimizer.adam_eps = 1e-50)
FAULT(huge_lr, c->optimizer.lr = 1e39)
FAULT(least_width, c->model.hidden_size = INT_MIN)
FAULT(many_micros, c->global_batch_size = 12 << 21)
FAULT(negative_clip, c->optimizer.clip_grad = -1)
FAULT(negative_dp, c->parallel.layout.dp = -1)
FAULT(no_tp, c->parallel.layout.tp = 0)
FAULT(huge_layout, c->parallel.layout = (trine_layout){.dp = INT_MAX, .tp = INT_MAX, .pp = INT_MAX})
FAULT(left_over, c->parallel.layout = (trine_layout){.dp = 0, .tp = 1, .pp = 5})
FAULT(wrong_product, c->parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = 2})
FAULT(deep, c->parallel.layout.pp = 12; c->model.num_layers = 9)
FAULT(odd_tp, c->parallel.layout.tp = 12; c->model.ffn_hidden_size = 3000 + 6)
FAULT(batch_of_dp, c->global_batch_size = 30)
FAULT(many_passes, c->model.num_layers = 32000; c->global_batch_size = 12 * 2100)
FAULT(split_short, c->parallel.layout.pp = 3; c->parallel.pp_split = "6,6")
FAULT(split_sum, c->parallel.layout.pp = 3; c->parallel.pp_split = "4,4,5")
FAULT(split_typo, c->parallel.layout.pp = 3; c->parallel.pp_split = "4,x,4")
FAULT(split_empty, c->parallel.layout.pp = 3; c->parallel.pp_split = "6,,6")
FAULT(split_head_first, c->parallel.layout.pp = 3; c->parallel.pp_split = "h,6,6")
FAULT(split_late_embedding, c->parallel.layout.pp = 3; c->parallel.pp_split = "6,e,6")
FAULT(idle_library, c->parallel.cuda_library = "libtrine_cuda.so")
FAULT(wide_heads, c->parallel.device = "cuda"; c->model.num_attention_heads = 2)
FAULT(nccl_on_cpu, c->parallel.transport = TRINE_TRANSPORT_NCCL)
FAULT(two_types, c->precision.bf16 = c->precision.fp16 = true)
FAULT(other_grads, c->precision.bf16 = true; c->precision.grads = TRINE_F16)
FAULT(grads_of_fp32, c->precision.grads = TRINE_BF16)
FAULT(wide_grads, c->precision.grads = TRINE_F64)
FAULT(tf32_of_bf16, c->precision.bf16 = c->parallel.tf32 = true; c->parallel.device = "cuda")
FAULT(level_of_gpus, c->parallel.cpu_level = TRINE_CPU_V3; c->parallel.device = "cuda")
FAULT(threads_of_gpus, c->parallel.exact_threads = true; c->parallel.device = "cuda")
FAULT(lanes_alone, c->parallel.exact_dp = 4)
FAULT(parts_alone, c->parallel.exact_tp = 2)
FAULT(negative_lanes, c->parallel.exact = true; c->parallel.exact_dp = -1)
FAULT(negative_parts, c->parallel.exact = true; c->parallel.exact_tp = -2)
FAULT(lanes_of_batch, c->parallel.exact = true; c->parallel.exact_dp = 36;
      c->global_batch_size = 24)
FAULT(lanes_of_ranks, c->parallel.exact = true; c->parallel.exact_dp = 6; c->global_batch_size = 24)
FAULT(parts_of_two, c->parallel.exact = true; c->parallel.exact_tp = 6;
      c->parallel.layout = (trine_layout){.dp = 6, .tp = 2, .pp = 1})
FAULT(fewer_parts, c->parallel.exact = true; c->parallel.exact_tp = 2;
      c->parallel.layout = (trine_layout){.dp = 3, .tp = 4, .pp = 1})
FAULT(rows_of_parts, c->parallel.exact = true; c->parallel.exact_tp = 4; c->model.seq_length = 10)
FAULT(heads_of_parts, c->parallel.exact = true; c->parallel.exact_tp = 8)
FAULT(lanes_in_16_bits, c->parallel.exact = c->precision.bf16 = true;
      c->precision.grads = TRINE_BF16)
FAULT(all_dropped, c->model.hidden_dropout = 1)
FAULT(all_dropped_in_fp32, c->model.attention_dropout = 0.999999999)
FAULT(negative_dropout, c->model.attention_dropout = -0.1)
FAULT(nan_dropout, c->model.hidden_dropout = NAN)
FAULT(idle_scale, c->precision.loss_scale = 1024)
FAULT(idle_scaler, c->precision.bf16 = true; c->precision.loss_scale_window = 10)
FAULT(two_scales, c->precision.fp16 = true; c->precision.loss_scale = 64;
      c->precision.hysteresis = 1)
FAULT(negative_scale, c->precision.fp16 = true; c->precision.loss_scale = -1)
FAULT(infinite_scale, c->precision.fp16 = true; c->precision.loss_scale = 1e39)
FAULT(no_initial_scale, c->precision.fp16 = true; c->precision.initial_loss_scale = 0)
FAULT(nan_min_scale, c->precision.fp16 = true; c->precision.min_loss_scale = NAN)
FAULT(high_min_scale, c->precision.fp16 = true; c->precision.min_loss_scale = 64;
      c->precision.initial_loss_scale = 32)
FAULT(no_window, c->precision.fp16 = true; c->precision.loss_scale_window = 0)
FAULT(no_hysteresis, c->precision.fp16 = true; c->precision.hysteresis = 0)
FAULT(no_recomputation, c->parallel.recompute = TRINE_RECOMPUTES)
FAULT(negative_chunk, c->parallel.loss_chunk = -1)
FAULT(uneven_rows, c->parallel.sequence_parallel = true;
      c->parallel.layout = (trine_layout){.dp = 3, .tp = 4, .pp = 1}; c->model.seq_length = 7;
      c->micro_batch_size = 2)
FAULT(split_idle, c->parallel.layout.pp = 3; c->parallel.pp_split = "6,0,6")

static const fault faults[] = {
    {no_layers, "--num-layers 0: must be between 1 and 32000"},
    {many_layers, "--num-layers 32001: must be between 1 and 32000"},
    {no_width, "--hidden-size 0: must be between 1 and"},
    {huge_width, "--hidden-size 2147483647: must be between 1 and"},
    {huge_model, "more than any machine can hold; reduce the model or the batch"},
    {huge_flight, "more than any machine can hold; reduce the model or the batch"},
    {no_heads, "--num-attention-heads 0: must be at least 1"},
    {odd_heads, "--hidden-size 768: must be a multiple of --num-attention-heads 11"},
    {negative_mlp, "--ffn-hidden-size -1: must not be negative (0: 4 x --hidden-size)"},
    {no_sequence, "--seq-length 0: must be at least 1"},
    {negative_vocab, "--vocab-size -1: must not be negative"},
    {zero_four, "--zero 4: must be 0, 1, 2 or 3"},
    {no_schedule, "--schedule 8: must be naive, gpipe, 1f1b, interleaved, zb, zbv, v-half or bfs"},
    {negative_virtual,
     "--num-virtual-stages-per-pipeline-rank -1: must be between 0 and 64 (0: as the schedule)"},
    {huge_virtual, "--num-virtual-stages-per-pipeline-rank 65: must be between 0 and 64"},
    {virtual_of_1f1b, "--num-virtual-stages-per-pipeline-rank 3: must be 1 with this schedule; use "
                      "--schedule interleaved, zb or bfs for any number"},
    {virtual_of_zbv, "--num-virtual-stages-per-pipeline-rank 3: must be 2 with this schedule"},
    {deep_v, "--pp 12 and 2 virtual stages per rank: 24 chunks must be at most the 14 units of the "
             "model (embedding, 12 layers, head)"},
    {deep_loop, "--pp 3 and 5 virtual stages per rank: 15 chunks must be at most the 14 units"},
    {many_chunks, "--pp 24 x --num-virtual-stages-per-pipeline-rank 64: 1536 chunks, at most 1024"},
    {split_of_chunks,
     "--pp-split 4,4,4: 3 stages, but --pp 3 and 2 virtual stages per rank need 6"},
    {split_of_v, "--pp-split 3,3,3,3,h: 5 stages, but --pp 3 and 2 virtual stages per rank need 6"},
    {idle_keep, "--keep-recomputed requires --recompute-granularity full"},
    {idle_keep_of_file, "--keep-recomputed requires --recompute-granularity full"},
    {no_buffers, "--gather-buffers 0: must be between 1 and 30000"},
    {no_reduce_buffers, "--reduce-buffers 0: must be between 1 and 30000"},
    {no_device, "--device gpu: must be cpu, ref or cuda"},
    {null_device, "--device not given: must be cpu, ref or cuda"},
    {negative_threads, "--threads -1: must be between 0 and 4096 (0: from the affinity mask"},
    {negative_node, "--ranks-per-node -2: must not be negative"},
    {negative_timeout, "--timeout -1: must be between 0 and 1e+09 (0: never)"},
    {no_micro, "--micro-batch-size 0: must be between 1 and"},
    {huge_micro, "--micro-batch-size 2147483647: must be between 1 and"},
    {negative_batch, "--global-batch-size -5: must not be negative"},
    {negative_iters, "--train-iters -1: must not be negative"},
    {no_eval, "--eval-iters 0: must be at least 1"},
    {nan_lr, "--lr nan: must be at least 0 and finite in fp32"},
    {infinite_lr, "--lr inf: must be at least 0 and finite in fp32"},
    {high_min_lr, "--min-lr 1: must be between 0 and --lr 0.0003"},
    {negative_warmup, "--lr-warmup-iters -1: must not be negative"},
    {negative_decay, "--weight-decay -0.1: must be at least 0 and finite in fp32"},
    {beta_one, "--adam-beta1 1: must be in [0, 1)"},
    {nan_beta, "--adam-beta2 nan: must be in [0, 1)"},
    {no_eps, "--adam-eps 0: must be greater than 0"},
    {infinite_decay, "--weight-decay inf: must be at least 0 and finite in fp32"},
    {beta_one_in_fp32, "--adam-beta2 0.999999999: must be in [0, 1) in fp32"},
    {eps_zero_in_fp32, "--adam-eps 1e-50: must be greater than 0 in fp32"},
    {huge_lr, "--lr 1e+39: must be at least 0 and finite in fp32"},
    {least_width, "--hidden-size -2147483648: must be between 1 and"},
    {many_micros, "--global-batch-size 25165824: 2097152 micro-batches per dp rank"},
    {negative_clip, "--clip-grad -1: must not be negative"},
    {negative_dp, "--dp -1: must not be negative (0: ranks / (tp x pp))"},
    {no_tp, "--tp 0: must be at least 1"},
    {huge_layout, "but there are 12 ranks"},
    {left_over, "tp 1 x pp 5 = 5 does not divide the 12 ranks"},
    {wrong_product, "dp 2 x tp 2 x pp 2 = 8, but there are 12 ranks"},
    {deep, "--pp 12: must be at most the 11 units of the model (embedding, 9 layers, head)"},
    {odd_tp, "--tp 12: must divide --num-attention-heads 12 and --ffn-hidden-size 3006"},
    {batch_of_dp,
     "--global-batch-size 30: must be a multiple of --micro-batch-size 1 x dp 12 = 12; "
     "use 24 or 36"},
    {many_passes, "2100 micro-batches x 32002 units (embedding, layers, head) are more than "
                  "67108864 instructions; use a larger --micro-batch-size"},
    {split_short, "--pp-split 6,6: 2 stages, but --pp is 3"},
    {split_sum, "--pp-split 4,4,5: 13 layers, but the model has 12"},
    {split_typo, "invalid stage \"x\""},
    {split_empty, "invalid stage \"\""},
    {split_head_first, "the head (h) must be on the last stage"},
    {split_late_embedding, "the embedding (e) must be on the first stage"},
    {idle_library, "--cuda-library requires --device cuda"},
    {wide_heads, "--device cuda: head dimension must be at most 256, not 384 (--hidden-size 768"},
    {nccl_on_cpu, "--transport nccl requires --device cuda"},
    {split_idle, "stage 1 is empty"},
    {two_types, "--bf16 and --fp16 are mutually exclusive"},
    {other_grads, "--grad-dtype fp16: must be fp32 or the compute type (bf16)"},
    {grads_of_fp32, "--grad-dtype bf16: must be fp32 or the compute type (fp32)"},
    {wide_grads, "--grad-dtype 1: must be fp32, bf16 or fp16"},
    {tf32_of_bf16, "--tf32 and --bf16 are mutually exclusive"},
    {level_of_gpus, "--cpu-level requires --device cpu or ref"},
    {threads_of_gpus, "--exact-threads requires --device cpu or ref"},
    {lanes_alone, "--exact-dp 4 requires --exact"},
    {parts_alone, "--exact-tp 2 requires --exact"},
    {negative_lanes, "--exact-dp -1: must not be negative"},
    {negative_parts, "--exact-tp -2: must not be negative"},
    {lanes_of_batch,
     "--exact-dp 36: must divide the step's 24 micro-batches (--global-batch-size / "
     "--micro-batch-size)"},
    {lanes_of_ranks, "--dp 12: must divide --exact-dp 6"},
    {parts_of_two, "--tp 2: must be 1, or --exact-tp 6 must be a power of two times it"},
    {fewer_parts, "--tp 4: must be 1, or --exact-tp 2 must be a power of two times it"},
    {rows_of_parts, "--exact-tp 4: must divide --micro-batch-size 1 x --seq-length 10"},
    {heads_of_parts, "--exact-tp 8: must divide --num-attention-heads 12"},
    {lanes_in_16_bits, "--exact: the lanes' sums must be fp32; use --grad-dtype fp32, not bf16"},
    {all_dropped, "--hidden-dropout 1: must be in [0, 1)"},
    {all_dropped_in_fp32, "--attention-dropout 0.999999999: must be in [0, 1) in fp32"},
    {negative_dropout, "--attention-dropout -0.1: must be in [0, 1)"},
    {nan_dropout, "--hidden-dropout nan: must be in [0, 1)"},
    {idle_scale, "--loss-scale requires --fp16"},
    {idle_scaler, "--loss-scale-window and --hysteresis require --fp16"},
    {two_scales, "--loss-scale 64 is static; --initial-loss-scale"},
    {negative_scale, "--loss-scale -1: must be 0 or greater than 0 in fp32 (0: dynamic)"},
    {infinite_scale, "--loss-scale 1e+39: must be 0 or greater than 0 in fp32"},
    {no_initial_scale, "--initial-loss-scale 0: must be greater than 0"},
    {nan_min_scale, "--min-loss-scale nan: must be greater than 0"},
    {high_min_scale, "--min-loss-scale 64: must be at most --initial-loss-scale 32"},
    {no_window, "--loss-scale-window 0: must be at least 1"},
    {no_hysteresis, "--hysteresis 0: must be at least 1"},
    {no_recomputation, "--recompute-granularity 3: must be none, selective or full"},
    {negative_chunk, "--loss-chunk -1: must not be negative"},
    {uneven_rows, "--sequence-parallel: --tp 4 must divide --micro-batch-size 2 x --seq-length 7"},
};

static void every_fault_is_named_with_its_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        trine_config c = legal();
        OK(trine_config_check(&c, 12));
        c = legal();
        faults[i].spoil(&c);
        REFUSED(trine_config_check(&c, 12), TRINE_EINVAL, faults[i].says);
    }
}

static void all_faults_stand_in_one_message(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        trine_config c = legal();
        faults[i].spoil(&c);
        c.optimizer.lr_decay_iters = -3;
        assert_int_equal(trine_config_check(&c, 12), TRINE_EINVAL);
        assert_non_null(strstr(status_message(), "invalid configuration:\n  - "));
        assert_non_null(
            strstr(status_message(), "\n  - --lr-decay-iters -3: must not be negative"));
        REFUSED(TRINE_EINVAL, TRINE_EINVAL, faults[i].says);
    }
}

/* --exact: a lane for each micro-batch, and tp; every dp that divides D, and tp that a power of two of makes T. */
static void legal_lanes_and_parts(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.exact = true;
    c.parallel.layout = (trine_layout){.dp = 6, .tp = 2, .pp = 1};
    c.global_batch_size = 24;
    OK(trine_config_check(&c, 12));
    assert_int_equal(c.parallel.exact_dp, 24);
    assert_int_equal(c.parallel.exact_tp, 2);
    for (int dp = 1; dp <= 12; dp++)
        for (int tp = 1; tp <= 12; tp++) {
            c.parallel.layout = (trine_layout){.dp = dp, .tp = tp, .pp = 1};
            c.parallel.exact_dp = 12, c.parallel.exact_tp = 12;
            c.model.seq_length = 12;
            bool meant = 12 % dp == 0 && (tp == 1 || tp == 3 || tp == 6 || tp == 12);
            assert_int_equal(trine_config_check(&c, dp * tp), meant ? TRINE_OK : TRINE_EINVAL);
            status_clear();
        }
}

/* Accepted: each type with its gradients, a scale at its own minimum, and sequence
 * parallelism that has nothing to split. */
static void legal_precisions(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        trine_config c = legal();
        c.precision.bf16 = i / 2 == 1;
        c.precision.fp16 = i / 2 == 2;
        if (i % 2 && i > 1) c.precision.grads = i / 2 == 1 ? TRINE_BF16 : TRINE_F16;
        if (c.precision.fp16) c.precision.initial_loss_scale = c.precision.min_loss_scale;
        c.parallel.sequence_parallel = true;
        c.model.seq_length = 7;
        c.model.hidden_dropout = c.model.attention_dropout = 0.1;
        OK(trine_config_check(&c, 12));
        device_config d;
        OK(resolve_device(&c, &d));
        assert_int_equal(d.compute, i / 2 == 1 ? TRINE_BF16 : i / 2 == 2 ? TRINE_F16 : TRINE_F32);
        assert_int_equal(d.grads, c.precision.grads);
    }
}

/* ---- Suggestions: each must be valid for its number of ranks ---- */

/* Every suggested layout of `message`, tried in a copy of `config`; returns how many there were. */
static int try_suggestions(const char *message, const trine_config *config, int ranks) {
    int tried = 0;
    const char *at = strstr(message, "valid layouts for ");
    while (at && (at = strstr(at, "--dp "))) {
        trine_config c = *config;
        trine_layout *l = &c.parallel.layout;
        assert_int_equal(sscanf(at, "--dp %d --tp %d --pp %d", &l->dp, &l->tp, &l->pp), 3);
        assert_int_equal(l->dp * l->tp * l->pp, ranks);
        OK(trine_config_check(&c, ranks));
        tried++;
        at++;
    }
    return tried;
}

static int suggested(trine_config config, int ranks, int meant) {
    char message[4096];
    trine_config c = config;
    assert_int_equal(trine_config_check(&c, ranks), TRINE_EINVAL);
    snprintf(message, sizeof message, "%s", status_message());
    status_clear();
    return try_suggestions(message, &config, meant);
}

static void suggested_layouts_work(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 24; ranks++)
        for (int axis = 0; axis < 3; axis++) {
            trine_config c = legal();
            if (axis == 0) c.parallel.layout.dp = ranks + 1;
            if (axis == 1) c.parallel.layout.tp = ranks + 1;
            if (axis == 2) c.parallel.layout.pp = ranks + 1;
            assert_true(suggested(c, ranks, ranks) > 0);
        }
}

static void suggestions_respect_the_batch(void **state) {
    (void)state;
    trine_config c = legal();
    c.global_batch_size = 6; /* so that neither dp 4 nor dp 8 works */
    c.parallel.layout = (trine_layout){.dp = 8, .tp = 1, .pp = 1};
    assert_true(suggested(c, 8, 8) > 0);
}

/* Three rows a micro-batch: tp 3 splits them, tp 2 and 4 do not. */
static void suggestions_can_split_the_rows(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.sequence_parallel = true;
    c.parallel.layout = (trine_layout){.dp = 0, .tp = 4, .pp = 1};
    c.model.seq_length = 3;
    REFUSED(trine_config_check(&c, 12), TRINE_EINVAL, "valid layouts for 12 ranks: --dp 4 --tp 3");
    assert_true(suggested(c, 12, 12) > 0);
}

/* A zbv of 14 units has at most seven stages. */
static void suggestions_respect_the_chunks(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.schedule = TRINE_ZBV;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 12};
    REFUSED(trine_config_check(&c, 12), TRINE_EINVAL, "valid layouts for 12 ranks: --dp ");
    assert_true(suggested(c, 12, 12) > 0);
}

static void suggestions_respect_a_split_by_hand(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.pp_split = "e,6,6,h";
    c.parallel.layout = (trine_layout){.dp = 0, .tp = 1, .pp = 2};
    assert_int_equal(suggested(c, 8, 8), 2); /* pp 4 with tp 1 or 2 */
}

static void without_mpirun_the_layout_says_how_many_ranks(void **state) {
    (void)state;
    trine_config c = legal();
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = 2};
    assert_int_equal(suggested(c, 1, 8), 0); /* this layout is valid */
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL,
            "only one process was started; use mpirun -np 8");
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 8, .pp = 1}; /* twelve heads */
    assert_true(suggested(c, 1, 8) > 0);
}

static void where_nothing_works_the_message_says_what_stands_in_the_way(void **state) {
    (void)state;
    trine_config c = legal();
    c.micro_batch_size = 2;
    c.global_batch_size = 7;
    REFUSED(trine_config_check(&c, 4), TRINE_EINVAL,
            "valid layouts for 4 ranks without --global-batch-size: --dp 4 --tp 1 --pp 1");
    c = legal();
    c.parallel.pp_split = "1,2,3";
    REFUSED(trine_config_check(&c, 4), TRINE_EINVAL, "for 4 ranks without --pp-split: --dp 4");
    c = legal();
    c.model.num_layers = 1;
    c.global_batch_size = 1;
    c.model.num_attention_heads = 1;
    c.model.ffn_hidden_size = 1;
    REFUSED(trine_config_check(&c, 5), TRINE_EINVAL,
            "for 5 ranks without --global-batch-size: --dp 5 --tp 1 --pp 1");
}

/* ---- The command line ---- */

#define WORDS(...)                                                                                 \
    ((char *[]){"train_gpt", __VA_ARGS__, NULL}),                                                  \
        (int)(sizeof((char *[]){"train_gpt", __VA_ARGS__}) / sizeof(char *))

static trine_status parse(char **argv, int argc, trine_config *c, trine_run *r) {
    return trine_parse(argc, argv, c, r);
}

static void megatrons_words_and_ours_mean_the_same(void **state) {
    (void)state;
    trine_config c;
    trine_run r;
    OK(parse(WORDS("--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size=4",
                   "--data-parallel-size", "3", "--zero-stage", "2",
                   "--untie-embeddings-and-output-weights"),
             &c, &r));
    assert_int_equal(c.parallel.layout.tp, 2);
    assert_int_equal(c.parallel.layout.pp, 4);
    assert_int_equal(c.parallel.layout.dp, 3);
    assert_int_equal(c.parallel.zero, TRINE_ZERO_2);
    assert_true(c.model.untied);
    OK(parse(WORDS("--tp", "2", "--pp=4", "--dp", "3", "--zero", "2", "--untied"), &c, &r));
    assert_int_equal(c.parallel.layout.tp, 2);
    assert_int_equal(c.parallel.layout.pp, 4);
    assert_int_equal(c.parallel.layout.dp, 3);
    assert_int_equal(c.parallel.zero, TRINE_ZERO_2);
    assert_true(c.model.untied);
}

/* The options of the precision, and model options that only fill structs here. */
static void words_of_the_precision(void **state) {
    (void)state;
    trine_config c;
    trine_run r;
    OK(parse(WORDS("--fp16", "--grad-dtype", "fp16", "--initial-loss-scale", "65536",
                   "--min-loss-scale=2", "--loss-scale-window", "200", "--hysteresis", "3",
                   "--hidden-dropout", "0.1", "--attention-dropout=0.2", "--sequence-parallel",
                   "--recompute-granularity", "selective", "--loss-chunk", "64"),
             &c, &r));
    const trine_precision *p = &c.precision;
    assert_true(p->fp16 && !p->bf16 && p->grads == TRINE_F16 && p->loss_scale == 0);
    assert_true(p->initial_loss_scale == 65536 && p->min_loss_scale == 2);
    assert_true(p->loss_scale_window == 200 && p->hysteresis == 3);
    assert_true(c.model.hidden_dropout == 0.1 && c.model.attention_dropout == 0.2);
    assert_true(c.parallel.sequence_parallel && c.parallel.loss_chunk == 64);
    assert_int_equal(c.parallel.recompute, TRINE_RECOMPUTE_SELECTIVE);
    OK(parse(WORDS("--bf16", "--grad-dtype=bf16", "--recompute-granularity=full"), &c, &r));
    assert_true(c.precision.bf16 && c.precision.grads == TRINE_BF16);
    assert_int_equal(c.parallel.recompute, TRINE_RECOMPUTE_FULL);
    OK(parse(WORDS("--fp16", "--loss-scale", "128"), &c, &r));
    assert_true(c.precision.loss_scale == 128 && c.precision.grads == TRINE_F32);
    assert_true(c.precision.initial_loss_scale == 4294967296.0 && c.precision.hysteresis == 2);
}

static void a_preset_gives_way_to_options_on_either_side(void **state) {
    (void)state;
    trine_config before, after;
    trine_run r;
    OK(parse(WORDS("--num-layers", "5", "--model", "gpt2-xl", "--lr", "1e-3"), &before, &r));
    OK(parse(WORDS("--lr=1e-3", "--model=gpt2-xl", "--num-layers=5"), &after, &r));
    assert_int_equal(before.model.num_layers, 5);
    assert_int_equal(after.model.num_layers, 5);
    assert_int_equal(before.model.hidden_size, 1600);
    assert_int_equal(after.model.hidden_size, 1600);
    assert_true(before.optimizer.lr == 1e-3 && after.optimizer.lr == 1e-3);
}

static void the_last_of_several_wins(void **state) {
    (void)state;
    trine_config c;
    trine_run r;
    OK(parse(WORDS("--model", "gpt2-xl", "--lr", "1", "--zero", "3", "--lr", "2", "--zero", "1",
                   "--model", "gpt2-medium", "--log", "a", "--log", "b"),
             &c, &r));
    assert_true(c.optimizer.lr == 2);
    assert_int_equal(c.parallel.zero, TRINE_ZERO_1);
    assert_int_equal(c.model.hidden_size, 1024);
    assert_string_equal(r.log, "b");
}

static void an_empty_line_is_the_default(void **state) {
    (void)state;
    trine_config c, d = trine_config_default();
    trine_run r;
    OK(trine_parse(1, (char *[]){"train_gpt", NULL}, &c, &r));
    assert_memory_equal(&c.model, &d.model, sizeof c.model);
    assert_string_equal(c.parallel.device, d.parallel.device);
    assert_int_equal(c.parallel.schedule, TRINE_1F1B);
    assert_true(!r.help && !r.dry_run && !r.explain && !r.log);
    assert_int_equal(r.log_interval, 1);
}

static void bad_lines_are_refused_whole(void **state) {
    (void)state;
    trine_config c;
    trine_run r;
    REFUSED(parse(WORDS("--data-paht", "x"), &c, &r), TRINE_EINVAL,
            "unknown option --data-paht; did you mean --data-path?");
    REFUSED(parse(WORDS("--zero", "4"), &c, &r), TRINE_EINVAL,
            "--zero: invalid value \"4\"; expected 0, 1, 2 or 3");
    REFUSED(parse(WORDS("--schedule", "foo"), &c, &r), TRINE_EINVAL,
            "--schedule: invalid value \"foo\"; expected naive, gpipe, 1f1b, interleaved, zb, zbv, "
            "v-half, bfs or a file, whose name has a dot or a slash");
    REFUSED(parse(WORDS("--model", "gpt3"), &c, &r), TRINE_EINVAL,
            "invalid value \"gpt3\"; expected custom, gpt2, gpt2-medium, gpt2-large, gpt2-xl, "
            "gpt3-13b, gpt3-175b, gpt3-1t, smollm2-135m");
    REFUSED(parse(WORDS("--gather-buffers", "0"), &c, &r), TRINE_EINVAL, "invalid value \"0\"");
    REFUSED(parse(WORDS("--lr", "fast"), &c, &r), TRINE_EINVAL, "--lr: invalid value");
    REFUSED(parse(WORDS("--train-iters", "1e3"), &c, &r), TRINE_EINVAL, "invalid value \"1e3\"");
    REFUSED(parse(WORDS("--grad-dtype", "fp64"), &c, &r), TRINE_EINVAL,
            "--grad-dtype: invalid value \"fp64\"; expected fp32, bf16 or fp16");
    REFUSED(parse(WORDS("--hidden-dropout", "1.5"), &c, &r), TRINE_EINVAL,
            "--hidden-dropout: invalid value");
    REFUSED(parse(WORDS("--tp"), &c, &r), TRINE_EINVAL, "--tp requires a value");
    REFUSED(parse(WORDS("text.bin"), &c, &r), TRINE_EINVAL, "unexpected argument \"text.bin\"");
    REFUSED(parse(WORDS("--tp", "0", "--layers", "3", "--seed", "-1"), &c, &r), TRINE_EINVAL,
            "3 errors on the command line");
}

/* ---- The learning rate ---- */

static trine_optimizer decay(trine_lr_decay style) {
    return (trine_optimizer){
        .lr = 8, .min_lr = 2, .lr_warmup_iters = 4, .lr_decay_iters = 12, .lr_decay_style = style};
}

/* 1e-15 relative: a cosine and three operations in double. */
static void assert_rate(const trine_optimizer *o, int64_t step, double expected) {
    double rate = resolve_learning_rate(o, step);
    if (fabs(rate - expected) > 1e-15 * fabs(expected) + 1e-15)
        fail_msg("step %d: %.17g instead of %.17g", (int)step, rate, expected);
}

static void warm_up_rises_in_a_line(void **state) {
    (void)state;
    for (int style = 0; style < 3; style++) {
        trine_optimizer o = decay((trine_lr_decay)style);
        assert_rate(&o, 1, 2);
        assert_rate(&o, 2, 4);
        assert_rate(&o, 3, 6);
        assert_rate(&o, 4, 8);
    }
}

/* From 8 at step 4 to 2 at step 12. */
static void decay_by_hand(void **state) {
    (void)state;
    trine_optimizer linear = decay(TRINE_DECAY_LINEAR), cosine = decay(TRINE_DECAY_COSINE),
                    constant = decay(TRINE_DECAY_CONSTANT);
    assert_rate(&linear, 5, 7.25);
    assert_rate(&linear, 8, 5);
    assert_rate(&linear, 12, 2);
    assert_rate(&cosine, 6, 5 + 3 * sqrt(0.5)); /* an eighth of a turn */
    assert_rate(&cosine, 8, 5);
    assert_rate(&cosine, 10, 5 - 3 * sqrt(0.5));
    assert_rate(&cosine, 12, 2);
    assert_rate(&constant, 5, 8);
    assert_rate(&constant, 12, 8);
}

static void after_the_end_it_stays(void **state) {
    (void)state;
    trine_optimizer linear = decay(TRINE_DECAY_LINEAR), cosine = decay(TRINE_DECAY_COSINE),
                    constant = decay(TRINE_DECAY_CONSTANT);
    for (int64_t step = 13; step < 1000; step *= 3) {
        assert_rate(&linear, step, 2);
        assert_rate(&cosine, step, 2);
        assert_rate(&constant, step, 8);
    }
}

static void no_warm_up_starts_on_the_curve(void **state) {
    (void)state;
    trine_optimizer o = decay(TRINE_DECAY_LINEAR);
    o.lr_warmup_iters = 0;
    assert_rate(&o, 1, 7.5);
    o.lr_decay_style = TRINE_DECAY_CONSTANT;
    assert_rate(&o, 1, 8);
}

/* A warm-up as long as the decay, or longer, ends at the top and then at the bottom. */
static void a_warm_up_beyond_the_end_is_finite(void **state) {
    (void)state;
    for (int style = 0; style < 3; style++) {
        trine_optimizer o = decay((trine_lr_decay)style);
        o.lr_warmup_iters = 12;
        assert_rate(&o, 12, 8);
        assert_rate(&o, 13, style == TRINE_DECAY_CONSTANT ? 8 : 2);
        o.lr_warmup_iters = 20;
        assert_rate(&o, 15, 6);
        assert_rate(&o, 21, style == TRINE_DECAY_CONSTANT ? 8 : 2);
    }
}

/* Megatron-LM's OptimizerParamScheduler.get_lr (optimizer_param_scheduler.py), written again: 8 until step 14 of 24,
 * then down to 2 in ten steps, and 2. */
static void wsd_decays_last(void **state) {
    (void)state;
    for (int style = 0; style < 4; style++) {
        trine_optimizer o = decay(TRINE_DECAY_WSD);
        o.lr_decay_iters = 24, o.lr_wsd_decay_iters = 10,
        o.lr_wsd_decay_style = (trine_wsd_decay)style;
        assert_rate(&o, 2, 4);
        for (int step = 4; step <= 14; step++) assert_rate(&o, step, 8);
        for (int step = 15; step <= 24; step++) {
            double r = (step - 14) / 10.0;
            const double left[] = {2 * exp2(-r) - 1, 1 - r,
                                   1 - sin(M_PI * r / 2) * sin(M_PI * r / 2), 1 - sqrt(r)};
            assert_rate(&o, step, 2 + 6 * left[style]);
        }
        assert_rate(&o, 24, 2);
        assert_rate(&o, 25, 2);
    }
}

static void wsd_has_room_for_its_parts(void **state) {
    (void)state;
    trine_config c = trine_config_default();
    c.data.data_path = "text.bin";
    c.optimizer.lr_decay_style = TRINE_DECAY_WSD;
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL,
            "--lr-decay-style wsd requires --lr-wsd-decay-iters");
    c.optimizer.lr_wsd_decay_iters = 60;
    c.optimizer.lr_warmup_iters = 41;
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL,
            "--lr-wsd-decay-iters 60: together with --lr-warmup-iters 41 it exceeds the 100 steps "
            "to the end of the decay (--lr-decay-iters, else --train-iters)");
    c.optimizer.lr_warmup_iters = 40;
    OK(trine_config_check(&c, 1));
    trine_run r;
    REFUSED(parse(WORDS("--lr-wsd-decay-iters", "5"), &c, &r), TRINE_EINVAL,
            "--lr-wsd-decay-iters requires --lr-decay-style wsd");
    REFUSED(parse(WORDS("--lr-wsd-decay-style", "linear"), &c, &r), TRINE_EINVAL,
            "--lr-wsd-decay-style requires --lr-decay-style wsd");
}

static const struct CMUnitTest config_tests[] = {
    cmocka_unit_test(the_defaults_need_only_data),
    cmocka_unit_test(dp_is_what_is_left_of_the_ranks),
    cmocka_unit_test(a_refused_configuration_is_left_as_it_was),
    cmocka_unit_test(a_layout_of_too_many_ranks_is_not_looked_at),
    cmocka_unit_test(who_gets_one_queue),
    cmocka_unit_test(every_fault_is_named_with_its_numbers),
    cmocka_unit_test(all_faults_stand_in_one_message),
    cmocka_unit_test(legal_precisions),
    cmocka_unit_test(legal_lanes_and_parts),
    cmocka_unit_test(suggested_layouts_work),
    cmocka_unit_test(suggestions_respect_the_batch),
    cmocka_unit_test(suggestions_respect_the_chunks),
    cmocka_unit_test(suggestions_respect_a_split_by_hand),
    cmocka_unit_test(suggestions_can_split_the_rows),
    cmocka_unit_test(without_mpirun_the_layout_says_how_many_ranks),
    cmocka_unit_test(where_nothing_works_the_message_says_what_stands_in_the_way),
    cmocka_unit_test(megatrons_words_and_ours_mean_the_same),
    cmocka_unit_test(words_of_the_precision),
    cmocka_unit_test(a_preset_gives_way_to_options_on_either_side),
    cmocka_unit_test(the_last_of_several_wins),
    cmocka_unit_test(an_empty_line_is_the_default),
    cmocka_unit_test(bad_lines_are_refused_whole),
    cmocka_unit_test(warm_up_rises_in_a_line),
    cmocka_unit_test(decay_by_hand),
    cmocka_unit_test(after_the_end_it_stays),
    cmocka_unit_test(no_warm_up_starts_on_the_curve),
    cmocka_unit_test(a_warm_up_beyond_the_end_is_finite),
    cmocka_unit_test(wsd_decays_last),
    cmocka_unit_test(wsd_has_room_for_its_parts),
};

int main(void) {
    return HARNESS_RUN_ALONE(config_tests);
}

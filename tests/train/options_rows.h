/* Of each option of the trainer: two values, where they differ, and what that takes. tests/train/options.c walks
 * them. */
#ifndef TRINE_TESTS_OPTIONS_ROWS_H
#define TRINE_TESTS_OPTIONS_ROWS_H

/* Where two values differ. */
typedef enum {
    SEEN,   /* the plan, the programs, or the bits of a run on one rank */
    SHOWN,  /* what train_gpt prints, or which files it leaves */
    ELSEWHERE /* not on one healthy rank of a CPU, or slowly: `shows` is the test that has it, and a word of it */
} place;

#define EACH NULL   /* the default: the option is not given */
#define ON   ""     /* a flag */
#define ALONE NULL

typedef struct {
    const char *option, *a, *b;
    place where;
    const char *shows;  /* SHOWN: a text that one of the two has; "^word": the lines with this beginning differ */
    const char *with;   /* options that it needs, without which it is refused; ALONE: none */
    const char *beside; /* where the two values differ: sizes, a layout. Without them it is taken; NULL: everywhere */
    const char *never;  /* the families in which it has no effect, and is refused; NULL: none */
} option_row;

/* The sizes are those of options.c; DATA is a token file, DIR a folder, DIR/first a run saved after each of 3
 * steps. */
#define ROTARY "llama mistral qwen2 qwen3"
#define LLAMA3                                                                                                       \
    "--rope-scaling llama3 --rope-scaling-factor 2 --rope-low-freq-factor 1 --rope-high-freq-factor 4 "              \
    "--rope-original-length 8"
#define WSD   "--lr-decay-style wsd --lr-wsd-decay-iters 2"
#define SAVE  "--save DIR/run"
#define TWO   "--dp 2"
#define MICROS "--pp 2 --global-batch-size 4"

static const option_row option_rows[] = {
    {"model", "gpt2", "smollm2-135m", SEEN, NULL, ALONE, "--hidden-size 36 --num-attention-heads 9", NULL},
    {"family", "gpt2", "llama", SEEN, NULL, ALONE, NULL, NULL},
    {"num-layers", "2", "3", SEEN, NULL, ALONE, NULL, NULL},
    {"hidden-size", "32", "64", SEEN, NULL, ALONE, NULL, NULL},
    {"num-attention-heads", "4", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"ffn-hidden-size", "64", "96", SEEN, NULL, ALONE, NULL, NULL},
    {"seq-length", "16", "8", SEEN, NULL, ALONE, NULL, NULL},
    {"max-position-embeddings", "32", "64", SHOWN, "\"max_position_embeddings\":\t64", SAVE, NULL, "gpt2"},
    {"vocab-size", "101", "120", SEEN, NULL, ALONE, NULL, NULL},
    {"num-query-groups", "1", "2", SEEN, NULL, ALONE, NULL, "gpt2"},
    {"kv-channels", "12", "16", SEEN, NULL, ALONE, NULL, "gpt2"},
    {"norm-epsilon", "1e-2", "1e-3", SEEN, NULL, ALONE, NULL, "gpt2"},
    {"rotary-base", "77", "1e6", SEEN, NULL, ALONE, NULL, "gpt2"},
    {"rope-scaling", EACH, "linear --rope-scaling-factor 8", SEEN, NULL, ALONE, NULL, "gpt2"},
    {"rope-scaling-factor", "2", "4", SEEN, NULL, "--rope-scaling linear", NULL, "gpt2"},
    {"rope-low-freq-factor", "1", "2", SEEN, NULL, LLAMA3, NULL, "gpt2"},
    {"rope-high-freq-factor", "8", "2", SEEN, NULL, LLAMA3, NULL, "gpt2"},
    {"rope-original-length", "16", "32", SEEN, NULL, LLAMA3, NULL, "gpt2"},
    {"untied", EACH, ON, SEEN, NULL, ALONE, NULL, NULL},
    {"lora-rank", "2", "4", SEEN, NULL, ALONE, NULL, NULL},
    {"lora-alpha", "16", "64", SEEN, NULL, "--lora-rank 4", NULL, NULL},
    {"lora-targets", EACH, "all-linear", SEEN, NULL, "--lora-rank 4", NULL, NULL},
    {"lora-rslora", EACH, ON, SEEN, NULL, "--lora-rank 4", NULL, NULL},
    {"lora-dropout", "0.1", "0.2", SEEN, NULL, "--lora-rank 4", NULL, NULL},
    {"hidden-dropout", "0.1", "0.2", SEEN, NULL, ALONE, NULL, ROTARY},
    {"attention-dropout", "0.1", "0.2", SEEN, NULL, ALONE, NULL, NULL},
    {"freeze", "*.0.*", "*.1.*", SEEN, NULL, ALONE, NULL, NULL},
    {"train", "*.0.*", "*.1.*", SEEN, NULL, "--freeze *", NULL, NULL},
    {"dp", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"tp", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"pp", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"zero", "1", "2", SEEN, NULL, ALONE, TWO, NULL},
    {"schedule", "1f1b", "gpipe", SEEN, NULL, ALONE, MICROS, NULL},
    {"num-virtual-stages-per-pipeline-rank", "1", "2", SEEN, NULL, "--schedule zb", MICROS, NULL},
    {"split-backward", EACH, ON, SEEN, NULL, ALONE, "--pp 2", NULL},
    {"exact", EACH, ON, SEEN, NULL, ALONE, "--tp 2", NULL},
    {"exact-dp", "2", "4", SEEN, NULL, "--exact", "--dp 2 --global-batch-size 4", NULL},
    {"exact-tp", "1", "2", SEEN, NULL, "--exact", NULL, NULL},
    {"pp-split", "e,2+h", "e+1,1+h", SEEN, NULL, ALONE, "--pp 2", NULL},
    {"gather-buffers", "3", "4", SEEN, NULL, "--zero 3", "--dp 2 --num-layers 5", NULL},
    {"reduce-buffers", "3", "4", SEEN, NULL, "--zero 2", "--dp 2 --num-layers 5", NULL},
    {"sequence-parallel", EACH, ON, SEEN, NULL, ALONE, "--tp 2", NULL},
    {"recompute-granularity", "selective", "full", SEEN, NULL, ALONE, NULL, NULL},
    {"keep-recomputed", EACH, ON, SEEN, NULL, "--recompute-granularity full", "--schedule zb " MICROS, NULL},
    {"loss-chunk", "4", "8", SEEN, NULL, ALONE, NULL, NULL},
    {"ranks-per-node", "1", "2", SEEN, NULL, ALONE, TWO, NULL},
    {"transport", "mpi", "shm", SEEN, NULL, ALONE, TWO, NULL},
    {"ordered-reductions", EACH, ON, SEEN, NULL, "--device cuda --transport nccl", TWO, NULL},
    {"nccl-lane-ctas", "4", "16", SEEN, NULL, "--device cuda", "--pp 2", NULL},
    {"stage-messages", EACH, ON, ELSEWHERE, "comm/message.c comm_mpi_reaches", "--device cuda", NULL,
     NULL}, /* what it turns off; only a CUDA-aware MPI can */
    {"device", "cpu", "ref", SEEN, NULL, ALONE, NULL, NULL},
    {"cuda-library", "DIR/a.so", "DIR/b.so", SHOWN, "DIR/b.so", "--device cuda", NULL, NULL},
    {"tf32", EACH, ON, SEEN, NULL, "--device cuda", NULL, NULL},
    {"plan", EACH, "auto --hardware zen5-cores", SHOWN, "plan     ", "--global-batch-size 2", NULL, NULL},
    {"hardware", "h100", "a100-selene", SHOWN, "^plan", "--plan auto --device cpu --global-batch-size 2", NULL, NULL},
    {"threads", "1", "2", SHOWN, "2 threads per rank", ALONE, NULL, NULL},
    {"exact-threads", EACH, ON, SEEN, NULL, ALONE, "--device ref", NULL}, /* not every processor has it */
    {"cpu-level", EACH, "v4", ELSEWHERE, "train/cpu_level.t --cpu-level", ALONE, NULL, NULL},
    {"timeout", "50", "60", ELSEWHERE, "train/suspended.t --timeout", ALONE, NULL, NULL},
    {"io-timeout", "50", "60", ELSEWHERE, "train/slow_disk.t --io-timeout", ALONE, NULL, NULL},
    {"audit", EACH, ON, ELSEWHERE, "comm/audit.c comm_audit", ALONE, NULL, NULL},
    {"serial", EACH, ON, ELSEWHERE, "layouts.c p->serial", ALONE, NULL, NULL},
    {"one-queue", EACH, ON, SEEN, NULL, ALONE, MICROS, NULL},
    {"bf16", EACH, ON, SEEN, NULL, ALONE, "--device ref", NULL}, /* so is this */
    {"fp16", EACH, ON, SEEN, NULL, ALONE, NULL, NULL},
    {"grad-dtype", "fp32", "bf16", SEEN, NULL, "--bf16", "--device ref", NULL},
    {"loss-scale", "8", "64", SEEN, NULL, "--fp16", NULL, NULL},
    {"initial-loss-scale", "16", "64", SEEN, NULL, "--fp16", NULL, NULL},
    {"min-loss-scale", "4", "1e12", SEEN, NULL, "--fp16 --initial-loss-scale 1e12", NULL, NULL},
    {"loss-scale-window", "1", "2", SEEN, NULL, "--fp16", "--initial-loss-scale 16", NULL},
    {"hysteresis", "1", "2", SEEN, NULL, "--fp16", "--initial-loss-scale 1e30", NULL},
    {"micro-batch-size", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"global-batch-size", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"train-iters", "3", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"epochs", "0.01", "0.02", SEEN, NULL, ALONE, NULL, NULL},
    {"lr", "1e-2", "1e-3", SEEN, NULL, ALONE, NULL, NULL},
    {"min-lr", "1e-4", "2e-4", SEEN, NULL, "--lr-decay-style linear", NULL, NULL},
    {"lr-warmup-iters", "1", "2", SEEN, NULL, ALONE, NULL, NULL},
    {"lr-decay-iters", "8", "9", SEEN, NULL, "--lr-decay-style cosine", NULL, NULL},
    {"lr-decay-style", "cosine", "linear", SEEN, NULL, ALONE, NULL, NULL},
    {"lr-wsd-decay-iters", "1", "2", SEEN, NULL, "--lr-decay-style wsd", NULL, NULL},
    {"lr-wsd-decay-style", "exponential", "linear", SEEN, NULL, WSD, NULL, NULL},
    {"weight-decay", "0.1", "0.5", SEEN, NULL, ALONE, NULL, NULL},
    {"decay-all", EACH, ON, SEEN, NULL, ALONE, NULL, NULL},
    {"adam-beta1", "0.5", "0.8", SEEN, NULL, ALONE, NULL, NULL},
    {"adam-beta2", "0.5", "0.8", SEEN, NULL, ALONE, NULL, NULL},
    {"adam-eps", "1e-2", "1e-3", SEEN, NULL, ALONE, NULL, NULL},
    {"clip-grad", "1e-2", "1e-3", SEEN, NULL, ALONE, NULL, NULL},
    {"seed", "7", "8", SEEN, NULL, ALONE, NULL, NULL},
    {"no-shuffle", EACH, ON, SEEN, NULL, ALONE, NULL, NULL},
    {"save", "DIR/a", "DIR/b", SHOWN, "saved DIR/b/step-3", ALONE, NULL, NULL},
    {"save-interval", "2", "1", SHOWN, "saved DIR/run/step-1", SAVE, NULL, NULL},
    {"keep", "1", "2", SHOWN, "run/step-2/config.json", SAVE, "--save-interval 1", NULL},
    {"save-at-tokens", "16", "32", SHOWN, "saved DIR/run/step-1", SAVE, NULL, NULL},
    {"load", "DIR/first/step-1", "DIR/first/step-2", SHOWN, "resumed from DIR/first/step-2", ALONE, NULL, NULL},
    {"load-weights-only", EACH, ON, SHOWN, "loaded the weights of", "--load DIR/first", NULL, NULL},
    {"pretrained-checkpoint", "DIR/first/step-1", "DIR/first/step-2", SHOWN, "the weights of DIR/first/step-2",
     "--load auto --save DIR/run", NULL, NULL},
    {"adapter", "DIR/a", "DIR/b", SHOWN, "DIR/b", "--load DIR/first", NULL, NULL}, /* neither is there */
    {"max-minutes", "1e-7", "100", SHOWN, "step    3/3", SAVE, NULL, NULL},
    {"data-path", "DATA", "0.5 DATA 0.5 DATA", SEEN, NULL, ALONE, NULL, NULL},
    {"val-data-path", "none", "DATA", SEEN, NULL, ALONE, NULL, NULL},
    {"tokenizer", "DIR/a", "DIR/b", SHOWN, "DIR/b", ALONE, NULL, NULL}, /* neither is there */
    {"reset-attention-mask", "no", "yes", SEEN, NULL, ALONE, "--reset-position-ids --end-token-id 53", NULL},
    {"reset-position-ids", "no", "yes", SEEN, NULL, ALONE, "--reset-attention-mask --end-token-id 53", NULL},
    {"end-token-id", "28", "53", SEEN, NULL, "--reset-attention-mask", NULL, NULL},
    {"log-interval", "1", "3", SHOWN, "step    2/3", ALONE, NULL, NULL},
    {"eval-interval", "1", "2", SHOWN, "step    1/3 | validation", "--val-data-path DATA", NULL, NULL},
    {"eval-iters", "1", "3", SEEN, NULL, "--val-data-path DATA", NULL, NULL},
    {"log", "DIR/a", "DIR/b", SHOWN, "file b ", ALONE, NULL, NULL},
    {"tensorboard", "DIR/a", "DIR/b", SHOWN, "file b/events", ALONE, NULL, NULL},
    {"progress", "line", "bar", SHOWN, "\r", ALONE, NULL, NULL},
    {"memory", EACH, "64K", SHOWN, "--memory: the heaviest rank needs ", ALONE, NULL, NULL},
    {"peak-tflops", EACH, "1", SHOWN, "util -", ALONE, NULL, NULL},
    {"profile", EACH, ON, SHOWN, "profile  ", ALONE, "--train-iters 2", NULL},
    {"profile-json", "DIR/a", "DIR/b", ELSEWHERE, "train/log.c trine_trainer_profile_start", ALONE, NULL,
     NULL}, /* it measures for seconds */
    {"trace", "DIR/a", "DIR/b", SHOWN, "file b ", ALONE, "--trace-steps 1", NULL},
    {"trace-steps", "1", "1-2", SHOWN, "2 steps from step 1", "--trace DIR/t", NULL, NULL},
    {"no-ring", EACH, ON, SEEN, NULL, ALONE, NULL, NULL},
    {"dry-run", EACH, ON, SHOWN, "step    3/3", ALONE, NULL, NULL},
    {"explain", EACH, ON, SHOWN, "step    3/3", ALONE, NULL, NULL},
    {"layouts", EACH, ON, SHOWN, "step    3/3", ALONE, NULL, NULL},
    {"ranks", "1", "2", SHOWN, "2 ranks", "--dry-run", NULL, NULL},
    {"export-schedule", "DIR/a", "DIR/b", SHOWN, "file b ", ALONE, NULL, NULL},
    {"help", EACH, ON, SHOWN, "step    3/3", ALONE, NULL, NULL},
    {"version", EACH, ON, SHOWN, "step    3/3", ALONE, NULL, NULL},
};

#endif

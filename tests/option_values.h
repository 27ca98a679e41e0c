/* Two values of each option that is saved in checkpoints (config/config.h): for tests that walk all of them. A row
 * without two values here fails in train/other_options. */
#ifndef TRINE_TESTS_OPTION_VALUES_H
#define TRINE_TESTS_OPTION_VALUES_H

#include <string.h>

#include "training.h"

/* Rope scaling llama3 as presets and folders have it, and what no option sets, the emulated GPU. Words of a line
 * that begin with @ have a number behind them. */
typedef struct {
    int llama3;       /* original length; 0: not llama3 */
    double low, high; /* 0: 1 and 4 */
    int gpu;
} beyond_options;

static inline void apply(const beyond_options *b, trine_config *c) {
    if (b->gpu) training_on_gpu(c);
    if (!b->llama3) return;
    c->model.rope_scaling = (trine_rope_scaling){.kind = TRINE_ROPE_LLAMA3,
                                                 .factor = 2,
                                                 .low_freq_factor = b->low > 0 ? b->low : 1,
                                                 .high_freq_factor = b->high > 0 ? b->high : 4,
                                                 .original_length = b->llama3};
}

static inline void set_beyond(beyond_options *b, const char *name, double x) {
    if (!strcmp(name, "@llama3")) b->llama3 = (int)x;
    if (!strcmp(name, "@low")) b->low = x;
    if (!strcmp(name, "@high")) b->high = x;
    if (!strcmp(name, "@gpu")) b->gpu = (int)x;
}

/* Options with which a row has one value and another. `with`: what both runs need. */
typedef struct {
    const char *name, *a, *b, *with;
} row_case;

static const row_case option_cases[] = {
    {"num-layers", "--num-layers 2", "--num-layers 3", ""},
    {"hidden-size", "--hidden-size 24", "--hidden-size 48", "--ffn-hidden-size 96"},
    {"num-attention-heads", "--num-attention-heads 4", "--num-attention-heads 2", ""},
    {"ffn-hidden-size", "--ffn-hidden-size 96", "--ffn-hidden-size 32", ""},
    {"seq-length", "--seq-length 8", "--seq-length 4", ""},
    {"vocab-size", "--vocab-size 101", "--vocab-size 103", ""},
    {"untied", "", "--untied", ""},
    {"num-query-groups", "--num-query-groups 4", "--num-query-groups 2", "--family llama"},
    {"kv-channels", "--kv-channels 6", "--kv-channels 4", "--family llama"},
    {"norm-epsilon", "--norm-epsilon 1e-5", "--norm-epsilon 1e-6", "--family qwen2"},
    {"rotary-base", "--rotary-base 10000", "--rotary-base 1000000", "--family qwen2"},
    {"rope-scaling", "--rope-scaling default --rope-scaling-factor 0",
     "--rope-scaling linear --rope-scaling-factor 2", "--family llama"},
    {"rope-scaling-factor", "--rope-scaling-factor 2", "--rope-scaling-factor 4",
     "--family llama --rope-scaling linear"},
    {"rope-low-freq-factor", "@low 1", "@low 2", "--family llama @llama3 8"},
    {"rope-high-freq-factor", "@high 4", "@high 8", "--family llama @llama3 8"},
    {"rope-original-length", "@llama3 8", "@llama3 16", "--family llama"},
    {"epochs", "--epochs 1", "--epochs 2", ""},
    {"max-position-embeddings", "--max-position-embeddings 16", "--max-position-embeddings 32",
     "--family llama"},
    {"family", "--family llama", "--family mistral", ""},
    {"hidden-dropout", "", "--hidden-dropout 0.1", ""},
    {"attention-dropout", "", "--attention-dropout 0.1", ""},
    {"freeze", "--freeze *.ln_1.*", "--freeze *.ln_1.* --freeze *.ln_2.*", ""},
    {"lora-rank", "--lora-rank 2", "--lora-rank 4", ""},
    {"lora-alpha", "--lora-alpha 8", "--lora-alpha 16", "--lora-rank 2"},
    {"lora-targets", "--lora-targets c_attn", "--lora-targets c_attn,mlp.c_proj", "--lora-rank 2"},
    {"lora-rslora", "", "--lora-rslora", "--lora-rank 2"},
    {"lora-dropout", "--lora-dropout 0.1", "--lora-dropout 0.2", "--lora-rank 2"},
    {"bf16", "", "--bf16", "--device ref"},
    {"fp16", "", "--fp16", "--device ref"},
    {"grad-dtype", "--grad-dtype fp32", "--grad-dtype bf16", "--bf16 --device ref"},
    {"loss-scale", "--loss-scale 2", "--loss-scale 4", "--fp16 --device ref"},
    {"initial-loss-scale", "--initial-loss-scale 8", "--initial-loss-scale 4",
     "--fp16 --device ref"},
    {"min-loss-scale", "--min-loss-scale 1", "--min-loss-scale 2", "--fp16 --device ref"},
    {"loss-scale-window", "--loss-scale-window 3", "--loss-scale-window 4", "--fp16 --device ref"},
    {"hysteresis", "--hysteresis 1", "--hysteresis 2", "--fp16 --device ref"},
    {"tf32", "", "--tf32", "--device cuda @gpu 1"},
    {"global-batch-size", "--global-batch-size 4", "--global-batch-size 8", ""},
    {"train-iters", "--train-iters 9", "--train-iters 8", ""},
    {"lr", "--lr 1e-2", "--lr 2e-2", ""},
    {"min-lr", "--min-lr 1e-3", "--min-lr 2e-3", ""},
    {"lr-warmup-iters", "--lr-warmup-iters 1", "--lr-warmup-iters 2", ""},
    {"lr-decay-iters", "--lr-decay-iters 7", "--lr-decay-iters 8", ""},
    {"lr-decay-style", "--lr-decay-style cosine", "--lr-decay-style linear", ""},
    {"lr-wsd-decay-iters", "--lr-wsd-decay-iters 4", "--lr-wsd-decay-iters 6",
     "--lr-decay-style wsd"},
    {"lr-wsd-decay-style", "--lr-wsd-decay-style linear", "--lr-wsd-decay-style minus_sqrt",
     "--lr-decay-style wsd --lr-wsd-decay-iters 4"},
    {"weight-decay", "--weight-decay 0.1", "--weight-decay 0.2", ""},
    {"decay-all", "", "--decay-all", ""},
    {"adam-beta1", "--adam-beta1 0.9", "--adam-beta1 0.8", ""},
    {"adam-beta2", "--adam-beta2 0.95", "--adam-beta2 0.9", ""},
    {"adam-eps", "--adam-eps 1e-8", "--adam-eps 1e-7", ""},
    {"clip-grad", "--clip-grad 1", "--clip-grad 2", ""},
    {"seed", "--seed 1", "--seed 18446744073709551615", ""},
    {"no-shuffle", "", "--no-shuffle", ""},
    {"reset-attention-mask", "", "--reset-attention-mask",
     "--reset-position-ids --end-token-id 53"},
    {"reset-position-ids", "", "--reset-position-ids", "--reset-attention-mask --end-token-id 53"},
    {"end-token-id", "--end-token-id 53", "--end-token-id 28", "--reset-attention-mask"},
    {"dp", "--dp 2", "--dp 1 --tp 2", ""},
    {"tp", "--tp 1", "--tp 2", ""},
    {"pp", "--pp 1", "--pp 2", ""},
    {"zero", "--zero 1", "--zero 3", ""},
    {"schedule", "--schedule 1f1b", "--schedule gpipe", "--pp 2"},
    {"pp-split", "", "--pp-split 2,h", "--pp 2"},
    {"sequence-parallel", "", "--sequence-parallel", "--tp 2"},
    {"recompute-granularity", "", "--recompute-granularity full", ""},
    {"micro-batch-size", "--micro-batch-size 1", "--micro-batch-size 2", ""},
    {"loss-chunk", "--loss-chunk 4", "--loss-chunk 8", ""},
    {"device", "--device cpu", "--device ref", ""},
    {"exact-threads", "", "--exact-threads", "--device ref"},
    {"cpu-level", "", "--cpu-level v2", "--device ref"},
    {"exact", "", "--exact", ""},
    {"exact-dp", "--exact-dp 2", "--exact-dp 4", "--exact --global-batch-size 4"},
    {"exact-tp", "--exact-tp 1", "--exact-tp 2", "--exact"},
};

#endif

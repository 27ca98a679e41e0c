/* The values of a configuration's fields, and the names of its structs without their fields, which trine.h has: what
 * reads no option need not know them. Included by trine.h, which states the conventions. */
#ifndef TRINE_TYPES_H
#define TRINE_TYPES_H

#include "trine_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Structs, whose fields are in trine.h ----------------------------------------------------- */

typedef struct trine_model trine_model;
typedef struct trine_parallel trine_parallel;
typedef struct trine_precision trine_precision;
typedef struct trine_optimizer trine_optimizer;
typedef struct trine_data trine_data;
typedef struct trine_trace trine_trace;
typedef struct trine_config trine_config;
typedef struct trine_metrics trine_metrics;
typedef struct trine_checkpoint trine_checkpoint;
typedef struct trine_planned trine_planned;
typedef struct trine_run trine_run;

/* ---- Values ----------------------------------------------------------------------------------- */

/* What the kernels for CPUs use of a processor: the levels of the x86-64 psABI, v4 with AVX512_BF16, and the
 * same with AMX in oneDNN. oneDNN is held to the level, too. BASE: the architecture without more, on other
 * processors than x86-64 and in a build below x86-64-v2; there oneDNN takes what the processor has. AUTO: the
 * highest that the build and the processors of all ranks have. A build for one processor (MARCH) has one level,
 * and with AVX512_BF16 the last two; one for any (MARCH=any) has all from v2 on. */
#define TRINE_CPU_LEVEL_LIST(X)                                                                    \
    X(TRINE_CPU_AUTO, "auto")                                                                      \
    X(TRINE_CPU_BASE, "base")                                                                      \
    X(TRINE_CPU_V2, "v2")                                                                          \
    X(TRINE_CPU_V3, "v3")                                                                          \
    X(TRINE_CPU_V4, "v4")                                                                          \
    X(TRINE_CPU_V4_BF16, "v4-bf16")                                                                \
    X(TRINE_CPU_V4_AMX, "v4-amx")

typedef enum {
#define TRINE_CPU_LEVEL_ENUM(name, text) name,
    TRINE_CPU_LEVEL_LIST(TRINE_CPU_LEVEL_ENUM)
#undef TRINE_CPU_LEVEL_ENUM
    TRINE_CPU_LEVELS
} trine_cpu_level;

/* A model as lists of layers: trine_model.h. */
typedef struct trine_family trine_family;

/* How the frequencies of rotary positions are changed to reach positions beyond those of an earlier training, as
 * transformers does (modeling_rope_utils). LINEAR: divided by `factor`. LLAMA3: wavelengths above original_length /
 * low_freq_factor are multiplied by `factor`, those below original_length / high_freq_factor stay, those between are
 * interpolated. */
#define TRINE_ROPE_LIST(X)                                                                         \
    X(TRINE_ROPE_DEFAULT, "default")                                                               \
    X(TRINE_ROPE_LINEAR, "linear")                                                                 \
    X(TRINE_ROPE_LLAMA3, "llama3")

typedef enum {
#define TRINE_ROPE_ENUM(name, text) name,
    TRINE_ROPE_LIST(TRINE_ROPE_ENUM)
#undef TRINE_ROPE_ENUM
} trine_rope_kind;

typedef struct {
    trine_rope_kind kind;
    double factor;
    double low_freq_factor, high_freq_factor; /* LLAMA3 */
    int original_length;                      /* LLAMA3: original_max_position_embeddings */
} trine_rope_scaling;

/* Low-rank adapters: Hu et al., "LoRA: low-rank adaptation of large language models", ICLR 2022. Beside the matrices
 * W that `targets` names, y = W x + scale B A dropout(x), with A (rank, in) and B (out, rank); names, defaults and
 * initial values are PEFT's (A uniform, with variance 1 / (3 in); B 0). */
#define TRINE_LORA_TARGETS 256
typedef struct {
    int rank;       /* 0: no adapters */
    double alpha;   /* scale = alpha / rank; 0: 8 */
    double dropout; /* in [0, 1): of the adapters' inputs */
    bool rslora;    /* scale = alpha / sqrt(rank): Kalajdzievski, "A rank stabilization scaling factor", 2023 */
    char targets[TRINE_LORA_TARGETS]; /* "q_proj,v_proj": ends of the matrices' names in a block, or "all-linear";
                                         "": q_proj, v_proj and c_attn, those of them that the family has */
} trine_lora;

typedef enum { TRINE_ZERO_0, TRINE_ZERO_1, TRINE_ZERO_2, TRINE_ZERO_3 } trine_zero;

#define TRINE_SCHEDULE_LIST(X)                                                                     \
    X(TRINE_NAIVE, "naive", "one micro-batch in flight")                                           \
    X(TRINE_GPIPE, "gpipe", "all forwards, then all backwards")                                    \
    X(TRINE_1F1B, "1f1b", "one forward, one backward")                                             \
    X(TRINE_INTERLEAVED, "interleaved", "1f1b over several chunks per stage")                      \
    X(TRINE_ZB, "zb", "zero bubble: weight gradients apart, where a stage would wait")             \
    X(TRINE_ZBV, "zbv", "zero bubble over two chunks per stage, placed in a V")                    \
    X(TRINE_V_HALF, "v-half", "two chunks per stage in a V, half the activations of 1f1b")         \
    X(TRINE_BFS, "bfs", "breadth first: all micro-batches through a chunk, then the next")

typedef enum {
#define TRINE_SCHEDULE_ENUM(name, text, words) name,
    TRINE_SCHEDULE_LIST(TRINE_SCHEDULE_ENUM)
#undef TRINE_SCHEDULE_ENUM
    TRINE_SCHEDULES
} trine_schedule;

/* The activations that a unit keeps between forward and backward (Korthikanti et al., "Reducing
 * activation recomputation in large transformer models", MLSys 2023). Attention scores and
 * probabilities, which that paper's selective recomputation drops, are never kept here.
 *   none        everything that backward reads
 *   selective   not the outputs of norms and GELU, which are recomputed; no matrix product is repeated
 *   full        only the unit's input
 * Results are bitwise equal in all three. */
#define TRINE_RECOMPUTE_LIST(X)                                                                    \
    X(TRINE_RECOMPUTE_NONE, "none")                                                                \
    X(TRINE_RECOMPUTE_SELECTIVE, "selective")                                                      \
    X(TRINE_RECOMPUTE_FULL, "full")

typedef enum {
#define TRINE_RECOMPUTE_ENUM(name, text) name,
    TRINE_RECOMPUTE_LIST(TRINE_RECOMPUTE_ENUM)
#undef TRINE_RECOMPUTE_ENUM
    TRINE_RECOMPUTES
} trine_recompute;

/* WSD: warm-up, stable, decay (Hu et al., "MiniCPM", 2024): lr until lr_wsd_decay_iters before the end of the
 * decay. */
typedef enum { TRINE_DECAY_COSINE, TRINE_DECAY_LINEAR, TRINE_DECAY_CONSTANT, TRINE_DECAY_WSD } trine_lr_decay;

/* How WSD falls, with r from 0 to 1 the share of its decay that is done, to min_lr + f(r) (lr - min_lr). */
#define TRINE_WSD_LIST(X)                                                                          \
    X(TRINE_WSD_EXPONENTIAL, "exponential") /* 2 * 0.5^r - 1 */                                    \
    X(TRINE_WSD_LINEAR, "linear")           /* 1 - r */                                            \
    X(TRINE_WSD_COSINE, "cosine")           /* (cos(pi r) + 1) / 2 */                              \
    X(TRINE_WSD_MINUS_SQRT, "minus_sqrt")   /* 1 - sqrt(r) */

typedef enum {
#define TRINE_WSD_ENUM(name, text) name,
    TRINE_WSD_LIST(TRINE_WSD_ENUM)
#undef TRINE_WSD_ENUM
} trine_wsd_decay;

/* Whether something begins anew in each document of the samples. AUTO: if the token files say where documents begin
 * (docs/formats.md, windows). */
typedef enum { TRINE_RESET_AUTO, TRINE_RESET_YES, TRINE_RESET_NO } trine_reset;

/* Progress bars: AUTO: on a terminal; LINE: never; BAR: on anything. */
typedef enum { TRINE_PROGRESS_AUTO, TRINE_PROGRESS_LINE, TRINE_PROGRESS_BAR } trine_progress;

/* The first and the last step of --trace-steps, counted from 1; {0, 0}: 10 to 12. */
typedef struct {
    int first, last;
} trine_steps;

#ifdef __cplusplus
}
#endif

#endif

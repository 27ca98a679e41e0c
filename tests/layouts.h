/* The matrix of layouts: rows that train under some layout and options, what each must equal, and the runs to which
 * several rows are compared. All run in one job of 8 ranks: runs of fewer ranks side by side on parts of the world,
 * those of 1, 2, 3, 4 and 6 ranks too; what several rows need is run once. Each row meets three conditions:
 *
 **   bits     losses, norms, validation losses and all parameters equal those of its anchor: the same dp, tp, model,
 *            type and micro-batches on one stage with 1F1B, ZeRO-0 (2 where gradients are reduced with every
 *            micro-batch), one reduce buffer and --serial, without recomputation, split backward passes, one queue,
 *            audit or profile. None of these, no depth, split, transport or node changes a bit
 **   distance from one rank, which reads the same samples, drops the same elements, and computes all logits of a
 *            micro-batch at once
 **   memory   the allocation equals the plan of resolve_plan, made before the trainer, to the byte for every kind of
 *            memory
 *
 **   exact    rows with --exact instead: losses, norms, scales, skipped steps, validation losses, all parameters and, at
 *            the end, moments equal those of one rank with the same order of sums (D, T), model, type and micro-batches,
 *            bit for bit. In runs of few steps the first of rows in fp32 is near to one rank's without --exact. Rows of
 *            the same layouts without --exact, whose losses and norms are compared with one rank's without it, show how
 *            often that is otherwise so
 *
 ** All comparisons come at the end, so that a fault shows all rows that it affects. */
#ifndef TRINE_TESTS_LAYOUTS_H
#define TRINE_TESTS_LAYOUTS_H

#include "training.h"

#define LAYOUT_ROWS 4000 /* rows at most, and runs at most */

/* fp32 on cpu; bf16 on ref, on cpu, and on ref with gradients in bf16; fp16 on ref, and on cpu with gradients in
 * fp16. Not every processor multiplies bf16. */
typedef enum {
    LAYOUT_FP32,
    LAYOUT_BF16_REF,
    LAYOUT_BF16_CPU,
    LAYOUT_BF16_GRADS,
    LAYOUT_FP16_REF,
    LAYOUT_FP16_GRADS,
    LAYOUT_CUDA, /* fp32 on the emulated GPU */
    LAYOUT_TYPES
} layout_type;

/* Of pp_split: chunks of the embedding and of the head alone, or one layer in each chunk but one. */
enum { SPLIT_BY_COST, SPLIT_ENDS_ALONE, SPLIT_HEAVY_LAST, SPLIT_HEAVY_FIRST, SPLITS };
enum { WATCH_NOTHING, WATCH_SERIAL, WATCH_AUDIT, WATCH_BOTH, WATCH_PROFILE, WATCHES };
enum { DOCUMENTS_NOT, DOCUMENTS_RESET, DOCUMENTS_POSITIONS, DOCUMENTS_ATTENTION, DOCUMENTS };
enum { KEEP_RECOMPUTED = TRINE_RECOMPUTES, RECOMPUTE_CHOICES };

enum { LORA_NOT, LORA_DEFAULT, LORA_ALL };

/* EXACT_OFF: the same run without --exact; it must not equal one rank's. */
enum { EXACT_NOT, EXACT_ON, EXACT_OFF };

/* Compared as bytes: no padding. */
typedef struct {
    trine_layout layout;
    int zero, schedule, virtual, type, sequence_parallel, recompute, dropout, untied, split_backward;
    int micros, size;          /* micro-batches per rank, samples in each */
    int chunk;                 /* rows of logits at a time; 0: all */
    int layers;                /* at least a unit for each chunk of a stage */
    int family, heads, groups; /* one of LAYOUT_FAMILIES; heads of keys and values */
    int seq;                   /* tokens of a sample: with 64, messages are larger than what a transport copies */
    int one_queue, transport, split, nodes, watch;
    int buffers;               /* gather and reduce buffers */
    int nccl;                  /* order of NCCL's queue (TRINE_EMU_NCCL_QUEUE); 4: 3, in order; 0: no NCCL */
    int eval;                  /* a validation after the first and the last step */
    int documents;             /* of files with masks, attention and positions begin anew in each, or one of them */
    int lora;                  /* adapters: LORA_DEFAULT of queries and values, LORA_ALL with dropout */
    int exact, lanes, parts;   /* of EXACT_ON and EXACT_OFF: D and T; fp16 then overflows in the first step */
} layout_run;

#define LAYOUT_FAMILIES 4 /* gpt2, llama, qwen2, qwen3 */

/* Fills in the rest: the least layers, heads and groups that the family and tp allow, and no sequence parallelism
 * where tp does not divide the rows. */
layout_run layout_row(layout_run given);

/* The rows of a case, without those of more ranks than the job has; `steps` at most TRAINING_STEPS. */
void layout_add(layout_run row);
void layout_check(int steps);
/* Of the rows with EXACT_OFF of the last layout_check how many had other losses or norms than one rank. */
int layout_differed(void);

#endif

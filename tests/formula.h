/* Memory and traffic of a rank in closed form, computed from the sizes alone (docs/design.md, docs/numbers.md):
 * an independent reference for the plan (state/state.c, run/parts.c), for the memory that was allocated, and for
 * the tallies. */
#ifndef TRINE_TESTS_FORMULA_H
#define TRINE_TESTS_FORMULA_H

#include "base/arena.h"
#include "core/program.h"
#include "run/parts.h"

/* The rank. Of the spec only the split, the stages of chunks and the number of micro-batches are read; of the program
 * the numbers of slots, gradient streams and keep buffers, and the order of passes, where no formula gives them: with
 * several chunks per stage, or if the schedule splits backward passes. */
typedef struct {
    const trine_config *config;
    const program_spec *spec;
    const program *program;
    trine_coord at;
    size_t attention; /* bytes of the device's attention workspace */
    bool far;         /* the counted memory is device memory */
} formula_rank;

/* Padded elements of a stage's ranges: of parameters, and of gradients (a tied matrix
 * has two accumulators even on one stage). */
size_t formula_params(const formula_rank *r);
size_t formula_grads(const formula_rank *r);

typedef struct {
    size_t bytes[MEM_KINDS], total;
} formula_bytes;

formula_bytes formula_memory(const formula_rank *r);

/* Of it, the bytes in windows: memory that other ranks of the node read in place. */
size_t formula_windows(const formula_rank *r);

/* Of device memory, the bytes received from other ranks; with the bytes that they read, the size of the staging
 * buffer. And the additional host memory. 0 on the CPU. */
size_t formula_exchanged(const formula_rank *r);
size_t formula_host(const formula_rank *r);

/* Bytes of messages in a step to another stage: activations, gradients, over the lanes to the next stage (and from
 * the last to the first) or over those back. `gradients` of an edge go against it, and are in its lanes. */
size_t formula_messages(const formula_rank *r, bool gradients, bool back);

/* Bytes passed to the transport in one training step: as the formula has them, and as the programs have them. */
typedef struct {
    uint64_t gather, reduce; /* over dp */
    uint64_t tp;             /* within layers, and REDUCE_TP */
    uint64_t act, grad;      /* to the next stage, to the previous stage */
    uint64_t tie;
    uint64_t norm; /* dp, tp and pp together */
} formula_sent;
formula_sent formula_traffic(const formula_rank *r);
formula_sent formula_traffic_of(const traffic *t);
/* Bytes by which the all-reduces of ZeRO-0 exceed two passes: a range of up to 64 KiB over all ranks is sent to every
 * rank as a whole. */
size_t formula_whole_sums(const formula_rank *r);

#endif

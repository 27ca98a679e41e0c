/* ZeRO (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
 * SC 2020, section 5) as a table of placements over the dp group, which passes, checker and state read:
 *
 *   zero   parameters   gradients   optimizer   GATHER             REDUCE
 *   0      REPLICATE    REPLICATE   REPLICATE   never              after the last micro-batch
 *   1      REPLICATE    SHARD       SHARD       after UPDATE       after the last micro-batch
 *   2      REPLICATE    SHARD       SHARD       after UPDATE       after every micro-batch
 *   3      SHARD        SHARD       SHARD       before each use    after every micro-batch
 *
 * (0 and 1 accumulate over micro-batches in a full buffer, which is PARTIAL until REDUCE; 1 keeps its shard
 * inside that buffer, 2 and 3 in a separate buffer of 1/d of the size.)
 * Invariant: ZeRO-0 and 1 add in the same order, and so do ZeRO-2 and 3. Cost in bytes per parameter, plus
 * buffers:
 *
 *   zero   fp32       16 bits, fp32 gradients   16 bits throughout
 *   0      16         18                        16
 *   1      8 + 8/d    6 + 12/d                  4 + 12/d
 *   2      4 + 12/d   2 + 16/d                  2 + 14/d
 *   3      16/d       18/d                      16/d
 *
 * (the fp32 master weights of 16-bit types have the optimizer's placement; with fp32 there are none). */
#ifndef TRINE_CORE_SHARDING_H
#define TRINE_CORE_SHARDING_H

#include "core/flat.h"

typedef enum { GATHER_NEVER, GATHER_AFTER_UPDATE, GATHER_BEFORE_USE } zero_gather_when;

/* A row of the table. */
typedef struct {
    placement params, grads, optimizer; /* at rest, when a step ends (grads: after REDUCE) */
    bool full_grads;                    /* accumulated in a full buffer, reduced once */
    zero_gather_when gather;
} zero_row;

/* The row of a stage; a table, never NULL. Pure. */
const zero_row *zero_stage(trine_zero zero);

#endif

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
 * (the fp32 master weights of 16-bit types have the optimizer's placement; with fp32 there are none).
 *
 * With parallel.exact the lanes say when gradients are reduced, in every stage: one lane as ZeRO-1 does; lanes of one
 * micro-batch as ZeRO-2 does; others accumulate in a full buffer, beside which the shard lies (4/d bytes more).
 * ZeRO-0 has the full buffer in any case, and gathers the sum there at the end. */
#ifndef TRINE_CORE_SHARDING_H
#define TRINE_CORE_SHARDING_H

#include "core/flat.h"

typedef enum { GATHER_NEVER, GATHER_AFTER_UPDATE, GATHER_BEFORE_USE } zero_gather_when;

/* The lanes of a rank (spec_lane_micros). LANES_OF_STAGE: those of the table above. With parallel.exact: one lane of
 * all micro-batches; several lanes, of one micro-batch each, or of more. */
typedef enum { LANES_OF_STAGE, LANES_ONE, LANES_SINGLE, LANES_SEVERAL, LANES } zero_lanes;

/* A row of the table. */
typedef struct {
    placement params, grads, optimizer; /* at rest, when a step ends (grads: after REDUCE) */
    bool full_grads;                    /* a lane accumulates in a full buffer; else it has one micro-batch, whose
                                           gradients are in a reduce buffer */
    bool apart;                         /* the sum of earlier lanes has a buffer of its own beside the full one */
    zero_gather_when gather;
} zero_row;

/* The row of a stage with these lanes; a table, never NULL. Pure. */
const zero_row *zero_stage(trine_zero zero, zero_lanes lanes);

#endif

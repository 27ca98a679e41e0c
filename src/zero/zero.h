/* ZeRO (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
 * SC 2020, section 5) as a table of placements over the dp group:
 *
 *   zero   parameters   gradients   optimizer   GATHER             REDUCE
 *   0      REPLICATE    REPLICATE   REPLICATE   never              after the last micro-batch
 *   1      REPLICATE    SHARD       SHARD       after UPDATE       after the last micro-batch
 *   2      REPLICATE    SHARD       SHARD       after UPDATE       after every micro-batch
 *   3      SHARD        SHARD       SHARD       before each use    after every micro-batch
 *
 * (0 and 1 accumulate over micro-batches in a full buffer, which is PARTIAL until REDUCE; 1 keeps
 * its shard inside that buffer, 2 and 3 in a buffer of a d-th.)
 * gather.c is the pass that puts GATHERs into a program, adamw.c updates the part that a rank owns.
 * Invariant: no stage changes the order of any addition that another stage of the same pair (0, 1)
 * or (2, 3) makes. Cost in bytes a parameter, plus buffers:
 *
 *   zero   fp32       16 bits, fp32 gradients   16 bits throughout
 *   0      16         18                        16
 *   1      8 + 8/d    6 + 12/d                  4 + 12/d
 *   2      4 + 12/d   2 + 16/d                  2 + 14/d
 *   3      16/d       18/d                      16/d
 *
 * (the optimizer's placement is that of the fp32 master weights, too, which fp32 has not). */
#ifndef TRINE_ZERO_ZERO_H
#define TRINE_ZERO_ZERO_H

#include "core/flat.h"
#include "core/program.h"
#include "device/ops.h"

typedef enum { GATHER_NEVER, GATHER_AFTER_UPDATE, GATHER_BEFORE_USE } zero_gather_when;

/* A row of the table. */
typedef struct {
    placement params, grads, optimizer; /* at rest, when a step ends (grads: after REDUCE) */
    bool full_grads;                    /* accumulated in a full buffer, reduced once */
    zero_gather_when gather;
} zero_row;

/* The row of a stage; a table, never NULL. Pure. */
const zero_row *zero_stage(trine_zero zero);

/* Pass: ZeRO-3 GATHERs before use, into as many buffers per class as the spec allows, evicting the
 * unit whose next use is farthest (Belady's rule: the program is known), each GATHER one
 * computation early where a buffer is free; ZeRO-1/2 GATHERs after the UPDATEs. Sets p->gathers.
 * Errors: TRINE_ENOMEM. */
trine_status zero_gather(program *p);

/* Pass: appends the UPDATEs. Errors: TRINE_ENOMEM. */
trine_status zero_update(program *p);

/* What an update reads and writes, all from the same element on. */
typedef struct {
    float *w, *m, *v; /* the master, its moments */
    void *copy;       /* the device's compute type: becomes w's rounding; NULL where w is that type */
    const void *g;    /* the device's type of gradients */
} zero_state;

/* AdamW on elements [begin, begin + count) of a range: the state points at element `begin`.
 * args->decay applies to matrices, or to everything with decay_all. Errors: the operator's own.
 * Not collective. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *state, const adamw_args *args, bool decay_all);

#endif

/* Breadth first: Lamy-Poirier, "Breadth-first pipeline parallelism", MLSys 2023. A stage runs all
 * micro-batches through one chunk, then through the next: each chunk's parameters are wanted once a pass, and
 * its gradients are complete early. All activations are kept, as in GPipe. The backward passes of a chunk ascend
 * here, where torch.distributed.pipelining's descend; the bubble is the same. */
#include <math.h>

#include "base/status.h"
#include "pp/order.h"

static trine_status order(const pp_shape *s, int stage, pp_actions *out) {
    for (int n = 0; n < s->virtual; n++)
        for (int m = 0; m < s->micros; m++)
            TRY(actions_add(out, ACTION_FORWARD, pp_chunk_at(PLACE_LOOP, s, stage, n), m));
    for (int n = s->virtual - 1; n >= 0; n--)
        for (int m = 0; m < s->micros; m++)
            TRY(actions_add(out, ACTION_BACKWARD, pp_chunk_at(PLACE_LOOP, s, stage, n), m));
    return TRINE_OK;
}

/* Filling and draining cost a chunk of each other stage, of M V chunks. With fewer micro-batches than stages a
 * chunk's input comes too late, and no formula is known. */
static double bubble(const pp_shape *s) {
    double idle = (s->stages - 1.0) / s->virtual;
    if (s->micros < s->stages && s->virtual > 1) return (double)NAN;
    return idle / (s->micros + idle);
}

const pp_schedule pp_TRINE_BFS = {PLACE_LOOP, 0, false, order, bubble};

/* Zero bubble: Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, section 2.1: ZB-H1, and for several
 * chunks per stage the order of ScheduleInterleavedZeroBubble in torch.distributed.pipelining. Only the
 * gradient of a chunk's input is on the way between stages: weight gradients wait until a stage would. The later
 * the stage, the more of them it keeps back, so that all stages keep as many activations as 1F1B's first. */
#include <math.h>

#include "base/status.h"
#include "pp/order.h"

static int warm_up(const pp_shape *s, int stage) {
    int all = s->virtual * s->micros;
    int first = (s->virtual - 1) * pp_group_of(s, 0).count + s->stages - 1 - stage;
    return first < all ? first : all;
}

static trine_status order(const pp_shape *s, int stage, pp_actions *out) {
    int all = s->virtual * s->micros, warm = warm_up(s, stage);
    for (int k = 0; k < warm; k++) TRY(actions_add_number(out, ACTION_FORWARD, s, stage, k));
    for (int k = 0; k < all + stage; k++) {
        if (warm + k < all) TRY(actions_add_number(out, ACTION_FORWARD, s, stage, warm + k));
        if (k < all) TRY(actions_add_number(out, ACTION_INPUT, s, stage, k));
        if (k >= stage) TRY(actions_add_number(out, ACTION_WEIGHT, s, stage, k - stage));
    }
    return TRINE_OK;
}

/* Each stage waits for a forward pass of each other; where B, W and F cost the same, that is all. */
static double bubble(const pp_shape *s) {
    double idle = (s->stages - 1.0) / s->virtual;
    return s->micros < s->stages ? (double)NAN : idle / (3.0 * s->micros + idle);
}

const pp_schedule pp_TRINE_ZB = {PLACE_LOOP, 0, true, order, bubble};

/* Interleaved 1F1B: Narayanan et al., "Efficient large-scale language model training on GPU clusters using
 * Megatron-LM", SC 2021, section 2.2.2. A chunk's input comes from the previous stage in the loop, so a
 * stage runs a group of micro-batches through one chunk, then through the next. */
#include <math.h>

#include "base/status.h"
#include "pp/order.h"

/* The first backward pass comes when the first group is through all chunks; the round trip to the last
 * stage and back is two forward passes a stage. */
static int warm_up(const pp_shape *s, int stage) {
    int all = s->virtual * s->micros;
    int first = (s->virtual - 1) * pp_group_of(s, 0).count + 2 * (s->stages - 1 - stage);
    return first < all ? first : all;
}

static trine_status order(const pp_shape *s, int stage, pp_actions *out) {
    int all = s->virtual * s->micros, warm = warm_up(s, stage);
    for (int k = 0; k < warm; k++) TRY(actions_add_number(out, ACTION_FORWARD, s, stage, k));
    for (int k = 0; k < all; k++) {
        if (warm + k < all) TRY(actions_add_number(out, ACTION_FORWARD, s, stage, warm + k));
        TRY(actions_add_number(out, ACTION_BACKWARD, s, stage, k));
    }
    return TRINE_OK;
}

/* Filling and draining cost a chunk of each other stage, of M V chunks. Fewer micro-batches than stages leave
 * further gaps, for which no formula is known. */
static double bubble(const pp_shape *s) {
    double idle = (s->stages - 1.0) / s->virtual;
    return s->micros < s->stages ? (double)NAN : idle / (s->micros + idle);
}

const pp_schedule pp_TRINE_INTERLEAVED = {PLACE_LOOP, 0, false, order, bubble};

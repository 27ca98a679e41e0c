/* ZB-V: Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, section 6. A stage has a chunk on the way down
 * and one on the way up, so that the last chunk, whose backward pass comes first, is on stage 0. A stage
 * keeps at most 2 P chunks' activations, as many as 1F1B's first stage.
 *
 * From 2 P - 1 micro-batches on, the order is that of ScheduleZBVZeroBubble in torch.distributed.pipelining.
 * For fewer that class drops actions from the order of 2 P - 1, whose weight gradients then delay others: twice the
 * bubble that the authors' scheduler (sail-sg/zero-bubble-pipeline-parallelism) has at M = P. Here F and I keep
 * that order, and weight gradients come where a stage would wait; tests/pp/orders.c has the bubbles. */
#include <math.h>

#include "base/status.h"
#include "pp/order.h"

/* Makes an order of `micros` micro-batches, of which some are dropped. [0] is the chunk on the way down, [1]
 * that on the way up. */
typedef struct {
    pp_actions *out;
    bool weights; /* false: W are left to others */
    int chunk[2], micros, kept;
    int forwards[2], inputs[2], weighed[2];
} v_order;

static trine_status add(v_order *v, action_kind kind, int way, int micro) {
    return micro < v->kept ? actions_add(v->out, kind, v->chunk[way], micro) : TRINE_OK;
}

static trine_status forward(v_order *v, int way) {
    return add(v, ACTION_FORWARD, way, v->forwards[way]++);
}

static trine_status input(v_order *v, int way) {
    return add(v, ACTION_INPUT, way, v->inputs[way]++);
}

static trine_status weight(v_order *v, int way) {
    int micro = v->weighed[way]++;
    return v->weights ? add(v, ACTION_WEIGHT, way, micro) : TRINE_OK;
}

static trine_status backward(v_order *v, int way) {
    TRY(input(v, way));
    return weight(v, way);
}

/* Until micro-batches come up as often as they go down, and the first have gone back to this stage. */
static trine_status fill_up(v_order *v, int stage, int below) {
    for (int n = 0; n < 2 * below + 1; n++) TRY(forward(v, 0));
    for (int n = 0; n < stage; n++) {
        TRY(forward(v, 1));
        TRY(forward(v, 0));
    }
    for (int n = 0; n < below + 1; n++) {
        TRY(forward(v, 1));
        TRY(backward(v, 1));
    }
    return TRINE_OK;
}

static trine_status steady(v_order *v) {
    while (v->forwards[1] < v->micros) {
        if (v->forwards[0] < v->micros) TRY(forward(v, 0));
        TRY(backward(v, 0));
        TRY(forward(v, 1));
        TRY(backward(v, 1));
    }
    return TRINE_OK;
}

/* Input gradients first, since stages above wait for them. */
static trine_status drain(v_order *v, int stage) {
    for (int n = 0; n < stage; n++) {
        TRY(input(v, 0));
        TRY(input(v, 1));
    }
    while (v->inputs[0] < v->micros) TRY(backward(v, 0));
    while (v->weighed[1] < v->micros) TRY(weight(v, 1));
    while (v->weighed[0] < v->micros) TRY(weight(v, 0));
    return TRINE_OK;
}

static trine_status make(const pp_shape *s, int stage, bool weights, pp_actions *out) {
    int least = 2 * s->stages - 1;
    v_order v = {.out = out, .weights = weights, .kept = s->micros};
    v.micros = s->micros < least ? least : s->micros;
    for (int way = 0; way < 2; way++) v.chunk[way] = pp_chunk_at(PLACE_V, s, stage, way);
    TRY(fill_up(&v, stage, s->stages - 1 - stage));
    TRY(steady(&v));
    return drain(&v, stage);
}

static trine_status without_weights(const pp_shape *s, int stage, pp_actions *out) {
    return make(s, stage, false, out);
}

static trine_status order(const pp_shape *s, int stage, pp_actions *out) {
    if (s->micros >= 2 * s->stages - 1) return make(s, stage, true, out);
    return pp_fill_weights(s, 2 * s->stages, stage, out, without_weights);
}

/* Each stage waits for P - 1 chunks' forward passes. With fewer micro-batches than stages it waits longer, and no
 * formula is known. */
static double bubble(const pp_shape *s) {
    double idle = s->stages - 1;
    return s->micros < s->stages ? (double)NAN : idle / (6.0 * s->micros + idle);
}

const pp_schedule pp_TRINE_ZBV = {PLACE_V, 2, true, order, bubble};

/* V-Half: Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024. All micro-batches repeat
 * one V-shaped building block, six time units apart: a stage's F and I of both chunks, at fixed times. A chunk
 * waits two units for the next on the way down and one on the way up, which sets how long activations live, and
 * so how many a stage keeps: P / 2 + 1 stages' worth, where 1F1B's first stage keeps P. The order of F and I is
 * the building blocks'; weight gradients, and later actions, come where a stage would wait. */
#include <math.h>

#include "base/status.h"
#include "pp/order.h"

#define PERIOD 6

/* The times of a stage's F down, F up, I up and I down of micro-batch 0. With an even number of stages the way back
 * starts three units later; otherwise two actions of a stage would have the same time. */
static void block(const pp_shape *s, int stage, int time[4]) {
    int P = s->stages, turn = P % 2 ? 0 : 3;
    time[0] = 2 * stage;
    time[1] = 3 * P - 2 - stage;
    time[2] = 3 * P - 1 + turn + 2 * stage;
    time[3] = 6 * P - 2 + turn - stage;
}

/* The F and I of a stage, in the order of their times. */
static trine_status repeat(const pp_shape *s, int stage, pp_actions *out) {
    int time[4], micro[4] = {0}, down = pp_chunk_at(PLACE_V, s, stage, 0);
    int up = pp_chunk_at(PLACE_V, s, stage, 1);
    block(s, stage, time);
    for (int n = 0; n < 4 * s->micros; n++) {
        int first = -1;
        for (int k = 0; k < 4; k++)
            if (micro[k] < s->micros && (first < 0 || time[k] < time[first])) first = k;
        action_kind kind = first < 2 ? ACTION_FORWARD : ACTION_INPUT;
        int chunk = first == 0 || first == 3 ? down : up;
        TRY(actions_add(out, kind, chunk, micro[first]++));
        time[first] += PERIOD;
    }
    return TRINE_OK;
}

static trine_status order(const pp_shape *s, int stage, pp_actions *out) {
    int most = s->stages + (s->stages % 2 ? 1 : 2);
    return pp_fill_weights(s, most, stage, out, repeat);
}

/* From simulations (tests/pp/orders.c). */
static double bubble(const pp_shape *s) {
    int P = s->stages, idle = 3 * P - (P % 2 ? 4 : 7);
    if (P <= 2) idle = P - 1;
    return s->micros < P ? (double)NAN : idle / (6.0 * s->micros + idle);
}

const pp_schedule pp_TRINE_V_HALF = {PLACE_V, 2, true, order, bubble};

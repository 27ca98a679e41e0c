#include "comm/group/lane.h"

group_lane lane_of(trine_group group) {
    static const group_lane lanes[TRINE_GROUPS] = {
        [TRINE_ACT_IN] = {TRINE_ACT_OUT, -1, false},
        [TRINE_ACT_OUT] = {TRINE_ACT_IN, 1, false},
        [TRINE_GRAD_IN] = {TRINE_GRAD_OUT, 1, false},
        [TRINE_GRAD_OUT] = {TRINE_GRAD_IN, -1, false},
        [TRINE_BACK_ACT_IN] = {TRINE_BACK_ACT_OUT, 1, true},
        [TRINE_BACK_ACT_OUT] = {TRINE_BACK_ACT_IN, -1, true},
        [TRINE_BACK_GRAD_IN] = {TRINE_BACK_GRAD_OUT, -1, true},
        [TRINE_BACK_GRAD_OUT] = {TRINE_BACK_GRAD_IN, 1, true},
    };
    return lanes[group];
}

bool lane_is(trine_group group) {
    return lane_of(group).step != 0;
}

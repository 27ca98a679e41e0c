/* The lanes: groups that join two stages for the messages of a pipeline edge, one for each direction and cargo
 * (TRINE_GROUP_LIST). What mesh and transports know about them is one table.
 * Invariant: of the two ranks of a lane, rank 0 is the stage with the lower number, also on the edge that closes a
 * ring; the two ranks know the lane by different names. */
#ifndef TRINE_COMM_GROUP_LANE_H
#define TRINE_COMM_GROUP_LANE_H

#include "trine_types.h"

typedef struct {
    trine_group partner; /* the lane's name on the other stage; TRINE_WORLD: the group is no lane */
    int step;            /* from this stage to the other one: 1 or -1 */
    bool back;           /* of edges to the previous stage */
} group_lane;

/* Pure. */
group_lane lane_of(trine_group group);
bool lane_is(trine_group group);

#endif

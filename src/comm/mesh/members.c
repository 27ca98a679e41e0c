#include "comm/mesh/members.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/api/axes.h"
#include "comm/group/lane.h"
#include "comm/mesh/window.h"
#include "comm/transport/nodes/nodes.h"

int members_tied(const mesh_needs *needs, int stage) {
    const int *tie = needs->tie;
    if (tie[0] == tie[1]) return -1;
    return stage == tie[0] ? tie[1] : stage == tie[1] ? tie[0] : -1;
}

int members_lane(trine_layout l, const mesh_needs *needs, int stage, trine_group group) {
    group_lane lane = lane_of(group);
    int other = stage + lane.step;
    if (lane.back && !needs->back) return -1;
    if (other >= 0 && other < l.pp) return other;
    return needs->ring && !lane.back ? l.pp - 1 - stage : -1;
}

/* ---- Ranks of one node ----------------------------------------------------------------------- */

static void group_sizes(int sizes[TRINE_GROUPS], trine_layout l, trine_coord c,
                        const mesh_needs *needs) {
    memset(sizes, 0, TRINE_GROUPS * sizeof *sizes);
    for (int g = TRINE_WORLD + 1; g < TRINE_GROUPS; g++) {
        trine_group group = (trine_group)g;
        if (axes_of(group)) sizes[g] = axes_size(l, axes_of(group));
        if (lane_is(group) && members_lane(l, needs, c.pp, group) >= 0) sizes[g] = 2;
    }
    sizes[TRINE_TP_PART] = needs->tp_part;
    if (members_tied(needs, c.pp) >= 0) sizes[TRINE_TIE] = 2;
    sizes[TRINE_NODE] = axes_size(l, ALL_AXES);
}

size_t comm_transport_bytes(trine_layout layout, trine_coord coord, trine_transport transport,
                            mesh_needs needs) {
    int sizes[TRINE_GROUPS], ranks = axes_size(layout, ALL_AXES);
    size_t bytes =
        comm_scratch_bytes(ranks) + comm_arrival_bytes(ranks, axes_largest_group(layout));
    if (!comm_may_share(transport) || ranks == 1) return bytes;
    group_sizes(sizes, layout, coord, &needs);
    return bytes + shm_window_bytes(shm_control_bytes(sizes));
}

/* ---- Any nodes ------------------------------------------------------------------------------- */

static int pair_at(int *members, trine_layout l, trine_coord c, int other) {
    trine_coord at = c;
    at.pp = other;
    if (other < 0) return 0;
    members[other > c.pp] = trine_layout_rank(l, at);
    members[other < c.pp] = trine_layout_rank(l, c);
    return 2;
}

static int along(int *members, trine_layout l, axis_set axes, trine_coord c, int first, int n) {
    for (int i = 0; i < n; i++)
        members[i] = trine_layout_rank(l, axes_coord(l, axes, c, first + i));
    return n;
}

static int on_node(int *members, int ranks, const int *node_of, int node) {
    int n = 0;
    for (int r = 0; r < ranks; r++)
        if (node_of[r] == node) members[n++] = r;
    return n;
}

/* Fills in the world ranks of a group of the rank at `c`, and returns their number; 0 for none. */
static int find_members(int *members, trine_layout l, trine_coord c, const mesh_needs *needs,
                        const int *node_of, trine_group group) {
    const axis_set tp = AXIS(TRINE_AXIS_TP);
    int part = needs->tp_part;
    if (axes_of(group))
        return along(members, l, axes_of(group), c, 0, axes_size(l, axes_of(group)));
    if (group == TRINE_TP_PART) return along(members, l, tp, c, c.tp / part * part, part);
    if (group == TRINE_TIE) return pair_at(members, l, c, members_tied(needs, c.pp));
    if (lane_is(group)) return pair_at(members, l, c, members_lane(l, needs, c.pp, group));
    return on_node(members, axes_size(l, ALL_AXES), node_of, node_of[trine_layout_rank(l, c)]);
}

trine_status comm_control_bytes(size_t *bytes, trine_layout layout, int rank, mesh_needs needs,
                                const int *node_of) {
    int sizes[TRINE_GROUPS] = {0}, ranks = axes_size(layout, ALL_AXES);
    int *members = calloc((size_t)ranks, sizeof *members);
    *bytes = 0;
    CHECK(members, TRINE_ENOMEM, "no memory for a group of %d ranks", ranks);
    for (int g = TRINE_WORLD + 1; g < TRINE_GROUPS; g++) {
        int n = find_members(members, layout, trine_layout_coord(layout, rank), &needs, node_of,
                             (trine_group)g);
        const trine_comm group = {.members = members, .size = n};
        int here = 0;
        for (int i = 0; i < n; i++) here += node_of[members[i]] == node_of[rank];
        if (n > 1 && (here == n || nodes_fit(&group, node_of))) sizes[g] = here;
    }
    free(members);
    if (sizes[TRINE_NODE] > 1) *bytes = comm_window_bytes(shm_control_bytes(sizes));
    return TRINE_OK;
}

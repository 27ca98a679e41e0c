/* Which ranks a group of a mesh joins, as a function of layout and needs: mesh.c makes the groups, the plan counts
 * their memory before they exist. */
#ifndef TRINE_COMM_MESH_MEMBERS_H
#define TRINE_COMM_MESH_MEMBERS_H

#include "comm/api/comm.h"

/* The stage that shares the token matrix with `stage`; -1: none. Pure. */
int members_tied(const mesh_needs *needs, int stage);

/* The stage at the other end of a lane of `stage`; -1: there is no such lane. Pure. */
int members_lane(trine_layout layout, const mesh_needs *needs, int stage, trine_group group);

#endif

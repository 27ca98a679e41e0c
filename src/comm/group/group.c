/* Properties of a communicator. */
#include "comm/group/group.h"
#include "base/live.h"
#include "base/status.h"

const char *comm_dtype_text(trine_dtype type) {
    switch (type) {
#define DTYPE_CASE(name, text, bytes)                                                              \
    case name: return text;
        TRINE_DTYPE_LIST(DTYPE_CASE)
#undef DTYPE_CASE
    }
    return "unknown type";
}

const char *comm_op_text(trine_reduction op) {
    return op == TRINE_MAX        ? " (max)"
           : op == TRINE_SUM_TREE ? " (tree)"
           : op == COMM_SUM_ONTO  ? " (onto dst)"
                                  : "";
}

const char *comm_group_name(trine_group group) {
    switch (group) {
#define GROUP_CASE(name, text)                                                                     \
    case name: return text;
        TRINE_GROUP_LIST(GROUP_CASE)
#undef GROUP_CASE
    case TRINE_GROUPS: break;
    }
    return "unknown group";
}

int trine_comm_rank(const trine_comm *comm) {
    return IS_LIVE(comm, "comm", LIVE_COMM) ? comm->rank : 0;
}

int trine_comm_size(const trine_comm *comm) {
    return IS_LIVE(comm, "comm", LIVE_COMM) ? comm->size : 0;
}

const char *trine_comm_transport(const trine_comm *comm) {
    return IS_LIVE(comm, "comm", LIVE_COMM) ? comm->transport->name : "none";
}

trine_world *comm_world(const trine_comm *comm) {
    return comm->world;
}

int comm_world_rank(const trine_comm *comm, int rank) {
    ASSERT(rank >= 0 && rank < comm->size);
    return comm->members[rank];
}

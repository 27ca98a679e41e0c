/* The transport of a group of one: every collective is a copy, or nothing if in place, except a sum onto dst. Sends
 * and receives have no peer and are no-ops, so that both ends of a pipeline need no special case. */
#include "comm/transport/self/self.h"
#include "comm/group/group.h"
#include "comm/reduce/rank_order.h"

#include <string.h>

static trine_status copy(void *dst, const void *src, size_t bytes) {
    if (bytes && dst != src) memcpy(dst, src, bytes);
    return TRINE_OK;
}

static trine_status self_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    (void)comm, (void)buf, (void)bytes, (void)root;
    return TRINE_OK;
}

/* scatter and gather */
static trine_status self_rooted(trine_comm *comm, void *dst, const void *src, size_t part,
                                int root) {
    (void)comm, (void)root;
    return copy(dst, src, part);
}

static trine_status self_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    (void)comm;
    return copy(dst, src, part);
}

/* barrier and progress */
static trine_status self_nothing(trine_comm *comm) {
    (void)comm;
    return TRINE_OK;
}

/* all-reduce and reduce-scatter */
static trine_status self_reduction(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op) {
    (void)comm, (void)op;
    return copy(dst, src, count * trine_dtype_bytes(type));
}

static trine_status self_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                trine_dtype type, trine_reduction op, int root) {
    (void)root;
    return self_reduction(comm, dst, src, count, type, op);
}

static trine_status self_reduction_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                         trine_dtype type, trine_reduction op,
                                         comm_request *request) {
    (void)request;
    if (op != COMM_SUM_ONTO) return self_reduction(comm, dst, src, count, type, op);
    rank_order_combine(dst, (const void *const[]){dst, src}, 2, count, type, op);
    return TRINE_OK;
}

static trine_status self_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                          comm_request *request) {
    (void)comm, (void)request;
    return copy(dst, src, part);
}

static trine_status self_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                    comm_request *request) {
    (void)comm, (void)buf, (void)bytes, (void)peer, (void)request;
    return TRINE_OK;
}

static trine_status self_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                    comm_request *request) {
    (void)comm, (void)buf, (void)bytes, (void)peer, (void)request;
    return TRINE_OK;
}

static trine_status self_wait(trine_comm *comm, comm_request *request) {
    (void)comm, (void)request;
    return TRINE_OK;
}

static trine_status self_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    (void)comm, (void)request, (void)bytes;
    return TRINE_OK;
}

static void self_destroy(trine_comm *comm) {
    (void)comm;
}

const comm_transport self_transport = {
    .name = "self",
    .order = COMM_ORDER_RANKS,
    .broadcast = self_broadcast,
    .scatter = self_rooted,
    .gather = self_rooted,
    .all_to_all = self_all_to_all,
    .barrier = self_nothing,
    .progress = self_nothing,
    .all_reduce = self_reduction,
    .reduce = self_reduce,
    .reduce_scatter = self_reduction,
    .all_reduce_start = self_reduction_start,
    .reduce_scatter_start = self_reduction_start,
    .all_gather_start = self_all_gather_start,
    .send_start = self_send_start,
    .recv_start = self_recv_start,
    .wait = self_wait,
    .wait_received = self_wait_received,
    .destroy = self_destroy,
};

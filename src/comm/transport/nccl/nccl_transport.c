/* The table of a group whose ranks have one GPU each: NCCL moves device buffers, the group's own
 * transport host buffers. See gpu.h and nccl.h. */
#include "comm/transport/nccl/nccl_transport.h"
#include "comm/transport/nccl/nccl.h"
#include "comm/transport/staging/staging.h"
#include "base/status.h"

static bool is_direct(const trine_comm *comm, const void *p, size_t bytes) {
    return bytes && !staging_is_host(comm, p);
}

/* The body of a function; `buf` decides whether the call is on device memory. */
#define EITHER(function, buf, bytes, ...)                                                          \
    if (!is_direct(comm, buf, bytes)) return staging_inner(comm)->function(comm, __VA_ARGS__);     \
    return comm->nccl->function(comm->nccl_group, __VA_ARGS__)

static trine_status nccl_call_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    EITHER(broadcast, buf, bytes, buf, bytes, root);
}

static trine_status nccl_call_scatter(trine_comm *comm, void *dst, const void *src, size_t part,
                                      int root) {
    EITHER(scatter, dst, part, dst, src, part, root);
}

static trine_status nccl_call_gather(trine_comm *comm, void *dst, const void *src, size_t part,
                                     int root) {
    EITHER(gather, src, part, dst, src, part, root);
}

static trine_status nccl_call_all_to_all(trine_comm *comm, void *dst, const void *src,
                                         size_t part) {
    EITHER(all_to_all, src, part, dst, src, part);
}

static trine_status nccl_call_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                         trine_dtype type, trine_reduction op) {
    EITHER(all_reduce, src, count, dst, src, count, type, op);
}

static trine_status nccl_call_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op, int root) {
    EITHER(reduce, src, count, dst, src, count, type, op, root);
}

static trine_status nccl_call_reduce_scatter(trine_comm *comm, void *dst, const void *src,
                                             size_t count, trine_dtype type, trine_reduction op) {
    if (!is_direct(comm, src, count))
        return staging_inner(comm)->reduce_scatter(comm, dst, src, count, type, op);
    return comm->nccl->reduce_scatter(comm->nccl_group, dst, src, count / (size_t)comm->size, type,
                                      op);
}

/* ---- Started calls --------------------------------------------------------------------------- */

static trine_status nccl_call_all_reduce_start(trine_comm *comm, void *dst, const void *src,
                                               size_t count, trine_dtype type, trine_reduction op,
                                               comm_request *request) {
    request->device.direct = is_direct(comm, src, count);
    if (!request->device.direct)
        return staging_inner(comm)->all_reduce_start(comm, dst, src, count, type, op, request);
    return comm->nccl->all_reduce_start(comm->nccl_group, dst, src, count, type, op,
                                        &request->device.ticket);
}

static trine_status nccl_call_reduce_scatter_start(trine_comm *comm, void *dst, const void *src,
                                                   size_t count, trine_dtype type,
                                                   trine_reduction op, comm_request *request) {
    request->device.direct = is_direct(comm, src, count);
    if (!request->device.direct)
        return staging_inner(comm)->reduce_scatter_start(comm, dst, src, count, type, op, request);
    if (op == COMM_SUM_ONTO)
        return comm->nccl->reduce_scatter_onto_start(
            comm->nccl_group, dst, src, count / (size_t)comm->size, type, &request->device.ticket);
    return comm->nccl->reduce_scatter_start(comm->nccl_group, dst, src, count / (size_t)comm->size,
                                            type, op, &request->device.ticket);
}

static trine_status nccl_call_all_gather_start(trine_comm *comm, void *dst, const void *src,
                                               size_t part, comm_request *request) {
    request->device.direct = is_direct(comm, src, part);
    if (!request->device.direct)
        return staging_inner(comm)->all_gather_start(comm, dst, src, part, request);
    return comm->nccl->all_gather(comm->nccl_group, dst, src, part, &request->device.ticket);
}

static trine_status nccl_call_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                         comm_request *request) {
    request->device.direct = is_direct(comm, buf, bytes);
    if (!request->device.direct)
        return staging_inner(comm)->send_start(comm, buf, bytes, peer, request);
    return comm->nccl->send(comm->nccl_group, buf, bytes, peer, &request->device.ticket);
}

static trine_status nccl_call_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                         comm_request *request) {
    request->device.direct = is_direct(comm, buf, bytes);
    if (!request->device.direct)
        return staging_inner(comm)->recv_start(comm, buf, bytes, peer, request);
    return comm->nccl->recv(comm->nccl_group, buf, bytes, peer, &request->device.ticket);
}

static trine_status nccl_call_wait(trine_comm *comm, comm_request *request) {
    if (!request->device.direct) return staging_inner(comm)->wait(comm, request);
    return comm->nccl->finish(comm->nccl_group, request->device.ticket);
}

static trine_status nccl_call_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    if (!request->device.direct) return staging_inner(comm)->wait_received(comm, request, bytes);
    return comm->nccl->finish(comm->nccl_group, request->device.ticket);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* A barrier is between hosts and stays the own transport's. */
const comm_transport *nccl_call_over(const trine_comm *comm, const comm_transport *inner) {
    comm_transport *t = staging_table(comm, inner);
    t->name = "nccl";
    t->order = COMM_ORDER_LIBRARY; /* unless it was opened with ordered additions (nccl_setting) */
#define SET(function, takes, names) t->function = nccl_call_##function;
    TRANSPORT_MOVES(SET)
#undef SET
    return t;
}

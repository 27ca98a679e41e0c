#include "comm/api/count.h"

#include <stdlib.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/group/group.h"

static trine_status all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op) {
    (void)comm, (void)dst, (void)src, (void)count, (void)type, (void)op;
    return TRINE_OK;
}

static trine_status barrier(trine_comm *comm) {
    (void)comm;
    return TRINE_OK;
}

/* Complete at once, as a gather is. */
static trine_status all_reduce_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op, comm_request *request) {
    request->active = false;
    return all_reduce(comm, dst, src, count, type, op);
}

static trine_status all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                     comm_request *request) {
    (void)comm, (void)dst, (void)src, (void)part;
    request->active = false;
    return TRINE_OK;
}

static const comm_transport count_transport = {.name = "count",
                                               .barrier = barrier,
                                               .all_reduce = all_reduce,
                                               .reduce_scatter = all_reduce,
                                               .all_reduce_start = all_reduce_start,
                                               .reduce_scatter_start = all_reduce_start,
                                               .all_gather_start = all_gather_start};

trine_status comm_count_create(trine_comm **comm, trine_group group, int size, comm_count_call call,
                               void *context) {
    trine_comm *c = *comm = calloc(1, sizeof *c);
    CHECK(c, TRINE_ENOMEM, "no memory for group %s of %d", comm_group_name(group), size);
    trine_status status = live_add(c, LIVE_COMM, NULL);
    if (status != TRINE_OK) free(c), *comm = NULL;
    TRY(status);
    c->transport = &count_transport;
    c->group = group;
    c->size = size;
    c->trail = &c->own_trail;
    c->counts = call;
    c->counter = context;
    return TRINE_OK;
}

void comm_count_destroy(trine_comm **comm) {
    live_remove(*comm);
    free(*comm);
    *comm = NULL;
}

#include "comm/transport/staging/staging.h"
#include "comm/group/lane.h"
#include "comm/transport/mpi/mpi.h"
#include "base/status.h"
#include "device/ops.h"

#include <string.h>

const comm_transport *staging_inner(const trine_comm *comm) {
    return comm->device_state->inner[comm->group];
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool within(const void *p, const char *base, size_t bytes) {
    return (uintptr_t)p - (uintptr_t)base < bytes;
}

static bool on_device(const device_region *m, const void *p) {
    return within(p, m->base, m->bytes) || within(p, m->rest, m->rest_bytes);
}

bool staging_is_host(const trine_comm *comm, const void *p) {
    return !comm->device_state || !on_device(&comm->device_state->memory, p);
}

static void require(bool condition, int line, const char *sentence) {
    if (!condition) status_assert_failed(__FILE__, line, sentence);
}

/* The host address of a buffer: in its staging buffer, or the buffer itself. Buffers of 0 bytes are
 * not checked. */
static void *host_place(const trine_comm *comm, const void *p, size_t bytes) {
    const device_region *m = &comm->device_state->memory;
    if (!bytes || !on_device(m, p)) return (void *)(uintptr_t)p;
    require(within(p, m->base, m->bytes), __LINE__,
            "a device buffer of a group of several ranks lies in the exchanged region");
    size_t at = (size_t)((const char *)p - m->base), shared = m->shared_bytes;
    require(bytes <= m->bytes - at, __LINE__, "a buffer ends inside the exchanged region");
    if (at >= shared) return m->own + (at - shared);
    require(bytes <= shared - at, __LINE__,
            "a buffer lies in one of the two parts of the exchanged region");
    return m->shared + at;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* *host: the address from which the transport reads p's data. */
static trine_status copy_to_host(const trine_comm *comm, const void *p, size_t bytes,
                                 const void **host) {
    void *place = host_place(comm, p, bytes);
    *host = place;
    return place == p ? TRINE_OK : device_read(comm->device_state->memory.dev, place, p, bytes);
}

/* Copies what the transport wrote at `host`, the host address of p, to p. */
static trine_status copy_to_device(const trine_comm *comm, void *p, const void *host,
                                   size_t bytes) {
    return host == p ? TRINE_OK : device_write(comm->device_state->memory.dev, p, host, bytes);
}

/* The same, except for a hole. */
static trine_status copy_to_device_around(const trine_comm *comm, char *p, const char *host,
                                          size_t bytes, size_t hole, size_t hole_bytes) {
    size_t behind = hole + hole_bytes;
    TRY(copy_to_device(comm, p, host, hole));
    return copy_to_device(comm, p + behind, host + behind, bytes - behind);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static trine_status staging_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op) {
    size_t bytes = count * trine_dtype_bytes(type);
    void *to = host_place(comm, dst, bytes);
    const void *from;
    TRY(copy_to_host(comm, src, bytes, &from));
    TRY(staging_inner(comm)->all_reduce(comm, to, from, count, type, op));
    return copy_to_device(comm, dst, to, bytes);
}

static trine_status staging_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op, int root) {
    size_t bytes = count * trine_dtype_bytes(type), out = comm->rank == root ? bytes : 0;
    void *to = host_place(comm, dst, out);
    const void *from;
    TRY(copy_to_host(comm, src, bytes, &from));
    TRY(staging_inner(comm)->reduce(comm, to, from, count, type, op, root));
    return copy_to_device(comm, dst, to, out);
}

static trine_status staging_reduce_scatter(trine_comm *comm, void *dst, const void *src,
                                           size_t count, trine_dtype type, trine_reduction op) {
    size_t bytes = count * trine_dtype_bytes(type), part = bytes / (size_t)comm->size;
    void *to = host_place(comm, dst, part);
    const void *from;
    TRY(copy_to_host(comm, src, bytes, &from));
    TRY(staging_inner(comm)->reduce_scatter(comm, to, from, count, type, op));
    return copy_to_device(comm, dst, to, part);
}

/* ---- Movement -------------------------------------------------------------------------------- */

static trine_status staging_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    void *at = host_place(comm, buf, bytes);
    const void *from;
    if (comm->rank == root) TRY(copy_to_host(comm, buf, bytes, &from));
    TRY(staging_inner(comm)->broadcast(comm, at, bytes, root));
    return comm->rank == root ? TRINE_OK : copy_to_device(comm, buf, at, bytes);
}

static trine_status staging_scatter(trine_comm *comm, void *dst, const void *src, size_t part,
                                    int root) {
    size_t out = comm->rank == root ? part * (size_t)comm->size : 0;
    void *to = host_place(comm, dst, part);
    const void *from;
    TRY(copy_to_host(comm, src, out, &from));
    TRY(staging_inner(comm)->scatter(comm, to, from, part, root));
    bool in_place = out && dst == (const char *)src + (size_t)comm->rank * part;
    return in_place ? TRINE_OK : copy_to_device(comm, dst, to, part);
}

static trine_status staging_gather(trine_comm *comm, void *dst, const void *src, size_t part,
                                   int root) {
    size_t in = comm->rank == root ? part * (size_t)comm->size : 0;
    size_t own = (size_t)comm->rank * part;
    void *to = host_place(comm, dst, in);
    const void *from;
    TRY(copy_to_host(comm, src, part, &from));
    TRY(staging_inner(comm)->gather(comm, to, from, part, root));
    if (!in) return TRINE_OK;
    bool in_place = src == (char *)dst + own;
    return copy_to_device_around(comm, dst, to, in, own, in_place ? part : 0);
}

static trine_status staging_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    size_t bytes = part * (size_t)comm->size;
    void *to = host_place(comm, dst, bytes);
    const void *from;
    TRY(copy_to_host(comm, src, bytes, &from));
    TRY(staging_inner(comm)->all_to_all(comm, to, from, part));
    return copy_to_device(comm, dst, to, bytes);
}

/* ---- Started calls --------------------------------------------------------------------------- */

/* Records what the request's wait will copy to the device. */
static void expect(comm_request *request, void *to, const void *from, size_t bytes) {
    if (to == from) return;
    request->device.to = to;
    request->device.from = from;
    request->device.bytes = bytes;
}

/* This rank's own part is not copied through the host if the device has it: it is in place, or
 * copied on the device. */
static void keep_own_part(const trine_comm *comm, char *dst, const void *src, size_t part,
                          comm_request *request) {
    size_t own = (size_t)comm->rank * part;
    if (!request->device.bytes || staging_is_host(comm, src)) return;
    if (dst + own != src) device_copy(comm->device_state->memory.dev, dst + own, src, part);
    request->device.hole = own;
    request->device.hole_bytes = part;
}

static trine_status staging_all_gather_start(trine_comm *comm, void *dst, const void *src,
                                             size_t part, comm_request *request) {
    size_t bytes = part * (size_t)comm->size;
    void *to = host_place(comm, dst, bytes);
    const void *from;
    TRY(copy_to_host(comm, src, part, &from));
    expect(request, dst, to, bytes);
    keep_own_part(comm, dst, src, part, request);
    return staging_inner(comm)->all_gather_start(comm, to, from, part, request);
}

static trine_status staging_all_reduce_start(trine_comm *comm, void *dst, const void *src,
                                             size_t count, trine_dtype type, trine_reduction op,
                                             comm_request *request) {
    size_t bytes = count * trine_dtype_bytes(type);
    void *to = host_place(comm, dst, bytes);
    const void *from;
    TRY(copy_to_host(comm, src, bytes, &from));
    expect(request, dst, to, bytes);
    return staging_inner(comm)->all_reduce_start(comm, to, from, count, type, op, request);
}

static trine_status staging_reduce_scatter_start(trine_comm *comm, void *dst, const void *src,
                                                 size_t count, trine_dtype type, trine_reduction op,
                                                 comm_request *request) {
    size_t bytes = count * trine_dtype_bytes(type), part = bytes / (size_t)comm->size;
    void *to = host_place(comm, dst, part);
    const void *from, *before;
    TRY(copy_to_host(comm, src, bytes, &from));
    if (op == COMM_SUM_ONTO) TRY(copy_to_host(comm, dst, part, &before));
    expect(request, dst, to, part);
    return staging_inner(comm)->reduce_scatter_start(comm, to, from, count, type, op, request);
}

static trine_status staging_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                       comm_request *request) {
    const void *from;
    TRY(copy_to_host(comm, buf, bytes, &from));
    return staging_inner(comm)->send_start(comm, from, bytes, peer, request);
}

static trine_status staging_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                       comm_request *request) {
    void *to = host_place(comm, buf, bytes);
    expect(request, buf, to, bytes);
    return staging_inner(comm)->recv_start(comm, to, bytes, peer, request);
}

static trine_status arrive(const trine_comm *comm, const comm_request *r) {
    if (!r->device.bytes) return TRINE_OK;
    return copy_to_device_around(comm, r->device.to, r->device.from, r->device.bytes,
                                 r->device.hole, r->device.hole_bytes);
}

static trine_status staging_wait(trine_comm *comm, comm_request *request) {
    TRY(staging_inner(comm)->wait(comm, request));
    return arrive(comm, request);
}

static trine_status staging_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    TRY(staging_inner(comm)->wait_received(comm, request, bytes));
    return arrive(comm, request);
}

/* ---- Messages of a CUDA-aware MPI ------------------------------------------------------------ */

static bool goes_direct(const trine_comm *comm, const void *p, size_t bytes) {
    return bytes && !staging_is_host(comm, p);
}

static trine_status reached_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                       comm_request *request) {
    request->device.direct = goes_direct(comm, buf, bytes);
    if (!request->device.direct)
        return staging_inner(comm)->send_start(comm, buf, bytes, peer, request);
    TRY(device_wait(comm->device_state->memory.dev));
    return mpi_send_as(comm, buf, bytes, peer, TAG_GPU, request);
}

/* The buffer's previous contents may still be in use. */
static trine_status reached_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                       comm_request *request) {
    request->device.direct = goes_direct(comm, buf, bytes);
    if (!request->device.direct)
        return staging_inner(comm)->recv_start(comm, buf, bytes, peer, request);
    TRY(device_wait(comm->device_state->memory.dev));
    return mpi_recv_as(comm, buf, bytes, peer, TAG_GPU, request);
}

static trine_status reached_wait(trine_comm *comm, comm_request *request) {
    return request->device.direct ? mpi_transport.wait(comm, request) : staging_wait(comm, request);
}

static trine_status reached_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    if (!request->device.direct) return staging_wait_received(comm, request, bytes);
    return mpi_transport.wait_received(comm, request, bytes);
}

/* ---- Groups of one --------------------------------------------------------------------------- */

static trine_status copy(const trine_comm *comm, void *dst, const void *src, size_t bytes) {
    const device_region *m = &comm->device_state->memory;
    bool to_device = on_device(m, dst), from_device = on_device(m, src);
    if (!bytes || dst == src) return TRINE_OK;
    if (to_device && !from_device) return device_write(m->dev, dst, src, bytes);
    if (from_device && !to_device) return device_read(m->dev, dst, src, bytes);
    if (to_device)
        device_copy(m->dev, dst, src, bytes);
    else
        memcpy(dst, src, bytes);
    return TRINE_OK;
}

/* scatter and gather */
static trine_status alone_rooted(trine_comm *comm, void *dst, const void *src, size_t part,
                                 int root) {
    (void)root;
    return copy(comm, dst, src, part);
}

static trine_status alone_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    return copy(comm, dst, src, part);
}

/* all-reduce and reduce-scatter */
static trine_status alone_reduction(trine_comm *comm, void *dst, const void *src, size_t count,
                                    trine_dtype type, trine_reduction op) {
    (void)op;
    return copy(comm, dst, src, count * trine_dtype_bytes(type));
}

static trine_status alone_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                 trine_dtype type, trine_reduction op, int root) {
    (void)root;
    return alone_reduction(comm, dst, src, count, type, op);
}

/* dst += src, in the device's order. */
static trine_status add_onto(const trine_comm *comm, void *dst, const void *src, size_t count,
                             trine_dtype type) {
    const device_region *m = &comm->device_state->memory;
    require(on_device(m, src), __LINE__,
            "a sum onto dst has both buffers in device memory, or none");
    require(type == m->dev->grads, __LINE__, "a sum onto dst in device memory is of gradients");
    return m->dev->ops->add(m->dev, dst, src, count);
}

static trine_status alone_reduction_start(trine_comm *comm, void *dst, const void *src,
                                          size_t count, trine_dtype type, trine_reduction op,
                                          comm_request *request) {
    if (op != COMM_SUM_ONTO) return alone_reduction(comm, dst, src, count, type, op);
    if (!staging_is_host(comm, dst)) return add_onto(comm, dst, src, count, type);
    require(staging_is_host(comm, src), __LINE__,
            "a sum onto dst has both buffers in device memory, or none");
    return staging_inner(comm)->reduce_scatter_start(comm, dst, src, count, type, op, request);
}

static trine_status alone_all_gather_start(trine_comm *comm, void *dst, const void *src,
                                           size_t part, comm_request *request) {
    (void)request;
    return copy(comm, dst, src, part);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

comm_transport *staging_table(const trine_comm *comm, const comm_transport *inner) {
    struct comm_device_state *f = comm->device_state;
    f->inner[comm->group] = inner;
    f->table[comm->group] = *inner;
    return &f->table[comm->group];
}

/* Functions that are not set here stay the transport's own: in a group of one the calls that move
 * nothing. */
const comm_transport *staging_alone(const trine_comm *comm, const comm_transport *inner) {
    comm_transport *t = staging_table(comm, inner);
    t->scatter = alone_rooted;
    t->gather = alone_rooted;
    t->all_to_all = alone_all_to_all;
    t->all_reduce = alone_reduction;
    t->reduce = alone_reduce;
    t->reduce_scatter = alone_reduction;
    t->all_reduce_start = alone_reduction_start;
    t->reduce_scatter_start = alone_reduction_start;
    t->all_gather_start = alone_all_gather_start;
    return t;
}

/* So do barrier, and posted messages, which reductions make on staging buffers. If no group stages,
 * groups without NCCL have host memory only. */
static comm_transport *staged(const trine_comm *comm, const comm_transport *inner) {
    struct comm_device_state *f = comm->device_state;
    comm_transport *t = staging_table(comm, inner);
    char *name = f->names[comm->group];
    snprintf(name, sizeof f->names[0], "%s%s", f->staged_by_host ? "staged " : "", inner->name);
    t->name = name;
#define SET(function, takes, names) t->function = staging_##function;
    TRANSPORT_MOVES(SET)
#undef SET
    return t;
}

const comm_transport *staging_staged(const trine_comm *comm, const comm_transport *inner) {
    return staged(comm, inner);
}

/* Groups that only send messages of device memory. */
static bool only_sends(trine_group g) {
    return g == TRINE_TIE || lane_is(g);
}

/* Reductions and gathers stay staged. */
const comm_transport *staging_reached(const trine_comm *comm, const comm_transport *inner) {
    comm_transport *t = staged(comm, inner);
    if (only_sends(comm->group)) t->name = "gpu mpi";
    t->send_start = reached_send_start;
    t->recv_start = reached_recv_start;
    t->wait = reached_wait;
    t->wait_received = reached_wait_received;
    return t;
}

/* The collectives that consist of posted messages. */
#include "comm/transport/mpi/mpi.h"
#include "base/status.h"
#include "comm/group/world.h"

#include <string.h>

/* The root is rank 0 of these. */
static int rank_after(const trine_comm *comm, int root, int place) {
    return (root + place) % comm->size;
}

static int place_after(const trine_comm *comm, int root) {
    return (comm->rank - root + comm->size) % comm->size;
}

/* A binomial tree; from the root to all in a small group. */
trine_status mpi_broadcast_tree(trine_comm *comm, void *buf, size_t bytes, int root) {
    int place = place_after(comm, root), step = 1;
    bool flat = comm->size <= MPI_FLAT_SIZE;
    while (step < comm->size && !(place & step)) step <<= 1;
    if (place) {
        TRY(mpi_transport.post_recv(comm, buf, bytes,
                                    rank_after(comm, root, flat ? 0 : place - step)));
        TRY(mpi_transport.flush(comm));
    }
    if (flat)
        for (int to = 1; !place && to < comm->size; to++)
            TRY(mpi_transport.post_send(comm, buf, bytes, rank_after(comm, root, to)));
    else
        for (step >>= 1; step; step >>= 1)
            if (place + step < comm->size)
                TRY(mpi_transport.post_send(comm, buf, bytes,
                                            rank_after(comm, root, place + step)));
    return mpi_transport.flush(comm);
}

trine_status mpi_scatter(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    const char *parts = src;
    if (comm->rank != root) {
        TRY(mpi_transport.post_recv(comm, dst, part, root));
        return mpi_transport.flush(comm);
    }
    for (int r = 0; r < comm->size; r++)
        if (r != root) TRY(mpi_transport.post_send(comm, parts + (size_t)r * part, part, r));
    const char *own = parts + (size_t)root * part;
    if (part && own != dst) memcpy(dst, own, part);
    return mpi_transport.flush(comm);
}

trine_status mpi_gather(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    char *parts = dst;
    if (comm->rank != root) {
        TRY(mpi_transport.post_send(comm, src, part, root));
        return mpi_transport.flush(comm);
    }
    for (int r = 0; r < comm->size; r++)
        if (r != root) TRY(mpi_transport.post_recv(comm, parts + (size_t)r * part, part, r));
    char *own = parts + (size_t)root * part;
    if (part && own != src) memcpy(own, src, part);
    return mpi_transport.flush(comm);
}

/* Exchanges `bytes` bytes at the start of src's parts: dst part j = rank j's. Starts with the
 * neighbours, so that not all ranks start with rank 0. */
static trine_status exchange(trine_comm *comm, char *dst, size_t dst_part, const char *src,
                             size_t src_part, size_t bytes) {
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        TRY(mpi_transport.post_recv(comm, dst + (size_t)from * dst_part, bytes, from));
        TRY(mpi_transport.post_send(comm, src + (size_t)to * src_part, bytes, to));
    }
    return mpi_transport.flush(comm);
}

/* In place: incoming data waits in the scratch until the data it replaces has been sent. */
static trine_status swap_parts(trine_comm *comm, char *buf, size_t part) {
    char *scratch = comm->world->scratch;
    size_t step = comm_scratch_bytes(comm->world->size) / (size_t)comm->size;
    for (size_t at = 0; at < part; at += step) {
        size_t bytes = part - at < step ? part - at : step;
        TRY(exchange(comm, scratch, step, buf + at, part, bytes));
        for (size_t r = 0; r < (size_t)comm->size; r++)
            if ((int)r != comm->rank) memcpy(buf + r * part + at, scratch + r * step, bytes);
    }
    return TRINE_OK;
}

trine_status mpi_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    size_t own = (size_t)comm->rank * part;
    if (!part) return TRINE_OK;
    if (dst == src) return swap_parts(comm, dst, part);
    memcpy((char *)dst + own, (const char *)src + own, part);
    return exchange(comm, dst, part, src, part, part);
}

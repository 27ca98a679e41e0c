/* Counts calls and bytes by kind, and computes in closed form how many bytes an operation sends.
 * The tally *is* the closed form; tests/comm/tally.c compares both with the bytes that MPI is
 * given. */
#include "comm/watch/tally.h"
#include "comm/reduce/rank_order.h"
#include "base/live.h"
#include "base/status.h"

#include <string.h>

static const char *const kind_text[] = {
#define KIND_TEXT(name, text) text,
    TRINE_TALLY_LIST(KIND_TEXT)
#undef KIND_TEXT
};

const char *tally_kind_text(trine_tally_kind kind) {
    return kind_text[kind];
}

bool tally_kind_has_root(trine_tally_kind kind) {
    return kind == TRINE_TALLY_REDUCE || kind == TRINE_TALLY_BROADCAST ||
           kind == TRINE_TALLY_SCATTER || kind == TRINE_TALLY_GATHER;
}

static uint64_t all_reduce_bytes(uint64_t count, uint64_t element, int size, int rank) {
    uint64_t peers = (uint64_t)size - 1;
    if (rank_order_is_small(count * element, size)) return count * peers * element;
    uint64_t own = rank_order_slice(count, size, rank);
    return (count - own) * element + own * peers * element;
}

uint64_t comm_bytes(trine_tally_kind kind, size_t count, trine_dtype type, int size, int rank,
                    int root) {
    uint64_t element = trine_dtype_bytes(type), peers = (uint64_t)size - 1;
    uint64_t part = count / (uint64_t)size * element;
    bool is_root = rank == root;
    if (size == 1) return 0;
    switch (kind) {
    case TRINE_TALLY_ALL_REDUCE: return all_reduce_bytes(count, element, size, rank);
    case TRINE_TALLY_REDUCE: return is_root ? 0 : count * element;
    case TRINE_TALLY_BROADCAST: return is_root ? count * element * peers : 0;
    case TRINE_TALLY_ALL_GATHER:
    case TRINE_TALLY_REDUCE_SCATTER:
    case TRINE_TALLY_ALL_TO_ALL: return part * peers;
    case TRINE_TALLY_SCATTER: return is_root ? part * peers : 0;
    case TRINE_TALLY_GATHER: return is_root ? 0 : part;
    case TRINE_TALLY_SEND: return count * element;
    case TRINE_TALLY_RECV:
    case TRINE_TALLY_BARRIER:
    case TRINE_TALLY_KINDS: break;
    }
    return 0;
}

void tally_count(trine_comm *comm, const comm_call *call) {
    trine_tally *tally = &comm->tally[call->kind];
    tally->calls++;
    tally->bytes +=
        comm_bytes(call->kind, call->count, call->type, comm->size, comm->rank, call->peer);
}

trine_tally trine_comm_tally(const trine_comm *comm, trine_tally_kind kind) {
    bool known = (unsigned)kind < TRINE_TALLY_KINDS;
    if (!known)
        REPORT("%s: kind is %d; it must be from 0 to %d", __func__, (int)kind,
               (int)TRINE_TALLY_KINDS - 1);
    bool live = IS_LIVE(comm, "comm", LIVE_COMM);
    return known && live ? comm->tally[kind] : (trine_tally){0};
}

void comm_tally_reset(trine_comm *comm) {
    memset(comm->tally, 0, sizeof comm->tally);
}

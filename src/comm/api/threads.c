#include "comm/api/threads.h"

#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"

#define WORDS DEVICE_MASK_WORDS

/* This rank's share, in thousandths of a processor, of the processors in `masks` (P, WORDS). */
static int share_of(const uint64_t *masks, int ranks, int rank) {
    const uint64_t *own = masks + (size_t)rank * WORDS;
    int share = 0;
    for (int cpu = 0; cpu < WORDS * 64; cpu++) {
        uint64_t bit = UINT64_C(1) << (cpu % 64);
        if (!(own[cpu / 64] & bit)) continue;
        int users = 0;
        for (int r = 0; r < ranks; r++)
            users += (masks[(size_t)r * WORDS + (size_t)(cpu / 64)] & bit) != 0;
        share += 1000 / users;
    }
    return share;
}

trine_status threads_share(trine_comm *node, int *threads, bool *cpu_limited) {
    int ranks = trine_comm_size(node), rank = trine_comm_rank(node);
    uint64_t own[WORDS];
    device_affinity_mask(own);
    uint64_t *masks = calloc((size_t)ranks, sizeof own);
    CHECK(masks, TRINE_ENOMEM, "no memory for %d affinity masks", ranks);
    trine_status status = trine_all_gather(node, masks, own, (size_t)ranks * WORDS, TRINE_I64);
    /* 1000 / 3 is 333: three thirds of three processors must still make one processor. */
    int share = status == TRINE_OK ? share_of(masks, ranks, rank) + ranks : 0;
    free(masks);
    TRY(status);
    *threads = share >= 2000 ? share / 1000 : 1;
    *cpu_limited = device_affinity_cpus() < device_node_cpus() / ranks;
    return TRINE_OK;
}

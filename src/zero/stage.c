#include "base/status.h"
#include "zero/zero.h"

const zero_row *zero_stage(trine_zero zero) {
    static const zero_row table[] = {
        [TRINE_ZERO_0] = {REPLICATE, REPLICATE, REPLICATE, true, GATHER_NEVER},
        [TRINE_ZERO_1] = {REPLICATE, SHARD, SHARD, true, GATHER_AFTER_UPDATE},
        [TRINE_ZERO_2] = {REPLICATE, SHARD, SHARD, false, GATHER_AFTER_UPDATE},
        [TRINE_ZERO_3] = {SHARD, SHARD, SHARD, false, GATHER_BEFORE_USE},
    };
    ASSERT((unsigned)zero < sizeof table / sizeof *table);
    return &table[zero];
}

static double share(placement p, int d) {
    return p == SHARD ? 1.0 / d : 1.0;
}

zero_bytes zero_bytes_each(trine_zero zero, int d) {
    const zero_row *row = zero_stage(zero);
    return (zero_bytes){.params = 4 * share(row->params, d),
                        .grads = row->full_grads ? 4 : 4 * share(row->grads, d),
                        .optimizer = 8 * share(row->optimizer, d)};
}

uint64_t zero_traffic(trine_zero zero, uint64_t elements, int d, int gathers, int reduces) {
    /* ZeRO-0's all-reduce is a reduce-scatter and an all-gather. */
    uint64_t passes = (uint64_t)gathers + (uint64_t)reduces;
    if (zero == TRINE_ZERO_0) passes += (uint64_t)reduces;
    return passes * (elements / (uint64_t)d) * (uint64_t)(d - 1);
}

#include "core/sharding.h"

#include "base/status.h"

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

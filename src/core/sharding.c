#include "core/sharding.h"

#include "base/status.h"

/* Parameters, gradients, optimizer; accumulated in a full buffer; a shard beside it; when parameters are gathered. */
#define ZERO_0(apart)                                                                              \
    { REPLICATE, REPLICATE, REPLICATE, true, apart, GATHER_NEVER }
#define ZERO_1(full, apart)                                                                        \
    { REPLICATE, SHARD, SHARD, full, apart, GATHER_AFTER_UPDATE }
#define ZERO_3(full, apart)                                                                        \
    { SHARD, SHARD, SHARD, full, apart, GATHER_BEFORE_USE }

const zero_row *zero_stage(trine_zero zero, zero_lanes lanes) {
    static const zero_row table[][LANES] = {
        [TRINE_ZERO_0] = {[LANES_OF_STAGE] = ZERO_0(false),
                          [LANES_ONE] = ZERO_0(false),
                          [LANES_SINGLE] = ZERO_0(true),
                          [LANES_SEVERAL] = ZERO_0(true)},
        [TRINE_ZERO_1] = {[LANES_OF_STAGE] = ZERO_1(true, false),
                          [LANES_ONE] = ZERO_1(true, false),
                          [LANES_SINGLE] = ZERO_1(false, false),
                          [LANES_SEVERAL] = ZERO_1(true, true)},
        [TRINE_ZERO_2] = {[LANES_OF_STAGE] = ZERO_1(false, false),
                          [LANES_ONE] = ZERO_1(true, false),
                          [LANES_SINGLE] = ZERO_1(false, false),
                          [LANES_SEVERAL] = ZERO_1(true, true)},
        [TRINE_ZERO_3] = {[LANES_OF_STAGE] = ZERO_3(false, false),
                          [LANES_ONE] = ZERO_3(true, false),
                          [LANES_SINGLE] = ZERO_3(false, false),
                          [LANES_SEVERAL] = ZERO_3(true, true)},
    };
    ASSERT((unsigned)zero < sizeof table / sizeof *table && lanes < LANES);
    return &table[zero][lanes];
}

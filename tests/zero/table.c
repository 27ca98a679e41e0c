/* TEST np=0 */
/* The ZeRO table against the placements of the paper. tests/zero/memory.c and tests/zero/bytes.c test the
 * consequences. */
#include "harness.h"

#include "core/sharding.h"

static void test_placements(void **state) {
    (void)state;
    static const struct {
        placement params, grads, optimizer;
        bool full_grads;
        zero_gather_when gather;
    } rows[] = {
        {REPLICATE, REPLICATE, REPLICATE, true, GATHER_NEVER},
        {REPLICATE, SHARD, SHARD, true, GATHER_AFTER_UPDATE},
        {REPLICATE, SHARD, SHARD, false, GATHER_AFTER_UPDATE},
        {SHARD, SHARD, SHARD, false, GATHER_BEFORE_USE},
    };
    for (int zero = 0; zero < 4; zero++) {
        const zero_row *row = zero_stage((trine_zero)zero, LANES_OF_STAGE);
        assert_int_equal(row->params, rows[zero].params);
        assert_int_equal(row->grads, rows[zero].grads);
        assert_int_equal(row->optimizer, rows[zero].optimizer);
        assert_int_equal(row->full_grads, rows[zero].full_grads);
        assert_int_equal(row->gather, rows[zero].gather);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placements),
    };
    return HARNESS_RUN_ALONE(tests);
}

#include "corpus/holdout.h"

#include <math.h>

#include "base/status.h"

bool holdout_takes(uint64_t unit, double fraction) {
    static const uint64_t golden = 0x9e3779b97f4a7c15; /* of 2^64, the fractional part */
    return ldexp((double)((unit + 1) * golden >> 11), -53) < fraction;
}

static shards *part_of(const holdout *h) {
    return holdout_takes(h->unit, h->fraction) ? h->val : h->train;
}

static trine_status add_blocks(holdout *h, const int32_t *ids, size_t count) {
    while (count) {
        size_t room = HOLDOUT_BLOCK - h->filled, now = count < room ? count : room;
        TRY(shards_add(part_of(h), ids, now));
        ids += now;
        count -= now;
        h->filled = (h->filled + now) % HOLDOUT_BLOCK;
        if (!h->filled) h->unit++;
    }
    return TRINE_OK;
}

trine_status holdout_add(holdout *h, const int32_t *ids, size_t count, bool ends) {
    if (h->blocks) return add_blocks(h, ids, count);
    TRY(shards_add(part_of(h), ids, count));
    if (ends) h->unit++;
    return TRINE_OK;
}

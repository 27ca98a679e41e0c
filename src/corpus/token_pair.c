#include "corpus/token_pair.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/status.h"

trine_status token_pair_open(token_pair *p, const char *prefix, const shards *like, bool val) {
    *p = (token_pair){.train = *like, .val = *like};
    TRY(name_lock_take(&p->lock, "--out", prefix));
    TRY(shards_open(&p->train, prefix, "train"));
    if (val) return shards_open(&p->val, prefix, "val");
    return shards_expect_none(prefix, "val", "--val-fraction 0 writes no validation file");
}

/* An earlier run's validation file goes before the new training files come. */
static trine_status remove_earlier(const shards *s) {
    char path[SHARD_PATH];
    snprintf(path, sizeof path, "%s.bin", s->stem);
    CHECK(!s->complete_count || !unlink(path) || errno == ENOENT, TRINE_EIO,
          "%s: cannot remove the earlier file: %s", path, strerror(errno));
    return TRINE_OK;
}

static trine_status publish(token_pair *p) {
    TRY(remove_earlier(&p->val));
    TRY(shards_publish(&p->train));
    trine_status status = shards_publish(&p->val);
    if (status != TRINE_OK) shards_withdraw(&p->train);
    return status;
}

/* A signal ends the program before all files have their names, or after. */
trine_status token_pair_publish(token_pair *p) {
    TRY(shards_complete(&p->train));
    TRY(shards_complete(&p->val));
    ending_hold();
    trine_status status = publish(p);
    if (status == TRINE_OK) ending_done();
    ending_release();
    return status;
}

void token_pair_discard(token_pair *p) {
    shards_discard(&p->train);
    shards_discard(&p->val);
    name_lock_release(&p->lock);
}

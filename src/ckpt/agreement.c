#include "ckpt/agreement.h"

#include <stdio.h>

#include "base/c_locale.h"
#include "base/status.h"

int agreement_rank(const agreement *c) {
    return trine_comm_rank(c->world);
}

/* Names a rank other than 0, with its host: lower ranks did not see the fault. */
static void keep_reason(agreement *c) {
    int rank = agreement_rank(c);
    snprintf(c->reason, sizeof c->reason, "%s", status_message());
    if (rank)
        c_append(c->reason, sizeof c->reason, " (rank %d, on %s)", rank,
                 comm_host_names(comm_world(c->world))[rank]);
    status_clear();
}

trine_status agreement_reach(agreement *c, trine_status mine, trine_status *all) {
    int size = trine_comm_size(c->world);
    int64_t fault = mine == TRINE_OK ? 0 : (int64_t)(size - agreement_rank(c)) << 8 | (int64_t)mine;
    if (mine != TRINE_OK) keep_reason(c);
    TRY(trine_all_reduce(c->world, &fault, &fault, 1, TRINE_I64, TRINE_MAX));
    *all = (trine_status)(fault & 0xff);
    if (*all == TRINE_OK) return TRINE_OK;
    return trine_broadcast(c->world, c->reason, sizeof c->reason, TRINE_U8,
                           size - (int)(fault >> 8));
}

trine_status agreement_raise(const agreement *c, trine_status status) {
    if (agreement_rank(c)) return status;
    return status_user(RAISE(status, "%s", c->reason));
}

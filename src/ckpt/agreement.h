/* A fault of one rank is reported on all: by the lowest rank that has one, with its host. */
#ifndef TRINE_CKPT_AGREEMENT_H
#define TRINE_CKPT_AGREEMENT_H

#include "comm/api/comm.h"

#define AGREEMENT_REASON 1024 /* bytes */

typedef struct {
    trine_comm *world;
    char reason[AGREEMENT_REASON]; /* of the last failure; the same on every rank */
} agreement;

/* Pure. */
int agreement_rank(const agreement *c);

/* *all = the status of the lowest rank that failed, whose message is in c->reason; it is not raised
 * yet (agreement_raise). Errors: the collectives' own. Collective over: world. */
trine_status agreement_reach(agreement *c, trine_status mine, trine_status *all);

/* Raises the agreed status; only rank 0 has the message, so it is printed once. */
trine_status agreement_raise(const agreement *c, trine_status status);

#endif

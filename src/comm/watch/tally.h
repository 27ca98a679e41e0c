/* Counts calls and bytes. */
#ifndef TRINE_COMM_WATCH_TALLY_H
#define TRINE_COMM_WATCH_TALLY_H

#include "comm/group/group.h"

void tally_count(trine_comm *comm, const comm_call *call);
bool tally_kind_has_root(trine_tally_kind kind);

#endif

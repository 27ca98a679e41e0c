/* Audit mode: compares calls over a group. */
#ifndef TRINE_COMM_API_AUDIT_H
#define TRINE_COMM_API_AUDIT_H

#include "comm/group/group.h"

/* Compares `call` over the group; one all-gather. Collective over: comm. */
trine_status audit_compare(trine_comm *comm, const comm_call *call);

#endif

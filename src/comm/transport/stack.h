/* Which tables the bytes of a group pass. */
#ifndef TRINE_COMM_TRANSPORT_STACK_H
#define TRINE_COMM_TRANSPORT_STACK_H

#include "comm/group/group.h"

/* Makes comm->transport of what the group has now: to be called when that has changed. Not collective. */
void stack_build(trine_comm *comm);

#endif

/* The transport tables of a group. */
#ifndef TRINE_COMM_TRANSPORT_STACK_H
#define TRINE_COMM_TRANSPORT_STACK_H

#include "comm/group/group.h"

/* Sets comm->transport from the state of the group; to be called whenever that has changed. Not collective. */
void stack_build(trine_comm *comm);

#endif

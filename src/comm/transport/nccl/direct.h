/* The table of a group whose far buffers NCCL moves. */
#ifndef TRINE_COMM_TRANSPORT_NCCL_DIRECT_H
#define TRINE_COMM_TRANSPORT_NCCL_DIRECT_H

#include "comm/group/group.h"

const comm_transport *direct_over(const trine_comm *comm, const comm_transport *inner);

#endif

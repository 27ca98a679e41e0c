/* The table of a group whose device buffers NCCL moves. */
#ifndef TRINE_COMM_TRANSPORT_NCCL_NCCL_TRANSPORT_H
#define TRINE_COMM_TRANSPORT_NCCL_NCCL_TRANSPORT_H

#include "comm/group/group.h"

const comm_transport *nccl_call_over(const trine_comm *comm, const comm_transport *inner);

#endif

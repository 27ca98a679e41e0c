/* The transport of a group of one. */
#ifndef TRINE_COMM_TRANSPORT_SELF_SELF_H
#define TRINE_COMM_TRANSPORT_SELF_SELF_H

#include "comm/transport/transport.h"

extern const comm_transport self_transport;

#endif

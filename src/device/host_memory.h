/* The host's memory, for devices that compute on processors. Buffers are anonymous mappings: zero
 * without a pass over them, and given back to the system when they are freed. */
#ifndef TRINE_DEVICE_HOST_MEMORY_H
#define TRINE_DEVICE_HOST_MEMORY_H

#include "device/device.h"

extern const device_memory host_memory;

#endif

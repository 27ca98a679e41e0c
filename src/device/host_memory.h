/* Host memory, for devices that run on CPUs. Buffers are anonymous mappings, which are zero without a
 * pass over them and are returned to the system when they are freed. */
#ifndef TRINE_DEVICE_HOST_MEMORY_H
#define TRINE_DEVICE_HOST_MEMORY_H

#include "device/device.h"

extern const device_memory host_memory;

#endif

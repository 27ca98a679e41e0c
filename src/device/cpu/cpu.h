#ifndef TRINE_DEVICE_CPU_CPU_H
#define TRINE_DEVICE_CPU_CPU_H
#include "device/ops.h"
trine_status cpu_open(device *d);
void cpu_close(device *d);
#endif

#include "device/cpu/element/element.h"

#define ROW(op, ...) .op = CPU(op),

const ops CPU(ops) = {OPS_LIST(ROW, NONE) ROW(attention_workspace)};

#include "device/ref/ref.h"

#define ROW(op, ...) .op = ref_##op,

const ops ops_ref = {OPS_LIST(ROW, ROW) ROW(attention_workspace)};

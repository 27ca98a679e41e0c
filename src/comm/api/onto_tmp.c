#include "base/status.h"
#include "comm/api/comm.h"
trine_status comm_reduce_scatter_onto_start(trine_comm *c, void *dst, const void *src, size_t n, trine_dtype t, comm_request *q) {
    ASSERT(trine_comm_size(c) == 1 && t == TRINE_F32);
    float *d = dst; const float *s = src;
    for (size_t i = 0; i < n; i++) d[i] += s[i];
    *q = (comm_request){.comm = c};
    return TRINE_OK;
}

#include "base/status.h"
#include "tp/tp.h"

static trine_status sum(const tp_region *r, void *x, size_t count) {
    return trine_all_reduce(r->comm, x, x, count, r->dev->compute, TRINE_SUM);
}

trine_status tp_enter_backward(const tp_region *r, void *dx, size_t count) {
    TRY(sum(r, dx, count));
    return TRINE_OK;
}

trine_status tp_leave_forward(const tp_region *r, void *y, size_t count) {
    TRY(sum(r, y, count));
    return TRINE_OK;
}

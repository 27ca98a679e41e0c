/* A device that counts instead of computing: its table is made from OPS_LIST, as the timed device's is
 * (profile/timed_device.h), and each call of an operator, of a copy or fill, and each collective of a counting
 * group becomes an event of a trace, in the order of the calls. What runs on it are the model's own lists, so that
 * a family, recomputation or a new layer needs no second formula.
 *
 * Its memory cannot be read or written: pointers are addresses only. */
#ifndef TRINE_COST_COUNT_DEVICE_H
#define TRINE_COST_COUNT_DEVICE_H

#include "comm/api/count.h"
#include "device/ops.h"

/* What an event is: an operator of ops.h, or one of those behind. */
typedef enum {
#define COUNT_ENUM(name, ...) COUNT_##name,
    OPS_LIST(COUNT_ENUM, COUNT_ENUM)
#undef COUNT_ENUM
    COUNT_copy,
    COUNT_zero,
    COUNT_collective,
    COUNTED
} counted;

/* A product of matrices, `batch` times (rows, depth) by (depth, columns). */
typedef struct {
    size_t batch, rows, columns, depth;
} count_product;

typedef struct {
    counted what;
    /* By the row of OPS_LIST: one of the two, flops for a product and for attention, else bytes. */
    double flops, bytes;
    count_product product; /* of a linear layer's operator: the product; of attention: that of q and k */
    bool adds, biased;     /* linear_backward_weight: dw is added to; it computes dbias */
    /* COUNT_collective */
    trine_tally_kind kind;
    double sent; /* bytes that a rank sends (comm_bytes) */
    double moved; /* bytes of the whole buffer */
    bool started; /* the wait for it comes behind the next product of the trace */
    double seconds; /* on a clock_device; else 0 */
} count_event;

typedef struct {
    count_event *at; /* owned */
    int count, capacity;
    int tp;          /* ranks of the counting group */
} count_trace;

typedef struct {
    device device; /* passed to the operators */
    ops table;     /* device's: without the operators that the inner device lacks */
    device_memory memory;
    count_trace *trace; /* of the events from now on; not owned */
} count_device;

/* Sets up d->device with the kind, types and sizes of `inner`, which may be a device for sizes and must outlive
 * it. `d` must not be moved. There is nothing to close. Not collective. */
void count_device_init(count_device *d, const device *inner, count_trace *trace);

/* A comm_count_call that appends to the trace `context`. */
trine_status count_collective(void *context, trine_tally_kind kind, size_t count, trine_dtype type, bool started);

void count_trace_destroy(count_trace *t);
/* The sums over all events. Pure. */
double count_flops(const count_trace *t);
double count_bytes(const count_trace *t);
double count_sent(const count_trace *t);

/* "linear_forward". Pure. */
const char *count_text(counted what);

#endif

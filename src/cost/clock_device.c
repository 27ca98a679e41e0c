#include "cost/clock_device.h"

#include "base/clock.h"
#include "base/status.h"

/* The last event has taken the time since then. */
static trine_status finish(clock_device *c, uint64_t since) {
    count_trace *t = c->counter.trace;
    TRY(device_wait(c->inner));
    if (t->count) t->at[t->count - 1].seconds = 1e-9 * (double)(clock_ns() - since);
    return TRINE_OK;
}

#define CLOCK(op, unit, work, takes, names)                                                        \
    static trine_status clock_##op(device *d, OPS_PLAIN takes) {                                   \
        clock_device *c = d->state;                                                                \
        TRY(c->counter.table.op(&c->counter.device, OPS_PLAIN names));                             \
        uint64_t since = clock_ns();                                                               \
        TRY(c->inner->ops->op(c->inner, OPS_PLAIN names));                                         \
        return finish(c, since);                                                                   \
    }

OPS_LIST(CLOCK, CLOCK)

static ops table_of(const ops *counts) {
#define ROW(op, ...) .op = counts->op ? clock_##op : NULL,
    return (ops){OPS_LIST(ROW, ROW).attention_workspace = counts->attention_workspace};
#undef ROW
}

/* Errors in a queue are met again by the next operator. */
static void clock_copy(device *d, void *dst, const void *src, size_t bytes) {
    clock_device *c = d->state;
    device_copy(&c->counter.device, dst, src, bytes);
    uint64_t since = clock_ns();
    device_copy(c->inner, dst, src, bytes);
    (void)finish(c, since);
}

static void clock_zero(device *d, void *dst, size_t bytes) {
    clock_device *c = d->state;
    device_zero(&c->counter.device, dst, bytes);
    uint64_t since = clock_ns();
    device_zero(c->inner, dst, bytes);
    (void)finish(c, since);
}

void clock_device_init(clock_device *c, device *inner, count_trace *trace) {
    *c = (clock_device){.device = *inner, .inner = inner};
    count_device_init(&c->counter, inner, trace);
    c->table = table_of(&c->counter.table);
    c->memory =
        (device_memory){.host = inner->memory->host, .copy = clock_copy, .zero = clock_zero};
    c->device.ops = &c->table;
    c->device.memory = &c->memory;
    c->device.state = c;
}

#include "profile/timed_device.h"

#include "base/clock.h"
#include "device/ops.h"
#include "device/work.h"
#include "profile/spans.h"

static const struct {
    const char *text;
    device_work work;
} timed[DEVICE_TIMED] = {
#define TIMED_ROW(name, unit, ...) {#name, WORK_##unit},
    OPS_LIST(TIMED_ROW, TIMED_ROW) TIMED_ROW(copy, BYTES) TIMED_ROW(zero, BYTES)
#undef TIMED_ROW
};

const char *device_timed_text(device_timed which) {
    return timed[which].text;
}

device_work device_timed_work(device_timed which) {
    return timed[which].work;
}

static uint64_t begin(device_profile *p) {
    if (p->spans) spans_before(p->spans);
    return clock_ns();
}

static void note(device_profile *p, device_timed which, uint64_t since, uint64_t work) {
    uint64_t ns = clock_ns() - since;
    if (p->spans) spans_behind(p->spans, which);
    p->times[which].calls++;
    p->times[which].ns += ns;
    p->times[which].work += work;
    p->ns += ns;
}

/* Waits for an operator that may return before it is complete, unless marks around it measure its time. */
static trine_status finish(device_profile *p) {
    return p->inner->memory->host || p->spans ? TRINE_OK : device_wait(p->inner);
}

/* ---- Operators ------------------------------------------------------------------------------- */

#define TIMED(op, unit, work, takes, names)                                                        \
    static trine_status timed_##op(device *d, OPS_PLAIN takes) {                                   \
        device_profile *p = d->state;                                                              \
        uint64_t since = begin(p);                                                                 \
        trine_status status = p->inner->ops->op(p->inner, OPS_PLAIN names);                        \
        if (status == TRINE_OK) status = finish(p);                                                \
        note(p, TIMED_##op, since, (work));                                                        \
        return status;                                                                             \
    }

OPS_LIST(TIMED, TIMED)

static size_t timed_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t K,
                                        size_t D) {
    const device_profile *p = d->state;
    return p->inner->ops->attention_workspace(p->inner, B, T, H, K, D);
}

/* Operators missing in the inner device are missing here. */
static ops timed_ops(const ops *inner) {
#define ROW(op, ...)  .op = timed_##op,
#define LACK(op, ...) .op = inner->op ? timed_##op : NULL,
    return (ops){OPS_LIST(ROW, LACK) ROW(attention_workspace)};
#undef ROW
#undef LACK
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static trine_status timed_alloc(device *d, void **p, size_t bytes) {
    return device_alloc(((device_profile *)d->state)->inner, p, bytes);
}

static void timed_free(device *d, void *p, size_t bytes) {
    device_free(((device_profile *)d->state)->inner, p, bytes);
}

static void timed_copy(device *d, void *dst, const void *src, size_t bytes) {
    device_profile *p = d->state;
    uint64_t since = begin(p);
    device_copy(p->inner, dst, src, bytes);
    (void)finish(p); /* an error in the queue is returned again by the next operator */
    note(p, TIMED_copy, since, 2 * bytes);
}

static void timed_zero(device *d, void *dst, size_t bytes) {
    device_profile *p = d->state;
    uint64_t since = begin(p);
    device_zero(p->inner, dst, bytes);
    (void)finish(p);
    note(p, TIMED_zero, since, bytes);
}

static trine_status timed_read(device *d, void *host, const void *src, size_t bytes) {
    return device_read(((device_profile *)d->state)->inner, host, src, bytes);
}

static trine_status timed_read_rows(device *d, void *host, const void *src, size_t stride,
                                    size_t bytes, size_t rows) {
    return device_read_rows(((device_profile *)d->state)->inner, host, src, stride, bytes, rows);
}

static trine_status timed_write(device *d, void *dst, const void *host, size_t bytes) {
    return device_write(((device_profile *)d->state)->inner, dst, host, bytes);
}

static trine_status timed_write_start(device *d, void *dst, const void *host, size_t bytes) {
    return device_write_start(((device_profile *)d->state)->inner, dst, host, bytes);
}

static trine_status timed_wait(device *d) {
    return device_wait(((device_profile *)d->state)->inner);
}

static const device_memory timed_memory = {
    .alloc = timed_alloc,
    .free = timed_free,
    .copy = timed_copy,
    .zero = timed_zero,
    .read = timed_read,
    .read_rows = timed_read_rows,
    .write = timed_write,
    .write_start = timed_write_start,
    .wait = timed_wait,
};

void device_profile_init(device_profile *p, device *inner) {
    *p = (device_profile){.device = *inner, .inner = inner};
    p->table = timed_ops(inner->ops);
    p->device.ops = &p->table;
    p->memory = timed_memory;
    p->memory.host = inner->memory->host;
    p->device.memory = &p->memory;
    p->device.state = p;
}

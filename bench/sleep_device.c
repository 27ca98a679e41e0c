#include "sleep_device.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"

/* A pass that starts this soon after the previous one has waited for nothing. */
#define SOON_NS 300000

static void sleep_for(device *d, sleep_part part) {
    sleep_device *s = d->state;
    uint64_t now = clock_ns(), from = now - s->deadline < SOON_NS ? s->deadline : now;
    s->deadline = from + s->ns[part];
    struct timespec until = {(time_t)(s->deadline / 1000000000), (long)(s->deadline % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
    s->late += clock_ns() - s->deadline;
    s->calls[part]++;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static trine_status nothing(const device *d, ...) {
    (void)d;
    return TRINE_OK;
}

#define IDLE(op, unit, work, takes, names)                                                         \
    static trine_status idle_##op(device *d, OPS_PLAIN takes) {                                    \
        return nothing(d, OPS_PLAIN names);                                                        \
    }

OPS_LIST(IDLE, IDLE)

static trine_status sleep_attention_forward(device *d, void *y, float *lse, const void *qkv,
                                            const int32_t *starts, void *work,
                                            const dropout_args *drop, size_t B, size_t T, size_t H,
                                            size_t K, size_t D) {
    sleep_for(d, SLEEP_FORWARD);
    return idle_attention_forward(d, y, lse, qkv, starts, work, drop, B, T, H, K, D);
}

static trine_status sleep_attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                             const void *y, const float *lse, const int32_t *starts,
                                             void *work, const dropout_args *drop, size_t B,
                                             size_t T, size_t H, size_t K, size_t D) {
    sleep_for(d, SLEEP_INPUT);
    return idle_attention_backward(d, dqkv, dy, qkv, y, lse, starts, work, drop, B, T, H, K, D);
}

static trine_status sleep_linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                                 const void *x, size_t T, size_t N, size_t K,
                                                 grad_mode mode) {
    if (N == 4 * K) sleep_for(d, SLEEP_WEIGHT);
    return idle_linear_backward_weight(d, dw, dbias, dy, x, T, N, K, mode);
}

static size_t no_workspace(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D) {
    (void)d, (void)B, (void)T, (void)H, (void)K, (void)D;
    return 0;
}

/* Operators missing in the inner device are missing here. */
static ops table_of(const ops *inner) {
#define ROW(op, ...)  .op = idle_##op,
#define LACK(op, ...) .op = inner->op ? idle_##op : NULL,
    ops table = {OPS_LIST(ROW, LACK).attention_workspace = no_workspace};
#undef ROW
#undef LACK
    table.attention_forward = sleep_attention_forward;
    table.attention_backward = sleep_attention_backward;
    table.linear_backward_weight = sleep_linear_backward_weight;
    return table;
}

void sleep_device_init(sleep_device *d, const device *inner, const double seconds[SLEEPS]) {
    *d = (sleep_device){.device = *inner, .table = table_of(inner->ops)};
    d->device.ops = &d->table;
    d->device.state = d;
    for (int n = 0; n < SLEEPS; n++) d->ns[n] = (uint64_t)(1e9 * seconds[n]);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* wakes at the deadline, not up to 50 us later */
}

double sleep_device_busy(const sleep_device *d) {
    double ns = 0;
    for (int n = 0; n < SLEEPS; n++) ns += (double)(d->calls[n] * d->ns[n]);
    return 1e-9 * ns;
}

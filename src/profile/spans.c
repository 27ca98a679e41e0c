#include "profile/spans.h"

#include <stdlib.h>

#include "base/status.h"
#include "device/cuda_open.h"

/* The marks: begin, then two per operator, then end. */
static int mark_before(int n) {
    return 1 + 2 * n;
}

static int mark_after(int n) {
    return 2 + 2 * n;
}

trine_status spans_create(device_spans **out, device *d, int capacity) {
    device_spans *s = *out = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for the spans of operators");
    s->measure = cuda_measures(d);
    ASSERT(s->measure && capacity > 0);
    s->capacity = capacity;
    s->which = calloc((size_t)capacity, sizeof *s->which);
    trine_status status =
        s->which ? s->measure->marks_create(d, &s->marks, mark_before(capacity) + 1)
                 : RAISE(TRINE_ENOMEM, "no memory for the spans of %d operators", capacity);
    if (status != TRINE_OK) spans_destroy(out);
    return status;
}

void spans_destroy(device_spans **s) {
    if (!*s) return;
    if ((*s)->marks) (*s)->measure->marks_destroy(&(*s)->marks);
    free((*s)->which);
    free(*s);
    *s = NULL;
}

static void mark(device_spans *s, int i) {
    if (s->status == TRINE_OK) s->status = s->measure->mark(s->marks, i);
}

trine_status spans_begin(device_spans *s) {
    s->count = s->lost = s->starved = 0;
    s->status = TRINE_OK;
    mark(s, 0);
    return s->status;
}

void spans_before(device_spans *s) {
    if (s->count == s->capacity) return;
    if (s->count > 0 && s->status == TRINE_OK)
        s->starved += s->measure->passed(s->marks, mark_after(s->count - 1));
    mark(s, mark_before(s->count));
}

void spans_behind(device_spans *s, device_timed which) {
    if (s->count == s->capacity) {
        s->lost++;
        return;
    }
    mark(s, mark_after(s->count));
    s->which[s->count++] = which;
}

static trine_status add_gap(const device_spans *s, int from, int to, spans_sum *sum, int kind) {
    double seconds;
    TRY(s->measure->between(s->marks, from, to, &seconds));
    sum->gap[kind] += seconds;
    sum->gaps += seconds;
    return TRINE_OK;
}

static trine_status add_operator(const device_spans *s, int n, spans_sum *sum) {
    int before = n > 0 ? mark_after(n - 1) : 0;
    double seconds;
    TRY(add_gap(s, before, mark_before(n), sum, (int)s->which[n]));
    TRY(s->measure->between(s->marks, mark_before(n), mark_after(n), &seconds));
    sum->span[s->which[n]] += seconds;
    sum->operators += seconds;
    return TRINE_OK;
}

trine_status spans_end(device_spans *s, spans_sum *sum) {
    int end = mark_before(s->count);
    mark(s, end);
    *sum = (spans_sum){.count = s->count, .starved = s->starved};
    TRY(s->status);
    CHECK(!s->lost, TRINE_EINVAL,
          "the step has %d operators, but there is memory for the spans of %d", s->count + s->lost,
          s->capacity);
    TRY(s->measure->between(s->marks, 0, end, &sum->step));
    for (int n = 0; n < s->count; n++) TRY(add_operator(s, n, sum));
    return add_gap(s, s->count ? mark_after(s->count - 1) : 0, end, sum, DEVICE_TIMED);
}

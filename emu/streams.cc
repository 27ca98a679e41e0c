/* Streams and events: the engine that emu.h describes. */
#include "emu.h"
#include "races.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

/* Operations that a query may run. */
#define MANY 200

enum op_kind { RUN, POLL, HOST, RECORD, WAIT };

/* The result of one cudaEventRecord: waits refer to it, even if the event is recorded again. */
struct record {
    bool done;
    int owners;
    double seconds; /* when it was reached */
    emu_stream *stream;
    uint64_t number; /* its index in the stream */
    emu_clock clock; /* of the stream when it was reached */
};

struct operation {
    op_kind kind;
    emu_run_fn run;
    emu_step_fn step;
    void *context;
    record *at;     /* of RECORD and WAIT */
    emu_clock host; /* what the host had waited for */
    uint32_t races; /* its number there; 0: it has not run */
    operation *next;
};

struct emu_stream {
    unsigned flags;
    bool destroyed;
    operation *first, *last;
    uint64_t enqueued, done;
    uint32_t number; /* of streams made before */
    emu_clock clock;
    emu_stream *next;
};

struct emu_event {
    unsigned flags;
    bool destroyed;
    record *latest; /* NULL before the first cudaEventRecord */
    emu_event *next;
};

/* Destroyed streams and events stay in the lists, so that their use is detected. */
static emu_stream legacy;
static emu_stream *streams = &legacy;
static emu_event *events;
static uint64_t operations, fail_at;
static cudaError_t fail_with, sticky;
static bool running;
static emu_clock host; /* operations that the host has waited for */

cudaError_t emu_sticky(void) {
    return sticky;
}

uint64_t emu_operations(void) {
    return operations;
}

size_t emu_pending(void) {
    size_t n = 0;
    for (emu_stream *s = streams; s; s = s->next) n += s->enqueued - s->done;
    return n;
}

void emu_fail(uint64_t n, cudaError_t error) {
    fail_at = n ? operations + n : 0;
    fail_with = error;
    if (n == 0) sticky = cudaSuccess;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static void release(record *r) {
    if (--r->owners == 0) delete r;
}

static operation *append(emu_stream *s, op_kind kind) {
    operation *op = new operation();
    op->kind = kind;
    if (emu_races_on()) op->host = host;
    if (s->last)
        s->last->next = op;
    else
        s->first = op;
    s->last = op;
    s->enqueued++;
    return op;
}

static record *add_record(emu_stream *s) {
    operation *op = append(s, RECORD);
    record *r = new record{false, 1, 0, s, s->enqueued, {}};
    op->at = r;
    return r;
}

static void add_wait(emu_stream *s, record *r) {
    if (r->done && !emu_races_on()) return;
    append(s, WAIT)->at = r;
    r->owners++;
}

/* What is done is before; races are also looked for among what is done. */
static bool may_matter(const emu_stream *s) {
    return s->first || emu_races_on();
}

/* The legacy stream and the blocking streams are ordered with each other. */
static void order_with_legacy(emu_stream *s) {
    if (s != &legacy) {
        if (!(s->flags & cudaStreamNonBlocking) && may_matter(&legacy))
            add_wait(s, add_record(&legacy));
        return;
    }
    for (emu_stream *other = streams; other; other = other->next)
        if (other != &legacy && !(other->flags & cudaStreamNonBlocking) && may_matter(other))
            add_wait(&legacy, add_record(other));
}

static emu_stream *stream_of(cudaStream_t stream) {
    if (!stream) return &legacy;
    if (stream->destroyed) emu_fault("use of a destroyed stream");
    return stream;
}

static operation *add(cudaStream_t stream, op_kind kind, void *context) {
    emu_stream *s = stream_of(stream);
    if (running) emu_fault("a host function in a stream calls CUDA");
    order_with_legacy(s);
    operation *op = append(s, kind);
    op->context = context;
    return op;
}

void emu_enqueue(cudaStream_t stream, emu_run_fn run, void *context) {
    add(stream, RUN, context)->run = run;
}

void emu_enqueue_poll(cudaStream_t stream, emu_step_fn step, void *context) {
    add(stream, POLL, context)->step = step;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    if (sticky != cudaSuccess) return emu_error(sticky);
    add(stream, HOST, context)->run = function;
    return cudaSuccess;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void call_host(operation *op) {
    emu_memory_close();
    op->run(op->context);
    emu_memory_open();
}

/* Whether the operation is done now. */
static bool run(emu_stream *s, operation *op) {
    if (emu_races_on()) emu_clock_join(&s->clock, op->host);
    if (emu_races_on() && op->kind <= HOST)
        op->races = emu_races_operation(op->races, s->number, &s->clock);
    switch (op->kind) {
    case RUN: op->run(op->context); return true;
    case POLL: return op->step(op->context);
    case HOST: call_host(op); return true;
    case WAIT:
        if (op->at->done) emu_clock_join(&s->clock, op->at->clock);
        return op->at->done;
    case RECORD:
        op->at->done = true;
        op->at->clock = s->clock;
        op->at->seconds = now();
        return true;
    }
    return true;
}

static void remove_first(emu_stream *s) {
    operation *op = s->first;
    s->first = op->next;
    if (!s->first) s->last = NULL;
    s->done++;
    if (op->at) release(op->at);
    delete op;
}

/* The stream whose first operation blocks the first one of s. */
static emu_stream *blocking_stream(emu_stream *s) {
    while (s->first && s->first->kind == WAIT && !s->first->at->done) s = s->first->at->stream;
    return s;
}

/* Runs the first operation of s, or of the stream that s waits for; false: it is polled and not done. */
static bool step(emu_stream *s) {
    s = blocking_stream(s);
    if (!s->first) return false;
    if (fail_at && s->first->kind <= HOST && operations + 1 == fail_at) {
        sticky = fail_with;
        return true;
    }
    running = true;
    bool done = run(s, s->first);
    running = false;
    if (!done) return false;
    if (s->first->kind <= HOST) operations++;
    remove_first(s);
    return true;
}

static emu_stream *any_stream(void) {
    uint32_t n = 0;
    for (emu_stream *s = streams; s; s = s->next) n += s->first != NULL;
    if (n == 0) return NULL;
    uint32_t left = emu_random(n);
    for (emu_stream *s = streams; s; s = s->next)
        if (s->first && left-- == 0) return s;
    return NULL;
}

/* One step of every stream; returns whether any made progress. */
static bool step_all(void) {
    bool any = false;
    for (emu_stream *s = streams; s && sticky == cudaSuccess; s = s->next)
        if (s->first) any |= step(s);
    return any;
}

static void enter(void) {
    static bool asked;
    if (!asked && !fail_at && emu_setting("FAIL", 0))
        emu_fail(emu_setting("FAIL", 0), cudaErrorIllegalAddress);
    asked = true;
    emu_memory_open();
}

void emu_give_way(unsigned vain) {
    const struct timespec nap = {0, 50000};
    if (vain > 64)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

/* Runs the stream up to its operation `number`. At random, runs only what is needed, or also other operations. Polled
 * operations may depend on each other and on other processes: without progress it yields the CPU. */
static cudaError_t run_until(emu_stream *s, uint64_t number) {
    if (sticky != cudaSuccess || s->done >= number) return sticky;
    if (running) emu_fault("a host function in a stream waits for CUDA");
    enter();
    bool wild = emu_random(2);
    for (unsigned vain = 0; s->done < number && sticky == cudaSuccess;) {
        emu_stream *pick = wild && emu_random(2) ? any_stream() : s;
        if (step(pick) || step_all())
            vain = 0;
        else
            emu_give_way(vain++);
    }
    emu_memory_close();
    return sticky;
}

/* Runs a few operations, or many: repeated queries must make progress, and not too slowly. */
static void run_some(void) {
    if (sticky != cudaSuccess) return;
    enter();
    for (uint32_t n = emu_random(2) ? emu_random(4) : MANY; n > 0 && sticky == cudaSuccess; n--) {
        emu_stream *s = any_stream();
        if (!s || (!step(s) && !step_all())) break;
    }
    emu_memory_close();
}

cudaError_t emu_drain_stream(cudaStream_t stream) {
    emu_stream *s = stream_of(stream);
    cudaError_t error = run_until(s, s->enqueued);
    emu_clock_join(&host, s->clock);
    return error;
}

cudaError_t emu_drain(void) {
    for (emu_stream *s; sticky == cudaSuccess && (s = any_stream());) run_until(s, s->enqueued);
    for (emu_stream *s = streams; s; s = s->next) emu_clock_join(&host, s->clock);
    return emu_error(sticky);
}

bool emu_drain_within(double seconds) {
    double end = now() + seconds;
    while (sticky == cudaSuccess && emu_pending()) {
        if (now() > end) return false;
        run_some();
        sched_yield();
    }
    return true;
}

/* ---- Streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    *stream = NULL;
    if (sticky != cudaSuccess) return emu_error(sticky);
    if (flags & ~(unsigned)cudaStreamNonBlocking) return emu_error(cudaErrorInvalidValue);
    static uint32_t made;
    emu_stream *s = new emu_stream();
    s->flags = flags;
    s->number = ++made;
    s->next = legacy.next;
    legacy.next = s;
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream || stream->destroyed) return emu_error(cudaErrorInvalidResourceHandle);
    cudaError_t error = emu_drain_stream(stream);
    stream->destroyed = true;
    return emu_error(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (!stream) order_with_legacy(&legacy);
    emu_count("wait", "cudaStreamSynchronize", 0);
    return emu_error(emu_drain_stream(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    emu_stream *s = stream_of(stream);
    emu_count("wait", "cudaStreamQuery", 0);
    if (s->first) run_some();
    if (sticky != cudaSuccess) return emu_error(sticky);
    if (!s->first) emu_clock_join(&host, s->clock);
    return emu_error(s->first ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void) {
    return emu_drain();
}

/* ---- Events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    *event = NULL;
    if (sticky != cudaSuccess) return emu_error(sticky);
    emu_event *e = (emu_event *)calloc(1, sizeof *e);
    e->flags = flags;
    e->next = events;
    *event = events = e;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

static bool alive(const emu_event *e) {
    return e && !e->destroyed;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!alive(event)) return emu_error(cudaErrorInvalidResourceHandle);
    if (event->latest) release(event->latest);
    event->latest = NULL;
    event->destroyed = true;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (sticky != cudaSuccess) return emu_error(sticky);
    if (!alive(event)) return emu_error(cudaErrorInvalidResourceHandle);
    emu_stream *s = stream_of(stream);
    emu_count("event", "record", 0);
    order_with_legacy(s);
    if (event->latest) release(event->latest);
    event->latest = add_record(s);
    event->latest->owners++;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (sticky != cudaSuccess) return emu_error(sticky);
    if (!alive(event)) return emu_error(cudaErrorInvalidResourceHandle);
    emu_stream *s = stream_of(stream);
    emu_count("event", "wait", 0);
    if (event->latest) add_wait(s, event->latest);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (!alive(event)) return emu_error(cudaErrorInvalidResourceHandle);
    record *r = event->latest;
    if (r && !r->done) run_some();
    if (sticky != cudaSuccess) return emu_error(sticky);
    if (r && r->done) emu_clock_join(&host, r->clock);
    return emu_error(!r || r->done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (!alive(event)) return emu_error(cudaErrorInvalidResourceHandle);
    record *r = event->latest;
    cudaError_t error = !r || r->done ? sticky : run_until(r->stream, r->number);
    if (r && r->done) emu_clock_join(&host, r->clock);
    return emu_error(error);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (!alive(start) || !alive(end) || !start->latest || !end->latest ||
        ((start->flags | end->flags) & cudaEventDisableTiming))
        return emu_error(cudaErrorInvalidResourceHandle);
    if (!start->latest->done || !end->latest->done) return emu_error(cudaErrorNotReady);
    *milliseconds = (float)(1e3 * (end->latest->seconds - start->latest->seconds));
    return emu_error(sticky);
}

/* TEST np=0 */
/* Emulated streams: they run lazily, and only events determine their order. Each case
 * that is correct for all seeds has a counterpart that lacks something and is wrong for some. */
#include <stdlib.h>

#include "deaths.h"

#define SEEDS 100
#define N     1000

static cudaStream_t a, b;
static cudaEvent_t event;
static float *x, *y, *pinned;

static int set_up(void **state) {
    (void)state;
    a = new_stream();
    b = new_stream();
    x = new_memory(N * sizeof *x);
    y = new_memory(N * sizeof *y);
    assert_int_equal(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0), cudaSuccess);
    return cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess;
}

static int tear_down(void **state) {
    (void)state;
    return cudaStreamDestroy(a) || cudaStreamDestroy(b) || cudaEventDestroy(event) || cudaFree(x) ||
           cudaFree(y) || cudaFreeHost(pinned) || cudaGetLastError();
}

static float first(const float *p) {
    float value;
    look(&value, p, sizeof value);
    return value;
}

/* ---- Late ------------------------------------------------------------------------------------ */

static void nothing_runs_before_it_is_needed(void **state) {
    (void)state;
    uint64_t before = emu_operations();
    launch_fill(a, x, 1, N);
    launch_fill(b, y, 2, N);
    assert_int_equal(emu_operations(), before);
    assert_int_equal(emu_pending(), 2);
    assert_int_equal(cudaStreamSynchronize(a), cudaSuccess);
    assert_in_range(emu_pending(), 0, 1);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(emu_pending(), 0);
    assert_int_equal(emu_operations(), before + 2);
}

/* The host memory of a copy must not change until the copy is done. */
static void host_memory_is_read_when_the_copy_runs(void **state) {
    (void)state;
    pinned[0] = 1;
    cudaMemcpyAsync(x, pinned, sizeof *x, cudaMemcpyHostToDevice, a);
    pinned[0] = 2; /* too early */
    assert_true(first(x) == 2);
    pinned[0] = 3;
    cudaMemcpyAsync(x, pinned, sizeof *x, cudaMemcpyHostToDevice, a);
    cudaStreamSynchronize(a);
    pinned[0] = 4;
    assert_true(first(x) == 3);
}

static void host_memory_is_written_when_the_copy_runs(void **state) {
    (void)state;
    launch_fill(a, x, 5, N);
    pinned[0] = 0;
    cudaMemcpyAsync(pinned, x, sizeof *x, cudaMemcpyDeviceToHost, a);
    assert_true(pinned[0] == 0);
    cudaStreamSynchronize(a);
    assert_true(pinned[0] == 5);
}

/* ---- Events ---------------------------------------------------------------------------------- */

typedef enum { WAITS, DOES_NOT } waiting;

/* Stream a computes x, stream b adds it to y, stream a may then overwrite x. Returns how often y is wrong. */
static int wrong(waiting for_writer, waiting for_reader) {
    int count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emu_seed(seed);
        launch_fill(b, y, 10, N);
        launch_fill(a, x, 0, N);
        cudaDeviceSynchronize();
        launch_fill(a, x, 1, N);
        cudaEventRecord(event, a);
        if (for_writer == WAITS) cudaStreamWaitEvent(b, event, 0);
        launch_add(b, y, x, N);
        cudaEventRecord(event, b);
        if (for_reader == WAITS) cudaStreamWaitEvent(a, event, 0);
        launch_fill(a, x, 2, N);
        count += first(y) != 11;
    }
    return count;
}

static void events_order_streams(void **state) {
    (void)state;
    assert_int_equal(wrong(WAITS, WAITS), 0);
}

static void missing_events_show(void **state) {
    (void)state;
    assert_in_range(wrong(DOES_NOT, WAITS), SEEDS / 10, SEEDS * 9 / 10);
    assert_in_range(wrong(WAITS, DOES_NOT), SEEDS / 10, SEEDS * 9 / 10);
}

/* A wait is for the last record before the call, not for a later one; if the event was never recorded, it is for
 * nothing. */
static void a_wait_is_for_the_latest_record(void **state) {
    (void)state;
    cudaEvent_t other;
    cudaEventCreate(&other);
    cudaStreamWaitEvent(b, other, 0); /* never recorded */
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emu_seed(seed);
        launch_fill(a, x, 1, N);
        cudaEventRecord(event, a);
        cudaStreamWaitEvent(b, event, 0);
        cudaStreamWaitEvent(a, other, 0);
        launch_fill(b, y, 0, N);
        launch_add(b, y, x, N);
        cudaEventRecord(other, b);
        cudaStreamWaitEvent(a, other, 0);
        launch_fill(a, x, 2, N);
        cudaEventRecord(event, a); /* b waits for the first record; otherwise this is a cycle */
        cudaEventSynchronize(event);
        assert_true(first(y) == 1);
    }
    cudaEventDestroy(other);
}

static void events_are_asked_and_awaited(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emu_seed(seed);
        assert_int_equal(cudaEventQuery(event), cudaSuccess);
        launch_fill(a, x, (float)seed, N);
        cudaEventRecord(event, a);
        cudaError_t error;
        int asked = 0;
        while ((error = cudaEventQuery(event)) == cudaErrorNotReady && asked++ < 1000)
            assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
        assert_int_equal(error, cudaSuccess);
        assert_int_equal(cudaGetLastError(), cudaSuccess);
        cudaMemcpyAsync(pinned, x, sizeof *x, cudaMemcpyDeviceToHost, a);
        while (cudaStreamQuery(a) == cudaErrorNotReady) (void)cudaGetLastError();
        assert_true(pinned[0] == (float)seed);
    }
}

static void time_passes_between_events(void **state) {
    (void)state;
    cudaEvent_t start, end;
    float milliseconds = -1;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    cudaEventRecord(start, a);
    launch_fill(a, x, 1, N);
    cudaEventRecord(end, a);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
    cudaEventSynchronize(end);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    assert_true(milliseconds > 0);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, start, event),
                     cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
    cudaEventDestroy(start);
    cudaEventDestroy(end);
}

/* ---- The legacy stream ----------------------------------------------------------------------- */

/* How often a copy on the legacy stream misses an earlier fill on `stream`. */
static int unseen(cudaStream_t stream) {
    int count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float value;
        emu_seed(seed);
        launch_fill(stream, x, 1, N);
        cudaDeviceSynchronize();
        launch_fill(stream, x, 2, N);
        cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
        count += value != 2;
        cudaDeviceSynchronize();
    }
    return count;
}

static void the_legacy_stream_waits_for_blocking_ones(void **state) {
    (void)state;
    cudaStream_t blocking;
    assert_int_equal(cudaStreamCreate(&blocking), cudaSuccess);
    assert_int_equal(unseen(blocking), 0);
    assert_in_range(unseen(a), SEEDS / 10, SEEDS);
    cudaMemset(x, 0, sizeof *x);
    launch_add(blocking, y, x, 1); /* after the fill, without an event */
    launch_fill(NULL, x, 3, 1);
    launch_fill(blocking, y, 1, 1);
    launch_add(blocking, y, x, 1);
    assert_true(first(y) == 4);
    cudaStreamDestroy(blocking);
}

/* ---- Host functions and polled operations ---------------------------------------------------- */

static void note(void *context) {
    float **p = context;
    *(*p)++ = pinned[0];
}

static void host_functions_run_in_order(void **state) {
    (void)state;
    float seen[2] = {0, 0}, *at = seen;
    launch_fill(a, x, 1, N);
    cudaMemcpyAsync(pinned, x, sizeof *x, cudaMemcpyDeviceToHost, a);
    cudaLaunchHostFunc(a, note, &at);
    launch_fill(a, x, 2, N);
    cudaMemcpyAsync(pinned, x, sizeof *x, cudaMemcpyDeviceToHost, a);
    cudaLaunchHostFunc(a, note, &at);
    cudaStreamSynchronize(a);
    assert_true(seen[0] == 1 && seen[1] == 2);
}

typedef struct {
    int asked;
    const float *flag; /* device memory: done when it is 1 */
} poll;

static bool is_set(void *context) {
    poll *p = context;
    p->asked++;
    return *p->flag == 1.0f;
}

/* A polled operation waits for another stream, which must make progress. */
static void polled_operations_let_others_go_on(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        poll p = {0, x}, q = {0, y};
        emu_seed(seed);
        launch_fill(a, x, 0, 1);
        launch_fill(b, y, 0, 1);
        cudaDeviceSynchronize();
        emu_enqueue_poll(a, is_set, &p);
        launch_fill(a, y, 1, 1);
        launch_fill(b, x, 1, 1);
        emu_enqueue_poll(b, is_set, &q);
        launch_add(b, y, x, 1);
        assert_int_equal(cudaStreamSynchronize(a), cudaSuccess);
        assert_true(first(y) == 2);
        assert_in_range(p.asked, 1, 100);
        assert_in_range(q.asked, 1, 100);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* After an error all further operations fail. */
static void a_failed_operation_is_the_end(void **state) {
    (void)state;
    launch_fill(a, x, 1, N);
    emu_fail(2, cudaErrorIllegalAddress);
    launch_fill(a, x, 2, N);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(a), cudaErrorIllegalAddress);
    assert_int_equal(cudaMemcpy(pinned, x, 4, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
    assert_int_equal(cudaEventRecord(event, a), cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamQuery(a), cudaErrorIllegalAddress);
    void *p;
    assert_int_equal(cudaMalloc(&p, 4), cudaErrorIllegalAddress);
    launch_fill(a, x, 3, N);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_string_equal(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    emu_fail(0, cudaSuccess);
    (void)cudaGetLastError();
    assert_true(first(x) == 2);
}

static void use_a_dead_stream(void) {
    cudaStreamDestroy(a);
    launch_fill(a, x, 1, N);
}

static void call_cuda(void *context) {
    (void)context;
    launch_fill(a, x, 1, N);
}

static void call_cuda_in_a_stream(void) {
    cudaLaunchHostFunc(a, call_cuda, NULL);
    cudaStreamSynchronize(a);
}

static void handles_are_looked_at(void **state) {
    (void)state;
    cudaEvent_t gone;
    cudaEventCreate(&gone);
    cudaEventDestroy(gone);
    assert_int_equal(cudaEventRecord(gone, a), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaStreamWaitEvent(a, gone, 0), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    DIES(use_a_dead_stream, "emu: use of a destroyed stream");
    DIES(call_cuda_in_a_stream, "emu: a host function in a stream calls CUDA");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(nothing_runs_before_it_is_needed),
        CASE(host_memory_is_read_when_the_copy_runs),
        CASE(host_memory_is_written_when_the_copy_runs),
        CASE(events_order_streams),
        CASE(missing_events_show),
        CASE(a_wait_is_for_the_latest_record),
        CASE(events_are_asked_and_awaited),
        CASE(time_passes_between_events),
        CASE(the_legacy_stream_waits_for_blocking_ones),
        CASE(host_functions_run_in_order),
        CASE(polled_operations_let_others_go_on),
        CASE(a_failed_operation_is_the_end),
        CASE(handles_are_looked_at),
    };
    return HARNESS_RUN_ALONE(tests);
}

#include <stdlib.h>

#include "device/cuda/cuda.h"

struct cuda_marks {
    cudaStream_t stream;
    int count;
    cudaEvent_t *events;
};

static void marks_destroy(cuda_marks **out) {
    cuda_marks *m = *out;
    if (!m) return;
    for (int i = 0; i < m->count; i++) (void)cudaEventDestroy(m->events[i]);
    free(m->events);
    free(m);
    *out = NULL;
}

static trine_status make_events(cuda_marks *m, int count) {
    m->events = (cudaEvent_t *)calloc((size_t)count, sizeof *m->events);
    CHECK(m->events, TRINE_ENOMEM, "no memory for %d CUDA events", count);
    for (; m->count < count; m->count++) TRY_CUDA(cudaEventCreate(&m->events[m->count]));
    return TRINE_OK;
}

static trine_status marks_create(device *d, cuda_marks **out, int count) {
    cuda_marks *m = *out = (cuda_marks *)calloc(1, sizeof *m);
    CHECK(m, TRINE_ENOMEM, "no memory for %d CUDA events", count);
    m->stream = cuda_of(d)->compute;
    trine_status status = make_events(m, count);
    if (status != TRINE_OK) marks_destroy(out);
    return status;
}

static trine_status mark(cuda_marks *m, int i) {
    TRY_CUDA(cudaEventRecord(m->events[i], m->stream));
    return TRINE_OK;
}

/* "Not ready" is not an error; it is cleared, so that the next launch does not report it. */
static bool passed(const cuda_marks *m, int i) {
    cudaError_t e = cudaEventQuery(m->events[i]);
    if (e == cudaErrorNotReady) (void)cudaGetLastError();
    return e != cudaErrorNotReady;
}

static trine_status between(const cuda_marks *m, int from, int to, double *seconds) {
    float ms = 0;
    TRY_CUDA(cudaEventSynchronize(m->events[to]));
    TRY_CUDA(cudaEventElapsedTime(&ms, m->events[from], m->events[to]));
    *seconds = 1e-3 * (double)ms;
    return TRINE_OK;
}

const cuda_measure cuda_measures_all = {
    marks_create,         marks_destroy,    mark, passed, between, cuda_product_create,
    cuda_product_destroy, cuda_product_run,
};

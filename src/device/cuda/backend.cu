/* The tables of the cuda device, and the functions that open and close it. All its work runs in order on one
 * CUDA stream, the compute stream. */
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Copies and fills return nothing. Their first error is kept until the next call that can report it; later errors
 * follow from it. The error is cleared in CUDA, so that a launch in between does not report it as its own. */
static void keep(device *d, cudaError_t e) {
    if (e == cudaSuccess) return;
    (void)cudaGetLastError();
    if (cuda_of(d)->failed == cudaSuccess) cuda_of(d)->failed = e;
}

/* Waits until the queue is empty. After an error in the queue the device is unusable. */
static trine_status finish(device *d) {
    keep(d, cudaStreamSynchronize(cuda_of(d)->compute));
    cudaError_t e = cuda_of(d)->failed;
    CHECK(e == cudaSuccess, TRINE_EMATH, "GPU %d: %s", cuda_of(d)->ordinal, cudaGetErrorString(e));
    return TRINE_OK;
}

static trine_status memory_alloc(device *d, void **p, size_t bytes) {
    size_t left = 0, all = 0;
    cudaError_t e = cudaMalloc(p, bytes);
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* cleared: it is reported here */
        (void)cudaMemGetInfo(&left, &all);
        return RAISE(TRINE_ENOMEM, "no memory for %zu bytes on GPU %d; %zu of %zu bytes are free",
                     bytes, cuda_of(d)->ordinal, left, all);
    }
    CHECK(e == cudaSuccess, TRINE_EMATH, "GPU %d: %s", cuda_of(d)->ordinal, cudaGetErrorString(e));
    /* Wait, so that the zeros are visible to every stream. */
    keep(d, cudaMemsetAsync(*p, 0, bytes, cuda_of(d)->compute));
    return finish(d);
}

static void memory_free(device *d, void *p, size_t bytes) {
    (void)bytes;
    keep(d, cudaStreamSynchronize(cuda_of(d)->compute)); /* queued work may still use it */
    keep(d, cudaFree(p));
}

static void memory_copy(device *d, void *dst, const void *src, size_t bytes) {
    keep(d, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, cuda_of(d)->compute));
}

static void memory_zero(device *d, void *dst, size_t bytes) {
    keep(d, cudaMemsetAsync(dst, 0, bytes, cuda_of(d)->compute));
}

static trine_status memory_read(device *d, void *host, const void *src, size_t bytes) {
    keep(d, cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, cuda_of(d)->compute));
    return finish(d);
}

static trine_status memory_read_rows(device *d, void *host, const void *src, size_t stride,
                                     size_t bytes, size_t rows) {
    keep(d, cudaMemcpy2DAsync(host, bytes, src, stride, bytes, rows, cudaMemcpyDeviceToHost,
                              cuda_of(d)->compute));
    return finish(d);
}

static trine_status memory_write(device *d, void *dst, const void *host, size_t bytes) {
    keep(d, cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, cuda_of(d)->compute));
    return finish(d);
}

static trine_status memory_write_start(device *d, void *dst, const void *host, size_t bytes) {
    keep(d, cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, cuda_of(d)->compute));
    return TRINE_OK;
}

static const device_memory memory = {
    false,       memory_alloc,     memory_free,  memory_copy, memory_zero,
    memory_read, memory_read_rows, memory_write, finish,      memory_write_start,
};

/* ---- Operators ------------------------------------------------------------------------------- */

/* C++ before C++20 has no designated initializers, so each line sets its own field. */
static ops operators(int types) {
    ops table;
#define ROW(op, ...) table.op = cuda_##op[types];
    OPS_LIST(ROW, ROW)
    ROW(attention_workspace)
#undef ROW
    return table;
}

static const ops tables[CUDA_TYPES] = {operators(CUDA_F32), operators(CUDA_BF16_F32),
                                       operators(CUDA_BF16_BF16), operators(CUDA_F16_F32),
                                       operators(CUDA_F16_F16)};

static const ops *ops_of(trine_dtype compute, trine_dtype grads) {
    switch (compute) {
    case TRINE_F32: return grads == TRINE_F32 ? &tables[CUDA_F32] : NULL;
    case TRINE_BF16:
        if (grads == TRINE_F32) return &tables[CUDA_BF16_F32];
        return grads == TRINE_BF16 ? &tables[CUDA_BF16_BF16] : NULL;
    case TRINE_F16:
        if (grads == TRINE_F32) return &tables[CUDA_F16_F32];
        return grads == TRINE_F16 ? &tables[CUDA_F16_F16] : NULL;
    default: return NULL;
    }
}

/* ---- A GPU ----------------------------------------------------------------------------------- */

static int gpu_count(char *why, size_t size) {
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count > 0) return count;
    (void)cudaGetLastError();
    snprintf(why, size, "%s", e == cudaSuccess ? "no GPU found" : cudaGetErrorString(e));
    return 0;
}

/* Clears the error in CUDA when it is raised, so that the next launch does not report it again. */
#define TRY_OPEN(call)                                                                             \
    do {                                                                                           \
        cudaError_t try_open_ = (call);                                                            \
        if (try_open_ != cudaSuccess) (void)cudaGetLastError();                                    \
        CHECK(try_open_ != cudaErrorMemoryAllocation, TRINE_ENOMEM,                                \
              "GPU %d has no free memory for the device's own buffers: %s", cuda_of(d)->ordinal,   \
              cudaGetErrorString(try_open_));                                                      \
        CHECK(try_open_ == cudaSuccess, TRINE_EUNSUPPORTED, "GPU %d cannot be used: %s",           \
              cuda_of(d)->ordinal, cudaGetErrorString(try_open_));                                 \
    } while (0)

/* The fill is the first work on the GPU, so an unusable driver or GPU is detected here. */
static trine_status gpu_set_up(device *d) {
    cuda_state *s = cuda_of(d);
    TRY_OPEN(cudaSetDevice(s->ordinal));
    TRY_OPEN(
        cudaDeviceGetAttribute(&s->multiprocessors, cudaDevAttrMultiProcessorCount, s->ordinal));
    TRY_OPEN(cudaStreamCreateWithFlags(&s->compute, cudaStreamNonBlocking));
    TRY_OPEN(cudaMalloc((void **)&s->scratch, CUDA_SCRATCH * sizeof *s->scratch));
    TRY_OPEN(cudaMalloc(&s->workspace, CUDA_WORKSPACE));
    TRY_OPEN(cudaMemsetAsync(s->scratch, 0, CUDA_SCRATCH * sizeof *s->scratch, s->compute));
    TRY_OPEN(cudaStreamSynchronize(s->compute));
    TRY(cuda_matmuls_create(d));
    return TRINE_OK;
}

static void gpu_close(device *d) {
    cuda_state *s = cuda_of(d);
    if (s->compute) (void)cudaStreamSynchronize(s->compute);
    if (s->matmuls) cuda_matmuls_destroy(d);
    if (s->workspace) (void)cudaFree(s->workspace);
    if (s->scratch) (void)cudaFree(s->scratch);
    if (s->compute) (void)cudaStreamDestroy(s->compute);
    free(s);
    d->state = NULL;
}

static trine_status gpu_open(device *d, int ordinal) {
    cuda_state *s = (cuda_state *)calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for a cuda device");
    s->ordinal = ordinal;
    d->state = s;
    trine_status status = gpu_set_up(d);
    if (status != TRINE_OK) gpu_close(d);
    TRY(status);
    return TRINE_OK;
}

static trine_status gpu_info(const device *d, cuda_info *info) {
    cuda_state *s = cuda_of(d);
    cudaDeviceProp properties;
    size_t all = 0, left = 0;
    *info = {};
    TRY_CUDA(cudaGetDeviceProperties(&properties, s->ordinal));
    TRY_CUDA(cudaMemGetInfo(&left, &all));
    TRY_CUDA(cudaDeviceGetPCIBusId(info->bus, (int)sizeof info->bus, s->ordinal));
    TRY_CUDA(cudaDriverGetVersion(&info->driver));
    TRY_CUDA(cudaRuntimeGetVersion(&info->runtime));
    snprintf(info->model, sizeof info->model, "%.*s", (int)sizeof info->model - 1, properties.name);
    info->bytes = all;
    info->free_bytes = left;
    info->nccl = cuda_nccl_version();
    info->own_bytes = CUDA_SCRATCH * sizeof *s->scratch + CUDA_WORKSPACE;
    info->cache = (uint64_t)properties.l2CacheSize;
    info->cublas = cuda_matmuls_version();
    info->sm = properties.major * 10 + properties.minor;
    info->multiprocessors = s->multiprocessors;
    return TRINE_OK;
}

static trine_status gpu_pin(device *d, void *p, size_t bytes) {
    cudaError_t e = cudaHostRegister(p, bytes, cudaHostRegisterDefault);
    if (e != cudaSuccess) (void)cudaGetLastError();
    CHECK(e == cudaSuccess, TRINE_ENOMEM, "GPU %d: %zu bytes of host memory cannot be pinned: %s",
          cuda_of(d)->ordinal, bytes, cudaGetErrorString(e));
    return TRINE_OK;
}

static void gpu_unpin(device *d, void *p) {
    keep(d, cudaStreamSynchronize(cuda_of(d)->compute));
    keep(d, cudaHostUnregister(p));
}

/* ---- Exported interface ---------------------------------------------------------------------- */

static cuda_backend backend = {
    CUDA_ABI, ops_of,  &memory,   gpu_count, gpu_open,           gpu_close,
    gpu_info, gpu_pin, gpu_unpin, NULL,      &cuda_measures_all, cuda_link_to,
};

extern "C" __attribute__((visibility("default"))) const cuda_backend *
trine_cuda_load(const cuda_host *host) {
    cuda_host_set(host);
    backend.nccl = cuda_nccl_table();
    return &backend;
}

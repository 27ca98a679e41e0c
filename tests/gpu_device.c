#include "gpu_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/api/gpu.h"
#include "device/cuda_open.h"
#include "harness.h"

const char *gpu_library(void) {
    static char path[512];
    const char *build = getenv("BUILD"), *other = getenv("TRINE_CUDA_LIBRARY");
    snprintf(path, sizeof path, "%s/emu/libtrine_cuda.so", build ? build : "build");
    if (other) return other;
    return access(path, R_OK) == 0 ? path : NULL;
}

void gpu_device_open(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish) {
    const device_config config = {
        .kind = DEVICE_CUDA, .threads = 1, .library = gpu_library(), .place = wish->place};
    *g = (gpu_device){.mesh = mesh,
                      .bytes = wish->bytes,
                      .seen = malloc(wish->bytes),
                      .staging = malloc(wish->bytes)};
    assert_true(g->seen && g->staging);
    OK(device_open_with(&g->dev, &config));
    OK(device_alloc(g->dev, (void **)&g->base, g->bytes));
}

trine_status gpu_device_join(gpu_device *g, const gpu_wish *wish) {
    cuda_gpu gpu;
    size_t all[TRINE_GROUPS]; /* no call is larger than the memory: groups are warmed for no more */
    for (int n = 0; n < TRINE_GROUPS; n++) all[n] = g->bytes;
    OK(cuda_describe(g->dev, &gpu));
    const comm_gpu own = {.dev = g->dev,
                          .nccl = cuda_nccl(g->dev),
                          .name = gpu.info.bus,
                          .ordered = wish->ordered,
                          .largest = g->largest ? g->largest : all};
    return comm_gpu_create(g->mesh, &own);
}

void gpu_device_create(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish) {
    gpu_device_open(g, mesh, wish);
    OK(gpu_device_join(g, wish));
    gpu_device_use(g);
}

void gpu_device_use(gpu_device *g) {
    const device_region memory = {
        .dev = g->dev, .base = g->base, .bytes = g->bytes, .own = g->staging};
    OK(comm_device_memory(g->mesh, &memory));
}

void gpu_device_destroy(gpu_device *g) {
    OK(comm_device_memory(g->mesh, NULL));
    comm_gpu_destroy(g->mesh);
    device_free(g->dev, g->base, g->bytes);
    device_close(&g->dev);
    free(g->seen);
    free(g->staging);
    *g = (gpu_device){0};
}

static bool has(const gpu_device *g, const void *p) {
    return (uintptr_t)p - (uintptr_t)g->seen < g->bytes;
}

void *gpu_device_at(const gpu_device *g, const void *p) {
    return has(g, p) ? g->base + ((const char *)p - g->seen) : (void *)(uintptr_t)p;
}

void gpu_device_send(gpu_device *g, const void *p, size_t bytes) {
    if (has(g, p)) OK(device_write(g->dev, gpu_device_at(g, p), p, bytes));
}

void gpu_device_fetch(gpu_device *g, void *p, size_t bytes) {
    if (has(g, p)) OK(device_read(g->dev, p, gpu_device_at(g, p), bytes));
}

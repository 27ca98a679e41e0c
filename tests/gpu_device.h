/* An emulated GPU (emu) for tests of groups: each rank opens one of its own, so that the
 * groups of a mesh go through NCCL's emulation. The host cannot touch its memory: at `seen` the test
 * has a copy of it, which is sent there and fetched by hand. Groups whose ranks share a GPU stage it. */
#ifndef TRINE_TESTS_GPU_DEVICE_H
#define TRINE_TESTS_GPU_DEVICE_H

#include "comm/api/device_memory.h"
#include "device/device.h"

typedef struct {
    device *dev;
    trine_mesh *mesh;
    char *base, *seen, *mirror;
    size_t bytes;
} gpu_device;

/* What the environment or the build calls the object: a file that is there, or NULL. */
const char *gpu_library(void);

/* What a test wants of its GPU. */
typedef struct {
    int place;    /* ranks with the same one share a GPU */
    size_t bytes; /* of device memory, of which the mesh's groups hear */
    bool ordered; /* additions in rank order */
} gpu_wish;

/* A GPU whose groups are made. Collective over: world. */
void gpu_device_create(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish);
/* In two steps, of which the second may fail. */
void gpu_device_open(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish);
trine_status gpu_device_join(gpu_device *g, const gpu_wish *wish);
/* Before the mesh ends. Collective over: world. */
void gpu_device_destroy(gpu_device *g);

/* The device's address of what is seen at p; p itself where that is other memory. */
void *gpu_device_at(const gpu_device *g, const void *p);
/* From seen memory to the device's, and back; nothing for other memory. */
void gpu_device_send(gpu_device *g, const void *p, size_t bytes);
void gpu_device_fetch(gpu_device *g, void *p, size_t bytes);

#endif

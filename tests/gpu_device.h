/* An emulated GPU (emu) for tests of groups: each rank opens one of its own, so that the
 * groups of a mesh use NCCL's emulation. The host cannot access its memory: `seen` is the test's
 * copy, which is sent and fetched explicitly. Groups whose ranks share a GPU stage its memory. */
#ifndef TRINE_TESTS_GPU_DEVICE_H
#define TRINE_TESTS_GPU_DEVICE_H

#include "comm/api/device_memory.h"
#include "device/device.h"

typedef struct {
    device *dev;
    trine_mesh *mesh;
    char *base, *seen, *staging;
    size_t bytes;
    const size_t *largest; /* comm_gpu's; between open and join; NULL: bytes, for every group */
} gpu_device;

/* The path of the object, from the environment or the build; NULL if there is no such file. */
const char *gpu_library(void);

/* A test's requirements of its GPU. */
typedef struct {
    int place;    /* ranks with the same value share a GPU */
    size_t bytes; /* of device memory that the mesh's groups use */
    bool ordered; /* additions in rank order */
} gpu_wish;

/* A GPU and its groups. Collective over: world. */
void gpu_device_create(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish);
/* The same in three steps, of which the second may fail. */
void gpu_device_open(gpu_device *g, trine_mesh *mesh, const gpu_wish *wish);
trine_status gpu_device_join(gpu_device *g, const gpu_wish *wish);
/* The groups accept its memory. */
void gpu_device_use(gpu_device *g);
/* Call before destroying the mesh. Collective over: world. */
void gpu_device_destroy(gpu_device *g);

/* The device's address of what is seen at p; p itself for other memory. */
void *gpu_device_at(const gpu_device *g, const void *p);
/* Copy from `seen` to the device, and back; other memory is ignored. */
void gpu_device_send(gpu_device *g, const void *p, size_t bytes);
void gpu_device_fetch(gpu_device *g, void *p, size_t bytes);

#endif

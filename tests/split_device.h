/* A test device whose memory the host cannot access, without a GPU: the same pages are mapped at two
 * addresses. The device's address has no access rights, so an access without device_read or device_write is a
 * SIGSEGV; the test reads and writes at the other address, `seen`. Copies and fills are lazy: they run in order, at
 * a read, write, addition or wait. Their bytes are counted. It has one operator, add. */
#ifndef TRINE_TESTS_SPLIT_DEVICE_H
#define TRINE_TESTS_SPLIT_DEVICE_H

#include "comm/api/device_memory.h"
#include "device/device.h"

#define FAR_LATE 16

typedef struct {
    char *dst;
    const char *src; /* NULL: zeros */
    size_t bytes;
} staging_work;

typedef struct {
    device device;
    trine_mesh *mesh;
    device_region memory; /* the exchanged region; `rest` is all memory, including it */
    char *base, *seen; /* the two addresses */
    size_t bytes;
    void *shared;
    staging_work late[FAR_LATE];
    int late_count;
    uint64_t read, written, copied; /* bytes so far */
} split_device;

/* Creates an exchanged region, of which `shared` bytes have a staging buffer in the mesh's windows and `own` bytes
 * one outside of them, and `rest` bytes that groups must not use; all multiples of 4096. The mesh's groups use
 * it from now on. `f` must not move. Collective over: world. */
void split_device_create(split_device *f, trine_mesh *mesh, size_t shared, size_t own, size_t rest);
/* From now on the groups' messages may be passed to MPI in place; the test's MPI functions must
 * translate addresses (split_device_seen). Collective over: world. */
void split_device_reached(split_device *f);
/* The second address of the device's p; p itself for other memory. */
void *split_device_seen(const split_device *f, const void *p);
/* Call before destroying the mesh. Collective over: world. */
void split_device_destroy(split_device *f);

/* The device's address of what is seen at p; p itself for other memory. */
void *split_device_at(const split_device *f, const void *p);
/* Fills the staging buffer of what is seen at p with bytes that no test uses. */
void split_device_poison(split_device *f, const void *p, size_t bytes);

#endif

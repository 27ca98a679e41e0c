/* A device for tests whose memory the host cannot touch, without a GPU: the same pages lie at two
 * addresses. One, which the device calls its own, has no access rights, so whoever follows it
 * without device_read or device_write gets a SIGSEGV; at the other, `seen`, the test looks and
 * writes. Copies and fills are done late: in their order, when something is read, written or waited
 * for. The bytes of all are counted. It has no operators. */
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
    device_region memory; /* the exchanged piece; `rest` is all, it included */
    char *base, *seen; /* the two addresses */
    size_t bytes;
    void *shared;
    staging_work late[FAR_LATE];
    int late_count;
    uint64_t read, written, copied; /* bytes so far */
} split_device;

/* A piece of exchanged memory, of which `shared` bytes are staged_by_host in the mesh's windows and `own`
 * beside, and `rest` bytes that groups must not see; all multiples of 4096. The mesh's groups take
 * it from now on. `f` must stay where it is. Collective over: world. */
void split_device_create(split_device *f, trine_mesh *mesh, size_t shared, size_t own, size_t rest);
/* From now on the groups' messages may be handed to MPI where they lie; who sends them there must
 * know both addresses (split_device_seen). Collective over: world. */
void split_device_reached(split_device *f);
/* The second address of the device's p; p itself where that is other memory. */
void *split_device_seen(const split_device *f, const void *p);
/* Before the mesh ends. Collective over: world. */
void split_device_destroy(split_device *f);

/* The device's address of what is seen at p; p itself where that is other memory. */
void *split_device_at(const split_device *f, const void *p);
/* Fills the mirror of what is seen at p with bytes that are in no test's data. */
void split_device_poison(split_device *f, const void *p, size_t bytes);

#endif

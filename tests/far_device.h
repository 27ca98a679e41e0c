/* A device for tests whose memory the host cannot touch, without a GPU: the same pages lie at two
 * addresses. One, which the device calls its own, has no access rights, so whoever follows it
 * without device_read or device_write gets a SIGSEGV; at the other, `seen`, the test looks and
 * writes. Copies and fills are done late: in their order, when something is read, written or waited
 * for. The bytes of all are counted. It has no operators. */
#ifndef TRINE_TESTS_FAR_DEVICE_H
#define TRINE_TESTS_FAR_DEVICE_H

#include "comm/api/far.h"
#include "device/device.h"

#define FAR_LATE 16

typedef struct {
    char *dst;
    const char *src; /* NULL: zeros */
    size_t bytes;
} far_work;

typedef struct {
    device device;
    trine_mesh *mesh;
    far_memory memory; /* the exchanged piece; `rest` is all, it included */
    char *base, *seen; /* the two addresses */
    size_t bytes;
    void *shared;
    far_work late[FAR_LATE];
    int late_count;
    uint64_t read, written, copied; /* bytes so far */
} far_device;

/* A piece of exchanged memory, of which `shared` bytes are mirrored in the mesh's windows and `own`
 * beside, and `rest` bytes that groups must not see; all multiples of 4096. The mesh's groups take
 * it from now on. `f` must stay where it is. Collective over: world. */
void far_device_create(far_device *f, trine_mesh *mesh, size_t shared, size_t own, size_t rest);
/* From now on the groups' messages may be handed to MPI where they lie; who sends them there must
 * know both addresses (far_device_seen). Collective over: world. */
void far_device_reached(far_device *f);
/* The second address of the device's p; p itself where that is other memory. */
void *far_device_seen(const far_device *f, const void *p);
/* Before the mesh ends. Collective over: world. */
void far_device_destroy(far_device *f);

/* The device's address of what is seen at p; p itself where that is other memory. */
void *far_device_at(const far_device *f, const void *p);
/* Fills the mirror of what is seen at p with bytes that are in no test's data. */
void far_device_poison(far_device *f, const void *p, size_t bytes);

#endif

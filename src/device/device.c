#include "device/device.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

trine_status device_alloc(device *d, void **p, size_t bytes) {
    *p = NULL;
    return bytes ? d->memory->alloc(d, p, bytes) : TRINE_OK;
}

void device_free(device *d, void *p, size_t bytes) {
    if (p) d->memory->free(d, p, bytes);
}

void device_copy(device *d, void *dst, const void *src, size_t bytes) {
    if (bytes) d->memory->copy(d, dst, src, bytes);
}

void device_zero(device *d, void *dst, size_t bytes) {
    if (bytes) d->memory->zero(d, dst, bytes);
}

trine_status device_read(device *d, void *host, const void *src, size_t bytes) {
    return bytes ? d->memory->read(d, host, src, bytes) : TRINE_OK;
}

trine_status device_read_rows(device *d, void *host, const void *src, size_t stride, size_t bytes,
                              size_t rows) {
    return bytes && rows ? d->memory->read_rows(d, host, src, stride, bytes, rows) : TRINE_OK;
}

trine_status device_write(device *d, void *dst, const void *host, size_t bytes) {
    return bytes ? d->memory->write(d, dst, host, bytes) : TRINE_OK;
}

trine_status device_write_start(device *d, void *dst, const void *host, size_t bytes) {
    return bytes ? d->memory->write_start(d, dst, host, bytes) : TRINE_OK;
}

trine_status device_wait(device *d) {
    return d->memory->wait(d);
}

size_t device_row_multiple(const device *d) {
    return d->memory->host ? 1 : 64;
}

/* The kernel rejects a mask that is smaller than its own, so the mask grows until it is accepted. */
int device_affinity_cpus(void) {
    for (int width = 1024; width <= 1 << 20; width *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)width);
        if (!mask) break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)width);
        int failed = sched_getaffinity(0, bytes, mask) ? errno : 0;
        int count = failed ? 0 : CPU_COUNT_S(bytes, mask);
        CPU_FREE(mask);
        if (!failed) return count;
        if (failed != EINVAL) break;
    }
    return device_node_cpus();
}

void device_affinity_mask(uint64_t mask[DEVICE_MASK_WORDS]) {
    memset(mask, 0, DEVICE_MASK_WORDS * sizeof *mask);
    cpu_set_t *set = CPU_ALLOC(DEVICE_MASK_WORDS * 64);
    size_t bytes = CPU_ALLOC_SIZE(DEVICE_MASK_WORDS * 64);
    if (set && !sched_getaffinity(0, bytes, set))
        for (size_t cpu = 0; cpu < DEVICE_MASK_WORDS * 64; cpu++)
            if (CPU_ISSET_S(cpu, bytes, set)) mask[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    if (set) CPU_FREE(set);
}

int device_node_cpus(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

#include "device/host_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/human.h"
#include "base/status.h"

static trine_status host_alloc(device *d, void **p, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char text[HUMAN_SIZE];
    CHECK(memory != MAP_FAILED, TRINE_ENOMEM,
          "no memory for %zu bytes (%s) on the %s device: %s; --dry-run prints what a rank takes, "
          "and with --memory which changes make it fit",
          bytes, human_bytes(text, bytes), d->name, strerror(errno));
    /* Only a hint: a kernel without huge pages rejects it. */
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    *p = memory;
    return TRINE_OK;
}

static void host_free(device *d, void *p, size_t bytes) {
    (void)d;
    ASSERT(munmap(p, bytes) == 0);
}

static void host_copy(device *d, void *dst, const void *src, size_t bytes) {
    (void)d;
    memcpy(dst, src, bytes);
}

static void host_zero(device *d, void *dst, size_t bytes) {
    (void)d;
    memset(dst, 0, bytes);
}

static trine_status host_transfer(device *d, void *dst, const void *src, size_t bytes) {
    (void)d;
    memcpy(dst, src, bytes);
    return TRINE_OK;
}

static trine_status host_read_rows(device *d, void *host, const void *src, size_t stride,
                                   size_t bytes, size_t rows) {
    (void)d;
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)host + r * bytes, (const char *)src + r * stride, bytes);
    return TRINE_OK;
}

static trine_status host_wait(device *d) {
    (void)d;
    return TRINE_OK;
}

const device_memory host_memory = {
    .host = true,
    .alloc = host_alloc,
    .free = host_free,
    .copy = host_copy,
    .zero = host_zero,
    .read = host_transfer,
    .read_rows = host_read_rows,
    .write = host_transfer,
    .write_start = host_transfer,
    .wait = host_wait,
};

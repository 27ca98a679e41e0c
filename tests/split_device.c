#include "split_device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/ops.h"
#include "harness.h"

#define POISON 0xa7

/* The device is the first field. */
static split_device *of(struct device *d) {
    return (split_device *)(void *)d;
}

static void *seen(const split_device *f, const void *p, size_t bytes) {
    size_t at = (uintptr_t)p - (uintptr_t)f->base;
    if (at >= f->bytes || bytes > f->bytes - at) fail_msg("not memory of the device");
    return f->seen + at;
}

static void do_late(split_device *f) {
    for (int i = 0; i < f->late_count; i++) {
        const staging_work *w = &f->late[i];
        if (w->src)
            memmove(w->dst, w->src, w->bytes);
        else
            memset(w->dst, 0, w->bytes);
    }
    f->late_count = 0;
}

static void staging_copy(struct device *d, void *dst, const void *src, size_t bytes) {
    split_device *f = of(d);
    if (f->late_count == FAR_LATE) do_late(f);
    f->late[f->late_count++] = (staging_work){seen(f, dst, bytes), seen(f, src, bytes), bytes};
    f->copied += bytes;
}

static void staging_zero(struct device *d, void *dst, size_t bytes) {
    split_device *f = of(d);
    if (f->late_count == FAR_LATE) do_late(f);
    f->late[f->late_count++] = (staging_work){seen(f, dst, bytes), NULL, bytes};
}

static trine_status staging_read(struct device *d, void *host, const void *src, size_t bytes) {
    split_device *f = of(d);
    do_late(f);
    memcpy(host, seen(f, src, bytes), bytes);
    f->read += bytes;
    return TRINE_OK;
}

static trine_status staging_read_rows(struct device *d, void *host, const void *src, size_t stride,
                                      size_t bytes, size_t rows) {
    for (size_t r = 0; r < rows; r++)
        OK(staging_read(d, (char *)host + r * bytes, (const char *)src + r * stride, bytes));
    return TRINE_OK;
}

static trine_status staging_write(struct device *d, void *dst, const void *host, size_t bytes) {
    split_device *f = of(d);
    do_late(f);
    memcpy(seen(f, dst, bytes), host, bytes);
    f->written += bytes;
    return TRINE_OK;
}

static trine_status staging_wait(struct device *d) {
    do_late(of(d));
    return TRINE_OK;
}

static const device_memory memory = {
    .copy = staging_copy,
    .zero = staging_zero,
    .read = staging_read,
    .read_rows = staging_read_rows,
    .write = staging_write,
    .write_start = staging_write,
    .wait = staging_wait,
};

static trine_status staging_add(struct device *d, void *y, const void *x, size_t n) {
    split_device *f = of(d);
    float *to = (float *)(void *)seen(f, y, n * sizeof *to);
    const float *from = (const float *)(const void *)seen(f, x, n * sizeof *to);
    do_late(f);
    for (size_t i = 0; i < n; i++) to[i] += from[i];
    return TRINE_OK;
}

static const ops operators = {.add = staging_add};

static void map_twice(split_device *f, size_t bytes) {
    int fd = memfd_create("split", 0);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    f->base = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    f->seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(f->base != MAP_FAILED && f->seen != MAP_FAILED);
    f->bytes = bytes;
    close(fd);
}

void split_device_create(split_device *f, trine_mesh *mesh, size_t shared, size_t own,
                         size_t rest) {
    *f = (split_device){.mesh = mesh,
                        .device = {.name = "split", .memory = &memory, .ops = &operators}};
    map_twice(f, shared + own + rest);
    OK(trine_mesh_alloc(mesh, &f->shared, shared));
    f->memory = (device_region){.dev = &f->device,
                                .base = f->base,
                                .bytes = shared + own,
                                .rest = f->base,
                                .rest_bytes = f->bytes,
                                .shared = f->shared,
                                .shared_bytes = shared,
                                .own = malloc(own)};
    assert_non_null(f->memory.own);
    OK(comm_device_memory(mesh, &f->memory));
}

void split_device_reached(split_device *f) {
    f->memory.reached = true;
    OK(comm_device_memory(f->mesh, &f->memory));
}

void *split_device_seen(const split_device *f, const void *p) {
    size_t at = (uintptr_t)p - (uintptr_t)f->base;
    return at < f->bytes ? f->seen + at : (void *)(uintptr_t)p;
}

void split_device_destroy(split_device *f) {
    OK(comm_device_memory(f->mesh, NULL));
    trine_mesh_free(f->mesh, &f->shared);
    munmap(f->base, f->bytes);
    munmap(f->seen, f->bytes);
    free(f->memory.own);
    *f = (split_device){0};
}

void *split_device_at(const split_device *f, const void *p) {
    size_t at = (uintptr_t)p - (uintptr_t)f->seen;
    return at < f->bytes ? f->base + at : (void *)(uintptr_t)p;
}

void split_device_poison(split_device *f, const void *p, size_t bytes) {
    size_t at = (uintptr_t)p - (uintptr_t)f->seen, shared = f->memory.shared_bytes;
    if (at >= f->bytes) return;
    memset(at < shared ? f->memory.shared + at : f->memory.own + (at - shared), POISON, bytes);
}

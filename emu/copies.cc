/* Copies and fills as operations of a stream: memory is read and written when the operation
 * runs, host memory too. (CUDA may copy from memory that is not pinned at once, but need not.) */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    char *dst;
    const char *src; /* NULL: fill */
    size_t dst_pitch, src_pitch, width, height;
    int value;
};

static uint64_t unpinned;

uint64_t emu_unpinned_copies(void) {
    return unpinned;
}

static void run_copy(void *context) {
    copy *c = (copy *)context;
    emu_races_name(c->src ? "a copy" : "a fill");
    for (size_t i = 0; i < c->height; i++) {
        if (c->src) emu_races_range(c->src + i * c->src_pitch, c->width, false);
        emu_races_range(c->dst + i * c->dst_pitch, c->width, true);
        if (c->src)
            memmove(c->dst + i * c->dst_pitch, c->src + i * c->src_pitch, c->width);
        else
            memset(c->dst + i * c->dst_pitch, c->value, c->width);
    }
    free(c);
}

static void enqueue(cudaStream_t stream, copy c) {
    copy *own = (copy *)malloc(sizeof *own);
    *own = c;
    emu_enqueue(stream, run_copy, own);
}

/* Checks that one end of a copy is in the memory that its kind says. */
static void check_end(const char *what, const void *p, size_t bytes, bool device) {
    if (device) {
        emu_check_device(what, p, bytes);
        return;
    }
    if (emu_is_device(p)) emu_fault("%s: %p is device memory, not host memory", what, p);
    unpinned += !emu_is_pinned(p, bytes);
}

static void check_copy(const copy &c, enum cudaMemcpyKind kind) {
    bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        from = emu_is_device(c.src);
        to = emu_is_device(c.dst);
    }
    check_end("copy from", c.src, (c.height - 1) * c.src_pitch + c.width, from);
    check_end("copy to", c.dst, (c.height - 1) * c.dst_pitch + c.width, to);
    /* One row: the order of bytes is undefined. */
    if (c.height == 1 && c.dst < c.src + c.width && c.src < c.dst + c.width)
        emu_fault("copy: %zu bytes from %p to %p overlap", c.width, c.src, c.dst);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
    if (emu_sticky() != cudaSuccess) return emu_error(emu_sticky());
    if (width > dst_pitch || width > src_pitch) return emu_error(cudaErrorInvalidValue);
    if (width == 0 || height == 0) return cudaSuccess;
    if (!dst || !src) return emu_error(cudaErrorInvalidValue);
    copy c = {(char *)dst, (const char *)src, dst_pitch, src_pitch, width, height, 0};
    check_copy(c, kind);
    bool from = emu_is_device(src), to = emu_is_device(dst);
    emu_count("copy",
              from && to ? "within the device"
              : to       ? "to the device"
                         : "to the host",
              width * height);
    enqueue(stream, c);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return cudaMemcpy2DAsync(dst, bytes, src, bytes, bytes, 1, kind, stream);
}

/* The host waits, except for copies within the device. */
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, NULL);
    if (error != cudaSuccess || (emu_is_device(dst) && emu_is_device(src))) return error;
    return emu_error(emu_drain_stream(NULL));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
    if (emu_sticky() != cudaSuccess) return emu_error(emu_sticky());
    if (bytes == 0) return cudaSuccess;
    emu_check_device("cudaMemset", p, bytes);
    emu_count("copy", "fill", bytes);
    enqueue(stream, {(char *)p, NULL, 0, 0, bytes, 1, value});
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    return cudaMemsetAsync(p, value, bytes, NULL);
}

/* Non-temporal stores, for results that no cache would hold until they are read: lines are not fetched before they
 * are overwritten, which saves a third of a store's traffic. Only stream_fence orders such stores. Plain copies on
 * other processors than x86-64.
 * Invariant: the same bytes as memcpy.
 * Cost: memory bandwidth; slower than memcpy if the data fits in a cache. */
#ifndef TRINE_COMM_REDUCE_STREAM_H
#define TRINE_COMM_REDUCE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <emmintrin.h>

static inline void stream_copy(void *dst, const void *src, size_t bytes) {
    size_t head = (16 - (uintptr_t)dst % 16) % 16;
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    char *to = (char *)dst + head;
    const char *from = (const char *)src + head;
    size_t rest = bytes - head;
    for (; rest >= 16; to += 16, from += 16, rest -= 16)
        _mm_stream_si128((__m128i *)(void *)to, _mm_loadu_si128((const __m128i *)(const void *)from));
    memcpy(to, from, rest);
}

static inline void stream_fence(void) {
    _mm_sfence();
}

#else

static inline void stream_copy(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

static inline void stream_fence(void) {
}

#endif

#endif

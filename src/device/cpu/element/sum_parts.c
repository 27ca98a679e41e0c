#include "device/cpu/element/element.h"

#define CHUNK 512 /* elements that a thread sums at a time: the sums inside of a tree stay in the first cache */

/* Element i of x, which is fp32 if wide. */
static inline float get(const void *x, bool wide, size_t i) {
    return wide ? ((const float *)x)[i] : element_get(((const element *)x)[i]);
}

/* Complete trees over addends from element i on, `apart` elements apart. */
static inline float two(const void *x, bool wide, size_t i, size_t apart) {
    return get(x, wide, i) + get(x, wide, i + apart);
}
static inline float four(const void *x, bool wide, size_t i, size_t apart) {
    return two(x, wide, i, apart) + two(x, wide, i + 2 * apart, apart);
}
static inline float eight(const void *x, bool wide, size_t i, size_t apart) {
    return four(x, wide, i, apart) + four(x, wide, i + 4 * apart, apart);
}

/* n elements of the addends, from element `at` of the first on. */
typedef struct {
    const void *x;
    bool wide;
    size_t at, stride, n;
} chunk;

/* sum (c->n) = the sum of 1, 2, 4 or 8 addends from addend `first` on, all of which are read at once: memory
 * streams. `wide` is c->wide, as a constant. */
static inline __attribute__((always_inline)) void complete(float *sum, const chunk *c, bool wide,
                                                           size_t first, size_t count) {
    const void *x = c->x;
    const size_t at = c->at + first * c->stride, apart = c->stride, n = c->n;
    if (count == 1) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) sum[i] = get(x, wide, at + i);
    } else if (count == 2) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) sum[i] = two(x, wide, at + i, apart);
    } else if (count == 4) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) sum[i] = four(x, wide, at + i, apart);
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++) sum[i] = eight(x, wide, at + i, apart);
    }
}

/* sum (c->n) = the sum of addends [first, first + count); it may be the first addend. */
static void tree(float *sum, const chunk *c, size_t first, size_t count) {
    size_t cut = 1;
    while (2 * cut < count) cut *= 2;
    if (count == 1 || (count == 2 * cut && count <= 8)) {
        if (c->wide)
            complete(sum, c, true, first, count);
        else
            complete(sum, c, false, first, count);
        return;
    }
    float right[CHUNK];
    tree(sum, c, first, cut);
    tree(right, c, first + cut, count - cut);
#pragma omp simd
    for (size_t i = 0; i < c->n; i++) sum[i] += right[i];
}

trine_status CPU(sum_parts)(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                            size_t parts, size_t stride, size_t n) {
    const bool direct = y_wide || sizeof(element) == sizeof(float);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t at = 0; at < n; at += CHUNK) {
        const chunk c = {x, x_wide, at, stride, n - at < CHUNK ? n - at : CHUNK};
        float room[CHUNK], *sum = direct ? (float *)y + at : room;
        tree(sum, &c, 0, parts);
        if (direct) continue;
        element *out = (element *)y + at;
#pragma omp simd
        for (size_t i = 0; i < c.n; i++) out[i] = element_put(sum[i]);
    }
    return TRINE_OK;
}

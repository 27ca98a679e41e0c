#include "device/cpu/element/element.h"

#define CHUNK                                                                                      \
    512 /* elements that a thread sums at a time: the sums inside of a tree stay in the first cache */
#define MOST 8 /* addends that are read at once */

/* n elements of the addends, from element `at` of the first on. */
typedef struct {
    const void *x;
    bool wide;
    size_t at, stride, n;
} chunk;

/* Element i of x or y, which is fp32 if wide. */
static inline float get(const void *x, bool wide, size_t i) {
    return wide ? ((const float *)x)[i] : element_get(((const element *)x)[i]);
}
static inline void put(void *y, bool wide, size_t i, float value) {
    if (wide)
        ((float *)y)[i] = value;
    else
        ((element *)y)[i] = element_put(value);
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

/* y (c->n) = the sum of 1, 2, 4 or 8 addends from addend `first` on. The types are constants: loops without a choice. */
static inline __attribute__((always_inline)) void
complete(void *y, bool y_wide, const chunk *c, bool x_wide, size_t first, size_t count) {
    const void *x = c->x;
    const size_t at = c->at + first * c->stride, apart = c->stride, n = c->n;
    if (count == 1) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) put(y, y_wide, i, get(x, x_wide, at + i));
    } else if (count == 2) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) put(y, y_wide, i, two(x, x_wide, at + i, apart));
    } else if (count == 4) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) put(y, y_wide, i, four(x, x_wide, at + i, apart));
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++) put(y, y_wide, i, eight(x, x_wide, at + i, apart));
    }
}

static void at_once(void *y, bool y_wide, const chunk *c, size_t first, size_t count) {
    if (y_wide && c->wide)
        complete(y, true, c, true, first, count);
    else if (y_wide)
        complete(y, true, c, false, first, count);
    else if (c->wide)
        complete(y, false, c, true, first, count);
    else
        complete(y, false, c, false, first, count);
}

static bool is_complete(size_t count) {
    return count <= MOST && !(count & (count - 1));
}

/* sum (c->n) = the sum of addends [first, first + count). */
static void tree(float *sum, const chunk *c, size_t first, size_t count) {
    float right[CHUNK];
    size_t cut = 1;
    if (is_complete(count)) {
        at_once(sum, true, c, first, count);
        return;
    }
    while (2 * cut < count) cut *= 2;
    tree(sum, c, first, cut);
    tree(right, c, first + cut, count - cut);
#pragma omp simd
    for (size_t i = 0; i < c->n; i++) sum[i] += right[i];
}

trine_status CPU(sum_parts)(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                            size_t parts, size_t stride, size_t n) {
    const size_t unit = y_wide ? sizeof(float) : sizeof(element);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t at = 0; at < n; at += CHUNK) {
        const chunk c = {x, x_wide, at, stride, n - at < CHUNK ? n - at : CHUNK};
        void *to = (char *)y + at * unit;
        if (is_complete(parts)) {
            at_once(to, y_wide, &c, 0, parts);
            continue;
        }
        float sum[CHUNK];
        const chunk summed = {sum, true, 0, 0, c.n};
        tree(sum, &c, 0, parts);
        at_once(to, y_wide, &summed, 0, 1);
    }
    return TRINE_OK;
}

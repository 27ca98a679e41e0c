#include <string.h>

#include "device/cpu/element/element.h"

#define CHUNK 512 /* elements that a thread sums at a time: the sums inside of a tree stay in the first cache */

/* A chunk of n elements of the addends: `x` points to that of the first. */
typedef struct {
    const char *x;
    bool wide;
    size_t stride, n;
} chunk;

/* The elements of an addend as floats: in place if they are, else in `room`. */
static const float *addend(const chunk *c, size_t part, float room[CHUNK]) {
    if (c->wide || sizeof(element) == sizeof(float)) return (const float *)(const void *)c->x + part * c->stride;
    const element *x = (const element *)(const void *)c->x + part * c->stride;
#pragma omp simd
    for (size_t i = 0; i < c->n; i++) room[i] = element_get(x[i]);
    return room;
}

/* sum may be left. */
static void add(float *sum, const float *left, const float *right, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) sum[i] = left[i] + right[i];
}

/* sum (c->n) = the sum of addends [first, first + count); sum may be the first addend. */
static void tree(float *sum, const chunk *c, size_t first, size_t count) {
    float room[CHUNK], other[CHUNK];
    size_t cut = 1;
    if (count == 1) {
        memmove(sum, addend(c, first, room), c->n * sizeof *sum);
        return;
    }
    while (2 * cut < count) cut *= 2;
    const float *left = sum, *right = other;
    if (cut == 1)
        left = addend(c, first, room);
    else
        tree(sum, c, first, cut);
    if (count - cut == 1)
        right = addend(c, first + cut, other);
    else
        tree(other, c, first + cut, count - cut);
    add(sum, left, right, c->n);
}

trine_status CPU(sum_parts)(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                            size_t parts, size_t stride, size_t n) {
    const size_t unit = x_wide ? sizeof(float) : sizeof(element);
    const bool direct = y_wide || sizeof(element) == sizeof(float);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t at = 0; at < n; at += CHUNK) {
        float room[CHUNK], *sum = direct ? (float *)y + at : room;
        const chunk c = {(const char *)x + at * unit, x_wide, stride, n - at < CHUNK ? n - at : CHUNK};
        tree(sum, &c, 0, parts);
        if (direct) continue;
        element *out = (element *)y + at;
#pragma omp simd
        for (size_t i = 0; i < c.n; i++) out[i] = element_put(sum[i]);
    }
    return TRINE_OK;
}

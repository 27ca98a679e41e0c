/* TEST np=1,4,6 */
/* The exact sum of squares: the same bits for any number of slices, whoever has which tensors, and those of a sum that
 * is made block by block with plain integers. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "norm/exact_norm.h"

enum { RANGES = 3 };

/* Tensors of any length, some joined to the one before, one a copy; in the last range as many as there may be. Ranges
 * of 1 to 12 slices have the same tensors. */
static void make_range(flat_range *range, int which, int slices) {
    static const size_t lengths[] = {100, 70, 131, 64, 1, 650, 27, 200};
    *range = (flat_range){0};
    int count = which == RANGES - 1 ? FLAT_TENSORS : 5 + which;
    for (int i = 0; i < count; i++) {
        tensor t = {.parts = 1, .rows = 1, .cols = lengths[(i + 3 * which) % 8]};
        t.joined = i > 0 && (i + which) % 3 == 0;
        t.copy = i == 2;
        flat_add(range, &t);
    }
    flat_finish(range, slices);
}

/* The gradient of element i: of sizes from 2^-60 to 2^60, nothing that a double could add without rounding. */
static float gradient(int which, size_t i) {
    uint32_t hash = (uint32_t)(i * 2654435761u + (size_t)which * 40503u) ^ 0x9E3779B9u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    float size = ldexpf(1.0f + (float)(hash >> 9) * 0x1p-23f, (int)(hash % 121) - 60);
    return i % 11 == 3 ? 0.0f : i % 2 ? size : -size;
}

static bool in_tensor(const flat_range *range, size_t i) {
    for (int n = 0; n < range->tensor_count; n++)
        if (i >= range->tensors[n].offset &&
            i < range->tensors[n].offset + tensor_count(&range->tensors[n]))
            return true;
    return false;
}

static float *gradients_of(const flat_range *range, int which) {
    float *g = calloc(range->count, sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < range->count; i++)
        if (in_tensor(range, i)) g[i] = gradient(which, i);
    return g;
}

/* ---- The reference ---- */

/* A block's sum in the order that device/ops.h says, of the elements of one tensor. */
static double block_of(const float *g, size_t block, size_t from, size_t to) {
    double l[EXACT_LANES] = {0};
    for (size_t i = block * EXACT_BLOCK; i < (block + 1) * EXACT_BLOCK; i++)
        if (i >= from && i < to) l[i % EXACT_LANES] += (double)g[i] * (double)g[i];
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

/* The block sums of all ranges are multiples of 2^-240 below 2^128: integers of 384 bits, here of 12 words. */
enum { WORDS = 12 };

static void add_integer(uint64_t words[WORDS], double x) {
    for (int w = WORDS - 1; w >= 0; w--) {
        double unit = ldexp(1.0, 32 * w - 240), part = floor(x / unit);
        x -= part * unit;
        words[w] += (uint64_t)part;
    }
    assert_true(x == 0.0);
    for (int w = 0; w + 1 < WORDS; w++) words[w + 1] += words[w] >> 32, words[w] &= 0xFFFFFFFF;
}

/* The integer as a double. Its first 64 bits, the last of them set if anything follows, round as all would. */
static double nearest(const uint64_t words[WORDS]) {
    int first = 32 * WORDS - 1;
    while (!(words[first / 32] >> first % 32 & 1)) first--;
    uint64_t top = 0;
    bool more = false;
    for (int i = first; i >= 0; i--) {
        uint64_t bit = words[i / 32] >> i % 32 & 1;
        if (first - i < 64)
            top = top << 1 | bit;
        else
            more = more || bit;
    }
    assert_true(first > 64);
    return ldexp((double)(top | more), first - 63 - 240);
}

static double expected(void) {
    uint64_t words[WORDS] = {0};
    for (int which = 0; which < RANGES; which++) {
        flat_range range;
        make_range(&range, which, 1);
        float *g = gradients_of(&range, which);
        for (int n = 0; n < range.tensor_count; n++) {
            const tensor *t = &range.tensors[n];
            size_t end = t->offset + tensor_count(t);
            for (size_t block = t->offset / EXACT_BLOCK; !t->copy && block * EXACT_BLOCK < end;
                 block++)
                add_integer(words, block_of(g, block, t->offset, end));
        }
        free(g);
    }
    return nearest(words);
}

/* ---- Tests ---- */

/* digits += slice r of `slices` of a range. */
static void add_slice(device *d, int which, int slices, int r, int64_t *digits) {
    flat_range range;
    make_range(&range, which, slices);
    float *g = gradients_of(&range, which);
    size_t count = range.count / (size_t)slices, begin = (size_t)r * count;
    OK(norm_exact_local(d, &range, 0, begin, count, g + begin, digits));
    free(g);
}

static void the_sum_is_that_of_integers_for_any_slices(void **state) {
    (void)state;
    const double want = expected();
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        device *d;
        OK(device_open(&d, kind, 2));
        for (int slices = 1; slices <= 12; slices++) {
            int64_t digits[SQUARES_DIGITS] = {0};
            for (int which = RANGES; which-- > 0;)
                for (int r = slices; r-- > 0;) add_slice(d, which, slices, r, digits);
            double got = exact_value(digits);
            assert_memory_equal(&got, &want, sizeof got);
        }
        device_close(&d);
    }
}

/* Ranges are units of other stages or parts of other tp ranks: each belongs to one rank of pp x tp, the slices of a
 * range to the dp ranks. */
static void check_layout(device *d, trine_layout l, double want) {
    trine_mesh *mesh;
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    trine_coord at = trine_mesh_coord(mesh);
    int64_t digits[SQUARES_DIGITS] = {0};
    double squares;
    for (int which = 0; which < RANGES; which++)
        if (which % (l.pp * l.tp) == at.pp * l.tp + at.tp) add_slice(d, which, l.dp, at.dp, digits);
    OK(norm_exact_global(mesh, digits, &squares));
    assert_memory_equal(&squares, &want, sizeof squares);
    if (at.tp == l.tp - 1 && at.pp == 0 && at.dp == l.dp - 1)
        digits[EXACT_NANS]++;
    else
        memset(digits, 0, sizeof digits);
    OK(norm_exact_global(mesh, digits, &squares));
    assert_true(isnan(squares));
    trine_mesh_destroy(&mesh);
}

static void every_layout_has_the_same_bits(void **state) {
    (void)state;
    const double want = expected();
    int ranks = trine_world_size(harness_world);
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; pp <= ranks; pp++)
            if (ranks % (tp * pp) == 0)
                check_layout(d, (trine_layout){.dp = ranks / (tp * pp), .tp = tp, .pp = pp}, want);
    device_close(&d);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_integers_for_any_slices),
        cmocka_unit_test(every_layout_has_the_same_bits),
    };
    return HARNESS_RUN(argc, argv, tests);
}

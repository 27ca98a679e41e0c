/* TEST np=0 */
/* The additions of TRINE_SUM_TREE (reduce/tree.c) against its definition, for any number of addends, in every type, on
 * both sides of a line and of a tile of additions. collectives.c tests the transports, split.c what the tree is for. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "comm/reduce/rank_order.h"

#define MOST_ADDENDS 70
#define MOST         1100 /* elements: more than a tile has */

typedef union {
    float f32[MOST];
    double f64[MOST];
    uint32_t i32[MOST];
    uint64_t i64[MOST];
    uint16_t half[MOST];
} numbers;

static numbers given[MOST_ADDENDS], *all[MOST_ADDENDS];
static trine_dtype type;

static float widened(uint16_t h) {
    return type == TRINE_BF16 ? bf16_load(h) : f16_load(h);
}

static uint16_t rounded(float x) {
    return type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
}

/* Both signs, and scales from 2^-12 to 2^12: many sums of four have other bits in another order. */
static double value(int addend, size_t i) {
    uint64_t h = ((uint64_t)addend * 1000003u + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    const double scale = (double)(1 << (h % 25)) / 4096.0 * (h & 64 ? 1 : -1);
    return scale * (1.0 + (double)(h >> 12) / 4503599627370496.0);
}

static void fill(void) {
    for (int a = 0; a < MOST_ADDENDS; a++) {
        all[a] = &given[a];
        for (size_t i = 0; i < MOST; i++) {
            const double x = value(a, i);
            switch (type) {
            case TRINE_F32: given[a].f32[i] = (float)x; break;
            case TRINE_F64: given[a].f64[i] = x; break;
            case TRINE_I32: given[a].i32[i] = (uint32_t)(int64_t)(x * 1e6); break;
            case TRINE_I64: given[a].i64[i] = (uint64_t)(int64_t)(x * 0x1p50); break;
            case TRINE_BF16:
            case TRINE_F16: given[a].half[i] = rounded((float)x); break;
            case TRINE_U8: break;
            }
        }
    }
}

/* ---- The definition -------------------------------------------------------------------------- */

/* The largest power of two below n. */
static int cut(int n) {
    int p = 1;
    while (2 * p < n) p *= 2;
    return p;
}

#define DEFINE_TREE(name, number, element)                                                         \
    static number name(int first, int n, size_t i) {                                               \
        if (n == 1) return element;                                                                \
        const int p = cut(n);                                                                      \
        const number left = name(first, p, i), right = name(first + p, n - p, i);                  \
        return left + right;                                                                       \
    }
DEFINE_TREE(tree_f32, float, given[first].f32[i])
DEFINE_TREE(tree_f64, double, given[first].f64[i])
DEFINE_TREE(tree_i32, uint32_t, given[first].i32[i])
DEFINE_TREE(tree_i64, uint64_t, given[first].i64[i])
DEFINE_TREE(tree_half, float, widened(given[first].half[i]))

static bool is_tree(const numbers *sum, int n, size_t i) {
    const float f = tree_f32(0, n, i), h = tree_half(0, n, i);
    const double d = tree_f64(0, n, i);
    switch (type) {
    case TRINE_F32: return memcmp(&sum->f32[i], &f, sizeof f) == 0;
    case TRINE_F64: return memcmp(&sum->f64[i], &d, sizeof d) == 0;
    case TRINE_I32: return sum->i32[i] == tree_i32(0, n, i);
    case TRINE_I64: return sum->i64[i] == tree_i64(0, n, i);
    case TRINE_BF16:
    case TRINE_F16: return sum->half[i] == rounded(h);
    case TRINE_U8: break;
    }
    return false;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* dst is another buffer, or one of the addends. */
static void check(int n, size_t count, bool in_place) {
    static numbers own, before;
    const size_t bytes = trine_dtype_bytes(type);
    numbers *dst = in_place ? &given[n - 1] : &own;
    before = given[n - 1];
    memset(&own, 0x5a, sizeof own);
    rank_order_combine(dst, (const void *const *)all, n, count, type, TRINE_SUM_TREE);
    own = *dst;
    given[n - 1] = before;
    for (size_t i = 0; i < count; i++)
        if (!is_tree(&own, n, i))
            fail_msg("type %d, %d addends: element %zu of %zu", (int)type, n, i, count);
    const char *behind = in_place ? (const char *)&before : NULL;
    for (size_t at = count * bytes; at < MOST * bytes; at++)
        if (((char *)&own)[at] != (behind ? behind[at] : 0x5a)) fail_msg("wrote behind dst");
}

static void every_number_of_addends(void **state) {
    (void)state;
    for (type = TRINE_F32; type <= TRINE_F16; type++) {
        if (type == TRINE_U8) continue;
        fill();
        for (int n = 1; n <= MOST_ADDENDS; n++) check(n, 35, n % 2);
    }
}

static void every_length(void **state) {
    (void)state;
    const size_t counts[] = {0, 1, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 1099};
    for (type = TRINE_F32; type <= TRINE_F16; type++) {
        if (type == TRINE_U8) continue;
        fill();
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check(4, counts[c], false);
            check(7, counts[c], true);
        }
    }
}

/* Several copies of a result that fits in no cache. */
static void streamed_copies(void **state) {
    (void)state;
    static numbers copies[3];
    void *const dsts[] = {&copies[0], &copies[1], &copies[2]};
    const rank_order_target to = {dsts, 3, true};
    type = TRINE_F32;
    fill();
    rank_order_combine_to(&to, (const void *const *)all, 6, MOST, type, TRINE_SUM_TREE);
    for (int c = 0; c < 3; c++)
        for (size_t i = 0; i < MOST; i++) assert_true(is_tree(&copies[c], 6, i));
}

/* The numbers are sensitive: rank order, and a cut in the middle, which is the same for powers of two, have other bits. */
static void numbers_can_tell(void **state) {
    (void)state;
    int in_order = 0, halved = 0;
    type = TRINE_F32;
    fill();
    for (size_t i = 0; i < 1000; i++) {
        float sum = given[0].f32[i], left = sum + given[1].f32[i] + given[2].f32[i];
        float right = given[3].f32[i] + given[4].f32[i] + given[5].f32[i];
        for (int a = 1; a < 6; a++) sum += given[a].f32[i];
        in_order += sum != tree_f32(0, 6, i);
        halved += left + right != tree_f32(0, 6, i);
    }
    if (in_order < 100 || halved < 100) fail_msg("%d %d", in_order, halved);
}

/* A NaN of any addend, wherever it stands in the tree. */
static void nan_is_seen(void **state) {
    (void)state;
    for (type = TRINE_F32; type <= TRINE_F16; type++) {
        if (type == TRINE_I32 || type == TRINE_I64 || type == TRINE_U8) continue;
        for (int n = 1; n <= 20; n++)
            for (int who = 0; who < n; who++) {
                static numbers sum;
                fill();
                for (size_t i = 0; i < 20; i += 19) {
                    if (type == TRINE_F32) given[who].f32[i] = NAN;
                    if (type == TRINE_F64) given[who].f64[i] = (double)NAN;
                    if (type > TRINE_F64) given[who].half[i] = rounded(NAN);
                }
                rank_order_combine(&sum, (const void *const *)all, n, 20, type, TRINE_SUM_TREE);
                for (size_t i = 0; i < 20; i += 19)
                    assert_true(type == TRINE_F32   ? isnan(sum.f32[i])
                                : type == TRINE_F64 ? isnan(sum.f64[i])
                                                    : isnan(widened(sum.half[i])));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_addends),
        cmocka_unit_test(every_length),
        cmocka_unit_test(streamed_copies),
        cmocka_unit_test(numbers_can_tell),
        cmocka_unit_test(nan_is_seen),
    };
    return HARNESS_RUN_ALONE(tests);
}

/* A device against ref, row by row of cases.h: values, NaNs and infinities; the same for every
 * backend. */
#ifndef TRINE_TESTS_OPS_COMPARE_H
#define TRINE_TESTS_OPS_COMPARE_H

#include "device/cpu/cpu.h"
#include "ops/cases.h"

/* Input with seed 1, output pre-filled with seed 2, and the operator run over them. `poison` is stored
 * at input element poison_at (skipped when that is SIZE_MAX). */
static inline float *output_of(device *d, const op_case *c, const dims *s, size_t poison_at,
                               float poison) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    float *in = fixture_random(in_count, 1, c->spread), *out = fixture_random(out_count, 2, 1.0);
    if (poison_at != SIZE_MAX) in[poison_at] = poison;
    c->run(d, s, in, out);
    free(in);
    return out;
}

static inline void label(char *text, size_t size, const op_case *c, const dims *s) {
    snprintf(text, size, "%s (%zu, %zu, %zu, %zu, %zu, %zu)", c->name, s->n[0], s->n[1], s->n[2],
             s->n[3], s->n[4], s->n[5]);
}

static inline const char *type_text(trine_dtype type) {
    return type == TRINE_F32 ? "fp32" : type == TRINE_BF16 ? "bf16" : "fp16";
}

/* Whether x is a number of a 16-bit type. fp32 statistics and gradients hardly ever are, so this
 * distinguishes them from 16-bit results in an output that contains both. */
static inline bool held_in(trine_dtype type, float x) {
    if (type == TRINE_BF16) return bf16_load(bf16_store(x)) == x;
    return type == TRINE_F16 && f16_load(f16_store(x)) == x;
}

/* The distance from x to the next number of a 16-bit type. */
static inline double unit_in(trine_dtype type, double x) {
    int exponent = -1000;
    if (x != 0.0 && isfinite(x)) frexp(x, &exponent);
    if (type == TRINE_BF16) return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 8);
    return ldexp(1.0, (exponent < -13 ? -13 : exponent) - 11);
}

/* Also true on the emulation. */
static inline bool on_a_gpu(const device *d) {
    return is_staged(d) && ((const staged *)d->state)->backend;
}

/* Tensor cores take 16-bit factors, and so does the bf16 instruction of a CPU, which takes heads of even size. */
static inline bool attention_rounds(const device *d, const dims *s) {
    if (on_a_gpu(d)) return d->compute != TRINE_F32;
    return cpu_multiplies_pairs(d->level) && strncmp(d->name, "cpu", 3) == 0 && d->compute == TRINE_BF16 &&
           s->n[3] % 2 == 0;
}

/* Whether the product is rounded before a 16-bit matrix is added to it: cuBLAS 13.1 does on an H200. */
static inline bool product_rounds(const device *d, const op_case *c) {
    if (!on_a_gpu(d) || d->compute == TRINE_F32) return false;
    return strcmp(c->name, "linear_residual") == 0 ||
           (strcmp(c->name, "linear_dw") == 0 && d->grads != TRINE_F32);
}

/* The size of the intermediate numbers that are rounded to 16 bits. A product before a matrix is added: the largest of
 * some thousand sums of K terms, which are normal and of size sqrt(K) / 3, is 4 to 5 times that. Attention's
 * probabilities and their gradients (times values of up to 2, and keys) before they are multiplied: half a unit of each;
 * their sums are of size one. dk and dv add such sums of all query heads of a group. */
static inline double rounded_on_the_way(const device *d, const op_case *c, const dims *s) {
    if (product_rounds(d, c)) {
        size_t in_count, out_count, terms;
        c->sizes(s, &in_count, &out_count, &terms);
        return 1.0 + 1.7 * sqrt((double)terms);
    }
    if (!attention_rounds(d, s)) return 0.0;
    if (strcmp(c->name, "attention_y") == 0) return 1.0;
    if (strcmp(c->name, "attention_cached") == 0)
        return on_a_gpu(d) ? 0.0 : 1.0; /* there in fp32 */
    if (strcmp(c->name, "attention_dqkv") != 0) return 0.0;
    return kv_heads(s) ? 4.0 * (double)(s->n[2] / kv_heads(s)) : 4.0;
}

/* The bound for a type, in addition to that for floats. Two neighbouring floats are rounded to the same
 * 16 bits or, if a rounding boundary is between them, to neighbours one unit apart. The frequency of the
 * latter is the distance of the floats in units: a few EPS of values up to 1, and more where the terms
 * of a sum cancel. Wrong rounding (truncation, double rounding) appears in every second or fourth value.
 * `way` is the result of rounded_on_the_way. */
typedef struct {
    double units, share, way;
} type_bound;

static inline type_bound bound_of(trine_dtype type) {
    switch ((int)type) {
    case TRINE_BF16: return (type_bound){1.0, 0.001, 0.0};
    case TRINE_F16: return (type_bound){1.0, 0.01, 0.0};
    default: return (type_bound){0.0, 0.0, 0.0};
    }
}

/* A tensor core truncates the sum of products instead of rounding it: an A100 after every 8 products, to
 * fp32, towards zero (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 2021); an H100 after every 16. So
 * the share of values with an error is a function of the K terms of a product, numbers of size 1:
 *
 **   sum         of K of them: normal, of size S = sqrt(K) / 3; the mean of |sum| over its partial sums
 *               is 0.8 * 2/3 S, and the power of two below it 0.72 of that
 *   a cut       half a unit of fp32, 2^-24 of that power: 2^-24 * 0.384 S
 **   distance    K / 8 cuts, if all have the same sign
 *   in units    of a 16-bit y: 2^m / 2^e, and in the mean of y 2^m * 1.44 * 0.8 / S * ln(S / least),
 *               m = 7 or 10, least = 1.44 * 2^m * near: the y whose unit is the floats' bound
 *   share       the product of both: K / 8 * 0.44 * 2^(m - 24) * ln(S / least)
 *
 * 0.23% in bf16 and 1.3% in fp16 at K = 768. The measured share of such a core is a tenth and a fourth of
 * it (emu/cublasLt.cc cuts like one): the last bits of most products are zeros, and a sum that
 * changes its sign cancels cuts. */
static inline double share_cut(trine_dtype type, double terms, double near) {
    const double size = sqrt(terms) / 3.0;
    const int m = type == TRINE_BF16 ? 7 : 10;
    const double most = size / (1.44 * ldexp(near, m));
    return most > 1.0 ? terms / 8.0 * 0.44 * ldexp(log(most), m - 24) : 0.0;
}

/* Of d's results of a case whose longest sum has `terms` terms; `near` is the bound for floats. */
static inline type_bound bound_on(const device *d, const op_case *c, const dims *s, double terms,
                                  double near) {
    type_bound b = bound_of(d->compute);
    b.way = rounded_on_the_way(d, c, s);
    if (c->matmul && on_a_gpu(d) && d->compute != TRINE_F32)
        b.share = share_cut(d->compute, terms, near);
    return b;
}

/* Fails unless in every element |got - want| <= bound * (size + |want|), and b of 16 bits, or both
 * are NaN. */
static inline void near_typed(const char *text, trine_dtype type, const float *got,
                              const float *want, size_t n, double bound, double size,
                              type_bound b) {
    size_t held = 0, other = 0;
    for (size_t i = 0; i < n; i++) {
        if (!held_in(type, got[i]) || !held_in(type, want[i])) {
            fixture_near(text, got + i, want + i, 1, bound, size);
            continue;
        }
        double x = (double)got[i], y = (double)want[i], most = fmax(fabs(x), fabs(y));
        double near = bound * (size + fabs(y)) + b.way * unit_in(type, 1.0) / 2;
        held++, other += x != y && fabs(x - y) > near;
        if (!(x == y || fabs(x - y) <= near + b.units * unit_in(type, most)))
            fail_msg("%s: element %zu of %zu is %.9g, not %.9g (bound %.3g)", text, i, n, x, y,
                     near + b.units * unit_in(type, most));
    }
    if (b.way == 0.0 && (double)other > 2.0 + b.share * (double)held)
        fail_msg("%s: %zu of %zu numbers are rounded differently", text, other, held);
}

/* A sum of K products of numbers of size 1 is of size sqrt(K) / 3. Its K roundings, each up to half
 * an EPS of the sum so far, walk at random: sqrt(K) times that. Beside sums, up to 16 roundings
 * (an exponential, a division, stored statistics) of values of the size of the result or of 1. */
static inline void near_in(const device *d, const op_case *c, const dims *s, const float *got,
                           const float *want) {
    size_t in_count, out_count, terms;
    char text[160];
    c->sizes(s, &in_count, &out_count, &terms);
    snprintf(text, sizeof text, "%s, %s and %s: ", d->name, type_text(d->compute),
             type_text(d->grads));
    label(text + strlen(text), sizeof text - strlen(text), c, s);
    double root = sqrt((double)terms), size = 1.0 + root / 3.0, bound = EPS * (8.0 + root);
    near_typed(text, d->compute, got, want, out_count, bound, size,
               bound_on(d, c, s, (double)terms, bound * size));
}

static inline size_t count_nan(const float *x, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i])) count++;
    return count;
}

#define LARGE 20000 /* inputs: a shape with more is run fewer times */

/* One NaN at seven places of the input, or at three: the same outputs are NaN as in ref, and no others.
 * Returns how many there were. */
static inline size_t check_nan(device *d, device *ref, const op_case *c, const dims *s) {
    size_t in_count, out_count, terms, seen = 0;
    c->sizes(s, &in_count, &out_count, &terms);
    if (in_count == 0 || in_count > 200000) return 0;
    for (size_t k = 0; k<7; k += in_count> LARGE ? 3 : 1) {
        size_t at = k * (in_count - 1) / 6;
        float *got = output_of(d, c, s, at, NAN), *want = output_of(ref, c, s, at, NAN);
        near_in(d, c, s, got, want);
        seen += count_nan(want, out_count);
        free(got), free(want);
    }
    return seen;
}

/* Infinities, in large shapes with alternating signs: an element that ref leaves finite is finite and near, any other
 * is not finite. */
static inline void check_infinity(device *d, device *ref, const op_case *c, const dims *s,
                                  float what) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    if (in_count == 0 || in_count > 200000) return;
    for (size_t k = 0; k < 3; k++) {
        size_t at = k * (in_count - 1) / 2;
        if (in_count > LARGE && (k == 1) != (what < 0.0f)) continue;
        float *got = output_of(d, c, s, at, what), *want = output_of(ref, c, s, at, what);
        for (size_t i = 0; i < out_count; i++)
            if (!isfinite(want[i]) && !isfinite(got[i])) got[i] = want[i] = 0.0f;
        near_in(d, c, s, got, want);
        free(got), free(want);
    }
}

/* ---- All rows -------------------------------------------------------------------------------- */

#define EACH_SHAPE(c, s)                                                                           \
    for (const op_case *c = op_cases; c < op_cases + OP_CASES; c++)                                \
        for (const dims *s = c->shapes; s < c->shapes + c->count; s++)

static inline void all_equal_ref(device *d) {
    device *ref = ref_of(d);
    EACH_SHAPE(c, s) {
        float *got = output_of(d, c, s, SIZE_MAX, 0.0f);
        float *want = output_of(ref, c, s, SIZE_MAX, 0.0f);
        near_in(d, c, s, got, want);
        free(got), free(want);
    }
    each_close(&ref);
}

static inline void all_nans_come_out(device *d) {
    device *ref = ref_of(d);
    for (const op_case *c = op_cases; c < op_cases + OP_CASES; c++) {
        size_t seen = 0;
        for (size_t j = 0; j < c->count; j++) seen += check_nan(d, ref, c, &c->shapes[j]);
        if (seen == 0) fail_msg("%s: no NaN in the output", c->name);
    }
    each_close(&ref);
}

static inline void all_infinities_come_out(device *d) {
    device *ref = ref_of(d);
    EACH_SHAPE(c, s) {
        check_infinity(d, ref, c, s, INFINITY);
        check_infinity(d, ref, c, s, -INFINITY);
    }
    each_close(&ref);
}

/* Fails unless a and b are the case's output with the same bits; frees both. */
static inline void same_bits(const op_case *c, const dims *s, float *a, float *b,
                             const char *what) {
    size_t in_count, out_count, terms;
    char text[128];
    c->sizes(s, &in_count, &out_count, &terms);
    label(text, sizeof text, c, s);
    if (memcmp(a, b, out_count * sizeof *a) != 0) fail_msg("%s: bits differ %s", text, what);
    free(a), free(b);
}

/* The output with all numbers at other addresses, 4 bytes off every vector's alignment. */
static inline float *output_elsewhere(device *d, const op_case *c, const dims *s) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    float *in = fixture_random(in_count, 1, c->spread), *out = fixture_random(out_count, 2, 1.0);
    float *in_off = fixture_bytes((in_count + 1) * sizeof *in_off);
    float *out_off = fixture_bytes((out_count + 3) * sizeof *out_off);
    memcpy(in_off + 1, in, in_count * sizeof *in);
    memcpy(out_off + 3, out, out_count * sizeof *out);
    c->run(d, s, in_off + 1, out_off + 3);
    memcpy(out, out_off + 3, out_count * sizeof *out);
    free(in), free(in_off), free(out_off);
    return out;
}

static inline void no_address_changes_a_bit(device *d) {
    EACH_SHAPE(c, s) {
        if (c->matmul) continue;
        same_bits(c, s, output_of(d, c, s, SIZE_MAX, 0.0f), output_elsewhere(d, c, s),
                  "at another address");
    }
}

#endif

/* Sums of doubles that are exact, and so do not depend on the order of the addends nor on who adds them: parts of a
 * sum may be added anywhere, in any groups, and then to each other. Only exact_value rounds, once.
 *
 * A sum is EXACT_WORDS int64 numbers, a fixed-point number in EXACT_DIGITS digits of 32 bits, digit i of weight
 * 2^(32 i + EXACT_UNIT), and how many addends were infinite or NaN. Two sums are added word by word; over ranks that
 * is an all-reduce of TRINE_I64. Digits may be above 2^32 until exact_carry: an addend adds less than 2^32 to a
 * digit, and there is room for 2^31 of them. Zeros are an empty sum.
 *
 * Addends: 0, [2^-298, 2^263), infinity; anything else counts as NaN. Total: below 2^320. So 2^48 squares of fp32
 * numbers fit, subnormals included, and sums of such squares that are rounded to double.
 * Kulisch, "Computer arithmetic and validity", 2008, chapter 8; Collange, Defour, Graillat and Iakymchuk, "Numerical
 * reproducibility for the parallel reduction on multi- and many-core architectures", Parallel Computing 49, 2015. */
#ifndef TRINE_BASE_EXACT_SUM_H
#define TRINE_BASE_EXACT_SUM_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Also for CUDA kernels. */
#if defined(__CUDACC__)
#define EXACT_FUNCTION static inline __host__ __device__
#else
#define EXACT_FUNCTION static inline
#endif

#define EXACT_DIGITS     20
#define EXACT_UNIT       (-350)
#define EXACT_INFINITIES EXACT_DIGITS       /* the word that counts infinities */
#define EXACT_NANS       (EXACT_DIGITS + 1) /* the word that counts NaNs */
#define EXACT_WORDS      (EXACT_DIGITS + 2)

/* Exponents of finite addends other than 0, as a double stores them: that of 2^-298, and how many there are. Number
 * `bin` of them is that of a 53-bit mantissa with the weight 2^(bin + EXACT_UNIT). */
#define EXACT_FIRST (1023 - 298)
#define EXACT_BINS  561
#define EXACT_HIGH  (UINT64_C(1) << 52) /* the mantissa's first bit, which is not stored */

/* sum += n * 2^(bin + EXACT_UNIT). */
EXACT_FUNCTION void exact_put(int64_t *sum, uint64_t n, unsigned bin) {
    int64_t *digits = sum + bin / 32;
    const unsigned shift = bin % 32;
    const uint64_t high = n >> (32 - shift);
    digits[0] += (int64_t)(n << shift & 0xFFFFFFFFu);
    digits[1] += (int64_t)(high & 0xFFFFFFFFu);
    digits[2] += (int64_t)(high >> 32);
}

/* The bin of a number with these bits, EXACT_BINS or more if it has none, and its mantissa. */
EXACT_FUNCTION uint64_t exact_bin(uint64_t bits) {
    return (bits >> 52) - EXACT_FIRST;
}
EXACT_FUNCTION uint64_t exact_mantissa(uint64_t bits) {
    return (bits & (EXACT_HIGH - 1)) | EXACT_HIGH;
}
EXACT_FUNCTION uint64_t exact_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* sum += x. */
EXACT_FUNCTION void exact_add(int64_t *sum, double x) {
    const uint64_t bits = exact_bits(x), infinity = UINT64_C(0x7FF) << 52;
    if (exact_bin(bits) < EXACT_BINS)
        exact_put(sum, exact_mantissa(bits), (unsigned)exact_bin(bits));
    else if (bits << 1)
        sum[bits == infinity ? EXACT_INFINITIES : EXACT_NANS]++;
}

/* Makes all digits but the last less than 2^32; equal sums then have equal words. */
EXACT_FUNCTION void exact_carry(int64_t *sum) {
    for (int i = 0; i + 1 < EXACT_DIGITS; i++) {
        sum[i + 1] += sum[i] >> 32;
        sum[i] &= 0xFFFFFFFF;
    }
}

/* The double that is nearest to the sum, ties to even; NaN if there was one, else infinity if there was one. The sum
 * need not be carried, and is not changed. Pure. */
double exact_value(const int64_t *sum);

/* For long sums: mantissas are added by exponent, a few instructions for each addend, and put into digits when a bin
 * could be full. Zeros are an empty one; 4.6 KB.
 * Neal, "Fast exact summation using small and large superaccumulators", 2015, section 4. */
typedef struct {
    uint64_t bins[EXACT_BINS];
    int64_t sum[EXACT_WORDS]; /* what is not in bins */
    unsigned count;           /* addends since the bins were empty */
} exact_bins;

#define EXACT_ROOM 2048 /* addends of 53 bits to 64 bits */

/* b->sum += what is in the bins, which are then empty. */
void exact_bins_empty(exact_bins *b);

/* b += x. */
static inline void exact_bins_add(exact_bins *b, double x) {
    const uint64_t bits = exact_bits(x), bin = exact_bin(bits);
    if (bin < EXACT_BINS)
        b->bins[bin] += exact_mantissa(bits);
    else
        exact_add(b->sum, x);
    if (++b->count == EXACT_ROOM) exact_bins_empty(b);
}

#ifdef __cplusplus
}
#endif

#endif

#include "base/rng.h"

#include <math.h>
#include <string.h>
#include <xxhash.h> /* XXH3_64bits_withSeed */

#include "base/status.h"

#define PHILOX_ROUNDS  10
#define FEISTEL_ROUNDS 6

/* The multipliers, and the Weyl increments of the key: the golden ratio and sqrt(3) - 1. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static uint32_t low(uint64_t x) {
    return (uint32_t)x;
}

static uint32_t high(uint64_t x) {
    return (uint32_t)(x >> 32);
}

uint64_t rng_key(uint64_t seed, const char *name) {
    return XXH3_64bits_withSeed(name, strlen(name), seed);
}

void rng_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = high(p1) ^ c1 ^ k0;
        c1 = low(p1);
        c2 = high(p0) ^ c3 ^ k1;
        c3 = low(p0);
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void rng_philox(uint32_t out[4], uint64_t key, uint64_t block) {
    rng_philox4x32(out, (uint32_t[4]){low(block), high(block), 0, 0},
                   (uint32_t[2]){low(key), high(key)});
}

/* The midpoint of one of 2^32 equal intervals of (0, 1): never 0, so that its logarithm is finite. */
static double uniform(uint32_t word) {
    return (word + 0.5) * 0x1p-32;
}

/* Box-Muller: two uniform words become two independent standard normal numbers. */
static void normal_pair(double out[2], const uint32_t word[2]) {
    double radius = sqrt(-2.0 * log(uniform(word[0])));
    double angle = 2.0 * 3.14159265358979323846 * uniform(word[1]);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

void rng_normal(float *out, uint64_t key, uint64_t first, size_t count, double std) {
    for (size_t i = 0; i < count;) {
        uint32_t word[4];
        double normal[4];
        rng_philox(word, key, (first + i) / 4);
        normal_pair(normal, word);
        normal_pair(normal + 2, word + 2);
        for (size_t n = (first + i) % 4; n < 4 && i < count; n++)
            out[i++] = (float)(std * normal[n]);
    }
}

void rng_uniform(float *out, uint64_t key, uint64_t first, size_t count, double std) {
    const double most = sqrt(3.0) * std;
    for (size_t i = 0; i < count;) {
        uint32_t word[4];
        rng_philox(word, key, (first + i) / 4);
        for (size_t n = (first + i) % 4; n < 4 && i < count; n++)
            out[i++] = (float)(most * (2 * uniform(word[n]) - 1));
    }
}

/* The round function is Philox, too; the round is in a counter word that named streams leave at zero. */
static uint32_t feistel_round(uint64_t key, uint32_t round, uint32_t half) {
    uint32_t out[4];
    rng_philox4x32(out, (uint32_t[4]){half, 0, round + 1, 0}, (uint32_t[2]){low(key), high(key)});
    return out[0];
}

/* A permutation of [0, 4^half_bits), half_bits <= 32. */
static uint64_t feistel(uint64_t key, int half_bits, uint64_t x) {
    uint32_t mask = low((UINT64_C(1) << half_bits) - 1);
    uint32_t left = low(x >> half_bits), right = low(x) & mask;
    for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t next = left ^ (feistel_round(key, round, right) & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

uint64_t rng_permute(uint64_t key, uint64_t n, uint64_t i) {
    ASSERT(i < n);
    int half_bits = 0;
    while (half_bits < 32 && UINT64_C(1) << 2 * half_bits < n) half_bits++;
    /* 4^half_bits < 4n, so there are fewer than four steps on average. The loop terminates because the
     * permutation's cycle through i returns to i, which is below n. */
    do i = feistel(key, half_bits, i);
    while (i >= n);
    return i;
}

/* Counter-based random numbers. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011) maps (key, counter) to four 32-bit words without state. Element i of tensor
 * "h.3.ln_1.weight" has the same initial value on every layout, because it is a function of the tensor's
 * name and the global index, not of the order of calls.
 *
 *   key      = { low, high } 32 bits of rng_key(seed, name)
 *   counter  = { low, high of the block index, 0, 0 }; block = index / 4, word = index % 4
 *   normal   words (0,1) and (2,3) are Box-Muller pairs: u = (x + 0.5) / 2^32 in double,
 *            n0 = sqrt(-2 ln u0) cos(2 pi u1), n1 = sqrt(-2 ln u0) sin(2 pi u1)
 *   rng_key  = XXH3_64bits_withSeed(name, strlen(name), seed)
 *
 * Cost: about 30 integer multiplications per four words. */
#ifndef TRINE_BASE_RNG_H
#define TRINE_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The key of a named stream. Not collective. */
uint64_t rng_key(uint64_t seed, const char *name);

/* Philox4x32-10 itself, with a 128-bit counter and a 64-bit key. */
void rng_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* Four words for one block of a stream. */
void rng_philox(uint32_t out[4], uint64_t key, uint64_t block);

/* out[i] = normal number (mean 0, standard deviation `std`) of global element first + i, i < count. */
void rng_normal(float *out, uint64_t key, uint64_t first, size_t count, double std);

/* The same, uniform in (-a, a) with a = sqrt(3) std: word x becomes a (2 (x + 0.5) / 2^32 - 1). */
void rng_uniform(float *out, uint64_t key, uint64_t first, size_t count, double std);

/* A pseudo-random permutation of [0, n): the image of i, a pure function of (key, n, i), i < n.
 * A six-round Feistel network on the next even number of bits, applied until the result is below n
 * (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). */
uint64_t rng_permute(uint64_t key, uint64_t n, uint64_t i);

#endif

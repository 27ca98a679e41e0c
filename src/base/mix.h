/* A hash of 64 bits: each bit of x changes half of the result's. The finalizer of MurmurHash3 (Appleby, public
 * domain). Pure. */
#ifndef TRINE_BASE_MIX_H
#define TRINE_BASE_MIX_H

#include <stdint.h>

static inline uint64_t mix_bits(uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

#endif

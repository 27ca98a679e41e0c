/* The bytes of a rank in closed form: what docs/design.md and docs/numbers.md promise of memory and
 * traffic, written down once more from the sizes alone, so that the plan (state/state.c,
 * run/traffic.c), the memory that was taken and the tallies can be held against something that
 * none of them has made. */
#ifndef TRINE_TESTS_FORMULA_H
#define TRINE_TESTS_FORMULA_H

#include "base/arena.h"
#include "core/program.h"
#include "run/traffic.h"

/* The rank that is meant. Of the spec only the split and the number of micro-batches are read. */
typedef struct {
    const trine_config *config;
    const program_spec *spec;
    trine_coord at;
    size_t attention; /* bytes of the device's attention workspace */
    bool far;         /* the host cannot touch the device's memory, which is what is counted */
} formula_rank;

/* Elements, padded, of the ranges that a stage holds: as parameters, as gradients (a tied matrix
 * has two accumulators even on one stage). */
size_t formula_params(const formula_rank *r);
size_t formula_grads(const formula_rank *r);

typedef struct {
    size_t bytes[MEM_KINDS], total;
} formula_bytes;

formula_bytes formula_memory(const formula_rank *r);

/* Of it, what other ranks read where it lies, if they share a node: what goes into windows. */
size_t formula_windows(const formula_rank *r);

/* Of far memory, what arrives from other ranks: with what they read, the size of the mirror. And
 * what the host takes beside it. 0 on processors. */
size_t formula_exchanged(const formula_rank *r);
size_t formula_host(const formula_rank *r);

/* Bytes handed to the transport in one training step. */
traffic formula_traffic(const formula_rank *r);

#endif

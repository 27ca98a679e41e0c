/* Correct and faulty kernels for the emulation's own tests (kernels.cu). Each
 * launch is one kernel on `stream`; x and y are in device memory. */
#ifndef TRINE_TESTS_EMU_KERNELS_H
#define TRINE_TESTS_EMU_KERNELS_H

#include "emu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BLOCK 256

/* y[i] = value, i < n */
void launch_fill(cudaStream_t stream, float *y, float value, int n);
/* y[i] += x[i], i < n */
void launch_add(cudaStream_t stream, float *y, const float *x, int n);
/* y[i] = the place of the grid's i-th thread: its index in the block, the block's index in the grid. */
typedef struct {
    unsigned thread[3], block[3];
} place;
void launch_places(cudaStream_t stream, place *y, dim3 grid, dim3 block);

/* y[i] = times, for blocks * BLOCK elements: each thread waits so often for its thread block or its warp, or NEVER. */
typedef enum { NEVER, AT_BARRIERS, IN_SHUFFLES } waits;
void launch_repeated(cudaStream_t stream, int *y, int blocks, waits what, int times);

/* Each BLOCK elements of x reversed, through shared memory; with its barrier, or without. */
typedef enum { BARRIER, NO_BARRIER } barriers;
void launch_reverse(cudaStream_t stream, float *y, const float *x, int blocks, barriers which);
/* The same twice through one array: the second round overwrites data that the first still reads. */
void launch_rounds(cudaStream_t stream, float *y, const float *x, int blocks, barriers which);
/* The same within a warp, with __syncwarp or without. */
void launch_warps(cudaStream_t stream, float *y, const float *x, int blocks, barriers which);
/* y[block] = the sum of its BLOCK elements of x, by shuffles and dynamic shared memory. */
void launch_sum(cudaStream_t stream, float *y, const float *x, int blocks);
/* y[i], i < n floats: the initial contents of dynamic shared memory. */
void launch_shared(cudaStream_t stream, float *y, int n);

/* y[thread] = the sum of 4 floats of each tile (4 * BLOCK of x), through two stages of asynchronous
 * copies by BLOCK threads: without a fault, or with one. */
typedef enum {
    IN_TIME,
    NEVER_WAITED,    /* until the end */
    WAITED_TOO_LITTLE, /* waits for all groups but the needed one */
    NOT_SHARED_YET,  /* no barrier after the wait */
    ONE_STAGE,       /* copies over data that others still read */
    LEFT_BEHIND,     /* returns with a copy in progress */
    FROM_ODD_PLACE,  /* x + 1 */
    TO_ODD_PLACE,
    TO_GLOBAL_MEMORY
} copy_faults;
void launch_stages(cudaStream_t stream, float *y, const float *x, int tiles, copy_faults which);

/* Accesses of more than one block: of BLOCK threads, whose block i has y + i, or all have y. */
typedef enum {
    OWN,          /* writes y[block] */
    SAME,         /* writes the same number to y[0] */
    SAME_ATOMIC,  /* adds to y[0] by atomicAdd */
    NEXT          /* reads y[block + 1], writes y[block] */
} block_faults;
void launch_blocks(cudaStream_t stream, int *y, int blocks, block_faults which);
/* Each warp's lanes exchange a number through shared memory: with __syncwarp between, or a shuffle, which orders
 * nothing. */
void launch_by_shuffle(cudaStream_t stream, float *y, const float *x, barriers which);
/* One warp reads x[stride * lane], writes it to shared memory at that place, and another lane's to y[lane].
 * stride <= 32 */
void launch_strided(cudaStream_t stream, float *y, const float *x, int stride);

/* One warp: y[lane] = the result of a shuffle of x[lane]. */
typedef enum { INDEX, XOR, UP, DOWN } shuffles;
void launch_shuffle_int(cudaStream_t stream, int *y, const int *x, shuffles which, int operand,
                        int width);
void launch_shuffle_double(cudaStream_t stream, double *y, const double *x, shuffles which,
                           int operand, int width);
/* The odd and the even lanes add up separately, the odd ones more often: y[lane] = sum. */
void launch_halves(cudaStream_t stream, int *y, const int *x);
/* y[3 * lane + 0, 1, 2] = any, all, ballot of x[lane] != 0 */
void launch_votes(cudaStream_t stream, unsigned *y, const int *x);

/* Faulty kernels, of BLOCK threads unless `threads` is given. */
void launch_early_return(cudaStream_t stream);    /* thread 7 returns before the barrier */
void launch_two_barriers(cudaStream_t stream);    /* thread 7 is at another barrier */
void launch_missing_lane(cudaStream_t stream);    /* lane 5 does not reach the shuffle */
void launch_foreign_mask(cudaStream_t stream);    /* lane 31 is not in its mask */
void launch_other_mask(cudaStream_t stream);      /* two masks that have lanes in common */
void launch_other_kind(cudaStream_t stream);       /* lane 3 is at another shuffle */
void launch_odd_width(cudaStream_t stream);       /* a width of 12 */
void launch_short_warp(cudaStream_t stream);      /* 40 threads, all lanes of the second warp */
void launch_threads(cudaStream_t stream, int threads);
/* A kernel with __launch_bounds__ of 96, a template, and one of 512. */
void launch_96(cudaStream_t stream, int threads);
void launch_512(cudaStream_t stream, int threads);
void launch_misaligned(cudaStream_t stream, float *y);      /* a float4 at y + 1 */
void launch_outside_array(cudaStream_t stream, int index);  /* of a shared array of BLOCK */
void launch_outside_shared(cudaStream_t stream, int bytes); /* writes after its dynamic memory */
void launch_store(cudaStream_t stream, float *y, long at);  /* y[at] = 1 */
/* Requests that much dynamic shared memory; `allow`: permits it with cudaFuncSetAttribute first. */
cudaError_t launch_much_shared(cudaStream_t stream, int bytes);
cudaError_t allow_much_shared(int bytes);

#ifdef __cplusplus
}
#endif

#endif

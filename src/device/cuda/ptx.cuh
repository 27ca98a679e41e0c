/* Instructions without a CUDA C++ function (PTX ISA 7.0 and later; sm_80 and later): asynchronous copies
 * from global to shared memory, and 2^x in one instruction; and a number that is opaque to the compiler.
 *
 * A thread's copies since its last ptx_copies_end are a group; ptx_copies_wait<N> returns when all
 * groups of the thread but the newest N have arrived. Data that other threads copied is visible after
 * their wait and a barrier; a barrier is also required between the last read of the old contents and
 * ptx_copy16. The asm of the copies has no memory clobber: they are ordered by these barriers and waits,
 * across which the compiler moves nothing. The emulation (emu/ptx.h) has the same functions. */
#ifndef TRINE_DEVICE_CUDA_PTX_CUH
#define TRINE_DEVICE_CUDA_PTX_CUH

#include <stdint.h>

#include "device/cuda/cuda.h"

#ifdef __CUDACC__

/* Copies 16 bytes; both addresses are multiples of 16. Bypasses the L1 cache. */
static __device__ inline void ptx_copy16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(__cvta_generic_to_global(global)));
}

static __device__ inline void ptx_copies_end(void) {
    asm volatile("cp.async.commit_group;");
}

template <int NEWEST> static __device__ inline void ptx_copies_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

/* x, about which the compiler knows nothing: it does not rewrite products with it. */
static __device__ inline uint32_t ptx_opaque(uint32_t x) {
    asm("" : "+r"(x));
    return x;
}

/* 2^x with relative error 2^-22; results and arguments below 2^-126 become zero. (exp2f is the same instruction
 * with two multiplications and a comparison for these numbers.) */
static __device__ inline float ptx_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include "ptx.h"
#endif

#endif

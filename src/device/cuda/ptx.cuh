/* Instructions that CUDA C++ has no name for (PTX ISA 7.0 and later; sm_80 and later): copies from
 * global to shared memory that run beside the thread which began them, and 2^x in one instruction.
 *
 * A thread's copies since its last ptx_copies_end are a group; ptx_copies_wait<N> returns when all
 * groups of the thread but the newest N have arrived. What other threads copied is there behind a
 * barrier after their wait, and a barrier must lie between the last read of the old contents and
 * ptx_copy16. The copies' asm names no memory: what orders them is those barriers and waits, which
 * the compiler moves nothing across. The emulation (emu/ptx.h) has the same functions. */
#ifndef TRINE_DEVICE_CUDA_PTX_CUH
#define TRINE_DEVICE_CUDA_PTX_CUH

#include <stdint.h>

#include "device/cuda/cuda.h"

#ifdef __CUDACC__

/* 16 bytes, both addresses multiples of 16; past the first-level cache. */
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

/* 2^x to 2^-22 of it; results and arguments below 2^-126 are zeros. (exp2f is the same instruction
 * between two products and a comparison that save those.) */
static __device__ inline float ptx_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include "ptx.h"
#endif

#endif

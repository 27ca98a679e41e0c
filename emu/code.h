/* The language of kernels: CUDA's keywords, indices, barriers, shuffles and launches, for the
 * host's compiler (C++ only). One thread of one block runs at a time, on a stack of its own from
 * its first barrier or shuffle on; before that it is a call. The next thread is chosen by the
 * seed, so that a missing __syncthreads shows: the shared memory that it should have
 * waited for holds NaN or the values of an earlier block.
 *
 * Stricter than the hardware on purpose: a thread that has returned is missing at a barrier and in
 * a mask, the threads of a block must meet at the same __syncthreads (file and line), and shared
 * memory is never zero by chance. Atomics on floating-point data are not declared. */
#ifndef TRINE_EMU_CODE_H
#define TRINE_EMU_CODE_H

#include <string.h>

#include "cuda_runtime.h"
#include "maths.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__       inline __attribute__((always_inline))
/* A bound is encoded as no-op instructions before the function, one for each 32 threads: the
 * compiler records where they start, and the launch counts them (kernel.cc). */
#define __launch_bounds__(threads, ...)                                                            \
    __attribute__((patchable_function_entry((threads) / 32, (threads) / 32)))
#define __grid_constant__
#define __align__(bytes)      __attribute__((aligned(bytes)))
/* One block runs at a time. The section is sometimes filled with NaN (kernel.cc). */
#define __shared__            static __attribute__((section("emu_shared")))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

/* The memory of SHARED_MEMORY: exactly the bytes of the launch, then a guard page. */
void *emu_shared_memory(void);
/* Aborts unless p is a multiple of `align` and [p, p + bytes) is shared memory; `what`, file and line are for the
 * message. */
void emu_check_shared(const char *what, const void *p, size_t bytes, size_t align, const char *file,
                      int line);

/* ---- Barriers, shuffles, votes --------------------------------------------------------------- */

typedef enum {
    EMU_SYNC,
    EMU_INDEX,
    EMU_XOR,
    EMU_UP,
    EMU_DOWN,
    EMU_ANY,
    EMU_ALL,
    EMU_BALLOT
} emu_exchange_kind;

void emu_barrier(const char *file, int line);
uint64_t emu_exchange(emu_exchange_kind kind, unsigned mask, uint64_t value, int operand, int width,
                      const char *file, int line);

/* The caller's file and line. */
#define EMU_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(EMU_PLACE) {
    emu_barrier(file, line);
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_PLACE) {
    emu_exchange(EMU_SYNC, mask, 0, 0, 32, file, line);
}

template <typename T>
static inline T emu_shuffle(emu_exchange_kind kind, unsigned mask, T value, int operand, int width,
                            const char *file, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles are of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emu_exchange(kind, mask, bits, operand, width, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMU_PLACE) {
    return emu_shuffle(EMU_INDEX, mask, value, lane, width, file, line);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMU_PLACE) {
    return emu_shuffle(EMU_XOR, mask, value, lanes, width, file, line);
}

template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_PLACE) {
    return emu_shuffle(EMU_UP, mask, value, (int)by, width, file, line);
}

template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_PLACE) {
    return emu_shuffle(EMU_DOWN, mask, value, (int)by, width, file, line);
}

static inline int __any_sync(unsigned mask, int predicate, EMU_PLACE) {
    return (int)emu_exchange(EMU_ANY, mask, predicate != 0, 0, 32, file, line);
}

static inline int __all_sync(unsigned mask, int predicate, EMU_PLACE) {
    return (int)emu_exchange(EMU_ALL, mask, predicate != 0, 0, 32, file, line);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_PLACE) {
    return (unsigned)emu_exchange(EMU_BALLOT, mask, predicate != 0, 0, 32, file, line);
}

static inline void __threadfence(void) {
}

static inline void __threadfence_block(void) {
}

/* ---- Memory ---------------------------------------------------------------------------------- */

template <typename T> static inline T __ldg(const T *p) {
    return *p;
}

template <typename T> static inline T __ldcs(const T *p) {
    return *p;
}

template <typename T> static inline T __ldcg(const T *p) {
    return *p;
}

template <typename T, typename V> static inline void __stcs(T *p, V value) {
    *p = value;
}

template <typename T, typename V> static inline void __stcg(T *p, V value) {
    *p = value;
}

/* Accesses between these two are atomic, or are a row's of ldmatrix; for races.cc. */
void emu_atomic_begin(void);
void emu_atomic_end(void);
void emu_row_begin(const void *row, size_t bytes);
void emu_row_end(void);

/* On integers only: their sums do not depend on the order. */
#define EMU_ATOMIC(name, type, result)                                                             \
    static inline type name(type *p, type value) {                                                 \
        emu_atomic_begin();                                                                        \
        type old = *p;                                                                             \
        *p = (result);                                                                             \
        emu_atomic_end();                                                                          \
        return old;                                                                                \
    }
EMU_ATOMIC(atomicAdd, int, old + value)
EMU_ATOMIC(atomicAdd, unsigned, old + value)
EMU_ATOMIC(atomicAdd, unsigned long long, old + value)
EMU_ATOMIC(atomicMax, int, old > value ? old : value)
EMU_ATOMIC(atomicMax, unsigned, old > value ? old : value)
EMU_ATOMIC(atomicMin, int, old < value ? old : value)
EMU_ATOMIC(atomicMin, unsigned, old < value ? old : value)
EMU_ATOMIC(atomicOr, unsigned, old | value)
EMU_ATOMIC(atomicExch, int, value)
EMU_ATOMIC(atomicExch, unsigned, value)
#undef EMU_ATOMIC

/* ---- Launches -------------------------------------------------------------------------------- */

typedef void (*emu_function)(void *context);

/* Enqueues a launch: `run` is called once a thread, `drop` after all have run. */
void emu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
                cudaStream_t stream, emu_function run, emu_function drop, void *context);

template <typename F> static void emu_run_thread(void *context) {
    (*(F *)context)();
}

template <typename F> static void emu_drop_launch(void *context) {
    delete (F *)context;
}

template <typename... P> struct emu_launching {
    const char *name;
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;

    /* Arguments are passed by value, as in a launch. */
    void operator()(P... arguments) const {
        void (*k)(P...) = kernel;
        auto thread = [=] { k(arguments...); };
        typedef decltype(thread) F;
        emu_launch(name, (const void *)kernel, grid, block, shared, stream, emu_run_thread<F>,
                   emu_drop_launch<F>, new F(thread));
    }
};

template <typename... P>
static inline emu_launching<P...> emu_make_launcher(const char *name, void (*kernel)(P...),
                                                    dim3 grid, dim3 block, size_t shared,
                                                    cudaStream_t stream) {
    return {name, kernel, grid, block, shared, stream};
}

/* A kernel that is launched through a variable gets the name of the file. */
static inline const char *emu_kernel_name(const char *kernel, const char *file) {
    return strcmp(kernel, "kernel") == 0 || strstr(kernel, "->kernel") ? file : kernel;
}

/* emu_launcher(kernel, grid, block, shared, stream)(arguments...) is
 * kernel<<<...>>>(arguments...). */
#define emu_launcher(kernel, grid, block, shared, stream)                                          \
    emu_make_launcher(emu_kernel_name(#kernel, __FILE_NAME__), kernel, grid, block, shared, stream)

template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...),
                                               enum cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

#endif

#include "device/cuda/combine.h"
#include "base/half.h"

#define THREADS 256
#define BLOCKS  2048 /* fill any GPU; a thread then has several elements */

#define ADD(a, b) ((a) + (b))
/* A NaN on either side is the result, so that it is not lost. */
#define LARGER_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define LARGER(a, b)        ((b) > (a) ? (b) : (a))

/* There are no multiplications that the compiler could contract with the additions. */
#define DEFINE_COMBINE(name, type, combine)                                                        \
    static __global__ void name(type *dst, const type *others, const type *own, size_t stride,     \
                                int rank, int size, size_t count) {                                \
        size_t threads = (size_t)gridDim.x * blockDim.x;                                           \
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {  \
            type sum = rank == 0 ? own[i] : others[i];                                             \
            for (int r = 1; r < size; r++) {                                                       \
                type x = r == rank ? own[i] : others[(size_t)r * stride + i];                      \
                sum = combine(sum, x);                                                             \
            }                                                                                      \
            dst[i] = sum;                                                                          \
        }                                                                                          \
    }

/* 16-bit numbers are combined in fp32 and rounded once at the end. */
#define DEFINE_COMBINE_HALF(name, load, round, combine)                                            \
    static __global__ void name(uint16_t *dst, const uint16_t *others, const uint16_t *own,        \
                                size_t stride, int rank, int size, size_t count) {                 \
        size_t threads = (size_t)gridDim.x * blockDim.x;                                           \
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {  \
            float sum = load(rank == 0 ? own[i] : others[i]);                                      \
            for (int r = 1; r < size; r++) {                                                       \
                float x = load(r == rank ? own[i] : others[(size_t)r * stride + i]);               \
                sum = combine(sum, x);                                                             \
            }                                                                                      \
            dst[i] = round(sum);                                                                   \
        }                                                                                          \
    }

DEFINE_COMBINE_HALF(sum_bf16, bf16_load, bf16_store, ADD)
DEFINE_COMBINE_HALF(sum_f16, f16_load, f16_store, ADD)
DEFINE_COMBINE_HALF(max_bf16, bf16_load, bf16_store, LARGER_OR_NAN)
DEFINE_COMBINE_HALF(max_f16, f16_load, f16_store, LARGER_OR_NAN)
DEFINE_COMBINE(sum_f32, float, ADD)
DEFINE_COMBINE(sum_f64, double, ADD)
DEFINE_COMBINE(sum_i32, uint32_t, ADD)
DEFINE_COMBINE(sum_i64, uint64_t, ADD)
DEFINE_COMBINE(max_f32, float, LARGER_OR_NAN)
DEFINE_COMBINE(max_f64, double, LARGER_OR_NAN)
DEFINE_COMBINE(max_i32, int32_t, LARGER)
DEFINE_COMBINE(max_i64, int64_t, LARGER)

#define RUN(kernel, type)                                                                          \
    LAUNCH(d, kernel, grid, THREADS, 0)                                                            \
    ((type *)dst, (const type *)a->others, (const type *)a->own, a->stride, a->rank, a->size, count)

static void launch_sum(device *d, unsigned grid, void *dst, const combine_addends *a, size_t count,
                       trine_dtype type) {
    switch (type) {
    case TRINE_F32: RUN(sum_f32, float); return;
    case TRINE_F64: RUN(sum_f64, double); return;
    case TRINE_I32: RUN(sum_i32, uint32_t); return;
    case TRINE_I64: RUN(sum_i64, uint64_t); return;
    case TRINE_BF16: RUN(sum_bf16, uint16_t); return;
    case TRINE_F16: RUN(sum_f16, uint16_t); return;
    case TRINE_U8: return; /* has no reductions */
    }
}

static void launch_max(device *d, unsigned grid, void *dst, const combine_addends *a, size_t count,
                       trine_dtype type) {
    switch (type) {
    case TRINE_F32: RUN(max_f32, float); return;
    case TRINE_F64: RUN(max_f64, double); return;
    case TRINE_I32: RUN(max_i32, int32_t); return;
    case TRINE_I64: RUN(max_i64, int64_t); return;
    case TRINE_BF16: RUN(max_bf16, uint16_t); return;
    case TRINE_F16: RUN(max_f16, uint16_t); return;
    case TRINE_U8: return;
    }
}

/* LAUNCH takes the device's compute stream: here that of a device that has another one. */
trine_status cuda_combine(device *d, cudaStream_t stream, void *dst, const combine_addends *addends,
                          size_t count, trine_dtype type, trine_reduction op) {
    cuda_state state = *cuda_of(d);
    device other = *d;
    state.compute = stream;
    other.state = &state;
    size_t blocks = (count + THREADS - 1) / THREADS;
    unsigned grid = (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
    if (count == 0) return TRINE_OK;
    (op == TRINE_SUM ? launch_sum : launch_max)(&other, grid, dst, addends, count, type);
    return LAUNCHED(combine);
}

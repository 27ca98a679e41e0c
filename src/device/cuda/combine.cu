#include "device/cuda/combine.h"
#include "base/half.h"

#define THREADS 256
#define BLOCKS  2048 /* fill any GPU; a thread then has several elements */

#define ADD(a, b) ((a) + (b))
/* A NaN on either side is the result, so that it is not lost. */
#define LARGER_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define LARGER(a, b)        ((b) > (a) ? (b) : (a))

/* A kernel's arguments are a dst and the members of combine_addends. */
#define TAKES(type)                                                                                \
    type *dst, const type *others, const type *own, const type *first, size_t stride, int rank,    \
        int size, size_t count
/* Every element `i` of this thread, and its addend of rank r. */
#define EACH(i)                                                                                    \
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;                                      \
    i < count;                                                                                     \
    i += (size_t)gridDim.x * blockDim.x
#define ADDEND(r, i) ((r) == rank ? own[i] : others[(size_t)(r)*stride + (i)])

#define SAME(x) (x)

/* `type` in memory and `number` in registers: 16-bit numbers are combined in fp32 and rounded once at the end. There
 * are no multiplications that the compiler could contract with the additions. */
#define DEFINE_COMBINE(name, type, number, load, store, combine)                                   \
    static __global__ void name(TAKES(type)) {                                                     \
        for (EACH(i)) {                                                                            \
            number sum = load(first ? first[i] : ADDEND(0, i));                                    \
            for (int r = first ? 0 : 1; r < size; r++) {                                           \
                number x = load(ADDEND(r, i));                                                     \
                sum = combine(sum, x);                                                             \
            }                                                                                      \
            dst[i] = store(sum);                                                                   \
        }                                                                                          \
    }

/* tree[b] is the sum of the last complete subtree of 2^b fours, if the number of fours so far has bit b. All loops over
 * it are unrolled, so that it lies in registers. Three addends or less are added in rank order. */
#define DEPTH 14
#define DEFINE_TREE(name, type, number, load, store)                                               \
    static __global__ void name(TAKES(type)) {                                                     \
        (void)first;                                                                               \
        for (EACH(i)) {                                                                            \
            const int fours = size / 4, rest = size % 4;                                           \
            number tree[DEPTH] = {}, sum = 0;                                                      \
            for (int f = 0; f < fours; f++) {                                                      \
                number left = load(ADDEND(4 * f, i)) + load(ADDEND(4 * f + 1, i));                 \
                number right = load(ADDEND(4 * f + 2, i)) + load(ADDEND(4 * f + 3, i));            \
                number x = left + right;                                                           \
                bool carried = true;                                                               \
                _Pragma("unroll") for (int b = 0; b < DEPTH; b++) {                                \
                    bool full = f >> b & 1;                                                        \
                    if (carried && !full) tree[b] = x;                                             \
                    carried = carried && full;                                                     \
                    if (carried) x = tree[b] + x;                                                  \
                }                                                                                  \
            }                                                                                      \
            if (rest > 0) sum = load(ADDEND(4 * fours, i));                                        \
            if (rest > 1) sum = sum + load(ADDEND(4 * fours + 1, i));                              \
            if (rest > 2) sum = sum + load(ADDEND(4 * fours + 2, i));                              \
            bool begun = rest > 0;                                                                 \
            _Pragma("unroll") for (int b = 0; b < DEPTH; b++) {                                    \
                if (!(fours >> b & 1)) continue;                                                   \
                sum = begun ? tree[b] + sum : tree[b];                                             \
                begun = true;                                                                      \
            }                                                                                      \
            dst[i] = store(sum);                                                                   \
        }                                                                                          \
    }

#define DEFINE_SUMS(name, type, number, load, store)                                               \
    DEFINE_COMBINE(sum_##name, type, number, load, store, ADD)                                     \
    DEFINE_TREE(tree_##name, type, number, load, store)

static_assert(COMBINE_RANKS / 4 == 1 << DEPTH, "a subtree for each bit of the number of fours");

DEFINE_SUMS(f32, float, float, SAME, SAME)
DEFINE_SUMS(f64, double, double, SAME, SAME)
DEFINE_SUMS(i32, uint32_t, uint32_t, SAME, SAME)
DEFINE_SUMS(i64, uint64_t, uint64_t, SAME, SAME)
DEFINE_SUMS(bf16, uint16_t, float, bf16_load, bf16_store)
DEFINE_SUMS(f16, uint16_t, float, f16_load, f16_store)
DEFINE_COMBINE(max_f32, float, float, SAME, SAME, LARGER_OR_NAN)
DEFINE_COMBINE(max_f64, double, double, SAME, SAME, LARGER_OR_NAN)
DEFINE_COMBINE(max_i32, int32_t, int32_t, SAME, SAME, LARGER)
DEFINE_COMBINE(max_i64, int64_t, int64_t, SAME, SAME, LARGER)
DEFINE_COMBINE(max_bf16, uint16_t, float, bf16_load, bf16_store, LARGER_OR_NAN)
DEFINE_COMBINE(max_f16, uint16_t, float, f16_load, f16_store, LARGER_OR_NAN)

#define RUN(kernel, type)                                                                          \
    LAUNCH(d, kernel, grid, THREADS, 0)                                                            \
    ((type *)dst, (const type *)a->others, (const type *)a->own, (const type *)a->first,           \
     a->stride, a->rank, a->size, count)

/* Sums of integers are unsigned, so that they wrap. */
#define DEFINE_LAUNCH(op, i32, i64)                                                                \
    static void launch_##op(device *d, unsigned grid, void *dst, const combine_addends *a,         \
                            size_t count, trine_dtype type) {                                      \
        switch (type) {                                                                            \
        case TRINE_F32: RUN(op##_f32, float); return;                                              \
        case TRINE_F64: RUN(op##_f64, double); return;                                             \
        case TRINE_I32: RUN(op##_i32, i32); return;                                                \
        case TRINE_I64: RUN(op##_i64, i64); return;                                                \
        case TRINE_BF16: RUN(op##_bf16, uint16_t); return;                                         \
        case TRINE_F16: RUN(op##_f16, uint16_t); return;                                           \
        case TRINE_U8: return; /* has no reductions */                                             \
        }                                                                                          \
    }

DEFINE_LAUNCH(sum, uint32_t, uint64_t)
DEFINE_LAUNCH(tree, uint32_t, uint64_t)
DEFINE_LAUNCH(max, int32_t, int64_t)

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
    ASSERT(addends->size < COMBINE_RANKS && (op == TRINE_SUM || !addends->first));
    (op == TRINE_MAX        ? launch_max
     : op == TRINE_SUM_TREE ? launch_tree
                            : launch_sum)(&other, grid, dst, addends, count, type);
    return LAUNCHED(combine);
}

trine_status cuda_combine_load(device *d, cudaStream_t stream, void *room) {
    static const trine_reduction ops[] = {TRINE_SUM, TRINE_SUM_TREE, TRINE_MAX};
    static const trine_dtype types[] = {TRINE_F32, TRINE_F64,  TRINE_I32,
                                        TRINE_I64, TRINE_BF16, TRINE_F16};
    const combine_addends one = {room, room, 1, 0, 1, NULL};
    TRY_CUDA(cudaMemsetAsync(room, 0, sizeof(double), stream));
    for (trine_dtype type : types)
        for (trine_reduction op : ops) TRY(cuda_combine(d, stream, room, &one, 1, type, op));
    return TRINE_OK;
}

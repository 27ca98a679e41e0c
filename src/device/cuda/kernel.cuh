/* Functions that the kernels share: loads and stores of four elements, sums over a row by a team of
 * warps, and grid sizes.
 *
 * Kernels are templates over the types behind the `void *` of ops.h: `real` is the compute type, `grad`
 * the type of gradients of parameters. Both are read and written with load and store only, which have
 * an overload for each 16-bit type; kernels compute in float and round once, when they store.
 * A kernel with columns is a template over VECTOR: if true, every row starts at a multiple of four
 * elements and its length is a multiple of four, so that four elements are one load (16 or 8 bytes).
 * Each thread has the same elements in either case, so alignment changes no bit.
 *
 * A team is blockDim.x threads, complete warps, that share a row; a thread block has blockDim.y teams.
 * The number of warps in a team is a function of the row's length. Invariant: the order of every sum
 * depends on shapes only, never on the size of the GPU: a thread block that processes several rows
 * keeps a sum across rows only if the shape determines which rows these are. Cost: a sum is five
 * shuffles, and one barrier if a team has several warps. */
#ifndef TRINE_DEVICE_CUDA_KERNEL_CUH
#define TRINE_DEVICE_CUDA_KERNEL_CUH

#include "device/cuda/cuda.h"

/* ---- Types ----------------------------------------------------------------------------------- */

static inline __device__ float bf16_of(unsigned short bits) {
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

static inline __device__ unsigned short to_bf16(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

static inline __device__ float fp16_of(unsigned short bits) {
    return __half2float(__ushort_as_half(bits));
}

static inline __device__ unsigned short to_fp16(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

/* ---- Four elements --------------------------------------------------------------------------- */

typedef struct {
    float at[4];
} four;

static inline __device__ four load4(const float *p) {
    float4 v = *(const float4 *)p;
    return {{v.x, v.y, v.z, v.w}};
}

static inline __device__ void store4(float *p, four x) {
    *(float4 *)p = make_float4(x.at[0], x.at[1], x.at[2], x.at[3]);
}

static inline __device__ float load(const float *p) {
    return *p;
}

static inline __device__ void store(float *p, float x) {
    *p = x;
}

static inline __device__ four load4(const bf16 *p) {
    ushort4 v = *(const ushort4 *)p;
    return {{bf16_of(v.x), bf16_of(v.y), bf16_of(v.z), bf16_of(v.w)}};
}

static inline __device__ void store4(bf16 *p, four x) {
    *(ushort4 *)p =
        make_ushort4(to_bf16(x.at[0]), to_bf16(x.at[1]), to_bf16(x.at[2]), to_bf16(x.at[3]));
}

static inline __device__ float load(const bf16 *p) {
    return __bfloat162float(*p);
}

static inline __device__ void store(bf16 *p, float x) {
    *p = __float2bfloat16_rn(x);
}

static inline __device__ four load4(const fp16 *p) {
    ushort4 v = *(const ushort4 *)p;
    return {{fp16_of(v.x), fp16_of(v.y), fp16_of(v.z), fp16_of(v.w)}};
}

static inline __device__ void store4(fp16 *p, four x) {
    *(ushort4 *)p =
        make_ushort4(to_fp16(x.at[0]), to_fp16(x.at[1]), to_fp16(x.at[2]), to_fp16(x.at[3]));
}

static inline __device__ float load(const fp16 *p) {
    return __half2float(*p);
}

static inline __device__ void store(fp16 *p, float x) {
    *p = __float2half_rn(x);
}

static inline __device__ float sum4(four x) {
    return (x.at[0] + x.at[1]) + (x.at[2] + x.at[3]);
}

static inline __device__ float add_squares(float sum, four x) {
    for (int j = 0; j < 4; j++) sum = fmaf(x.at[j], x.at[j], sum);
    return sum;
}

static inline __device__ four times(four x, four y) {
    for (int j = 0; j < 4; j++) x.at[j] *= y.at[j];
    return x;
}

static inline __device__ four plus(four x, four y) {
    for (int j = 0; j < 4; j++) x.at[j] += y.at[j];
    return x;
}

/* ---- Documents (op_args.h) ------------------------------------------------------------------- */

/* The position of row `row` of a micro-batch (B, T) in its document; starts (B, T), or NULL. */
static inline __device__ size_t document_position(const int32_t *starts, size_t row, size_t T) {
    return row % T - (starts ? (size_t)starts[row] : 0);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Elements [c, c + 4) of a row of C; those past its end are 0. */
template <bool VECTOR, typename T>
static inline __device__ four load_row(const T *row, size_t c, size_t C) {
    four x = {};
    if (VECTOR) {
        if (c < C) x = load4(row + c);
    } else {
        for (int j = 0; j < 4; j++)
            if (c + j < C) x.at[j] = load(row + c + j);
    }
    return x;
}

/* Stores them; elements past the row's end are not written. */
template <bool VECTOR, typename T>
static inline __device__ void store_row(T *row, size_t c, size_t C, four x) {
    if (VECTOR) {
        if (c < C) store4(row + c, x);
    } else {
        for (int j = 0; j < 4; j++)
            if (c + j < C) store(row + c + j, x.at[j]);
    }
}

/* Whether p is aligned for loads of four elements. */
template <typename T> static inline bool cuda_aligned(const T *p) {
    return (uintptr_t)p % (4 * sizeof(T)) == 0;
}

/* Before `void` of every kernel: at most `threads` threads in a thread block, and `blocks` thread blocks at
 * once on a multiprocessor, which leaves 65536 / (threads * blocks) registers per thread. A kernel that
 * reads several elements before it uses the first needs registers for them: without these bounds ptxas
 * saves registers and waits for each load instead. The grids below use the same `blocks`. */
#define AT_ONCE(threads, blocks) __launch_bounds__(threads, blocks)

/* ---- Functions ------------------------------------------------------------------------------- */

/* e^x and x / by for results that are stored as `real`: in fp32 the accurate ones (1 ulp, rounded to nearest);
 * for 16 bits those of the special function unit (2 ulp each, the exponential of x 1.173 |x| more; CUDA
 * Programming Guide, "Intrinsic Functions"). x / by is 0 there if |by| is above 2^126. */
template <typename real> static inline __device__ float exponential(float x) {
    return __expf(x);
}
template <> inline __device__ float exponential<float>(float x) {
    return expf(x);
}

template <typename real> static inline __device__ float divided(float x, float by) {
    return __fdividef(x, by);
}
template <> inline __device__ float divided<float>(float x, float by) {
    return x / by;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The most warps that a team may have. */
#define TEAM_WARPS 16

/* The sum over the lanes of a warp; all lanes get the same bits, because a + b equals b + a. */
template <typename T> static inline __device__ T warp_sum(T x) {
    for (int k = WARP / 2; k > 0; k /= 2) x += __shfl_xor_sync(ALL_LANES, x, k);
    return x;
}

/* COUNT sums over the threads of a team at once, in the order of warps. `area` is shared memory, (teams
 * of the thread block, warps, COUNT); it may be written again only after another sum with another area.
 * All threads of the thread block must call. */
template <int COUNT> static inline __device__ void team_sums(float *x, float *area) {
    const unsigned warps = blockDim.x / WARP;
    for (int i = 0; i < COUNT; i++) x[i] = warp_sum(x[i]);
    if (warps == 1) return;
    float *own = area + threadIdx.y * warps * COUNT;
    for (int i = 0; i < COUNT; i++)
        if (threadIdx.x % WARP == 0) own[threadIdx.x / WARP * COUNT + i] = x[i];
    __syncthreads();
    for (int i = 0; i < COUNT; i++) {
        x[i] = own[i];
        for (unsigned w = 1; w < warps; w++) x[i] += own[w * COUNT + i];
    }
}

static inline __device__ float team_sum(float x, float *area) {
    team_sums<1>(&x, area);
    return x;
}

/* ---- Grids ----------------------------------------------------------------------------------- */

static inline size_t cuda_ceil(size_t n, size_t by) {
    return (n + by - 1) / by;
}

/* The number of thread blocks for `work` blocks of work: at most as many as run at once, `blocks` on a
 * multiprocessor, because one more would run alone after all others. */
static inline unsigned cuda_grid(const device *d, size_t work, unsigned blocks) {
    size_t most = (size_t)cuda_of(d)->multiprocessors * blocks;
    return (unsigned)(work < most ? work : most);
}

/* The grid for a (rows, columns) matrix if each thread keeps its four columns: thread blocks of at most
 * PLANE threads along the columns, and along the rows as many as run at once, `blocks` on a
 * multiprocessor. */
#define PLANE 256

typedef struct {
    dim3 grid, block;
} cuda_plane;

static inline cuda_plane cuda_plane_of(const device *d, size_t rows, size_t columns,
                                       unsigned blocks) {
    size_t fours = cuda_ceil(columns, 4), across = cuda_ceil(fours, PLANE);
    unsigned threads = (unsigned)(cuda_ceil(cuda_ceil(fours, across), WARP) * WARP);
    size_t down = cuda_of(d)->multiprocessors * (size_t)(blocks * PLANE / threads) / across;
    if (down > rows) down = rows;
    if (down > 65535) down = 65535;
    if (down == 0) down = 1;
    return {dim3((unsigned)across, (unsigned)down), dim3(threads)};
}

/* ---- Sums in two passes (partials.cu) ---------------------------------------------------------- */

/* The split of the rows of a (T, N) matrix for column sums whose partials are in cuda_state.scratch:
 * `count` partials of `rows` rows, the last one shorter. Depends on T and N only. N >= 1, T >= 1. */
typedef struct {
    size_t rows, count;
} cuda_cut;

static inline cuda_cut cuda_cut_of(size_t T, size_t N) {
    size_t most = CUDA_SCRATCH / N < 1024 ? CUDA_SCRATCH / N : 1024;
    size_t rows = cuda_ceil(T, most ? most : 1);
    if (rows < 8) rows = 8;
    return {rows, cuda_ceil(T, rows)};
}

/* first (width), then second (N - width) (+)= sums over p of the addends `partials` (count, N): 32 sums, each
 * over every 32nd partial in ascending order, which are then added. `second` is not used if width is N. */
template <typename grad>
trine_status cuda_sum_partials(device *d, grad *first, grad *second, const float *partials,
                               size_t count, size_t N, size_t width, grad_mode mode);

/* *out (device) (+)= scale * the sum of the addends `partials` (count): 1024 sums, each over every 1024th
 * partial in ascending order, which are then added pairwise. */
trine_status cuda_total(device *d, double *out, const double *partials, size_t count, double scale,
                        grad_mode mode);

/* The sum over a thread block of complete warps, in the order of warps, for thread 0; at most
 * TEAM_WARPS * 2 warps. `area` is shared memory, one double for each warp. */
static inline __device__ double block_sum(double x, double *area) {
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) area[threadIdx.x / WARP] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / WARP; w++) x += area[w];
    return x;
}

/* The sum of the addends `partials` (count) by a thread block of CUDA_TOTAL_THREADS, for thread 0, in the order of
 * cuda_total. */
#define CUDA_TOTAL_THREADS 1024
static inline __device__ double cuda_total_of(const double *partials, size_t count) {
    __shared__ double area[CUDA_TOTAL_THREADS / WARP];
    double sum = 0.0;
    for (size_t i = threadIdx.x; i < count; i += CUDA_TOTAL_THREADS) sum += partials[i];
    return block_sum(sum, area);
}

#endif

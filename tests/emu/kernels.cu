#include "kernels.h"

#include "device/cuda/ptx.cuh"

#define ALL                             0xffffffffu
#define GO(kernel, grid, block, shared) emu_launcher(kernel, (grid), (block), (shared), stream)

static __global__ void fill(float *y, float value, int n) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = value;
}

void launch_fill(cudaStream_t stream, float *y, float value, int n) {
    GO(fill, (n + BLOCK - 1) / BLOCK, BLOCK, 0)(y, value, n);
}

static __global__ void add(float *y, const float *x, int n) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] += x[i];
}

void launch_add(cudaStream_t stream, float *y, const float *x, int n) {
    GO(add, (n + BLOCK - 1) / BLOCK, BLOCK, 0)(y, x, n);
}

static __global__ void places(place *y) {
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    place p = {{threadIdx.x, threadIdx.y, threadIdx.z}, {blockIdx.x, blockIdx.y, blockIdx.z}};
    y[block * blockDim.x * blockDim.y * blockDim.z + thread] = p;
}

void launch_places(cudaStream_t stream, place *y, dim3 grid, dim3 block) {
    GO(places, grid, block, 0)(y);
}

static __global__ void repeated(int *y, waits what, int times) {
    int count = 0;
    for (int i = 0; i < times; i++) {
        if (what == AT_BARRIERS) __syncthreads();
        count += what == IN_SHUFFLES ? __shfl_xor_sync(ALL, 1, 1) : 1;
    }
    y[blockIdx.x * BLOCK + threadIdx.x] = count;
}

void launch_repeated(cudaStream_t stream, int *y, int blocks, waits what, int times) {
    GO(repeated, blocks, BLOCK, 0)(y, what, times);
}

/* ---- Blocks and warps ------------------------------------------------------------------------ */

static __global__ void own_place(int *y) {
    if (threadIdx.x == 0) y[blockIdx.x] = 1;
}

static __global__ void same_place(int *y) {
    if (threadIdx.x == 0) y[0] = 1;
}

static __global__ void same_atomic(int *y) {
    atomicAdd(y, 1);
}

static __global__ void next_place(int *y) {
    if (threadIdx.x == 0) y[blockIdx.x] = y[blockIdx.x + 1];
}

void launch_blocks(cudaStream_t stream, int *y, int blocks, block_faults which) {
    void (*const kernels[])(int *) = {own_place, same_place, same_atomic, next_place};
    GO(kernels[which], blocks, BLOCK, 0)(y);
}

static __global__ void by_shuffle(float *y, const float *x, barriers which) {
    __shared__ float s[BLOCK];
    s[threadIdx.x] = x[threadIdx.x];
    if (which == BARRIER)
        __syncwarp();
    else
        __shfl_sync(ALL, 0, 0);
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}

void launch_by_shuffle(cudaStream_t stream, float *y, const float *x, barriers which) {
    GO(by_shuffle, 1, BLOCK, 0)(y, x, which);
}

static __global__ void strided(float *y, const float *x, int stride) {
    __shared__ float s[32 * 32];
    const int at = stride * (int)threadIdx.x;
    s[at] = x[at];
    __syncwarp();
    y[threadIdx.x] = s[stride * (int)(threadIdx.x ^ 1)];
}

void launch_strided(cudaStream_t stream, float *y, const float *x, int stride) {
    GO(strided, 1, 32, 0)(y, x, stride);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

static __global__ void reverse(float *y, const float *x, barriers which) {
    __shared__ float s[BLOCK];
    s[threadIdx.x] = x[blockIdx.x * BLOCK + threadIdx.x];
    if (which == BARRIER) __syncthreads();
    y[blockIdx.x * BLOCK + threadIdx.x] = s[BLOCK - 1 - threadIdx.x];
}

void launch_reverse(cudaStream_t stream, float *y, const float *x, int blocks, barriers which) {
    GO(reverse, blocks, BLOCK, 0)(y, x, which);
}

static __global__ void rounds(float *y, const float *x, barriers which) {
    __shared__ float s[BLOCK];
    float value = x[blockIdx.x * BLOCK + threadIdx.x];
    for (int round = 0; round < 2; round++) {
        s[threadIdx.x] = value;
        __syncthreads();
        value = s[BLOCK - 1 - threadIdx.x] + 1.0f;
        if (which == BARRIER) __syncthreads();
    }
    y[blockIdx.x * BLOCK + threadIdx.x] = value;
}

void launch_rounds(cudaStream_t stream, float *y, const float *x, int blocks, barriers which) {
    GO(rounds, blocks, BLOCK, 0)(y, x, which);
}

static __global__ void warps(float *y, const float *x, barriers which) {
    __shared__ float s[BLOCK];
    s[threadIdx.x] = x[blockIdx.x * BLOCK + threadIdx.x];
    if (which == BARRIER) __syncwarp();
    y[blockIdx.x * BLOCK + threadIdx.x] = s[threadIdx.x ^ 31u];
}

void launch_warps(cudaStream_t stream, float *y, const float *x, int blocks, barriers which) {
    GO(warps, blocks, BLOCK, 0)(y, x, which);
}

static __device__ float warp_sum(float value) {
    for (int lanes = warpSize / 2; lanes > 0; lanes /= 2)
        value += __shfl_xor_sync(ALL, value, lanes);
    return value;
}

static __global__ void sum(float *y, const float *x) {
    float *sums = (float *)emu_shared_memory();
    float value = warp_sum(x[blockIdx.x * BLOCK + threadIdx.x]);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    value = warp_sum(threadIdx.x < BLOCK / 32 ? sums[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) y[blockIdx.x] = value;
}

void launch_sum(cudaStream_t stream, float *y, const float *x, int blocks) {
    GO(sum, blocks, BLOCK, BLOCK / 32 * sizeof(float))(y, x);
}

static __global__ void shared(float *y) {
    float *s = (float *)emu_shared_memory();
    y[threadIdx.x] = s[threadIdx.x];
}

void launch_shared(cudaStream_t stream, float *y, int n) {
    GO(shared, 1, n, (size_t)n * sizeof(float))(y);
}

/* ---- Asynchronous copies ------------------------------------------------------------------------ */

static __device__ void begin_copy(float *stage, const float *x, float *y, copy_faults which) {
    float *to = which == TO_GLOBAL_MEMORY ? y : stage;
    ptx_copy16(to + 4 * threadIdx.x + (which == TO_ODD_PLACE),
               x + 4 * threadIdx.x + (which == FROM_ODD_PLACE));
    ptx_copies_end();
}

static __device__ void await_copies(copy_faults which) {
    if (which == WAITED_TOO_LITTLE)
        ptx_copies_wait<1>();
    else if (which != NEVER_WAITED)
        ptx_copies_wait<0>();
    if (which != NOT_SHARED_YET) __syncthreads();
}

static __global__ void stages(float *y, const float *x, int tiles, copy_faults which) {
    const int thread = (int)threadIdx.x;
    float *shared = (float *)emu_shared_memory(), sum = 0.0f;
    begin_copy(shared, x, y, which);
    for (int i = 0; i < tiles; i++) {
        float *stage = shared + i % 2 * 4 * BLOCK, *other = shared + (i + 1) % 2 * 4 * BLOCK;
        await_copies(which);
        if (i + 1 < tiles || which == LEFT_BEHIND)
            begin_copy(which == ONE_STAGE ? stage : other, x + (i + 1) % tiles * 4 * BLOCK, y,
                       which);
        for (int k = 0; k < 4; k++)
            sum += (which == ONE_STAGE ? shared : stage)[4 * (BLOCK - 1 - thread) + k];
    }
    if (which != LEFT_BEHIND) ptx_copies_wait<0>();
    y[thread] = sum;
}

void launch_stages(cudaStream_t stream, float *y, const float *x, int tiles, copy_faults which) {
    GO(stages, 1, BLOCK, 2 * 4 * BLOCK * sizeof(float))(y, x, tiles, which);
}

/* ---- Shuffles and votes ---------------------------------------------------------------------- */

template <typename T>
static __device__ T shuffled(T value, shuffles which, int operand, int width) {
    switch (which) {
    case INDEX: return __shfl_sync(ALL, value, operand, width);
    case XOR: return __shfl_xor_sync(ALL, value, operand, width);
    case UP: return __shfl_up_sync(ALL, value, (unsigned)operand, width);
    case DOWN: return __shfl_down_sync(ALL, value, (unsigned)operand, width);
    }
    return value;
}

template <typename T>
static __global__ void shuffle(T *y, const T *x, shuffles which, int operand, int width) {
    y[threadIdx.x] = shuffled(x[threadIdx.x], which, operand, width);
}

void launch_shuffle_int(cudaStream_t stream, int *y, const int *x, shuffles which, int operand,
                        int width) {
    GO(shuffle<int>, 1, 32, 0)(y, x, which, operand, width);
}

void launch_shuffle_double(cudaStream_t stream, double *y, const double *x, shuffles which,
                           int operand, int width) {
    GO(shuffle<double>, 1, 32, 0)(y, x, which, operand, width);
}

static __global__ void halves(int *y, const int *x) {
    unsigned odd = threadIdx.x & 1u, mask = odd ? 0xaaaaaaaau : 0x55555555u;
    int value = x[threadIdx.x];
    for (int lanes = 2; lanes < 32; lanes *= 2) value += __shfl_xor_sync(mask, value, lanes);
    if (odd) value = __shfl_sync(mask, value, 1);
    y[threadIdx.x] = value;
}

void launch_halves(cudaStream_t stream, int *y, const int *x) {
    GO(halves, 1, 32, 0)(y, x);
}

static __global__ void votes(unsigned *y, const int *x) {
    int predicate = x[threadIdx.x];
    y[3 * threadIdx.x] = (unsigned)__any_sync(ALL, predicate);
    y[3 * threadIdx.x + 1] = (unsigned)__all_sync(ALL, predicate);
    y[3 * threadIdx.x + 2] = __ballot_sync(ALL, predicate);
}

void launch_votes(cudaStream_t stream, unsigned *y, const int *x) {
    GO(votes, 1, 32, 0)(y, x);
}

/* ---- Faulty kernels -------------------------------------------------------------------------- */

static __global__ void early_return() {
    if (threadIdx.x == 7) return;
    __syncthreads();
}

void launch_early_return(cudaStream_t stream) {
    GO(early_return, 2, BLOCK, 0)();
}

static __global__ void two_barriers() {
    if (threadIdx.x == 7)
        __syncthreads();
    else
        __syncthreads();
}

void launch_two_barriers(cudaStream_t stream) {
    GO(two_barriers, 1, BLOCK, 0)();
}

static __global__ void missing_lane() {
    if (threadIdx.x % 32 != 5) __shfl_sync(ALL, 1, 0);
    __syncthreads();
}

void launch_missing_lane(cudaStream_t stream) {
    GO(missing_lane, 1, BLOCK, 0)();
}

static __global__ void foreign_mask() {
    __shfl_sync(0x7fffffffu, 1, 0);
}

void launch_foreign_mask(cudaStream_t stream) {
    GO(foreign_mask, 1, BLOCK, 0)();
}

static __global__ void other_mask() {
    __shfl_sync(threadIdx.x % 32 < 16 ? 0x0001ffffu : 0xffff0000u, 1, 0);
}

void launch_other_mask(cudaStream_t stream) {
    GO(other_mask, 1, BLOCK, 0)();
}

static __global__ void other_kind() {
    if (threadIdx.x % 32 == 3)
        __shfl_sync(ALL, 1, 0);
    else
        __shfl_xor_sync(ALL, 1, 1);
}

void launch_other_kind(cudaStream_t stream) {
    GO(other_kind, 1, BLOCK, 0)();
}

static __global__ void odd_width() {
    __shfl_sync(ALL, 1, 0, 12);
}

void launch_odd_width(cudaStream_t stream) {
    GO(odd_width, 1, BLOCK, 0)();
}

static __global__ void short_warp() {
    __syncwarp();
}

void launch_short_warp(cudaStream_t stream) {
    GO(short_warp, 1, 40, 0)();
}

static __global__ void nothing() {
}

void launch_threads(cudaStream_t stream, int threads) {
    GO(nothing, 1, threads, 0)();
}

template <int VALUE> static __global__ void __launch_bounds__(3 * 32, VALUE) at_most_96(int *y) {
    if (y) *y = VALUE;
}

void launch_96(cudaStream_t stream, int threads) {
    GO(at_most_96<2>, 1, threads, 0)(NULL);
}

static __launch_bounds__(512) __global__ void at_most_512() {
}

void launch_512(cudaStream_t stream, int threads) {
    GO(at_most_512, 1, threads, 0)();
}

static __global__ void misaligned(float *y) {
    *(float4 *)(y + 1) = make_float4(1, 2, 3, 4);
}

void launch_misaligned(cudaStream_t stream, float *y) {
    GO(misaligned, 1, 1, 0)(y);
}

static __global__ void outside_array(int index) {
    __shared__ float s[BLOCK];
    s[index] = 1.0f;
    (void)s;
}

void launch_outside_array(cudaStream_t stream, int index) {
    GO(outside_array, 1, 1, 0)(index);
}

static __global__ void outside_shared(int bytes) {
    ((char *)emu_shared_memory())[bytes] = 1;
}

void launch_outside_shared(cudaStream_t stream, int bytes) {
    GO(outside_shared, 1, 1, (size_t)bytes)(bytes);
}

static __global__ void store(float *y, long at) {
    y[at] = 1.0f;
}

void launch_store(cudaStream_t stream, float *y, long at) {
    GO(store, 1, 1, 0)(y, at);
}

static __global__ void much_shared() {
}

cudaError_t launch_much_shared(cudaStream_t stream, int bytes) {
    GO(much_shared, 1, 1, (size_t)bytes)();
    return cudaGetLastError();
}

cudaError_t allow_much_shared(int bytes) {
    return cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

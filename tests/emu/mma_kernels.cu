#include "mma_kernels.h"

#include "device/cuda/attention_mma.cuh"

float half_widen(half_type type, uint16_t bits) {
    return emu_widen(type == BF16 ? MMA_BF16 : MMA_FP16, bits);
}

uint16_t half_narrow(half_type type, float x) {
    return emu_narrow(type == BF16 ? MMA_BF16 : MMA_FP16, x);
}

#define PITCH         24 /* of a row in shared memory */
#define PRODUCT_BYTES (2 * 16 * PITCH * sizeof(uint16_t))

template <mma_type TYPE>
static __global__ void product(float *d, const uint16_t *a, const uint16_t *b) {
    SHARED_MEMORY(uint16_t, left);
    uint16_t *right = left + 16 * PITCH;
    const int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    for (int i = lane; i < 256; i += WARP) left[i / 16 * PITCH + i % 16] = a[i];
    for (int i = lane; i < 128; i += WARP) right[i / 8 * PITCH + i % 8] = b[i];
    __syncthreads();
    uint32_t fragment[4], both[4];
    float sums[4] = {d[g * 8 + 2 * t], d[g * 8 + 2 * t + 1], d[(g + 8) * 8 + 2 * t],
                     d[(g + 8) * 8 + 2 * t + 1]};
    mma_load(fragment, left + lane % 16 * PITCH + lane / 16 * 8);
    mma_load_transposed(both, right + lane % 16 * PITCH);
    mma<TYPE>(sums, fragment, both);
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

void launch_mma(cudaStream_t stream, float *d, const uint16_t *a, const uint16_t *b,
                half_type type) {
    if (type == BF16)
        emu_launcher(product<MMA_BF16>, 1, WARP, PRODUCT_BYTES, stream)(d, a, b);
    else
        emu_launcher(product<MMA_FP16>, 1, WARP, PRODUCT_BYTES, stream)(d, a, b);
}

typedef struct {
    uint16_t *y;
    float *lse;
    const uint16_t *qkv;
    size_t B, T, H, K, D;
} operands;

template <int WIDTH, typename real>
static void launch_width(cudaStream_t stream, const operands *o) {
    const size_t bytes = (size_t)attention_mma_shared(WIDTH, false);
    attention_shape s = attention_shape_of(o->T, o->H, o->K, o->D, MMA_LANES, NULL);
    attention_look(&s, o->y, MMA_LANES), attention_look(&s, o->qkv, MMA_LANES);
    auto kernel = s.wide ? attention_mma_forward<WIDTH, real, false, true, false>
                         : attention_mma_forward<WIDTH, real, false, false, false>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const unsigned blocks = (unsigned)((o->T + MMA_TILE - 1) / MMA_TILE * o->B * o->H);
    emu_launcher(kernel, blocks, ATTENTION_THREADS, bytes,
                 stream)((real *)o->y, o->lse, (const real *)o->qkv, o->B * o->H, s, {});
}

template <typename real> static void launch_type(cudaStream_t stream, const operands *o) {
    if (o->D <= 64)
        launch_width<64, real>(stream, o);
    else if (o->D <= 96)
        launch_width<96, real>(stream, o);
    else
        launch_width<128, real>(stream, o);
}

void launch_attention(cudaStream_t stream, uint16_t *y, float *lse, const uint16_t *qkv, size_t B,
                      size_t T, size_t H, size_t K, size_t D, half_type type) {
    const operands o = {y, lse, qkv, B, T, H, K, D};
    if (type == BF16)
        launch_type<bf16>(stream, &o);
    else
        launch_type<fp16>(stream, &o);
}

/* ---- Rows that no mma_load takes ---- */

static __global__ void load_a_row(uint32_t *y, const uint16_t *x, wrong_rows which) {
    SHARED_MEMORY(uint16_t, rows);
    const int lane = (int)threadIdx.x;
    for (int i = 0; i < 8; i++) rows[8 * lane + i] = x[8 * lane + i];
    __syncwarp();
    uint32_t to[4];
    const int off = which == MISALIGNED ? 4 : which == PAST_THE_END ? 8 : 0;
    mma_load(to, which == IN_GLOBAL_MEMORY ? x + 8 * lane : rows + 8 * lane + off);
    for (int i = 0; i < 4; i++) y[4 * lane + i] = to[i];
}

void launch_load_row(cudaStream_t stream, uint32_t *y, const uint16_t *x, wrong_rows which) {
    emu_launcher(load_a_row, 1, WARP, WARP * 16, stream)(y, x, which);
}

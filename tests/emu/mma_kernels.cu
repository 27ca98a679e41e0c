#include "mma_kernels.h"

#include "device/cuda/attention_mma.cuh"

float half_widen(half_type type, uint16_t bits) {
    return emu_widen(type == BF16 ? MMA_BF16 : MMA_FP16, bits);
}

uint16_t half_narrow(half_type type, float x) {
    return emu_narrow(type == BF16 ? MMA_BF16 : MMA_FP16, x);
}

template <mma_type TYPE>
static __global__ void product(float *d, const uint16_t *a, const uint16_t *b) {
    __shared__ uint16_t left[16][24] __align__(16), right[16][24] __align__(16);
    const int lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
    for (int i = lane; i < 256; i += WARP) left[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += WARP) right[i / 8][i % 8] = b[i];
    __syncthreads();
    uint32_t fragment[4], both[4];
    float sums[4] = {d[g * 8 + 2 * t], d[g * 8 + 2 * t + 1], d[(g + 8) * 8 + 2 * t],
                     d[(g + 8) * 8 + 2 * t + 1]};
    mma_load(fragment, &left[lane % 16][lane / 16 * 8]);
    mma_load_turned(both, &right[lane % 16][0]);
    mma<TYPE>(sums, fragment, both);
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

void launch_mma(cudaStream_t stream, float *d, const uint16_t *a, const uint16_t *b,
                half_type type) {
    if (type == BF16)
        emu_launcher(product<MMA_BF16>, 1, WARP, 0, stream)(d, a, b);
    else
        emu_launcher(product<MMA_FP16>, 1, WARP, 0, stream)(d, a, b);
}

typedef void (*attention_kernel)(uint16_t *, float *, const uint16_t *, size_t, attention_shape);

static const attention_kernel kernels[2][3] = {
    {attention_mma_forward<64, MMA_BF16>, attention_mma_forward<96, MMA_BF16>,
     attention_mma_forward<128, MMA_BF16>},
    {attention_mma_forward<64, MMA_FP16>, attention_mma_forward<96, MMA_FP16>,
     attention_mma_forward<128, MMA_FP16>},
};

void launch_attention(cudaStream_t stream, uint16_t *y, float *lse, const uint16_t *qkv, size_t B,
                      size_t T, size_t H, size_t D, half_type type) {
    static const int widths[] = {64, 96, 128};
    const int which = D <= 64 ? 0 : D <= 96 ? 1 : 2;
    const size_t bytes = (size_t)attention_mma_shared(widths[which]);
    attention_shape s = attention_shape_of(T, H, D);
    s.wide = D % 8 == 0;
    attention_look(&s, y), attention_look(&s, qkv);
    attention_kernel kernel = kernels[type][which];
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    const unsigned blocks = (unsigned)((T + MMA_TILE - 1) / MMA_TILE * B * H);
    emu_launcher(kernel, blocks, ATTENTION_THREADS, bytes, stream)(y, lse, qkv, B * H, s);
}

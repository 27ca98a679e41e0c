#include "device/cuda/cuda.h"

/* CUDA does not report the kind of link. Between two GPUs only NVLink supports atomics (CUDA Runtime
 * API, cudaDevP2PAttrNativeAtomicSupported). */
static cuda_link link_between(int own, int other) {
    int reaches = 0, atomics = 0;
    if (cudaDeviceCanAccessPeer(&reaches, own, other) != cudaSuccess) return CUDA_LINK_UNKNOWN;
    if (!reaches) return CUDA_LINK_HOST;
    if (cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, own, other) !=
        cudaSuccess)
        return CUDA_LINK_UNKNOWN;
    return atomics ? CUDA_LINK_NVLINK : CUDA_LINK_PCIE;
}

/* A failure is a valid answer; the error is cleared, so that the next launch does not report it. */
cuda_link cuda_link_to(const device *d, const char *bus) {
    int own = cuda_of(d)->ordinal, other = own;
    cuda_link link = CUDA_LINK_UNKNOWN;
    if (cudaDeviceGetByPCIBusId(&other, bus) == cudaSuccess)
        link = other == own ? CUDA_LINK_SAME : link_between(own, other);
    if (link == CUDA_LINK_UNKNOWN) (void)cudaGetLastError();
    return link;
}

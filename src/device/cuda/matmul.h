/* The matmuls of a linear layer by cuBLASLt. Our matrices are row-major and dense, the library's
 * column-major: for the library each matrix is transposed, with the row length as leading dimension,
 * and the factors are exchanged.
 *
 * A plan (operation, layouts, algorithm) is created in the first call with its key and kept: later
 * calls allocate nothing. The algorithm is the first answer of the library's heuristic, a function
 * of the key, the GPU and the library's version; nothing is timed, so every run uses the same
 * algorithm. The key contains the alignment of every operand, because the heuristic depends on it:
 * the same matmul at a less aligned address may use another algorithm with other rounding.
 *
 * fp32 means fp32: CUBLAS_COMPUTE_32F multiplies and adds in fp32. A device that was opened with
 * DEVICE_TF32 rounds the factors to TF32 and adds in fp32; the emulation by several bf16 products
 * is another compute type, which is not used. bf16 and fp16 are multiplied on tensor cores, added in
 * fp32 (also CUBLAS_COMPUTE_32F), and rounded once; if the device keeps weight gradients in fp32, the
 * sums are stored unrounded. The library supports these combinations in one matmul: 16-bit factors
 * with an output and a bias of the same type, or with an fp32 output (documentation, cublasLtMatmul,
 * table of regular layouts).
 *
 * Invariant: equal bits from run to run. cuBLAS guarantees them for one version on one kind of GPU if
 * each stream has its own workspace (documentation, "Results reproducibility"); the workspace is
 * that of the compute stream. Of the reduction schemes for a matmul that is split along its sum we
 * allow two: no split (NONE), and parts that are stored in fp32 in the workspace and added by a second
 * kernel (COMPUTE_TYPE). OUTPUT_TYPE would round the parts of a 16-bit output; INPLACE adds parts
 * to the output one after the other, with counters, in no documented order. With a bias and a 16-bit output only NONE
 * is left: the second kernel adds the bias to the rounded sum (cuBLAS 13.1 on an H200).
 * Exception: the library does not have an algorithm for every matmul, in particular with a bias and
 * rows that are not a multiple of 16 bytes. We then ask for an algorithm without the bias, which is
 * stored in the output before the product is added to it; then for one with any scheme, whose bits
 * may differ between runs; then the matmul fails. Cost: a hash and a library call; the host does not
 * wait. */
#ifndef TRINE_DEVICE_CUDA_MATMUL_H
#define TRINE_DEVICE_CUDA_MATMUL_H

#include <cublasLt.h>

#include "device/cuda/cuda.h"

/* The matmuls, named after their output. */
typedef enum {
    MATMUL_Y,  /* out (T, N) = left x (T, K), right w (N, K)^T, plus bias (N) unless NULL */
    MATMUL_DX, /* out (T, K) = left dy (T, N), right w (N, K) */
    MATMUL_DW, /* out (N, K) = left dy (T, N)^T, right x (T, K) */
    MATMUL_KINDS
} matmul_kind;

/* Runs a matmul on the compute stream; T, N and K are at least 1. `bias` is for MATMUL_Y, else NULL.
 * `addend` has the shape of out and is added to the product; it may be NULL (none) or `out` itself. In 16 bits
 * product + bias is rounded once; the library's kernels for Hopper round it before they add the addend (others do
 * not), and where it has no algorithm with a bias, bias + addend is rounded first. Errors: TRINE_EMATH with shape and
 * the library's status, TRINE_ENOMEM. */
trine_status cuda_matmul(device *d, matmul_kind kind, void *out, const void *left,
                         const void *right, const void *bias, const void *addend, size_t T,
                         size_t N, size_t K);

/* The library's constants for an element type, and for the device's precision. */
cudaDataType cuda_matmul_type(trine_dtype type);
cublasComputeType_t cuda_matmul_compute(const device *d);

#endif

/* The products of a linear layer by cuBLASLt. Our matrices are row-major and dense, the library's
 * column-major: each of ours is its own transpose there, with the row's length as leading
 * dimension, and the factors change places.
 *
 * A plan (operation, layouts, algorithm) is made in the first call with its key and kept: later
 * calls allocate nothing. The algorithm is the first answer of the library's heuristic, a function
 * of the key, the GPU and the library's version; nothing is ever timed, so every run takes the
 * same. The key contains the alignment of every operand, since the heuristic must know it: the same
 * product at a less aligned address may be another algorithm with other rounding.
 *
 * fp32 means fp32: CUBLAS_COMPUTE_32F multiplies and adds in fp32. A device that was opened with
 * DEVICE_TF32 rounds the factors to TF32 and adds in fp32; the emulation by several bf16 products
 * is another compute type, which is not asked for. bf16 and fp16 are multiplied on tensor cores,
 * added in fp32 (CUBLAS_COMPUTE_32F too), and rounded once; weight gradients go to fp32 straight
 * from the sums where the device keeps them so. The library takes all of it as one product: factors
 * of 16 bits with an output and a bias of the same type, or an output of fp32 (documentation,
 * cublasLtMatmul, table of regular layouts).
 *
 * Invariant: equal bits from run to run. cuBLAS promises them for one version on one kind of GPU if
 * a stream has a workspace of its own (documentation, "Results reproducibility"): the workspace is
 * the compute stream's. Of the ways to add up a product that is split along its sum we allow two:
 * not to split (NONE), and parts that are stored in fp32 in the workspace and added by a second
 * kernel (COMPUTE_TYPE). OUTPUT_TYPE would round the parts of a 16-bit output; INPLACE adds parts
 * to the output one after the other, under counters, and no order is documented.
 * The exception: the library need not have an algorithm for every product, least of all for rows
 * that are no multiple of 16 bytes with a bias. It is then asked for one without the bias, which
 * lies in the output before the product is added to it; then for one of any scheme, whose bits may
 * be others in another run; then the product is refused. Cost: a hash and a call of the library;
 * none of the host's waiting. */
#ifndef TRINE_DEVICE_CUDA_MATMUL_H
#define TRINE_DEVICE_CUDA_MATMUL_H

#include <cublasLt.h>

#include "device/cuda/cuda.h"

/* Named after what they write. */
typedef enum {
    MATMUL_Y,  /* out (T, N) = left x (T, K), right w (N, K)^T, plus bias (N) unless NULL */
    MATMUL_DX, /* out (T, K) = left dy (T, N), right w (N, K) */
    MATMUL_DW, /* out (N, K) = left dy (T, N)^T, right x (T, K) */
    MATMUL_KINDS
} matmul_kind;

/* Runs one product on the compute stream; T, N and K are at least 1. `bias` is MATMUL_Y's, NULL in
 * the others. `addend`, of out's shape, is added: NULL is none, `out` itself is what lies there; in
 * 16 bits the sum of product, bias and addend is rounded once, but where the library has no
 * algorithm with a bias: there bias + addend is rounded, then the whole.
 * Errors: TRINE_EMATH with shape and the library's status, TRINE_ENOMEM. */
trine_status cuda_matmul(device *d, matmul_kind kind, void *out, const void *left,
                         const void *right, const void *bias, const void *addend, size_t T,
                         size_t N, size_t K);

/* The library's words for an element type, and for how the device multiplies. */
cudaDataType cuda_matmul_type(trine_dtype type);
cublasComputeType_t cuda_matmul_compute(const device *d);

#endif

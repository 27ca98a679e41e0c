/* The operators on processors: matmuls by oneDNN through primitives that are made once per shape,
 * everything else by our own kernels, written so that gcc and clang vectorise them.
 *
 * Invariant: no kernel of ours lets its result depend on the number of threads or on the width of
 * the vectors. Threads take whole rows, columns or (batch, head) pairs; sums within a row run in
 * LANES partial sums (element/lanes.h) that are added in a fixed order. Nothing is allocated but
 * primitives, and those only in the first call with a shape; the library itself packs the operands
 * of a large product into a few MiB that it takes and gives back in each call. With the primitives
 * it keeps scratch, one piece for all of them: below 2 MiB in fp32; where GEMM makes a 16-bit result,
 * 4 bytes for each element of a band of it, at most 8 MiB used (dnnl.c), and as much address space for
 * each thread. A device of fp16 takes CPU_F16_SCRATCH when it is opened. Cost: the matmuls' rate is
 * the library's (fp16: the fp32 rate and a third more time); the rest is bound by memory, attention
 * by arithmetic: in every type it multiplies in fp32. */
#ifndef TRINE_DEVICE_CPU_CPU_H
#define TRINE_DEVICE_CPU_CPU_H

#include "device/ops.h"

/* The operators for a pair of types that device.h allows (element.h: how they are made). Pure. */
const ops *cpu_table(trine_dtype compute, trine_dtype grads);
/* Whether the processor multiplies bf16: AVX-512 BF16, or AMX. Pure. */
bool cpu_has_bf16(void);
/* Errors: TRINE_EUNSUPPORTED if a processor with or without bf16 should not compute in this type.
 * Pure. */
trine_status cpu_check_type(trine_dtype compute, bool has_bf16);

/* device_open's and device_close's part: the primitive cache, and OpenMP's thread count.
 * Errors: TRINE_EUNSUPPORTED, TRINE_ENOMEM, TRINE_EMATH. */
trine_status cpu_open(device *d);
void cpu_close(device *d);

/* oneDNN's version, "2.6.0", and the instructions that it uses on this processor, in its own word
 * ("avx512_core_bf16"); each text has room for `size` bytes. Pure. */
void cpu_about(char *version, char *instructions, size_t size);

/* The three products of a linear layer, named after what they write. */
typedef enum {
    MATMUL_Y,  /* out (T, N) = left x (T, K), right w (N, K)^T, plus bias (N) unless NULL */
    MATMUL_DX, /* out (T, K) = left dy (T, N), right w (N, K) */
    MATMUL_DW, /* out (N, K) = left dy (T, N)^T, right x (T, K) */
    MATMUL_DW_ADD /* out (N, K) += the same */
} matmul_kind;

/* Runs one product of the device's types; T, N and K are at least 1. Only the first call with (kind,
 * T, N, K, with or without bias) allocates. Errors: TRINE_EMATH, TRINE_ENOMEM. */
trine_status cpu_matmul(device *d, matmul_kind kind, void *out, const void *left, const void *right,
                        const void *bias, size_t T, size_t N, size_t K);
/* How many primitives the device has made so far; fp16 needs none. */
size_t cpu_matmul_count(const device *d);

/* The same for fp16, in `scratch`, which the device takes when it is opened: bytes of it. */
#define CPU_F16_BLOCK   512
#define CPU_F16_SCRATCH ((size_t)3 << 20)
trine_status cpu_matmul_f16(const device *d, float *scratch, matmul_kind kind, void *out,
                            const void *left, const void *right, const void *bias, size_t T,
                            size_t N, size_t K);

#endif

/* The operators on CPUs: matmuls by oneDNN with primitives that are created once per shape, everything
 * else by our own kernels, written so that gcc and clang vectorise them.
 *
 * Invariant: the results of our kernels do not depend on the number of threads or on the vector width; those of
 * the library do, unless the device has exact_threads (dnnl.c).
 * Threads work on complete rows, columns or (batch, head) pairs; sums within a row use LANES partial
 * sums (element/lanes.h) that are added in a fixed order. Only primitives are allocated, in the first
 * call with a shape; oneDNN packs the operands of a large matmul into a few MiB that it allocates and
 * frees in each call. oneDNN also keeps scratch, shared by all primitives: below 2 MiB in fp32; where
 * GEMM computes a 16-bit result, 4 bytes for each element of a band of it, of which at most 8 MiB are
 * used (dnnl.c), and as much address space for each thread. An fp16 device (cpu_widens) allocates CPU_F16_SCRATCH
 * when it is opened. Cost: matmuls run at the library's rate (fp16: a third more time than fp32); the
 * rest is bound by memory bandwidth, attention by arithmetic, which is fp32 for every type, but for products of bf16
 * numbers where the build has the instruction (attention_pairs.h). */
#ifndef TRINE_DEVICE_CPU_CPU_H
#define TRINE_DEVICE_CPU_CPU_H

#include "device/ops.h"

/* The kernels of a level (base/levels.h; AUTO: the highest of this build on this processor). Not collective. */
const struct cpu_kernels *cpu_kernels_of(trine_cpu_level level);
/* Their operators for a pair of types that device.h allows (see element.h). */
const ops *cpu_table(trine_cpu_level level, trine_dtype compute, trine_dtype grads);
/* Whether oneDNN multiplies bf16 numbers, given a processor that does. */
#if defined(__x86_64__)
#define CPU_ONEDNN_BF16 true
#else
#define CPU_ONEDNN_BF16 false
#endif
/* Whether products of 16-bit numbers are made in fp32 (matmul_f16.c), since oneDNN has none: of fp16, and of bf16 on
 * other processors than x86-64. Pure. */
static inline bool cpu_widens(trine_dtype compute) {
    return compute == TRINE_F16 || (compute == TRINE_BF16 && !CPU_ONEDNN_BF16);
}
/* Whether attention multiplies bf16 numbers in pairs (attention_pairs.h). */
bool cpu_multiplies_pairs(trine_cpu_level level);
/* Whether a level, not AUTO, has bf16 instructions; BASE: whether the processor has; or bf16 is widened. Not
 * collective. */
bool cpu_has_bf16(trine_cpu_level level);
/* Checks that a level supports the type. Errors: TRINE_EUNSUPPORTED. Not collective. */
trine_status cpu_check_type(trine_dtype compute, trine_cpu_level level);
/* Holds oneDNN to the instructions of a level, for the whole process. Errors: TRINE_EUNSUPPORTED if it has been used
 * with more. Not collective. */
trine_status cpu_hold(trine_cpu_level level);

/* Called by device_open and device_close: oneDNN's instructions, the primitive cache, and OpenMP's thread count.
 * Errors: TRINE_EUNSUPPORTED, TRINE_ENOMEM, TRINE_EMATH. */
trine_status cpu_open(device *d);
void cpu_close(device *d);

/* oneDNN's version, "2.6.0", and its name for the instruction set that it uses on this processor
 * ("avx512_core_bf16"; on Arm "sve" or "asimd", which this processor has); both buffers have `size` bytes. Pure. */
void cpu_about(char *version, char *instructions, size_t size);

/* The three matmuls of a linear layer, named after their output. */
typedef enum {
    MATMUL_Y,  /* out (T, N) = left x (T, K), right w (N, K)^T, plus bias (N) unless NULL */
    MATMUL_DX, /* out (T, K) = left dy (T, N), right w (N, K) */
    MATMUL_DW, /* out (N, K) = left dy (T, N)^T, right x (T, K) */
    MATMUL_DW_ADD /* out (N, K) += the same */
} matmul_kind;

/* Runs a matmul in the device's types; T, N and K are at least 1. Only the first call with (kind,
 * T, N, K, with or without bias) allocates. out NULL: nothing else is read; only allocates. With
 * exact_threads every product is made by oneDNN's brgemm. Errors: TRINE_EMATH, TRINE_ENOMEM; with
 * exact_threads TRINE_EUNSUPPORTED if there is none. */
trine_status cpu_matmul(device *d, matmul_kind kind, void *out, const void *left, const void *right,
                        const void *bias, size_t T, size_t N, size_t K);
/* The number of primitives that the device has created so far; fp16 needs none without exact_threads. */
size_t cpu_matmul_count(const device *d);
/* device_prepare_linear. */
trine_status cpu_prepare_linear(device *d, bool biased, size_t T, size_t N, size_t K);

/* cpu_matmul for the types of cpu_widens, with `scratch` of CPU_F16_SCRATCH bytes, which the device allocates when it
 * is opened. */
#define CPU_F16_BLOCK   512
#define CPU_F16_SCRATCH ((size_t)3 << 20)
trine_status cpu_matmul_f16(device *d, float *scratch, matmul_kind kind, void *out, const void *left,
                            const void *right, const void *bias, size_t T, size_t N, size_t K);
/* A tile of it with exact_threads: out (fp32) = or, `adds`, += the product of fp32 factors; not MATMUL_DW_ADD. */
trine_status cpu_matmul_tile(device *d, matmul_kind kind, bool adds, float *out, const float *left,
                             const float *right, size_t T, size_t N, size_t K);

#endif

/* Checks that the processor has the instruction set extensions that the library was compiled for (MARCH= in
 * the Makefile), before any other code runs: a missing one would kill the process with SIGILL and no message.
 * A constructor in processor.c runs when the program or the shared library is loaded; if an extension is
 * missing, it prints an error and exits with status 1. processor.c is compiled for the baseline (BASELINE in
 * the Makefile) and calls only libc. processor_built_for.c is compiled with the flags of all other files and
 * records them as data.
 *
 * The list has the extensions that compilers use on their own, of x86-64 and of Arm; those of the other architecture
 * are neither built for nor present. Cost: a dozen cpuid instructions, once. */
#ifndef TRINE_BASE_PROCESSOR_H
#define TRINE_BASE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_cpu_level */

/* ROW(id, name, the compiler's macro, cpuid leaf, subleaf, register, bit, state, level). State: the bits of
 * XCR0 for the registers that the system must save. Level: the first x86-64-vN of the psABI that has the
 * extension; 0: none. Arm's: the bit of the system's AT_HWCAP (H) or AT_HWCAP2 (H2), which is 0 if it does not save
 * the registers; "Arm C Language Extensions" has the macros. */
#define PROCESSOR_YMM 0x6u
#define PROCESSOR_ZMM 0xe6u
#define PROCESSOR_LIST(ROW)                                                                        \
    ROW(SSE3, "sse3", __SSE3__, 1, 0, C, 0, 0, 2)                                                  \
    ROW(SSSE3, "ssse3", __SSSE3__, 1, 0, C, 9, 0, 2)                                               \
    ROW(SSE4_1, "sse4.1", __SSE4_1__, 1, 0, C, 19, 0, 2)                                           \
    ROW(SSE4_2, "sse4.2", __SSE4_2__, 1, 0, C, 20, 0, 2)                                           \
    ROW(POPCNT, "popcnt", __POPCNT__, 1, 0, C, 23, 0, 2)                                           \
    ROW(AVX, "avx", __AVX__, 1, 0, C, 28, PROCESSOR_YMM, 3)                                        \
    ROW(AVX2, "avx2", __AVX2__, 7, 0, B, 5, PROCESSOR_YMM, 3)                                      \
    ROW(FMA, "fma", __FMA__, 1, 0, C, 12, PROCESSOR_YMM, 3)                                        \
    ROW(F16C, "f16c", __F16C__, 1, 0, C, 29, PROCESSOR_YMM, 3)                                     \
    ROW(BMI, "bmi", __BMI__, 7, 0, B, 3, 0, 3)                                                     \
    ROW(BMI2, "bmi2", __BMI2__, 7, 0, B, 8, 0, 3)                                                  \
    ROW(LZCNT, "lzcnt", __LZCNT__, 0x80000001, 0, C, 5, 0, 3)                                      \
    ROW(MOVBE, "movbe", __MOVBE__, 1, 0, C, 22, 0, 3)                                              \
    ROW(AVX512F, "avx512f", __AVX512F__, 7, 0, B, 16, PROCESSOR_ZMM, 4)                            \
    ROW(AVX512BW, "avx512bw", __AVX512BW__, 7, 0, B, 30, PROCESSOR_ZMM, 4)                         \
    ROW(AVX512CD, "avx512cd", __AVX512CD__, 7, 0, B, 28, PROCESSOR_ZMM, 4)                         \
    ROW(AVX512DQ, "avx512dq", __AVX512DQ__, 7, 0, B, 17, PROCESSOR_ZMM, 4)                         \
    ROW(AVX512VL, "avx512vl", __AVX512VL__, 7, 0, B, 31, PROCESSOR_ZMM, 4)                         \
    ROW(IFMA, "avx512ifma", __AVX512IFMA__, 7, 0, B, 21, PROCESSOR_ZMM, 0)                         \
    ROW(VBMI, "avx512vbmi", __AVX512VBMI__, 7, 0, C, 1, PROCESSOR_ZMM, 0)                          \
    ROW(VBMI2, "avx512vbmi2", __AVX512VBMI2__, 7, 0, C, 6, PROCESSOR_ZMM, 0)                       \
    ROW(VNNI, "avx512vnni", __AVX512VNNI__, 7, 0, C, 11, PROCESSOR_ZMM, 0)                         \
    ROW(BITALG, "avx512bitalg", __AVX512BITALG__, 7, 0, C, 12, PROCESSOR_ZMM, 0)                   \
    ROW(VPOPCNT, "avx512vpopcntdq", __AVX512VPOPCNTDQ__, 7, 0, C, 14, PROCESSOR_ZMM, 0)            \
    ROW(BF16, "avx512bf16", __AVX512BF16__, 7, 1, A, 5, PROCESSOR_ZMM, 0)                          \
    ROW(FP16, "avx512fp16", __AVX512FP16__, 7, 0, D, 23, PROCESSOR_ZMM, 0)                         \
    ROW(AVXVNNI, "avxvnni", __AVXVNNI__, 7, 1, A, 4, PROCESSOR_YMM, 0)                             \
    ROW(AVXIFMA, "avxifma", __AVXIFMA__, 7, 1, A, 23, PROCESSOR_YMM, 0)                            \
    ROW(GFNI, "gfni", __GFNI__, 7, 0, C, 8, 0, 0)                                                  \
    ROW(XOP, "xop", __XOP__, 0x80000001, 0, C, 11, PROCESSOR_YMM, 0)                               \
    ROW(FMA4, "fma4", __FMA4__, 0x80000001, 0, C, 16, PROCESSOR_YMM, 0)                            \
    ROW(TBM, "tbm", __TBM__, 0x80000001, 0, C, 21, 0, 0)                                           \
    ROW(ARM_CRC32, "crc32", __ARM_FEATURE_CRC32, 0, 0, H, 7, 0, 0)                                 \
    ROW(ARM_ATOMICS, "atomics", __ARM_FEATURE_ATOMICS, 0, 0, H, 8, 0, 0)                           \
    ROW(ARM_FP16, "asimdhp", __ARM_FEATURE_FP16_VECTOR_ARITHMETIC, 0, 0, H, 10, 0, 0)              \
    ROW(ARM_RDM, "asimdrdm", __ARM_FEATURE_QRDMX, 0, 0, H, 12, 0, 0)                               \
    ROW(ARM_JSCVT, "jscvt", __ARM_FEATURE_JCVT, 0, 0, H, 13, 0, 0)                                 \
    ROW(ARM_FCMA, "fcma", __ARM_FEATURE_COMPLEX, 0, 0, H, 14, 0, 0)                                \
    ROW(ARM_RCPC, "lrcpc", __ARM_FEATURE_RCPC, 0, 0, H, 15, 0, 0)                                  \
    ROW(ARM_DOTPROD, "asimddp", __ARM_FEATURE_DOTPROD, 0, 0, H, 20, 0, 0)                          \
    ROW(ARM_SVE, "sve", __ARM_FEATURE_SVE, 0, 0, H, 22, 0, 0)                                      \
    ROW(ARM_FP16_FML, "asimdfhm", __ARM_FEATURE_FP16_FML, 0, 0, H, 23, 0, 0)                       \
    ROW(ARM_SVE2, "sve2", __ARM_FEATURE_SVE2, 0, 0, H2, 1, 0, 0)                                   \
    ROW(ARM_FRINT, "frint", __ARM_FEATURE_FRINT, 0, 0, H2, 8, 0, 0)                                \
    ROW(ARM_SVE_I8MM, "svei8mm", __ARM_FEATURE_SVE_MATMUL_INT8, 0, 0, H2, 9, 0, 0)                 \
    ROW(ARM_SVE_BF16, "svebf16", __ARM_FEATURE_SVE_BF16, 0, 0, H2, 12, 0, 0)                       \
    ROW(ARM_I8MM, "i8mm", __ARM_FEATURE_MATMUL_INT8, 0, 0, H2, 13, 0, 0)                           \
    ROW(ARM_BF16, "bf16", __ARM_FEATURE_BF16_VECTOR_ARITHMETIC, 0, 0, H2, 14, 0, 0)

typedef enum {
#define PROCESSOR_ID(id, ...) PROCESSOR_##id,
    PROCESSOR_LIST(PROCESSOR_ID)
#undef PROCESSOR_ID
        PROCESSOR_FEATURES
} processor_feature;

#define PROCESSOR_WHY 1024

/* The extensions that all files but processor.c are compiled for. */
extern const bool processor_built_for[PROCESSOR_FEATURES];

/* *has = the extensions that this processor has and the system supports; all false on other architectures
 * than x86-64 and 64-bit Arm. Not collective. */
void processor_read(bool has[PROCESSOR_FEATURES]);
/* The same under a system that saves the registers `saved` (bits of XCR0). */
void processor_read_with(bool has[PROCESSOR_FEATURES], uint32_t saved);

/* The highest level of which all extensions are in `has`, at most V4_BF16; BASE if there is none. Pure. */
trine_cpu_level processor_level(const bool has[PROCESSOR_FEATURES]);
/* The same of this processor; V4_AMX if it has AMX for bf16, too, and the system its registers. Not collective. */
trine_cpu_level processor_level_here(void);

/* Whether a processor with `has` runs code compiled for `want`. If not, `why` names the missing extensions
 * and a MARCH that works. Pure. */
bool processor_fits(const bool want[PROCESSOR_FEATURES], const bool has[PROCESSOR_FEATURES],
                    char why[PROCESSOR_WHY]);

/* Referring to it links the check into a program, also from a static archive. */
extern const char processor_is_checked;

#endif

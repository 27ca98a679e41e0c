#include "base/status.h"
#include "device/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

extern const ops cpu_f32_f32_ops, cpu_bf16_f32_ops, cpu_bf16_bf16_ops, cpu_f16_f32_ops,
    cpu_f16_f16_ops;

const ops *cpu_table(trine_dtype compute, trine_dtype grads) {
    if (compute == TRINE_BF16) return grads == compute ? &cpu_bf16_bf16_ops : &cpu_bf16_f32_ops;
    if (compute == TRINE_F16) return grads == compute ? &cpu_f16_f16_ops : &cpu_f16_f32_ops;
    return &cpu_f32_f32_ops;
}

/* Read with cpuid, because not all compilers have a name for AMX. __builtin_cpu_supports also checks that the
 * operating system saves the wide registers. */
#if defined(__x86_64__)
bool cpu_has_bf16(void) {
    unsigned a = 0, b = 0, c = 0, amx = 0, avx512 = 0;
    if (!__builtin_cpu_supports("avx512f") || !__get_cpuid_count(7, 0, &a, &b, &c, &amx))
        return false;
    __get_cpuid_count(7, 1, &avx512, &b, &c, &a);
    return (avx512 >> 5 & 1) || (amx >> 22 & 1);
}
#else
bool cpu_has_bf16(void) {
    return cpu_widens(TRINE_BF16);
}
#endif

trine_status cpu_check_type(trine_dtype compute, bool has_bf16) {
    CHECK(compute != TRINE_BF16 || has_bf16, TRINE_EUNSUPPORTED,
          "this processor does not support bf16 (AVX-512 BF16 or AMX); use --device ref, which is "
          "slow, or train in fp32");
    return TRINE_OK;
}

#include "device/cpu/kernels.h"

#include "base/levels.h"
#include "device/cpu/attention_pairs.h"

extern const ops cpu_f32_f32_ops, cpu_bf16_f32_ops, cpu_bf16_bf16_ops, cpu_f16_f32_ops,
    cpu_f16_f16_ops;

static const ops *table(trine_dtype compute, trine_dtype grads) {
    if (compute == TRINE_BF16) return grads == compute ? &cpu_bf16_bf16_ops : &cpu_bf16_f32_ops;
    if (compute == TRINE_F16) return grads == compute ? &cpu_f16_f16_ops : &cpu_f16_f32_ops;
    return &cpu_f32_f32_ops;
}

const cpu_kernels LEVEL_NAME(cpu_kernels) = {
    .table = table, .matmul_f16 = cpu_matmul_f16, .pairs = ATTENTION_PAIRS};

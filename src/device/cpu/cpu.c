#include "device/cpu/cpu.h"

#include <omp.h>

#include "device/ref/ref.h"

/* The loops of ref until the kernels are here. */

const ops ops_cpu = {
    .linear_forward = ref_linear_forward,
    .linear_backward_input = ref_linear_backward_input,
    .linear_backward_weight = ref_linear_backward_weight,
    .bias_residual = ref_bias_residual,
    .bias_backward = ref_bias_backward,
    .norm_forward = ref_norm_forward,
    .norm_backward = ref_norm_backward,
    .gelu_forward = ref_gelu_forward,
    .gelu_backward = ref_gelu_backward,
    .attention_forward = ref_attention_forward,
    .attention_backward = ref_attention_backward,
    .attention_workspace = ref_attention_workspace,
    .embedding_forward = ref_embedding_forward,
    .embedding_backward = ref_embedding_backward,
    .position_forward = ref_position_forward,
    .position_backward = ref_position_backward,
    .xent_max = ref_xent_max,
    .xent_sums = ref_xent_sums,
    .xent_loss = ref_xent_loss,
    .xent_backward = ref_xent_backward,
    .add = ref_add,
    .sum_squares = ref_sum_squares,
    .adamw = ref_adamw,
};

trine_status cpu_open(device *d) {
    omp_set_num_threads(d->threads);
    return TRINE_OK;
}

void cpu_close(device *d) {
    (void)d;
}

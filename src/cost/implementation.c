#include "cost/implementation.h"

#include <stddef.h>

/* A block of GPT-2 moves, in units of a stream's activations X = 2 s b h bytes, (11 r + 10 / t) X forward in 8 kernels,
 * and (21 r + 33 / t) X backward in 16; r is 1, or with sequence parallelism 1 / t. Attention adds 4.5 S forward and 5.5
 * S backward, S = 2 a s^2 b / t bytes, for softmax, mask and dropout of stored scores. */
static const implementation_op megatron[] = {
    {COUNT_dropout_residual, .factor = 3.5 / 3, .kernels = 1}, /* and a mask of a byte an element */
    {COUNT_dropout, .factor = 2.5 / 2, .kernels = 1},
    {COUNT_norm_backward, .factor = 2,
     .kernels = 3}, /* dx; dgain and dbias; the residual's gradient */
    {COUNT_attention_forward, .inner = 2, .scores = 4.5, .products = 2, .kernels = 7},
    {COUNT_attention_backward, .inner = 21, .scores = 5.5, .products = 4, .kernels = 13},
    {COUNT_xent_forward, .factor = 0},
    {COUNT_xent_backward, .factor = 12.5, .kernels = 8}, /* 50 bytes a logit in all, in fp32 */
    {COUNT_xent_rescale, .factor = 0},
    {COUNT_xent_loss, .factor = 0},
    {COUNT_sum_squares, .factor = 0},
    {COUNT_adamw, .factor = 50.0 / 28, .kernels = 1}, /* with scaling, clipping and casts */
    {COUNTED, .factor = 0},
};

const implementation *implementation_of(implementation_kind kind) {
    static const implementation rows[IMPLEMENTATIONS] = {
        [IMPLEMENTATION_TRINE] = {"trine", .grads = TRINE_F32, .hides_sums = true},
        [IMPLEMENTATION_MEGATRON_2021] = {"megatron-2021", megatron, .grads = TRINE_F16,
                                          .add_bytes = 6, .repeats_forward = true, .late = true,
                                          .blocks = true, .scatters = true, .dropout = 0.1},
        [IMPLEMENTATION_MEGATRON_2022] = {"megatron-2022", megatron, .grads = TRINE_F32,
                                          .repeats_forward = true, .hides_sums = true, .late = true,
                                          .late_alone = true, .blocks = true, .scatters = true,
                                          .dropout = 0.1},
        [IMPLEMENTATION_MEGATRON_DEEPSPEED] = {"megatron-deepspeed", megatron, .grads = TRINE_F16,
                                               .add_bytes = 6, .repeats_forward = true,
                                               .late = true, .late_alone = true, .blocks = true,
                                               .scatters = true, .dropout = 0.1},
    };
    return &rows[kind];
}

const implementation_op *implementation_op_of(const implementation *i, counted what) {
    for (const implementation_op *o = i->ops; o && o->what != COUNTED; o++)
        if (o->what == what) return o;
    return NULL;
}

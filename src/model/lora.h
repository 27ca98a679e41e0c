/* Low-rank adapters of a model (trine_lora, include/trine.h): which matrices have one, and what they take. The
 * arithmetic is in tp/adapter.h. */
#ifndef TRINE_MODEL_LORA_H
#define TRINE_MODEL_LORA_H

#include "model/kind.h"
#include "tp/adapter.h"

/* The adapters of a row, which is a COLUMN or a ROW; returns their number. matrix[n]: which of the stacked matrices
 * has it; -1: one for all of them. Pure. */
int lora_adapters(const gpt_shape *s, const trine_layer *row, int matrix[TRINE_LAYER_TENSORS]);

/* Checks sizes and targets: each names a matrix of the family's blocks. Errors: TRINE_EINVAL lists what it has. Pure.
 */
trine_status lora_check(const trine_model *m);
/* "q_proj,v_proj": the targets that are in use; "": none. Pure. */
const char *lora_targets(const trine_lora *l);
/* Whether a target names a matrix of the family's blocks. Pure. */
bool lora_has_target(const trine_model *m, const char *target);
/* The factor of B A x. Pure. */
double lora_scale(const trine_lora *l);

/* Elements of a layer's tp_lora: down, up, work. Zero without adapters. Pure. */
size_t lora_down(const gpt_shape *s, const trine_layer *row);
size_t lora_up(const gpt_shape *s, const trine_layer *row);
/* Bytes of up and work. Pure. */
size_t lora_workspace(const device *d, const gpt_shape *s, const trine_layer *row, size_t width_in, size_t width);
/* Forward flops per row. Pure. */
double lora_flops(const gpt_shape *s, const trine_layer *row, size_t width_in, size_t width);
/* Runs the operators once (model/warm.h). */
trine_status lora_warm(warm_state *w, const trine_layer *row, size_t width_in, size_t width);

/* The tensors of a COLUMN or a ROW with its adapters. `up`: where the input half leaves for the weight half; NULL: in
 * the workspace. */
typedef struct {
    tp_linear linear;
    tp_lora lora;
} layer_linear;
const tp_linear *linear_of(const layer_call *c, void *up, layer_linear *out);

#endif

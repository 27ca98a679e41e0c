/* What the instructions that run a unit read, set and add (core/prove.h): rules of their parts, in model/instr.c. */
#ifndef TRINE_MODEL_INSTR_PROVE_H
#define TRINE_MODEL_INSTR_PROVE_H

#include "core/prove.h"

trine_status gpt_prove_forward(struct prove_stage *s, const instr *i);
trine_status gpt_prove_backward(struct prove_stage *s, const instr *i);
trine_status gpt_prove_backward_input(struct prove_stage *s, const instr *i);
trine_status gpt_prove_backward_weight(struct prove_stage *s, const instr *i);

#endif

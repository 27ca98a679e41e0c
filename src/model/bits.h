/* What a proof of programs (core/prove.h) needs to know about the units, which it does not open: the tensors that
 * instructions treat alike, and what the bits of a unit depend on besides its inputs. */
#ifndef TRINE_MODEL_BITS_H
#define TRINE_MODEL_BITS_H

#include "core/prove.h"
#include "model/gpt.h"

/* prove_model.strands, of a gpt_shape: the tensors of a unit by whether they are small (list_splits), tied, and
 * partial over tp. Cost: resolves the unit's list. Pure. */
int gpt_strands(const void *shape, int unit, prove_strand out[PROVE_STRANDS]);

/* The first layer of a unit whose bits depend on one of `bits` (kind_bits); NULL: none does. Pure. */
const trine_layer *gpt_bits_layer(const gpt_shape *s, int unit, unsigned bits);

#endif

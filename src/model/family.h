/* The families of models that are known by name. */
#ifndef TRINE_MODEL_FAMILY_H
#define TRINE_MODEL_FAMILY_H

#include "trine_model.h"

/* Checks that the family's name is valid and not used by another family. Errors: TRINE_EINVAL. Not collective. */
trine_status family_check(const trine_family *family);
/* The family of a model. Never NULL. Pure. */
const trine_family *family_of(const trine_model *m);

/* What a family calls a block in names of tensors, "h", and the prefix of names in files, "transformer.". Pure. */
const char *family_blocks(const trine_family *family);
const char *family_prefix(const trine_family *family);

/* "rms_norm"; "unknown": no such kind. Pure. */
const char *family_layer_text(trine_layer_kind kind);

/* Finds a family by name. Errors: TRINE_EINVAL lists the known families. Not collective. */
trine_status family_find(const trine_family **family, const char *name);

/* "own 1f0a2b3c4d5e6f70": the name and a hash of the lists, which must be equal on all ranks and in a checkpoint; and
 * the family of such a text. Errors: TRINE_EINVAL, also if the lists have changed since. */
#define FAMILY_TEXT 64
const char *family_text(const trine_family *f, char text[FAMILY_TEXT]);
trine_status family_of_text(const trine_family **family, const char *text);

#endif

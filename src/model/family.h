/* The families of models that are known by name. */
#ifndef TRINE_MODEL_FAMILY_H
#define TRINE_MODEL_FAMILY_H

#include "trine_model.h"

/* Whether a family may have its name: nobody else has it. Errors: TRINE_EINVAL. Not collective. */
trine_status family_check(const trine_family *family);
/* A model's family. Never NULL. Pure. */
const trine_family *family_of(const trine_model *m);

/* The family of that name. Errors: TRINE_EINVAL names those that are known. Not collective. */
trine_status family_find(const trine_family **family, const char *name);

/* "own 1f0a2b3c4d5e6f70": its name and a hash of its lists, which ranks and checkpoints must agree about; and the
 * family of such a text. Errors: TRINE_EINVAL, also when its lists have changed since. */
#define FAMILY_TEXT 64
const char *family_text(const trine_family *f, char text[FAMILY_TEXT]);
trine_status family_of_text(const trine_family **family, const char *text);

#endif

/* Which tensors of a model are trained: trine_model.trained, patterns over the names of tensors in files. */
#ifndef TRINE_MODEL_FROZEN_H
#define TRINE_MODEL_FROZEN_H

#include "trine_model.h"

/* The patterns that hold for a model; NULL: there are none. Borrowed from the model. Pure. */
const char *model_trained(const trine_model *m);
/* Whether some tensors of a model may be frozen: it has patterns, or adapters, whose base is. Pure. */
bool model_freezes(const trine_model *m);

/* Whether a tensor, named as in files, is trained: the last pattern that matches says it. Without one every tensor
 * is, but with `adapters` (trine_lora) theirs alone. Pure. */
bool model_trains(const trine_model *m, const char *name_in_files);
bool trained_by(const char *patterns, bool adapters, const char *name_in_files);

/* One pattern of a list. */
typedef struct {
    bool trains;      /* "+", not "-" */
    const char *glob; /* not terminated */
    size_t length;
} trained_pattern;

/* The first pattern of a list, and *rest, the list behind it; NULL: it was the last. Errors: TRINE_EINVAL if it is
 * neither "-GLOB" nor "+GLOB", or longer than TRINE_PATTERN. Pure. */
#define TRINE_PATTERN 200
trine_status trained_next(const char *list, trained_pattern *out, const char **rest);
/* Whether the pattern matches a name. Pure. */
bool trained_matches(const trained_pattern *p, const char *name_in_files);
/* model_trains if the model had all its patterns but this one, however often it has it. Pure. */
bool model_trains_without(const trine_model *m, const trained_pattern *p, const char *name_in_files);

#endif

/* What is exported appears under its name when it is complete: it is made as OUT.<token>.writing beside OUT, and
 * renamed when its bytes are on the disk. Nothing else is removed or overwritten; what other exports have left is
 * reported. */
#ifndef TRINE_CKPT_MAKING_H
#define TRINE_CKPT_MAKING_H

#include <stdio.h>

#include "trine_types.h" /* trine_status */

typedef enum { MAKING_FOLDER, MAKING_FILE } making_kind;

typedef struct {
    making_kind kind;
    char *out, *now; /* the name, without slashes at its end, and what it is until then; owned */
} making;

/* Chooses the name until then, and checks that `out` is free: a folder may exist if it is empty. Freed by
 * making_free, also after an error. Errors: TRINE_EIO if it exists, TRINE_EINVAL for no name, TRINE_ENOMEM. Not
 * collective. */
trine_status making_begin(making *m, making_kind kind, const char *out);

/* Makes m->now appear as m->out and syncs its folder. A signal ends the program before it or after it
 * (base/ending.h, where the caller has added m->now). Errors: TRINE_EIO, also if `out` exists by now. Not collective.
 * */
trine_status making_publish(const making *m);
void making_free(making *m);

/* Lists on `to` what is beside `out` and belongs to interrupted or running exports to it. Errors: TRINE_EIO,
 * TRINE_EINVAL, TRINE_ENOMEM. Not collective. */
trine_status making_leftovers(const char *out, FILE *to);

#endif

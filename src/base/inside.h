/* Files of a folder that may come from elsewhere: of a model, a checkpoint. What is read there may be copied into
 * checkpoints and exports, so a file must be the folder's own: a link is followed only where it leads to
 *
 *   a regular file in the folder, or below it      "vocab.json -> vocab-32k.json"
 *   ../../blobs/NAME of a folder snapshots/X       Hugging Face's cache, which keeps the files of all revisions of a
 *                                                  model in one folder; X and blobs are not links
 *
 * and the file there is not a link again. Other links are refused with what they name. The folder itself may be a
 * link: it is what the user named.
 *
 * Invariant: every step is opened relative to the step before and without following a link, and what was opened is
 * checked, not its name: whoever changes the folder meanwhile can exchange files of the folder, and no others. */
#ifndef TRINE_BASE_INSIDE_H
#define TRINE_BASE_INSIDE_H

#include "base/input.h"

/* Opens "folder/name", or "name" of the working folder, as input_open does. Errors: TRINE_EIO, the message starts
 * with `path`; *fd is then -1. Not collective. */
trine_status inside_open(int *fd, uint64_t *bytes, const char *path);

/* Reads it as input_text does; *mode (may be NULL) = its permission bits. Errors: TRINE_EIO; TRINE_EDATA,
 * TRINE_ENOMEM. Not collective. */
trine_status inside_text(char **text, size_t *bytes, unsigned *mode, uint64_t limit, const char *path);

/* Whether the folder has an entry of that name, even one that inside_open refuses. Not collective. */
bool inside_has(const char *folder, const char *name);

#endif

/* The folder that checkpoints are saved in, as one rank sees it. One job at a time saves there.
 *
 *   DIR/step-N/             whole checkpoints; N in decimal, without leading zeros
 *   DIR/latest              text: the name of the one that was saved last ("step-N\n")
 *   DIR/.latest.writing     the next one's text
 *   DIR/.step-N.writing/    being written, or left by a job that was killed
 *   DIR/.step-N.removing/   being removed, likewise
 *   DIR/.step-N.replaced/   whole: on file systems that cannot exchange two names, the old step-N
 *                           while the new one takes its place
 *
 * Invariant: step-N appears and disappears by one rename, so it is whole whenever it is there; what
 * was there before under the same name is exchanged in one call (renameat2) or, where that does not
 * exist, named `replaced`, and whoever looks next gives it its name back. Every rename is followed
 * by an fsync of DIR. A power cut after folder_publish returns loses nothing. */
#ifndef TRINE_CKPT_FOLDER_H
#define TRINE_CKPT_FOLDER_H

#include "trine.h"

/* Makes DIR and DIR/.step-N.writing, empty, once `need` bytes (and a little) are free there; what
 * killed jobs left is removed first. Errors: TRINE_EIO names the folder, and for want of space what
 * is free and what is needed; TRINE_ENOMEM. Not collective. */
trine_status folder_begin(const char *dir, int64_t step, uint64_t need);

/* "DIR/.step-N.writing", owned by the caller; NULL without memory. Pure. */
char *folder_writing(const char *dir, int64_t step);

/* DIR/.step-N.writing, whose files are written and synced, becomes DIR/step-N; then `latest`.
 * Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status folder_publish(const char *dir, int64_t step);

/* Takes back what folder_begin made, after a failure. Leaves the error trail as it is. Not
 * collective. */
void folder_abandon(const char *dir, int64_t step);

/* Of the checkpoints up to that of `step`, which was just saved, removes all but the `keep` newest
 * (0: keeps all). Later ones were passed over as broken, and stay. What cannot be removed any more
 * (a file that somebody still reads, on some network file systems) stays as .step-N.removing for
 * the next folder_begin. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status folder_clean(const char *dir, int keep, int64_t step);

/* The steps of the checkpoints in DIR, newest first; *steps is owned by the caller. No DIR: none.
 * A step-N that cannot be looked at (a link to storage that is away) is listed, a file is not.
 * Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status folder_list(const char *dir, int64_t **steps, size_t *count);

/* "folder/name", owned by the caller; NULL without memory. Pure. */
char *folder_join(const char *folder, const char *name);

/* "DIR/step-N", owned by the caller; NULL without memory. Pure. */
char *folder_path(const char *dir, int64_t step);

#endif

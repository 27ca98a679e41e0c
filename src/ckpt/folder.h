/* The folder that checkpoints are saved in, as one rank sees it. One job at a time saves there: the one
 * whose rank 0 holds the folder's lease (lease.h), whose token stands in the names of what is not
 * whole.
 *
 *   DIR/step-N/                     whole checkpoints; N in decimal, without leading zeros
 *   DIR/latest                      text: the name of the one that was saved last ("step-N\n")
 *   DIR/.lease-n                    who saves here, or did (lease.h)
 *   DIR/.latest.<token>.writing     the next one's text
 *   DIR/.step-N.<token>.writing/    being written, or left by a job that was killed
 *   DIR/.step-N.<token>.removing/   being removed, likewise
 *   DIR/.step-N.<token>.replaced/   whole: on file systems that cannot exchange two names, the old
 *                                   step-N while the new one takes its place
 *
 * (Before there were leases the names had no token; such are understood, too.)
 *
 * Invariant: step-N appears and disappears by one rename, so it is whole whenever it is there; what
 * was there before under the same name is exchanged in one call (renameat2) or, where that does not
 * exist, named `replaced`, and whoever looks next gives it its name back. Every rename is followed
 * by an fsync of DIR. A power cut after folder_publish returns loses nothing. Whoever has lost the
 * lease changes nothing that another owner has made or counts on: lease.h has the argument.
 *
 * All functions but the last four want the lease to be held, and fail with TRINE_EBUSY, which
 * names the new owner, if it is not any more. */
#ifndef TRINE_CKPT_FOLDER_H
#define TRINE_CKPT_FOLDER_H

#include "ckpt/lease.h"
#include "trine.h"

/* Makes DIR, and the folders above it. Errors: TRINE_EIO names the one that cannot be made;
 * TRINE_ENOMEM. Not collective. */
trine_status folder_make(const char *dir);

/* The first thing after the lease was taken: what owners before were writing can get no other name any
 * more. Nothing is removed. Errors: TRINE_EIO, TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_take(lease *l);

/* Makes DIR/.step-N.<token>.writing, empty, if `need` bytes (and a little) are free there; folder_abandon
 * removes it. Nothing else is touched. Errors: TRINE_EIO names the folder, and for want of space what is
 * free and what is needed; TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_try(lease *l, int64_t step, uint64_t need);

/* The same, to save there; what killed jobs left is removed first. Errors: as those of folder_try. Not
 * collective. */
trine_status folder_begin(lease *l, int64_t step, uint64_t need);

/* DIR/.step-N.<token>.writing, whose files are written and synced, becomes DIR/step-N; then `latest`.
 * When it returns TRINE_OK, step-N was this one while the lease was held. Errors: TRINE_EIO,
 * TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_publish(lease *l, int64_t step);

/* Takes back what folder_begin or folder_try made, after a failure, with or without the lease. Leaves the
 * error trail as it is. Not collective. */
void folder_abandon(const lease *l, int64_t step);

/* Of the checkpoints up to that of `step`, which was just saved, removes all but the `keep` newest
 * (0: keeps all). Later ones were passed over as broken, and stay. What cannot be removed any more
 * (a file that somebody still reads, on some network file systems) stays as .step-N.<token>.removing
 * for the next folder_begin. Errors: TRINE_EIO, TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_clean(lease *l, int keep, int64_t step);

/* The steps of the checkpoints in DIR, newest first; *steps is owned by the caller. No DIR: none.
 * A step-N that cannot be looked at (a link to storage that is away) is listed, a file is not.
 * Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status folder_list(const char *dir, int64_t **steps, size_t *count);

/* "DIR/.step-N.<token>.writing", owned by the caller; NULL without memory. Pure. */
char *folder_writing(const char *dir, const char *token, int64_t step);

/* "folder/name", owned by the caller; NULL without memory. Pure. */
char *folder_join(const char *folder, const char *name);

/* "DIR/step-N", owned by the caller; NULL without memory. Pure. */
char *folder_path(const char *dir, int64_t step);

#endif

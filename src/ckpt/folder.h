/* The folder of checkpoints, as one rank sees it. One job at a time saves there: the one whose rank 0 holds
 * the folder's lease (lease.h). The lease's token is part of the names of uncommitted files.
 *
 *   DIR/step-N/                     committed checkpoints; N in decimal, without leading zeros
 *   DIR/latest                      text: the name of the one that was saved last ("step-N\n")
 *   DIR/.lease-n                    who saves here, or did (lease.h)
 *   DIR/.latest.<token>.writing     the next text of `latest`
 *   DIR/.step-N.<token>.writing/    being written, or left by a job that was killed
 *   DIR/.step-N.<token>.removing/   being removed, or left by a job that was killed
 *   DIR/.step-N.<token>.replaced/   complete: on file systems that cannot exchange two names, the old
 *                                   step-N while the new one takes its place
 *
 * (Versions without leases wrote names without a token; they are recognized, too.) Names with another N,
 * of a sign, with leading zeros or more than INT64_MAX, are nobody's: they are neither read nor changed.
 *
 * Invariant: step-N appears and disappears by one rename, so it is complete whenever it exists. An existing
 * checkpoint of the same name is exchanged in one call (renameat2) or, where that is not supported, renamed
 * to `replaced`; the next process that looks renames it back. Every rename is followed by an fsync of DIR.
 * A power failure after folder_publish returns loses nothing. A process that has lost the lease does not
 * change anything that another owner has made or relies on: lease.h has the argument.
 *
 * All functions but folder_make and the last eight require the lease and fail with TRINE_EBUSY, which names the
 * new owner, if it is no longer held. */
#ifndef TRINE_CKPT_FOLDER_H
#define TRINE_CKPT_FOLDER_H

#include "ckpt/lease.h"
#include "trine_types.h"

/* Creates DIR and its parents. Errors: TRINE_EIO names the folder that cannot be created; TRINE_ENOMEM. Not
 * collective. */
trine_status folder_make(const char *dir);

/* Must be called first after the lease was taken: from then on earlier owners cannot publish what they were
 * writing. Removes nothing. Errors: TRINE_EIO, TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_take(lease *l);

/* Creates the empty folder DIR/.step-N.<token>.writing if `need` bytes (plus a margin) are free;
 * folder_abandon removes it. Changes nothing else. Errors: TRINE_EIO names the folder and, if there is not
 * enough space, the free and the needed bytes; TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_try(lease *l, int64_t step, uint64_t need);

/* The same for a save; first removes what killed jobs left. Errors: those of folder_try. Not collective. */
trine_status folder_begin(lease *l, int64_t step, uint64_t need);

/* Renames DIR/.step-N.<token>.writing, whose files are written and synced, to DIR/step-N, then updates
 * `latest`. If it returns TRINE_OK, step-N was this checkpoint while the lease was held. Errors: TRINE_EIO,
 * TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_publish(lease *l, int64_t step);

/* Removes what folder_begin or folder_try created, after a failure, with or without the lease. Leaves the
 * error trail unchanged. Not collective. */
void folder_abandon(const lease *l, int64_t step);

/* Removes all but the `keep` newest checkpoints up to `step`, which was just saved (0: keeps all), of those without a
 * file CKPT_KEEP_FILE, which stay. Later
 * ones were skipped as broken and stay. What cannot be fully removed (a file that is still being read, on
 * some network file systems) stays as .step-N.<token>.removing for the next folder_begin. Errors:
 * TRINE_EIO, TRINE_ENOMEM, TRINE_EBUSY. Not collective. */
trine_status folder_clean(lease *l, int keep, int64_t step);

/* Whether a save finds its names free: `latest` may be no folder, and step-N nothing else. Errors: TRINE_EINVAL, the
 * message begins with the name; TRINE_EIO. Not collective. */
trine_status folder_check(const char *dir);

/* The steps of the checkpoints in DIR, newest first; none if DIR does not exist; *steps is owned by the
 * caller. Includes a step-N that cannot be accessed (a link to storage that is offline) but not one that is
 * a file. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status folder_list(const char *dir, int64_t **steps, size_t *count);

/* "DIR/.step-N.<token>.writing", owned by the caller; NULL if out of memory. Pure. */
char *folder_writing(const char *dir, const char *token, int64_t step);

/* "folder/name", owned by the caller; NULL if out of memory. Pure. */
char *folder_join(const char *folder, const char *name);
/* Removes "folder/name" with all that is in it; it need not exist. Errors: TRINE_EIO, TRINE_ENOMEM. Not
 * collective. */
trine_status folder_remove(const char *folder, const char *name);

/* N of a checkpoint's name "step-N": decimal, without a sign or leading zeros; -1: any other name. Pure. */
int64_t folder_step(const char *name);

/* *step = the N in DIR/latest; -1: there is no such file. Errors: TRINE_EIO; TRINE_EDATA when it has another
 * text; TRINE_ENOMEM. Not collective. */
trine_status folder_latest(const char *dir, int64_t *step);

/* "DIR/step-N", owned by the caller; NULL if out of memory. Pure. */
char *folder_path(const char *dir, int64_t step);

#endif

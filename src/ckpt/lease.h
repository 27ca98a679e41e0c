/* The lease of a folder: the one process that may change its contents, on any machine and file system. Rank
 * 0 holds it for its job.
 *
 *   DIR/.lease-<n>            the lease of generation n: its owner and a counter (lease_record.h)
 *   DIR/.lease-<token>.new    a lease that is being written, for a moment
 *
 * n is decimal, from 1 to 10^18 - 1. A number that no owner can have made (larger, with a sign or leading
 * zeros), a link, and what is not a regular file are refused by name: nobody can tell what they mean. Other
 * names are ignored.
 *
 * A thread of the owner's process raises the counter every two seconds. A process that wants the folder and
 * finds a lease polls it:
 *
 *   it was given back                                        takes it over at once
 *   its process was on this machine, and has exited          takes it over at once
 *   the counter moves                                        refused: another job is working there
 *   the counter has not moved for ten beats                  takes it over
 *
 * Ten beats are counted on the observer's own clock, and one poll counts for at most half a beat, so that
 * the time in which the observer itself was stopped does not count. Neither other machines' clocks nor file
 * times nor locks are trusted. Required is that link(2) creates a name at most once, that open(2) of a
 * removed name fails, and that data written and closed are visible to a later open. NFS and Lustre
 * guarantee these. (Where link(2) is not supported, O_EXCL is used: the file is then empty for a moment,
 * and an empty file is watched like any other.)
 *
 * Generations. Taking over n means creating n + 1, and a name is created only once: one of several
 * observers wins, the others find n + 1 and watch it. Only the owner of a later lease removes a lease, even
 * one that was given back (its text then says "free"), so the largest number in the folder only grows and
 * means the same to all: its owner is the owner. An observer that slept through generations and creates one
 * that is not the largest detects this by listing the folder after its link, before it does anything else,
 * and removes its own lease again.
 *
 * The owner of n + 1 removes n first, and does not proceed if it cannot. So the owner of n, however long
 * and in whichever call it was stopped, can tell by one open of its own file: as long as the file exists,
 * no later owner has started. (It also looks for n + 1, but an NFS client may cache its absence for a
 * while.) Between that open and the call that it guards, the owner of n may be stopped again, so what it
 * can still do then must be harmless. folder.h ensures it:
 *
 *   publish   is a rename of a folder whose name carries the owner's token and which was created before the
 *             check. folder_take, which a later owner calls first, renames every such folder: the rename
 *             fails, or has happened before.
 *   remove    lists what others left, then checks the lease, then removes: what was listed belongs to
 *             earlier owners, since no later one had started at the check, and tokens are random. The .new
 *             of an observer may be removed this way: its link fails, and it looks again.
 *   beat      writes to a file that is opened without creating it and has its own token.
 *   give back likewise.
 *
 * So the owner of a lease may remove whatever carries another token: those who created it can no longer
 * publish. Crashes: between link and removal there are n and n + 1, and the larger counts; before the link,
 * a .new remains that the next owner removes; after it, a lease without beats. Cost: three calls on a small
 * file every two seconds; five for a check. */
#ifndef TRINE_CKPT_LEASE_H
#define TRINE_CKPT_LEASE_H

#include "trine_types.h"

typedef struct lease lease;

/* Prepares to take the lease of an existing folder; *l is owned by the caller. Errors: TRINE_EIO,
 * TRINE_ENOMEM. Not collective. */
trine_status lease_begin(lease **l, const char *dir);

/* Polls once, and sleeps (half a second at most) if there is nothing to decide yet: call it until *held.
 * Reports once on `out` (NULL: nothing) which owner it waits for. Once *held, a thread of this process,
 * which blocks all signals, beats. Errors: TRINE_EBUSY names the owner that is alive, which may be another
 * lease of this process; TRINE_EDATA for a number that no lease has; TRINE_EIO, TRINE_ENOMEM. If it is held
 * already: as lease_check. Not collective. */
trine_status lease_try(lease *l, FILE *out, bool *held);

/* Checks that it is still held. Errors: TRINE_EBUSY, permanently, when it is lost: names the new owner, if
 * there is one; TRINE_EIO when it cannot be read. Not collective. */
trine_status lease_check(lease *l);

/* The owner's token in file names: 16 digits. Pure. */
const char *lease_token(const lease *l);
/* The folder, as given to lease_begin. Pure. */
const char *lease_dir(const lease *l);
/* Whether lease_try has returned *held. Pure. */
bool lease_is_held(const lease *l);

/* Stops the thread, gives the lease back if it is held, and frees it; sets *l, which may be NULL, to NULL.
 * Leaves the error trail unchanged. Not collective. */
void lease_give_back(lease **l);

/* For tests: beat interval, and missed beats until expiry, of leases begun from now on. */
void lease_terms(int interval_ms, int beats);

#endif

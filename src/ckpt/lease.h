/* The lease of a folder: who may change what is in it, one process at a time, on whatever machine and
 * file system. Rank 0 of a job holds it for the job.
 *
 *   DIR/.lease-<n>            the lease of generation n: who holds it, and a counter (lease_record.h)
 *   DIR/.lease-<token>.new    one that is being written, for a moment
 *
 * The owner's process has a thread that raises the counter every two seconds. Whoever wants the
 * folder and finds a lease looks at it again and again:
 *
 *   it was given back                                        it is taken over at once
 *   its process was one of this machine, and has ended       it is taken over at once
 *   the counter moves                                        refused: somebody works there
 *   it has not moved for ten beats                           it is taken over
 *
 * Ten beats are counted on the observer's own clock, and no look counts for more than half a beat,
 * so that an observer that was stopped itself has not watched. Nothing is believed of other machines'
 * clocks or of times of files, and nothing of locks: what is needed is that link(2) makes a name at
 * most once, that open(2) of a name that was removed fails, and that what was written and closed is
 * seen by who opens later. NFS and Lustre have these. (Where there is no link(2), O_EXCL takes its
 * place: the file is then empty for a moment, and an empty one is watched like any other.)
 *
 * Generations. To take over n is to make n + 1, and a name is made once: of several observers one
 * wins, the others find n + 1 and watch that. A lease is never removed but by the owner of a later
 * one, not even when it is given back (its text then says "free"), so that the largest number in the
 * folder only grows and means the same to all: the owner of it is the owner. An observer that slept
 * over generations and makes one that is not the largest finds out by a look at the folder behind its
 * link, before it does anything, and takes its own away again.
 *
 * The owner of n + 1 removes n before anything else, and does not work if it cannot. So the owner of n,
 * however long it was stopped and at whatever call, knows by one open of its own file: as long as that
 * is there, no later owner has begun. (That there is an n + 1 it looks for, too, but a client of NFS
 * may remember for a while that there was none.) Between that open and the call that it was for, the
 * owner of n may be stopped again, so what it may still do then must harm nobody. folder.h does it
 * like this:
 *
 *   publish   is a rename of a folder whose name carries the owner's token and was made before the
 *             check. folder_take, the first thing that a later owner does, gives every such
 *             folder another name: the rename fails, or was before.
 *   remove    what others left is listed first, then the lease is checked, then it is removed: what
 *             was listed belongs to owners before, since none after had begun when the check was
 *             made, and tokens are random. An observer's .new may be removed under it: its link
 *             fails, and it looks again.
 *   beat      is written to a file that is opened, without making it, and has the own token.
 *   give back likewise.
 *
 * So the owner of a lease may remove whatever carries another token than its own: those who made it
 * can publish nothing any more. Crashes: between link and removal there are n and n + 1, of which the
 * larger counts; before the link, a .new that the next owner removes; after, a lease that nobody beats.
 * Cost: three calls on a small file every two seconds; five for a check. */
#ifndef TRINE_CKPT_LEASE_H
#define TRINE_CKPT_LEASE_H

#include "trine.h"

typedef struct lease lease;

/* Prepares to take the lease of a folder, which is there; *l is owned by the caller. Errors:
 * TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status lease_begin(lease **l, const char *dir);

/* One look, and a short sleep (half a second at most) when there is nothing to decide yet: call it
 * until *held. What it waits for it says once on `out` (NULL: nothing). From *held on a thread of
 * this process, which hears no signals, shows that the owner lives. Errors: TRINE_EBUSY names the
 * owner that lives, which may be another lease of this process; TRINE_EIO, TRINE_ENOMEM. When it
 * is held already: as lease_check. Not collective. */
trine_status lease_try(lease *l, FILE *out, bool *held);

/* Whether it is held still. Errors: TRINE_EBUSY, for ever, when it is gone: it names who has taken
 * the folder over, if there is one; TRINE_EIO when it cannot be seen. Not collective. */
trine_status lease_check(lease *l);

/* The owner's name in names of files: 16 digits. Pure. */
const char *lease_token(const lease *l);
/* The folder, as it was given to lease_begin. Pure. */
const char *lease_dir(const lease *l);
/* Whether lease_try has come to *held. Pure. */
bool lease_is_held(const lease *l);

/* Ends the thread, gives the lease back if it is held, and frees; *l becomes NULL, and may be it. The
 * error trail stays as it is. Not collective. */
void lease_give_back(lease **l);

/* For tests: leases that are begun from now on beat so often, and are dead after so many. */
void lease_terms(int interval_ms, int beats);

#endif

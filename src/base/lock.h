/* Locks between programs. They are flock(2)'s, which the kernel ends with the process, however it ends; on NFS they
 * hold between machines. No call waits for a lock. A file system may have none (Lustre without -o flock, NFS without
 * a lock service): what then holds is said with each function.
 *
 * Not collective. */
#ifndef TRINE_BASE_LOCK_H
#define TRINE_BASE_LOCK_H

#include "trine_types.h" /* trine_status */

typedef enum {
    LOCK_TAKEN,      /* until the descriptor, and all its duplicates, are closed */
    LOCK_BUSY,       /* through another descriptor, of this process or another */
    LOCK_UNSUPPORTED /* errno has the reason */
} lock_answer;

/* Tries to lock an open file, or a folder, which NFS cannot lock; NFS requires that the file is open for writing. */
lock_answer lock_try(int fd);

#define LOCK_WHO 192

/* Who holds the lock of this file: "process 81 on node7", or "another process" if /proc/locks does not tell. */
const char *lock_owner(int fd, char who[LOCK_WHO]);

/* The lock of a name under which several files are to be written, all by one program. It is the file
 * DIR/.NAME.trine-lock, which has its owner's process and host, and is removed at the end. The file of a killed
 * program stays, without a lock, and the next owner takes it over. Without locks of the file system the file alone
 * excludes others: that of a killed program must be removed by hand. */
typedef struct name_lock name_lock;

/* Takes the lock of the name DIR/NAME; *l is owned by the caller, NULL after an error. `what` is "--out", for
 * messages. Errors: TRINE_EBUSY names the owner; TRINE_EIO, TRINE_ENOMEM. */
trine_status name_lock_take(name_lock **l, const char *what, const char *name);
/* Removes the file. *l may be NULL. */
void name_lock_release(name_lock **l);

#endif

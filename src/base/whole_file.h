/* Files that are complete when they appear. A file is written under a name of its own beside its target DIR/NAME,
 *
 *   DIR/.NAME.<token>.unfinished   by one program; token: 16 random digits
 *   DIR/.NAME.<token>.shard        one of several files that appear together, under a name_lock (base/lock.h)
 *
 * is synced, and then renamed: who reads the target finds the earlier file or the new one, also after a crash and
 * while several programs write it. The last one that is complete stays. A target that is a link is replaced where the
 * link leads.
 *
 * Leftovers. The writer of an unfinished file has its lock. Whoever begins a file of the same target removes those
 * whose lock nobody has, which killed programs left, and reports on standard error those that it cannot lock or
 * remove. The files of a set are removed by the next owner of the set's lock.
 *
 * A command that ends by a signal (base/ending.h) removes its unfinished files.
 *
 * In place: a target that is no regular file (a pipe, /dev/null), or is the file of the process's own standard output
 * or standard error, is written directly, since a rename would replace it.
 *
 * Every program of this project writes its files in this way, or line by line (base/output.h), or into a folder of
 * its own that it renames (ckpt/folder.h, ckpt/hf/export.c); `make layers` finds others. Not collective. */
#ifndef TRINE_BASE_WHOLE_FILE_H
#define TRINE_BASE_WHOLE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "trine_types.h" /* trine_status */

typedef struct whole_file whole_file;

/* Creates the unfinished file; *f is owned by the caller, NULL after an error. Messages of this file begin with
 * "OPTION PATH", or the path if option is NULL. A pipe must have a reader (base/output.h). Errors: TRINE_EIO,
 * TRINE_ENOMEM. */
trine_status whole_file_begin(whole_file **f, const char *option, const char *path);
/* The same for a file of a set; the caller has the set's lock. */
trine_status whole_file_begin_shard(whole_file **f, const char *path);

/* To write to; owned by *f. */
FILE *whole_file_stream(const whole_file *f);

/* Syncs and closes the file, which keeps its unfinished name. Errors: TRINE_EIO, also if an earlier write to the
 * stream failed. */
trine_status whole_file_complete(whole_file *f);

/* Completes the file, if it is not, and gives it the name `path` in the same folder, NULL: its target's; *f becomes
 * NULL, and after an error the unfinished file is gone. Of a set the caller syncs the folder. Errors: TRINE_EIO. */
trine_status whole_file_publish(whole_file **f, const char *path);

/* Removes the unfinished file. *f may be NULL. Leaves the error trail unchanged. */
void whole_file_abandon(whole_file **f);

/* Whether `entry`, a name in the folder of `path`, is an unfinished file of `path` with this suffix ("shard").
 * Pure. */
bool whole_file_is_left(const char *entry, const char *path, const char *suffix);

/* Syncs the folder of `path`, so that its renames outlive a crash. Errors: TRINE_EIO. */
trine_status whole_file_sync_folder(const char *path);

#endif

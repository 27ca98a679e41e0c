/* System calls on files and folders for checkpoints and exports. Each may block on a disk or a server
 * without limit; none communicates with other ranks. Messages begin with the path. */
#ifndef TRINE_CKPT_FILE_H
#define TRINE_CKPT_FILE_H

#include "base/unique_name.h"
#include "trine_types.h"

/* Creates a file, which must not exist; *fd, owned by the caller, is open for writing. Errors: TRINE_EIO.
 * Not collective. */
trine_status file_create(const char *path, int *fd);

/* The same with the permission bits of a copy of a file that has `mode`: under the umask, nobody else may read the
 * copy who could not read the file; its owner may. */
trine_status file_create_copy(const char *path, int *fd, unsigned mode);

/* Writes all of `data` at byte `place` of the file. `path` is for messages. Errors: TRINE_EIO. Not
 * collective. */
trine_status file_write(int fd, const char *path, const void *data, size_t bytes, uint64_t place);

/* fsync of a file. Errors: TRINE_EIO. Not collective. */
trine_status file_sync(int fd, const char *path);

/* Closes; returns `status`, or if that is TRINE_OK the error of close (network file systems report write
 * errors late). Errors: TRINE_EIO. Not collective. */
trine_status file_close(int fd, const char *path, trine_status status);

/* Creates and syncs a file with these bytes; it must not exist. Errors: TRINE_EIO. Not collective. */
trine_status file_put(const char *path, const void *data, size_t bytes);
/* The same with the permission bits of file_create_copy. */
trine_status file_put_copy(const char *path, const void *data, size_t bytes, unsigned mode);

/* fsync of a folder. Errors: TRINE_EIO. Not collective. */
trine_status file_sync_folder(const char *path);

/* Creates a folder whose parent exists; *made = it did not exist. Errors: TRINE_EIO, also when `path` is a
 * file. Not collective. */
trine_status file_make_folder(const char *path, bool *made);

/* Renames `from` to `to`. Errors: TRINE_EIO. Not collective. */
trine_status file_rename(const char *from, const char *to);

/* Exchanges the names of two folders atomically; *done is false if the file system does not support it.
 * Errors: TRINE_EIO. Not collective. */
trine_status file_exchange(const char *a, const char *b, bool *done);

/* Removes a file, or a folder with its contents; succeeds if it does not exist or another process removes
 * it first. Errors: TRINE_EIO. Not collective. */
trine_status file_remove(const char *path);
/* The same for error paths: returns whether it is gone and leaves the error trail unchanged. Not
 * collective. */
bool file_discard(const char *path);

typedef trine_status (*file_visit)(void *context, const char *folder, const char *name);

/* Calls `visit` for every name in a folder, in no order, until one fails; does nothing if the folder does
 * not exist. Errors: TRINE_EIO; those of `visit`. Not collective. */
trine_status file_each(const char *folder, file_visit visit, void *context);

#endif

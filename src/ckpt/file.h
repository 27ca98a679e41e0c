/* The calls on files and folders that checkpoints and exports are made with. Each may wait for a disk
 * or a server, for as long as that likes; none has anything to do with other ranks. Messages begin
 * with the path. */
#ifndef TRINE_CKPT_FILE_H
#define TRINE_CKPT_FILE_H

#include "trine.h"

#define FILE_TOKEN 17 /* bytes of a token: 16 digits, and the end */

/* Random digits (0-9, a-f) for a name that nobody else takes. Errors: TRINE_EIO where the system has
 * no random numbers. Not collective. */
trine_status file_token(char token[FILE_TOKEN]);

/* "<token>." at the beginning of a name, if there is one (else token is ""); what is behind it. Pure. */
const char *file_token_in(const char *name, char token[FILE_TOKEN]);

/* Makes a file that is not there yet; *fd writes to it, and is the caller's. Errors: TRINE_EIO. Not
 * collective. */
trine_status file_create(const char *path, int *fd);

/* Writes all of `data` to byte `place` of the file. `path` is for messages. Errors: TRINE_EIO. Not
 * collective. */
trine_status file_write(int fd, const char *path, const void *data, size_t bytes, uint64_t place);

/* Brings a file to the disk. Errors: TRINE_EIO. Not collective. */
trine_status file_sync(int fd, const char *path);

/* Closes; returns `status`, or, when that is TRINE_OK, what closing has shown (a network file system
 * writes late). Errors: TRINE_EIO. Not collective. */
trine_status file_close(int fd, const char *path, trine_status status);

/* Makes a file of these bytes that is not there yet, and brings it to the disk. Errors: TRINE_EIO. Not
 * collective. */
trine_status file_put(const char *path, const void *data, size_t bytes);

/* Brings the names in a folder to the disk. Errors: TRINE_EIO. Not collective. */
trine_status file_sync_folder(const char *path);

/* Makes a folder whose parent is there; *made = it was not there. Errors: TRINE_EIO, also when a
 * file has the name. Not collective. */
trine_status file_make_folder(const char *path, bool *made);

/* Gives `from` the name `to`. Errors: TRINE_EIO. Not collective. */
trine_status file_rename(const char *from, const char *to);

/* The same of two folders with each other, in one call; *done is false where the file system has
 * none. Errors: TRINE_EIO. Not collective. */
trine_status file_exchange(const char *a, const char *b, bool *done);

/* Removes a file, or a folder and what is in it; nothing there is as well, also where another
 * process was faster. Errors: TRINE_EIO. Not collective. */
trine_status file_remove(const char *path);
/* The same for who has another error to tell: returns whether it is gone, and the error trail stays
 * as it is. Not collective. */
bool file_discard(const char *path);

typedef trine_status (*file_visit)(void *context, const char *folder, const char *name);

/* Calls `visit` with every name in a folder, in no order, until one fails; no folder: none. Errors:
 * TRINE_EIO; those of `visit`. Not collective. */
trine_status file_each(const char *folder, file_visit visit, void *context);

#endif

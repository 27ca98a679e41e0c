/* What the files of a checkpoint and of an export are written with. */
#ifndef TRINE_CKPT_FILE_H
#define TRINE_CKPT_FILE_H

#include "trine.h"

/* Writes all of `data` to byte `place` of the file. `path` is for messages. Errors: TRINE_EIO. Not
 * collective. */
trine_status file_write(int fd, const char *path, const void *data, size_t bytes, uint64_t place);

/* Brings the names in a folder to the disk. Errors: TRINE_EIO. Not collective. */
trine_status file_sync_folder(const char *path);

#endif

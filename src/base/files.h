/* The file system call that the process is in, so that a report of a long wait can name it and show whether
 * calls progress. Set around calls that may take long (network file systems, full disks); only the latest
 * call started is kept. Safe to call from any thread. */
#ifndef TRINE_BASE_FILES_H
#define TRINE_BASE_FILES_H

#include <stdint.h>

#define FILES_TEXT 128

typedef struct {
    char text[FILES_TEXT]; /* "fsync of run/.step-5.../model.safetensors"; a long path is cut at the front */
    uint64_t number;       /* of calls started; it increases while there is progress */
} files_call;

/* Records that a call, such as "fsync", on `path` starts. */
void files_begin(const char *call, const char *path);
/* The latest call started. */
void files_now(files_call *now);

#endif

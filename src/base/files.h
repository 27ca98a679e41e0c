/* What the process asks the file system for at this moment: so that whoever waits can say for what, and
 * whether it has moved since. Set around calls that may take long (a network file system's, a full
 * disk's); one of them is shown at a time, the latest begun. Safe to call from any thread. */
#ifndef TRINE_BASE_FILES_H
#define TRINE_BASE_FILES_H

#include <stdint.h>

#define FILES_TEXT 128

typedef struct {
    char text[FILES_TEXT]; /* "fsync of run/.step-5.../model.safetensors"; a long path loses its front */
    uint64_t number;       /* of calls begun; another one means that it moves */
} files_call;

/* Begins a call, "fsync", on `path`. */
void files_begin(const char *call, const char *path);
/* The latest begun. */
void files_now(files_call *now);

#endif

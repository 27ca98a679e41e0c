/* The interface between launches (kernel.cc) and the threads of a block (block.cc). */
#ifndef TRINE_EMU_BLOCK_H
#define TRINE_EMU_BLOCK_H

#include "emu.h"

#define EMU_THREADS 1024 /* of a block, at most */

typedef struct {
    const char *name;
    size_t shared;
    emu_function run; /* one thread */
    void *context;
} emu_kernel;

/* emu_run_block, between the other two, runs all threads of one block. */
void emu_begin_kernel(const emu_kernel *kernel, dim3 grid, dim3 block);
void emu_run_block(uint3 index);
void emu_end_kernel(void);

/* The number of the running thread in its block; -1 outside of kernels. */
int emu_thread(void);
/* async.cc: ends the process if a returned thread has not waited for its copies. */
void emu_copies_left(int thread);

#endif

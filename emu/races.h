/* Which accesses to memory are ordered: the part of the emulation that looks for races. Kernels that are compiled with
 * -fsanitize=thread call it at each access (`make RACES=1`); copies, products and NCCL's calls declare ranges.
 *
 * Reported, and the end of the process: two accesses to one place, one of them a write, of
 *   - two threads of a block without __syncthreads between them, or __syncwarp if they are of one warp (a shuffle or
 *     a vote orders no memory: CUDA C++ Programming Guide, "Warp Shuffle Functions");
 *   - two blocks of a launch, unless both are atomic;
 *   - two operations without a chain of streams, events and waits of the host between them.
 * The seed's one order decides for all orders: an access is compared with the earlier ones by their clocks (Flanagan
 * and Freund, "FastTrack", PLDI 2009), not by their values.
 *
 * The same calls count what each warp's access costs (TRINE_EMU_ACCESSES=FILE): sectors of 32 bytes of device memory,
 * and passes over the 32 banks of shared memory. Accesses of lanes are one access of the warp if they are the same
 * instruction's n-th one since the last barrier. */
#ifndef TRINE_EMU_RACES_H
#define TRINE_EMU_RACES_H

#include <vector>

#include "emu.h"

/* For each stream, the number of its operations that are before. */
typedef std::vector<uint32_t> emu_clock;

/* Whether it looks: with TRINE_EMU_RACES=1, from the start on, or since the second. The process ends if no kernel calls. */
bool emu_races_on(void);
/* to = the later of both, by stream. */
void emu_clock_join(emu_clock *to, const emu_clock &from);

/* ---- Operations (streams.cc, and those that run them) ---------------------------------------- */

/* Operation `index` runs, or goes on; 0: the next one of `stream` (a number from 0), which the stream's clock counts.
 * Returns its index. */
uint32_t emu_races_operation(uint32_t index, uint32_t stream, emu_clock *of);

/* [p, p + bytes), whole pages, is freed; its addresses are not used again. */
void emu_races_forget(const void *p, size_t bytes);

/* ---- Threads (block.cc, async.cc, mma.h) ------------------------------------------------------ */

void emu_races_block(uint32_t block);
/* All threads of the block have met; the block has ended. */
void emu_races_barrier(void);
void emu_races_block_end(void);
/* The lanes of `mask` of the warp that starts at `thread` have met in __syncwarp. */
void emu_races_warp(int thread, unsigned mask);
/* A copy to shared memory has started: until it ends nobody may touch its destination, its own thread neither. */
void emu_races_copy(void *shared, const void *global, size_t bytes, const void *where);
void emu_races_copied(void *shared, size_t bytes);

#endif

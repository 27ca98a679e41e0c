/* The internal interface of the emulation, for its own files, for the emulated cuBLASLt and NCCL, and
 * for its tests. cuda_runtime.h describes its purpose.
 *
 * The engine: every stream is a list of operations, which run lazily: a synchronisation runs its stream's
 * operations up to that point and those that they wait for; a query runs a few at random. In addition it may,
 * depending on the seed, run any operation of any stream that is first in its stream and waits for no event.
 * Invariant: device memory is open (readable, writable) while an operation runs, and closed at all other times.
 *
 * Cost: a kernel's thread without barriers is a call; one with barriers has a stack, and switches to it
 * in some nanoseconds. A page fault and two system calls for each 2 MiB that a synchronisation's
 * operations touch. */
#ifndef TRINE_EMU_EMU_H
#define TRINE_EMU_EMU_H

#include <stdbool.h>

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- For emulated libraries ------------------------------------------------------------------ */

typedef void (*emu_run_fn)(void *context);
typedef bool (*emu_step_fn)(void *context); /* true: done, not to be called again */

/* Adds an operation to the stream (NULL: the legacy one): run(context) is called once, later, with device memory
 * open. It owns its context, which must contain everything it needs, and frees it. */
void emu_enqueue(cudaStream_t stream, emu_run_fn run, void *context);
/* The same for operations that depend on others: step(context) is called until it returns true,
 * while other streams make progress. It must not block. */
void emu_enqueue_poll(cudaStream_t stream, emu_step_fn step, void *context);
/* For the search for races (races.h): the running operation's name, a string that stays; it reads or writes
 * [p, p + bytes) of device memory. */
void emu_races_name(const char *name);
void emu_races_range(const void *p, size_t bytes, bool writes);
/* Opens [p, p + bytes) for a system call, which does not open memory by itself. */
void emu_memory_need(const void *p, size_t bytes);
/* Aborts unless [p, p + bytes) is inside one live allocation of the device. */
void emu_check_device(const char *what, const void *p, size_t bytes);
/* Runs all operations for at most `seconds`; returns whether all have finished. */
bool emu_drain_within(double seconds);
bool emu_is_device(const void *p);
bool emu_is_pinned(const void *p, size_t bytes);
/* Prints "emu: ..." and aborts. */
__attribute__((format(printf, 1, 2), noreturn)) void emu_fault(const char *format, ...);
/* The first use of `what` (a kernel's or a product's code) permanently takes TRINE_EMU_FIRST_USE bytes of
 * device memory; false: out of memory. Later uses take nothing. */
bool emu_first_use(const void *what, size_t bytes);
/* Device memory that a library allocates for itself, and its return; false: out of memory. */
bool emu_take(size_t bytes);
void emu_give_back(size_t bytes);
/* Records the error that the call returns, for cudaGetLastError. */
cudaError_t emu_error(cudaError_t error);

/* ---- For tests ------------------------------------------------------------------------------- */

/* Seeds the random numbers. */
void emu_seed(uint64_t seed);
/* Operations enqueued and not yet run. */
size_t emu_pending(void);
/* Operations run so far; of those, copies to or from host memory that was not pinned. */
uint64_t emu_operations(void);
uint64_t emu_unpinned_copies(void);
/* Forgets all first uses and returns their memory (TRINE_EMU_FIRST_USE). */
void emu_forget_uses(void);
/* Stack switches so far. */
uint64_t emu_switches(void);
/* Calls so far of a kind in counts.cc and this name; NULL: of all names. */
uint64_t emu_calls(const char *kind, const char *name);
/* Whether kernels were compiled for it; then looks for races from now on, or no longer (races.h). */
bool emu_races_possible(void);
void emu_races(bool look);
/* Of all kernels of that name, if TRINE_EMU_ACCESSES is set: what the warps' accesses cost (races.h). */
typedef struct {
    uint64_t accesses, bytes, sectors;       /* of device memory */
    uint64_t shared_accesses, passes, least; /* of shared memory: over the banks; the fewest possible */
} emu_cost;
emu_cost emu_cost_of(const char *kernel);
/* Installs handlers that report illegal accesses before the process dies; cudaSetDevice does this once. */
void emu_catch_signals(void);
/* The n-th operation from now and everything after it fail with this error; 0 cancels. */
void emu_fail(uint64_t n, cudaError_t error);

/* ---- For the engine's own files -------------------------------------------------------------- */

/* counts.cc: counts a call and its bytes (0: none). `kind` must be a string constant: "launch",
 * "matmul", "copy", "nccl", "event". */
void emu_count(const char *kind, const char *name, uint64_t bytes);
/* A number in [0, n), n > 0. */
uint32_t emu_random(uint32_t n);
/* A setting from the environment, TRINE_EMU_`name`, or the default. */
uint64_t emu_setting(const char *name, uint64_t otherwise);
/* memory.cc: see the invariant above. Between these two a region is opened when it is touched. */
void emu_memory_open(void);
void emu_memory_close(void);
/* Opens the region around p if that is allowed; for signals.cc. */
bool emu_memory_touch(const void *p);
/* signals.cc: faults go to emu_memory_touch first. */
void emu_signals_begin(void);
void emu_signals_end(void);
/* Whether [p, p + bytes) is the running block's shared memory; kernel.cc. */
bool emu_is_shared(const void *p, size_t bytes);
/* Describes the allocation around p for a message; "no allocation" if there is none. */
void emu_describe(const void *p, char *text, size_t size);
/* streams.cc: runs all operations; returns the device's error. */
cudaError_t emu_drain(void);
cudaError_t emu_drain_stream(cudaStream_t stream);
/* Lets other processes have the processor, in a wait that has done so `vain` times: yields, later sleeps 50 us. */
void emu_give_way(unsigned vain);
cudaError_t emu_sticky(void);
/* block.cc: names the running kernel and thread for a message; "" outside of kernels. */
void emu_where(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif

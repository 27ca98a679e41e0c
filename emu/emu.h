/* The emulation from the inside, for its own files, for those that emulate cuBLASLt and NCCL, and
 * for its tests. cuda_runtime.h says what it is for.
 *
 * The engine: every stream is a list of operations. Nothing runs until somebody needs it: a
 * synchronisation runs its stream's operations up to there and what those wait for; a query runs a
 * few at random. In between it may, by the seed, run any operation of any stream that is first in
 * its stream and waits for no event. Invariant: device memory is open (readable, writable) while an
 * operation runs, and closed at all other times.
 *
 * Cost: a kernel's thread without barriers is a call; one with barriers has a stack, and changes it
 * in some nanoseconds. A fault and two system calls for each 2 MiB that a synchronisation's
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

/* Adds an operation to the stream (NULL: the legacy one): some time later run(context) is called,
 * once, with device memory open. It owns its context: what it needs must be copied there, and freed
 * by it. */
void emu_enqueue(cudaStream_t stream, emu_run_fn run, void *context);
/* The same for what does not end by itself: step(context) is called until it says that it is done,
 * and other streams go on in between. It must not wait. */
void emu_enqueue_poll(cudaStream_t stream, emu_step_fn step, void *context);
/* Opens [p, p + bytes) for a step that hands it to the operating system, which opens nothing. */
void emu_memory_need(const void *p, size_t bytes);
/* Ends the process unless [p, p + bytes) lies in one living allocation of the device. */
void emu_check_device(const char *what, const void *p, size_t bytes);
/* Runs what there is, for so many seconds at most; whether it came to its end. */
bool emu_drain_within(double seconds);
bool emu_is_device(const void *p);
bool emu_is_pinned(const void *p, size_t bytes);
/* Prints "emu: ..." and aborts. */
__attribute__((format(printf, 1, 2), noreturn)) void emu_fault(const char *format, ...);
/* The first use of `what` (a kernel's code, a product's) takes TRINE_EMU_FIRST_USE bytes of the
 * device for good; false: they are not there. Later uses take nothing. */
bool emu_first_use(const void *what, size_t bytes);
/* Records what the call returns, for cudaGetLastError. */
cudaError_t emu_error(cudaError_t error);

/* ---- For tests ------------------------------------------------------------------------------- */

/* From here on everything random is drawn from this. */
void emu_seed(uint64_t seed);
/* Operations enqueued and not yet run. */
size_t emu_pending(void);
/* Operations run so far; copies to or from host memory that was not pinned, of those. */
uint64_t emu_operations(void);
uint64_t emu_unpinned_copies(void);
/* What was used before is new again, and the device has what that took (TRINE_EMU_FIRST_USE). */
void emu_forget_uses(void);
/* Changes of stacks so far. */
uint64_t emu_switches(void);
/* Calls so far of a kind that counts.cc knows, of this name; NULL: of all its names. */
uint64_t emu_calls(const char *kind, const char *name);
/* Says who touched what when the process dies of it; cudaSetDevice does this, once. */
void emu_catch_signals(void);
/* The n-th operation from now fails with this error, and everything after it; 0 forgets. */
void emu_fail(uint64_t n, cudaError_t error);

/* ---- For the engine's own files -------------------------------------------------------------- */

/* counts.cc: counts a call, and the bytes that it names (0: it names none). `kind` lives for ever: "launch",
 * "matmul", "copy", "nccl", "event". */
void emu_count(const char *kind, const char *name, uint64_t bytes);
/* A number in [0, n), n > 0. */
uint32_t emu_random(uint32_t n);
/* The machine, from the environment: TRINE_EMU_`name`. */
uint64_t emu_setting(const char *name, uint64_t otherwise);
/* memory.cc: see the invariant above. Between these two a piece of it is opened when it is
 * touched. */
void emu_memory_open(void);
void emu_memory_close(void);
/* Opens the piece around p if there is one that may be opened; for signals.cc. */
bool emu_memory_touch(const void *p);
/* signals.cc: faults go to emu_memory_touch first. */
void emu_signals_begin(void);
void emu_signals_end(void);
/* What the allocation around p is, as part of a sentence; "no allocation" if there is none. */
void emu_describe(const void *p, char *text, size_t size);
/* streams.cc: runs all there is; the error that the device has come to. */
cudaError_t emu_drain(void);
cudaError_t emu_drain_stream(cudaStream_t stream);
cudaError_t emu_sticky(void);
/* block.cc: which thread of which kernel runs, as part of a sentence; "" outside of kernels. */
void emu_where(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif

/* Memory is planned, then taken. A room's setup function asks an arena for its buffers; run with an
 * arena that has no memory yet it only *declares* (returns NULL and counts), run again with memory
 * it gets its pointers. The declare pass alone is --dry-run, so the estimate and the truth are the
 * same code.
 *
 * What other ranks of the node read is taken with arena_take_shared, this rank's own end of a
 * message or a gather with arena_take_exchanged. On processors the first may lie in a second piece
 * of memory (arena_share); the rest is one piece. An arena of *far* memory, which the host cannot
 * touch (a GPU's), has four pieces: its own, shared and exchanged in the device's memory, the last
 * two with a mirror in the host's (comm/api/device_memory.h), and what the host itself reads and writes
 * (arena_take_host).
 *
 * Invariant: both passes make the same calls in the same order. Every piece starts at a multiple of
 * ARENA_ALIGN bytes; what the rounding adds is counted under MEM_PADDING. bytes, used and capacity
 * are of one memory: the device's; `host` is beside them. Cost: one addition per buffer; a
 * training step takes nothing. */
#ifndef TRINE_BASE_ARENA_H
#define TRINE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#define ARENA_ALIGN 256

#define MEM_KIND_LIST(X)                                                                           \
    X(MEM_PARAMS, "parameters")                                                                    \
    X(MEM_GRADS, "gradients")                                                                      \
    X(MEM_MASTER, "master weights")                                                                \
    X(MEM_OPTIMIZER, "optimizer")                                                                  \
    X(MEM_GATHER, "gather buffers")                                                                \
    X(MEM_REDUCE, "reduce buffers")                                                                \
    X(MEM_TIE, "tie buffer")                                                                       \
    X(MEM_ACTIVATIONS, "activations")                                                              \
    X(MEM_MESSAGES, "messages")                                                                    \
    X(MEM_WORKSPACE, "workspace")                                                                  \
    X(MEM_DATA, "batches")                                                                         \
    X(MEM_PADDING, "padding")

typedef enum {
#define MEM_KIND_ENUM(name, text) name,
    MEM_KIND_LIST(MEM_KIND_ENUM)
#undef MEM_KIND_ENUM
    MEM_KINDS
} mem_kind;

/* Memory of one use. `used` counts what was taken for it, wherever it lies. */
typedef struct {
    char *base; /* NULL: it has none of its own */
    size_t used, capacity;
} arena_region;

typedef struct {
    char *base;               /* NULL in the declare pass; owned by whoever set it */
    size_t used, capacity;    /* bytes, of all pieces but the host's together */
    char *shared;             /* the second memory; NULL: everything lies in one */
    size_t shared_used, shared_capacity; /* bytes that were taken as shared, wherever they lie */
    arena_region exchanged, host;
    bool on_device;           /* the host cannot touch this memory */
    size_t bytes[MEM_KINDS];  /* declared so far, by kind */
} arena;

/* A declaring arena (base NULL) or one over `capacity` bytes at `base`, ARENA_ALIGN aligned. */
void arena_init(arena *a, void *base, size_t capacity);

/* Gives the arena a second memory, ARENA_ALIGN aligned, before anything is taken. */
void arena_share(arena *a, void *shared, size_t capacity);

/* The arena is of far memory. `exchanged` and `host` are its pieces of that use, aligned alike, or
 * empty while declaring; so is what arena_share gave it. Before anything is taken. */
void arena_device(arena *a, arena_region exchanged, arena_region host);

/* The next `bytes` bytes, counted as `kind`; NULL while declaring (or when bytes is 0). Running
 * over the capacity is our bug (ASSERT). Not collective. */
void *arena_take(arena *a, mem_kind kind, size_t bytes);

/* The same, for what ranks of the node may read in place. */
void *arena_take_shared(arena *a, mem_kind kind, size_t bytes);
/* The same, for what a group writes here, or reads and nobody else: arena_take on processors. */
void *arena_take_exchanged(arena *a, mem_kind kind, size_t bytes);
/* The same, for what the host reads and writes beside the device: arena_take on processors; else in
 * the host's memory, and not counted as `kind`. */
void *arena_take_host(arena *a, mem_kind kind, size_t bytes);

/* "parameters", ...: what a report calls the kind. */
const char *mem_kind_text(mem_kind kind);

#endif

/* Memory is planned first, then allocated. A setup function takes its buffers from an arena; an arena
 * without memory only *declares* them (returns NULL and counts), and a second run over memory returns
 * pointers. --dry-run is the declare pass alone, so the plan and the allocation are the same code.
 *
 * arena_take_shared is for buffers that other ranks of the node read, arena_take_exchanged for this rank's
 * own end of a message or a gather. On CPUs shared buffers may lie in a second region (arena_share), all
 * others in one. An arena of *device memory*, which the host cannot access (a GPU's), has four regions: its
 * own, shared and exchanged in device memory, the last two each with a staging buffer in host memory
 * (comm/api/device_memory.h), and a region of host memory (arena_take_host).
 *
 * Invariant: both passes make the same calls in the same order. Every buffer starts at a multiple of
 * ARENA_ALIGN bytes; the rounding is counted as MEM_PADDING. bytes, used and capacity count device memory;
 * `host` is separate. Cost: one addition per buffer; a training step takes no memory. */
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

/* A region for one use. `used` counts what was taken for that use, wherever it lies. */
typedef struct {
    char *base; /* NULL: not a separate region */
    size_t used, capacity;
} arena_region;

typedef struct {
    char *base;               /* NULL in the declare pass; owned by whoever set it */
    size_t used, capacity;    /* bytes, of all regions except `host` */
    char *shared;             /* the second region; NULL: there is only one */
    size_t shared_used, shared_capacity; /* bytes taken as shared, wherever they lie */
    arena_region exchanged, host;
    bool on_device;           /* the host cannot access this memory */
    size_t bytes[MEM_KINDS];  /* declared so far, by kind */
} arena;

/* An arena that declares (base NULL), or one over `capacity` bytes at `base`, ARENA_ALIGN aligned. */
void arena_init(arena *a, void *base, size_t capacity);

/* Adds the shared region, ARENA_ALIGN aligned. Call before anything is taken. */
void arena_share(arena *a, void *shared, size_t capacity);

/* Makes it an arena of device memory. `exchanged` and `host` are the regions of that use, ARENA_ALIGN
 * aligned, empty while declaring, as is the shared region. Call before anything is taken. */
void arena_device(arena *a, arena_region exchanged, arena_region host);

/* The next `bytes` bytes, counted as `kind`; NULL while declaring (or when bytes is 0). Running
 * over the capacity is our bug (ASSERT). Not collective. */
void *arena_take(arena *a, mem_kind kind, size_t bytes);

/* The same, for buffers that other ranks of the node may read in place. */
void *arena_take_shared(arena *a, mem_kind kind, size_t bytes);
/* The same, for buffers that only this rank's communication reads or writes; on CPUs arena_take. */
void *arena_take_exchanged(arena *a, mem_kind kind, size_t bytes);
/* The same, for host buffers beside the device's; on CPUs arena_take, else host memory that is not counted
 * as `kind`. */
void *arena_take_host(arena *a, mem_kind kind, size_t bytes);

/* The kind's name in reports: "parameters", ... */
const char *mem_kind_text(mem_kind kind);

#endif
